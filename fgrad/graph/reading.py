"""Reading the document of a graph, without trusting it."""

import io
import itertools
import json
import math
import os
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import CodeType
from typing import IO, Any

import jax
import numpy as np

from fgrad.graph.check import WITH_RULES, Misfit, check_each, check_rule
from fgrad.graph.encoding import NoCode, decode, decode_bytes, decode_dtype, decode_type, encode_type, key_dtypes
from fgrad.graph.graph import Const, Graph, Node
from fgrad.graph.kinds import is_number
from fgrad.graph.op import Op, intern, intern_typed
from fgrad.graph.parameters import check_parameters
from fgrad.graph.regions import REGIONS, Absent, Deferred, VjpRule
from fgrad.graph.source import Source
from fgrad.graph.writing import FORBIDDEN, digest, fingerprint, storage
from fgrad.jaxcore import ShapedArray, primitive, typeof

FORMAT, VERSION = "fgrad graph", 1
MEMBER = "graph.json"
#: the JSON of a file may unfold to this many bytes and this many times the file's own length
JSON_BYTES, JSON_RATIO = 1 << 24, 32
#: how deeply graphs may be nested, and how many values a file may have in addition to one per byte of JSON
DEPTH, VALUES = 64, 1 << 22

#: the types that JAX uses for 64-bit types if its flag is off
NARROW = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}.items()
}

_rules_by_digest: OrderedDict[str, Deferred] = OrderedDict()
_MOST_RULES = 4096
_serial = itertools.count()


def member(name: str) -> str:
    return f"arrays/{name}.npy"


def remember(digest: str, rule: Deferred) -> None:
    """Make a rule with this content read as ``rule``; see NOTE [Rules in files]."""
    while len(_rules_by_digest) >= _MOST_RULES:
        _rules_by_digest.popitem(last=False)
    _rules_by_digest.setdefault(digest, rule)


_BUSY = object()
_BLANK = (lambda: None).__code__


class NeedsX64(NoCode):
    """A file has values of 64 bits, and is read with JAX's flag on."""


class Reader:
    """Reads the tables of a document on demand, each entry once."""

    def __init__(self, stream: IO[bytes]):
        length = stream.seek(0, os.SEEK_END)
        self.archive: zipfile.ZipFile = zipfile.ZipFile(stream)
        names = self.archive.namelist()
        if len(set(names)) < len(names) or MEMBER not in names:
            raise NoCode(f"it has no {MEMBER}, or two members of the same name")
        text = _unfolded(self.archive, length)
        self.document: Any = _expect(dict, _parsed(text), "the document")
        if self.document.get("format") != FORMAT:
            raise NoCode(f"its format is {self.document.get('format')!r} where {FORMAT!r} is expected")
        if self.document.get("version") != VERSION:
            raise NoCode(
                f"it is of version {self.document.get('version')!r}; this version of fgrad reads version {VERSION}"
            )
        _keys_of(self.document, _DOCUMENT, "the document")
        self._consts: dict[str, Const] = {}
        self._depth = 0
        self._values_left = VALUES + len(text)
        self._entries: dict[str, list[Any]] = {
            table: [None] * len(self._table(table)) for table in ("graphs", "ops", "rules", "sources")
        }

    def _table(self, name: str) -> list[Any]:
        return _expect(list, self.document.get(name), name)

    def read(self) -> tuple[Graph, Any]:
        try:
            graphs = [self.graph(i) for i in range(len(self._table("graphs")))]
        except RecursionError:
            raise NoCode("graphs are nested too deep") from None
        for op in self._entries["ops"]:
            if isinstance(op, Op) and op.name in WITH_RULES and not isinstance(op.params["rule"], Absent):
                check_rule(op, op.params["rule"]())
        check_each(graphs)
        for i, rule in enumerate(self._entries["rules"]):
            if rule is not None and not isinstance(rule, Absent):
                remember(digest(self.document, i), rule)
        return graphs[_index(self.document.get("root"), len(graphs), "root")], self.document.get("extra")

    def _entry(self, table: str, i: Any, make: Callable[[Any], Any]) -> Any:
        entries = self._entries[table]
        i = _index(i, len(entries), table)
        if entries[i] is None:
            entries[i] = _BUSY
            try:
                entries[i] = make(self._table(table)[i])
            except NeedsX64:
                raise
            except NoCode as error:
                raise NoCode(f"{table}[{i}]: {error}") from error
        if entries[i] is _BUSY:
            raise NoCode(f"{table}[{i}] contains itself")
        return entries[i]

    def graph(self, index: Any) -> Graph:
        self._depth += 1
        if self._depth > DEPTH:
            raise NoCode(f"graphs are nested too deep: more than {DEPTH} stand inside each other")
        graph = self._entry("graphs", index, self._graph)
        self._depth -= 1
        return graph

    def _graph(self, data: Any) -> Graph:
        _keys_of(data, _GRAPH, "a graph")
        in_types = _types(data["inputs"])
        _need_x64(in_types)
        consts = tuple([self._const(c) for c in _expect(list, data["consts"], "the constants")])
        nodes = tuple([self._node(node) for node in _expect(list, data["nodes"], "the nodes")])
        count = len(in_types) + len(consts)
        for i, node in enumerate(nodes):
            if any(k >= count for k in node.inputs):
                raise NoCode(f"node {i} ({node.op.name}) reads a value that does not exist yet: {list(node.inputs)}")
            count += len(node.op.out_types)
            if count > self._values_left:
                raise NoCode("its graphs have more values than a file of this length may hold")
        self._values_left -= count
        outputs = _numbers(data["outputs"])
        if any(k >= count for k in outputs):
            raise NoCode(f"there is no value for the outputs {list(outputs)}")
        return Graph(in_types, consts, nodes, outputs)

    def _node(self, data: Any) -> Node:
        if type(data) is not list or len(data) != 3:
            raise NoCode(f"{data!r:.60} is no node: an operation, its inputs, and a source")
        op, inputs, source = data
        return Node(self._op(op), _numbers(inputs), self._source(source))

    def _op(self, index: Any) -> Op:
        return self._entry("ops", index, self._make_op)

    def _make_op(self, data: Any) -> Op:
        _keys_of(data, _OP, "an operation", optional="effects")
        name = _expect(str, data["name"], "an operation's name")
        in_types, out_types = _types(data["inputs"]), _types(data["outputs"])
        _need_x64((*in_types, *out_types))
        params = {k: decode(v, self) for k, v in _expect(dict, data["params"], "parameters").items()}
        if name in FORBIDDEN:
            raise NoCode(f"{name!r} calls code outside JAX by name, which a file must not do")
        if name in REGIONS:
            prim = REGIONS[name]
        else:
            try:
                prim = primitive(name)
            except KeyError:
                raise NoCode(
                    f"no primitive is called {name!r} in this version of JAX ({jax.__version__}; the file was written "
                    f"with {self.document.get('jax')}), or its module has not been imported and used yet"
                ) from None
        try:
            check_parameters(prim, params, in_types)
        except Misfit as error:
            raise NoCode(str(error)) from error
        try:
            op = intern(prim, params, in_types)
        except NameError:  # a collective outside its axis: its type rule can only be asked where the axis is bound
            if data.get("effects", False) or [_summed(t, params["axes"]) for t in in_types] != list(out_types):
                raise NoCode(f"{name} over an axis with a name is said to give {data['outputs']}") from None
            return intern_typed(prim, params, in_types, out_types, False)
        except Exception as error:  # a type rule may raise anything on types that it does not take
            raise NoCode(f"{name} does not take these parameters and types: {error}") from error
        if op.out_types != out_types:
            raise NoCode(f"{name} is said to give {data['outputs']} and gives {list(map(encode_type, op.out_types))}")
        if data.get("effects", False) is not op.effects:
            raise NoCode(f"{name} is said to have other effects than it has")
        return op

    def rule(self, index: Any) -> Deferred:
        rules = self._entries["rules"]
        index = _index(index, len(rules), "rules")
        if rules[index] is None:
            rules[index] = self._deferred(index)
        return rules[index]

    def _deferred(self, index: int) -> Deferred:
        data = _expect(dict, self._table("rules")[index], "a rule")
        if "absent" in data:
            _keys_of(data, ("absent",), "a rule")
            return Absent(_expect(str, data["absent"], "the reason why a rule is absent"))
        content = digest(self.document, index)
        # the graphs of the rule may be read later, before it is called; the serial number distinguishes it from
        # leftovers of a file that turned out bad
        return _rules_by_digest.get(content) or Deferred(("file", content, next(_serial)), lambda: self._rule(index))

    def _rule(self, index: int) -> Graph | VjpRule:
        data = self._table("rules")[index]
        _keys_of(data, ("graphs",), "a rule", optional="wrt")
        graphs = [self.graph(g) for g in _expect(list, data["graphs"], "the graphs of a rule")]
        if len(graphs) != (2 if "wrt" in data else 1):
            raise NoCode(f"rules[{index}] has {len(graphs)} graphs")
        return VjpRule(graphs[0], graphs[1], _numbers(data["wrt"])) if "wrt" in data else graphs[0]

    def _const(self, data: Any) -> Const:
        text = json.dumps(_expect(dict, data, "a constant"), sort_keys=True)
        if text not in self._consts:  # an array that is named several times is read once
            const = self._consts[text] = self._make_const(data)
            actual, kind = typeof(const.value), const.type
            # a Python number may be of the type that it has without x64
            dtypes = (actual.dtype, NARROW.get(actual.dtype) if "python" in data else None)
            if (actual.shape, actual.weak_type) != (kind.shape, kind.weak_type) or kind.dtype not in dtypes:
                raise NoCode(f"a constant of type {actual.str_short()} is said to be {data['type']}")
        return self._consts[text]

    def _make_const(self, data: dict[str, Any]) -> Const:
        kind = decode_type(data.get("type"))
        _need_x64((kind,))
        if kind.dtype == jax.dtypes.float0:
            _keys_of(data, ("type",), "a constant")
            return Const(np.zeros(kind.shape, kind.dtype), kind)
        if kind.dtype.name in key_dtypes():
            _keys_of(data, ("array", "type"), "a constant")
            return Const(self._keys(data, kind), kind)
        if "python" in data:
            _keys_of(data, ("python", "type"), "a constant")
            value = decode(data["python"], self)
            if type(value) not in (bool, int, float, complex):
                raise NoCode(f"{value!r:.60} is no constant of type {data['type']}")
            return Const(value, kind)
        kind_of_value = "array" if kind.shape else "bytes" if "bytes" in data else "value"
        _keys_of(data, ("dtype", "type", kind_of_value), "a constant", optional="weak")
        dtype, weak = decode_dtype(data["dtype"]), data.get("weak", False)
        if dtype != kind.dtype and (kind.shape or NARROW.get(dtype) != kind.dtype):
            raise NoCode(f"a constant of dtype {dtype} is said to be of type {data['type']}")
        if type(weak) is not bool:
            raise NoCode(f"weak is {weak!r:.60}")
        if kind_of_value == "array":
            array = self.array(data["array"], kind.shape, dtype)
        elif kind_of_value == "bytes":
            array = decode_bytes(data["bytes"], dtype)
        else:
            value = decode(data["value"], self)
            array = _scalar(value, dtype)
        if dtype != kind.dtype:  # a NumPy scalar that JAX read as a narrower type, as it will again without x64
            return Const(array.astype(kind.dtype) if jax.config.jax_enable_x64 else array, kind)  # type: ignore[attr-defined]
        value = array if not kind.shape and not weak else jax.numpy.asarray(array)
        if weak:
            value = primitive("convert_element_type").bind(value, new_dtype=dtype, weak_type=True, sharding=None)
        return Const(value, kind)

    def _keys(self, data: Any, kind: ShapedArray) -> Any:
        implementation = key_dtypes()[kind.dtype.name][1]
        width = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation))).shape
        bits = self.array(data["array"], (*kind.shape, *width), np.dtype("uint32"))
        return jax.random.wrap_key_data(jax.numpy.asarray(bits), impl=implementation)

    def array(self, name: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        path = member(_expect(str, name, "an array's name"))
        if path not in self.archive.namelist():
            raise NoCode(f"there is no {path!r:.90}")
        info = self.archive.getinfo(path)
        if info.compress_type != zipfile.ZIP_STORED:
            raise NoCode(f"{info.filename} is compressed, which the format does not allow")
        raw = self.archive.read(info)
        stream = io.BytesIO(raw)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise NoCode(f"{info.filename} is of another .npy version")
        found_shape, fortran, found_dtype = np.lib.format.read_array_header_1_0(stream)
        stored = storage(dtype)
        if found_shape != shape or found_dtype != stored or fortran:
            raise NoCode(
                f"{info.filename} holds {found_dtype}{list(found_shape)} where {stored}{list(shape)} is expected"
            )
        if len(raw) - stream.tell() != math.prod(shape) * stored.itemsize:
            raise NoCode(f"{info.filename} has another length than its header says")
        bits = np.ndarray(shape, stored, raw[stream.tell() :])
        if fingerprint(bits) != name:
            raise NoCode(f"{info.filename} does not hold what its name says")
        return bits.view(dtype)

    def _source(self, index: Any) -> Source | None:
        return None if index is None else self._entry("sources", index, _source)


#: the fields of the tables
_DOCUMENT = ("extra", "format", "graphs", "jax", "ops", "root", "rules", "sources", "version")
_GRAPH = ("consts", "inputs", "nodes", "outputs")
_OP = ("inputs", "name", "outputs", "params")


def _keys_of(data: Any, keys: Sequence[str], what: str, optional: str = "") -> None:
    """Refuse an object with other keys than these and, perhaps, the optional one."""
    present = _expect(dict, data, what).keys() - {optional}
    if present != set(keys):
        wrong = sorted(present ^ set(keys))[0]
        raise NoCode(f"{what} has no {wrong!r}" if wrong in keys else f"{what} has an unknown {wrong!r:.60}")


def _unfolded(archive: zipfile.ZipFile, length: int) -> bytes:
    """The JSON of a file of ``length`` bytes."""
    info = archive.getinfo(MEMBER)
    if info.file_size > JSON_BYTES + JSON_RATIO * length:
        raise NoCode(f"{MEMBER} would unfold to {info.file_size:,} bytes from a file of {length:,}")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NoCode(f"{MEMBER} is compressed by another method than deflate")
    with archive.open(info) as stream:
        return stream.read(info.file_size)  # without a number, it unfolds whatever the header says


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_object)
    except RecursionError:
        raise NoCode("its JSON is nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise NoCode(f"a key stands twice in the object with the keys {sorted(entries)!r:.80}")
    return entries


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_constant(text)


def _types(data: Any) -> tuple[ShapedArray, ...]:
    return tuple([decode_type(t) for t in _expect(list, data, "a list of types")])


def _source(data: Any) -> Source:
    if type(data) is not list or len(data) != 7 or type(data[-1]) is not list:
        raise NoCode(f"{data!r:.60} is no position in a source file")
    file, line, function, offset, of, module, names = data
    texts = [file, function, module, *[text for text in (of, *names) if text is not None]]
    numbers = _expect(int, line, "a line"), _expect(int, offset, "an offset")
    if not all(map(_is_name, texts)) or not all(0 <= n < 1 << 31 for n in numbers):
        raise NoCode(f"{data!r:.60} is no position in a source file")
    return Source(_position(file, line, function), offset, of, tuple(names), module)


def _scalar(value: Any, dtype: Any) -> np.ndarray:
    """The scalar of ``dtype`` that is written as a number: as a float, if it is of a dtype that NumPy does not have."""
    written = {"b": bool, "i": int, "u": int, "c": complex}.get(dtype.kind, float)
    if type(value) is written and (written is not int or is_number(value, dtype)):
        array = np.asarray(value).astype(dtype)
        if dtype.isbuiltin == 1 or float(array) == value or value != value:
            return array
    raise NoCode(f"{value!r:.60} is no constant of dtype {dtype}")


def _summed(type: ShapedArray, axes: Sequence[Any]) -> ShapedArray:
    """The type of a sum over axes of which those that are numbers are the array's own."""
    return type.update(shape=tuple([n for i, n in enumerate(type.shape) if i not in axes]))


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _position(file: str, line: int, function: str) -> CodeType:
    """A code object that does nothing and says where it stands."""
    return _BLANK.replace(
        co_filename=file, co_firstlineno=line, co_name=function, co_qualname=function, co_linetable=b""
    )


def _expect(kind: type, value: Any, what: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise NoCode(f"{what} is {value!r:.60} where a {kind.__name__} is expected")
    return value


def _index(value: Any, count: int, what: str) -> int:
    if not 0 <= _expect(int, value, f"a place in {what}") < count:
        raise NoCode(f"there is no {what}[{value}]")
    return value


def _numbers(data: Any) -> tuple[int, ...]:
    return tuple([_index(i, 1 << 48, "values") for i in _expect(list, data, "a list of numbers")])


def _no_constant(text: str) -> Any:
    raise NoCode(f"the number {text:.60} stands in the JSON")


def _need_x64(types: Sequence[ShapedArray]) -> None:
    if not jax.config.jax_enable_x64 and any(t.dtype in NARROW for t in types):  # type: ignore[attr-defined]
        raise NeedsX64
