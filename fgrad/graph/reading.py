"""Reading the document of a graph, believing nothing that it says."""

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

from fgrad.graph.check import WITH_RULES, check_each, check_rule
from fgrad.graph.encoding import NoCode, decode, decode_dtype, decode_type, key_dtypes
from fgrad.graph.graph import Const, Graph, Node
from fgrad.graph.op import Op, intern, intern_typed
from fgrad.graph.regions import REGIONS, Deferred, VjpRule
from fgrad.graph.source import Source
from fgrad.graph.writing import FORBIDDEN, digest, fingerprint, storage
from fgrad.jaxcore import ShapedArray, primitive, typeof

FORMAT, VERSION = "fgrad graph", 1
MEMBER = "graph.json"
#: the JSON of a file may unfold to this many bytes and this many times the file's own length
JSON_BYTES, JSON_RATIO = 1 << 26, 64

#: the dtypes that JAX has only with ``jax_enable_x64``
WIDE = tuple([np.dtype(name) for name in ("int64", "uint64", "float64", "complex128")])

_rules_by_digest: OrderedDict[str, Deferred] = OrderedDict()
_MOST_RULES = 4096
_serial = itertools.count()


def member(name: str) -> str:
    return f"arrays/{name}.npy"


def remember(digest: str, rule: Deferred) -> None:
    """Have a rule with this content read as ``rule``; see NOTE [Rules in files]."""
    while len(_rules_by_digest) >= _MOST_RULES:
        _rules_by_digest.popitem(last=False)
    _rules_by_digest.setdefault(digest, rule)


_BUSY = object()
_BLANK = (lambda: None).__code__


class Reader:
    """Reads the tables of a document on demand, each entry once."""

    def __init__(self, stream: IO[bytes]):
        length = stream.seek(0, os.SEEK_END)
        self.archive = zipfile.ZipFile(stream)
        info = self.archive.getinfo(MEMBER)
        if info.file_size > JSON_BYTES + JSON_RATIO * length:
            raise NoCode(f"{MEMBER} would unfold to {info.file_size:,} bytes from a file of {length:,}")
        self.document = _expect(dict, json.loads(self.archive.read(info), parse_constant=_no_constant), "the document")
        if self.document.get("format") != FORMAT:
            raise NoCode(f"its format is {self.document.get('format')!r} where {FORMAT!r} is expected")
        if self.document.get("version") != VERSION:
            raise NoCode(
                f"it is of version {self.document.get('version')!r}; this version of fgrad reads version {VERSION}"
            )
        self._made: dict[str, list[Any]] = {
            table: [None] * len(self._table(table)) for table in ("graphs", "ops", "rules", "sources")
        }

    def _table(self, name: str) -> list[Any]:
        return _expect(list, self.document.get(name), name)

    def read(self) -> tuple[Graph, Any]:
        try:
            graphs = [self.graph(i) for i in range(len(self._table("graphs")))]
        except RecursionError:
            raise NoCode("graphs are nested too deep") from None
        for op in self._made["ops"]:
            if isinstance(op, Op) and op.name in WITH_RULES:
                check_rule(op, op.params["rule"]())
        check_each(graphs)
        for i, rule in enumerate(self._made["rules"]):
            if rule is not None:
                remember(digest(self.document, i), rule)
        return graphs[_index(self.document.get("root"), len(graphs), "root")], self.document.get("extra")

    def _once(self, table: str, i: Any, make: Callable[[Any], Any]) -> Any:
        made = self._made[table]
        i = _index(i, len(made), table)
        if made[i] is None:
            made[i] = _BUSY
            try:
                made[i] = make(self._table(table)[i])
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                what = f"{error} is missing" if isinstance(error, KeyError) else error
                raise NoCode(f"{table}[{i}]: {what}") from error
        if made[i] is _BUSY:
            raise NoCode(f"{table}[{i}] contains itself")
        return made[i]

    def graph(self, index: Any) -> Graph:
        return self._once("graphs", index, self._graph)

    def _graph(self, data: Any) -> Graph:
        in_types = tuple([decode_type(t) for t in data["inputs"]])
        consts = tuple([self._const(c) for c in data["consts"]])
        nodes = tuple([Node(self._op(op), _numbers(inputs), self._source(at)) for op, inputs, at in data["nodes"]])
        count = len(in_types) + len(consts)
        for i, node in enumerate(nodes):
            if any(k >= count for k in node.inputs):
                raise NoCode(f"node {i} ({node.op.name}) reads a value that does not exist yet: {list(node.inputs)}")
            count += len(node.op.out_types)
        outputs = _numbers(data["outputs"])
        if any(k >= count for k in outputs):
            raise NoCode(f"there is no value for the outputs {list(outputs)}")
        return Graph(in_types, consts, nodes, outputs)

    def _op(self, index: Any) -> Op:
        return self._once("ops", index, self._make_op)

    def _make_op(self, data: Any) -> Op:
        name = _expect(str, data["name"], "an operation's name")
        in_types, out_types = [tuple([decode_type(t) for t in data[k]]) for k in ("inputs", "outputs")]
        _need_x64((*in_types, *out_types))
        params = {_expect(str, k, "a parameter's name"): decode(v, self) for k, v in data["params"].items()}
        if name in FORBIDDEN:
            raise NoCode(f"{name!r} calls code outside JAX by name, which a file must not do")
        if name in REGIONS:
            found = REGIONS[name]
        else:
            try:
                found = primitive(name)
            except KeyError:
                raise NoCode(
                    f"no primitive is called {name!r} in this version of JAX ({jax.__version__}; the file was written "
                    f"with {self.document.get('jax')}), or its module has not been imported and used yet"
                ) from None
        try:
            op = intern(found, params, in_types)
        except NameError:  # a collective outside its axis: its type rule can only be asked where the axis is bound
            return intern_typed(found, params, in_types, out_types, bool(data.get("effects")))
        except Exception as error:
            raise NoCode(f"{name} does not take these parameters and types: {error}") from error
        if op.out_types != out_types:
            raise NoCode(f"{name} is said to give {data['outputs']} and gives {[t.str_short() for t in op.out_types]}")
        return op

    def rule(self, index: Any) -> Deferred:
        made = self._made["rules"]
        index = _index(index, len(made), "rules")
        if made[index] is None:
            content = digest(self.document, index)
            # the graphs of the rule may not be there yet, they are when it is called; the serial number keeps
            # apart what a file that turned out bad has left behind
            made[index] = _rules_by_digest.get(content) or Deferred(
                ("file", content, next(_serial)), lambda: self._rule(index)
            )
        return made[index]

    def _rule(self, index: int) -> Graph | VjpRule:
        data = self._table("rules")[index]
        graphs = [self.graph(g) for g in _expect(list, data["graphs"], "the graphs of a rule")]
        if "wrt" in data:
            forward, backward = graphs
            return VjpRule(forward, backward, _numbers(data["wrt"]))
        (graph,) = graphs
        return graph

    def _const(self, data: Any) -> Const:
        kind = decode_type(data["type"])
        _need_x64((kind,))
        if "python" in data:
            value = decode(data["python"], self)
            if type(value) not in (bool, int, float, complex) or typeof(value) != kind:
                raise NoCode(f"{value!r} is no constant of type {data['type']}")
            return Const(value, kind)
        if kind.dtype == jax.dtypes.float0:
            return Const(np.zeros(kind.shape, kind.dtype), kind)
        if kind.dtype.name in key_dtypes():
            return Const(self._keys(data, kind), kind)
        dtype = decode_dtype(data["dtype"])
        if "array" in data:
            array = self.array(data["array"], kind.shape, dtype)
        elif kind.shape:
            raise NoCode("a constant has no array")
        elif "bytes" in data:
            array = np.frombuffer(bytes.fromhex(data["bytes"]), dtype).reshape(())
        else:
            array = np.asarray(decode(data["value"], self)).astype(dtype).reshape(())
        if dtype != kind.dtype:
            return Const(array, kind)  # a NumPy scalar that JAX read as a smaller type
        value = array if not kind.shape and not data.get("weak") else jax.numpy.asarray(array)
        if data.get("weak"):
            value = primitive("convert_element_type").bind(value, new_dtype=dtype, weak_type=True, sharding=None)
        return Const(value, kind)

    def _keys(self, data: Any, kind: ShapedArray) -> Any:
        implementation = key_dtypes()[kind.dtype.name][1]
        width = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation))).shape
        bits = self.array(data["array"], (*kind.shape, *width), np.dtype("uint32"))
        return jax.random.wrap_key_data(jax.numpy.asarray(bits), impl=implementation)

    def array(self, name: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        info = self.archive.getinfo(member(_expect(str, name, "an array's name")))
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
        return None if index is None else self._once("sources", index, _source)


def _source(data: Any) -> Source:
    file, line, function, of = data
    texts = (file, function) if of is None else (file, function, of)
    if not all(isinstance(x, str) and "\0" not in x for x in texts) or not 0 <= _expect(int, line, "a line") < 1 << 31:
        raise NoCode(f"{data!r} is no position in a source file")
    return Source(_position(file, line, function), 0, of)


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
    raise NoCode(f"the number {text} stands in the JSON")


def _need_x64(types: Sequence[ShapedArray]) -> None:
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        for t in types:
            if t.dtype in WIDE:
                raise NoCode(
                    f"it holds values of type {t.str_short()}; set jax.config.update('jax_enable_x64', True) to read it"
                )
