"""Parameters, types and pytrees as JSON and back.

Longer than most files: what writes a class of values and what reads it stand beside each other.

A value that JSON cannot express is an object with a tag, ``{"dtype": "float32"}``.  Decoding creates values of a fixed
list of classes and those entered with ``register``; nothing else is looked up by a name from the file.
"""

import enum
import functools
import json
import math
import re
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
from jax import lax, tree_util

from fgrad.graph.check import check, expanded
from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.regions import Deferred
from fgrad.graph.remat_policies import POLICIES, checkpoint_policies
from fgrad.jaxcore import Primitive, ShapedArray, is_closed_jaxpr, is_open_jaxpr, primitive

#: the most axes and bytes of an array in a file
AXES, BYTES = 64, 1 << 48


class NoCode(ValueError):
    """A value that cannot be saved, or JSON that is not a value."""


class Sink(Protocol):
    """Stores what an encoder keeps apart from the parameters; each method returns a reference to it."""

    def array(self, array: np.ndarray) -> str: ...
    def graph(self, graph: Graph) -> int: ...
    def rule(self, rule: Deferred, /) -> int: ...


class Store(Protocol):
    """Returns what a reference in the parameters refers to."""

    def array(self, name: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray: ...
    def graph(self, index: Any) -> Graph: ...
    def rule(self, index: Any) -> Deferred: ...


# --------------------------------------------------------------------------------------------------------------------
# what may be decoded

_named: dict[str, Any] = {}


def register(name: str, value: Any) -> Any:
    """Let ``value`` (a function, say a remat policy or a callback) be saved in graphs under ``name``.

    The file has only the name; reading it needs the same registration.

    >>> register("tests.loud", print) is print
    True
    """
    _named[name] = value
    return value


for _name in (
    "everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable"
):  # fmt: skip
    register(f"jax.checkpoint_policies.{_name}", getattr(jax.checkpoint_policies, _name))
    register(f"fgrad.checkpoint_policies.{_name}", getattr(checkpoint_policies, _name))


def is_policy(value: Any) -> bool:
    """Whether a file may hold this as the policy of a ``checkpoint``."""
    kind, parts = POLICIES.get(type(value).__name__, (None, {}))
    if type(value) is kind:
        return all(_PARTS[part](getattr(value, name)) for name, part in parts.items())
    return callable(value) and any(value is known for known in _named.values())


#: what the fields of a policy may be
_PARTS: dict[str, Callable[[Any], bool]] = {
    "flag": lambda value: type(value) is bool,
    "names": lambda value: type(value) is frozenset and all(type(x) is str for x in value),
    "policy": is_policy,
    "text": lambda value: type(value) is str,
}


def _dtypes() -> dict[str, np.dtype]:
    plain = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
    plain += ["float64", "complex64", "complex128"]
    dtypes = {name: np.dtype(name) for name in plain}
    for name in dir(jax.numpy):
        if re.fullmatch(r"bfloat16|u?int[24]|float[48]_\w+", name):  # of one bit and of six, XLA has no arrays
            dtypes[name] = np.dtype(getattr(jax.numpy, name))
    return dtypes


DTYPES = _dtypes()
#: functions of ``jax.lax`` that ``reduce`` has as parameters besides a jaxpr, with their primitives
FUNCTIONS = {
    "add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "max": "max", "min": "min",
    "mul": "mul",
}  # fmt: skip
#: the most operations of a jaxpr among the parameters of a primitive
JAXPR_NODES = 1 << 12
KEY_IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


@functools.cache
def key_dtypes() -> dict[str, Any]:
    """The dtypes of random keys by name, ``key<fry>``, each with the name of its implementation."""
    dtypes = {}
    for name in KEY_IMPLEMENTATIONS:
        dtype = jax.eval_shape(functools.partial(jax.random.key, 0, impl=name)).dtype
        dtypes[dtype.name] = (dtype, name)
    return dtypes


@functools.cache
def key_implementations() -> dict[str, Any]:
    """The objects that ``random_seed`` and ``random_wrap`` take as ``impl``, from a traced call."""
    implementations = {}
    for name in KEY_IMPLEMENTATIONS:
        graph = from_jaxpr(jax.make_jaxpr(functools.partial(jax.random.key, impl=name))(0))
        implementations[name] = next(node.params["impl"] for node in graph if "impl" in node.params)
    return implementations


@functools.cache
def enums() -> dict[str, type[enum.Enum]]:
    names = (
        "AccuracyMode",
        "DotAlgorithmPreset",
        "FftType",
        "GatherScatterMode",
        "Precision",
        "RandomAlgorithm",
        "RoundingMethod",
    )
    classes = {name: getattr(lax, name) for name in names if hasattr(lax, name)}
    # JAX does not export the class of device_put's parameter
    node = from_jaxpr(jax.make_jaxpr(jax.device_put)(1.0)).nodes[0]
    for kind in map(type, node.params.get("copy_semantics", ())):
        classes[kind.__name__] = kind
    return classes


#: records of ``jax.lax`` with the fields that their constructors take by name
RECORDS: dict[str, tuple[str, ...]] = {
    "ConvDimensionNumbers": ("lhs_spec", "rhs_spec", "out_spec"),
    "DotAlgorithm": getattr(getattr(lax, "DotAlgorithm", None), "_fields", ()),
    "GatherDimensionNumbers": lax.GatherDimensionNumbers._fields,
    "RaggedDotDimensionNumbers": ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions"),
    "ScatterDimensionNumbers": lax.ScatterDimensionNumbers._fields,
    "Tolerance": ("atol", "rtol", "ulps"),
}


# --------------------------------------------------------------------------------------------------------------------
# types


def encode_dtype(dtype: Any) -> str:
    if dtype == jax.dtypes.float0:
        return "float0"
    if DTYPES.get(dtype.name) == dtype or (dtype.name in key_dtypes() and key_dtypes()[dtype.name][0] == dtype):
        return dtype.name
    raise NoCode(f"the dtype {dtype} cannot be written")


def decode_dtype(name: Any) -> Any:
    if name == "float0":
        return np.dtype(jax.dtypes.float0)
    if isinstance(name, str):
        if name in DTYPES:
            return DTYPES[name]
        if name in key_dtypes():
            return key_dtypes()[name][0]
    raise NoCode(f"no dtype is called {name!r}")


def encode_type(type: Any) -> str:
    """``float32[3,4]``, with ``~`` in front if it is weak."""
    plain = isinstance(type, ShapedArray) and all(isinstance(n, int) for n in type.shape)
    if not plain or ShapedArray(type.shape, type.dtype, type.weak_type) != type:
        raise NoCode(f"the type {type} is tied to a mesh of devices, or is not that of an array")
    shape = ",".join(map(str, type.shape))
    return f"{'~' if type.weak_type else ''}{encode_dtype(type.dtype)}[{shape}]"


@functools.lru_cache(1 << 12)
def decode_type(text: str) -> ShapedArray:
    match = re.fullmatch(r"(~?)([\w<>]+)\[((?:\d{1,19}(?:,\d{1,19})*)?)\]", text) if isinstance(text, str) else None
    if match is None:
        raise NoCode(f"{text!r} is no type")
    weak, name, extents = match.groups()
    shape = tuple(map(int, extents.split(","))) if extents else ()
    dtype = decode_dtype(name)
    # zeros do not count: strides and intermediate results are products of the other extents
    if len(shape) > AXES or math.prod([n for n in shape if n]) * max(dtype.itemsize, 1) > BYTES:
        raise NoCode(f"the type {text!r} is too large")
    return ShapedArray(shape, dtype, bool(weak))


# --------------------------------------------------------------------------------------------------------------------
# values


def encode(value: Any, sink: Sink) -> Any:
    """The JSON of a parameter.

    Raises:
      NoCode: it cannot be saved; the message names the part.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return _encode_float(value)
    if kind is tuple:
        return [encode(x, sink) for x in value]
    if kind is list:
        return {"list": [encode(x, sink) for x in value]}
    if kind is dict:
        return {"dict": [[encode(k, sink), encode(v, sink)] for k, v in value.items()]}
    if kind is frozenset:
        return {"frozenset": sorted([encode(x, sink) for x in value], key=repr)}
    if kind is complex:
        return {"complex": [_encode_float(value.real), _encode_float(value.imag)]}
    if isinstance(value, Graph):
        return {"graph": sink.graph(value)}
    if kind is Deferred:
        return {"rule": sink.rule(value)}
    for name, known in _named.items():
        if known is value:
            return {"registered": name}
    return _encode_object(value, sink)


def _encode_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"float": struct.pack(">d", value).hex() if math.isnan(value) else str(value)}


def _encode_object(value: Any, sink: Sink) -> Any:
    kind = type(value)
    if isinstance(value, enum.Enum) and enums().get(kind.__name__) is kind:
        return {"enum": f"{kind.__name__}.{value.name}"}
    if kind.__name__ in RECORDS and getattr(lax, kind.__name__, None) is kind:
        fields = RECORDS[kind.__name__]
        return {"record": kind.__name__, "fields": {name: encode(getattr(value, name), sink) for name in fields}}
    if kind is POLICIES.get(kind.__name__, (None,))[0]:
        fields = tuple(POLICIES[kind.__name__][1])
        return {"policy": kind.__name__, "fields": {name: encode(getattr(value, name), sink) for name in fields}}
    if isinstance(value, np.dtype) or any(value is dtype for dtype, _ in key_dtypes().values()):
        return {"dtype": encode_dtype(value)}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"scalar_type": encode_dtype(np.dtype(value))}
    if isinstance(value, np.generic):
        return {"scalar": encode_dtype(value.dtype), "bytes": value.tobytes().hex()}
    if isinstance(value, np.ndarray):
        return {"array": sink.array(value), "dtype": encode_dtype(value.dtype), "shape": list(value.shape)}
    if is_closed_jaxpr(value) or is_open_jaxpr(value):
        return {"jaxpr": sink.graph(from_jaxpr(value)), "closed": is_closed_jaxpr(value)}
    if isinstance(value, Primitive):
        return {"primitive": value.name}
    if isinstance(value, tree_util.PyTreeDef):
        return {"tree": encode_tree(value)}
    if is_device(value):
        return None  # a file names no machine: the value goes where JAX puts it
    named = getattr(value, "__name__", None)
    if named in FUNCTIONS and getattr(lax, named) is value:
        return {"function": named}
    for name, known in key_implementations().items():
        if known == value:
            return {"key_implementation": name}
    what = getattr(value, "__qualname__", None) or str(value)
    raise NoCode(
        f"{what} of type {kind.__module__}.{kind.__qualname__} has no place in a file "
        "(a function can be given one with fgrad.graph.encoding.register)"
    )


def is_device(value: Any) -> bool:
    """Whether a parameter is only a device."""
    return isinstance(value, jax.Device) or (isinstance(value, jax.sharding.NamedSharding) and value.mesh.empty)


def decode(data: Any, store: Store) -> Any:
    """The parameter that JSON encodes.

    Raises:
      NoCode: it does not encode one.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return tuple([decode(x, store) for x in data])
    decoder = _DECODERS.get(tuple(sorted(data)))
    if decoder is None:
        raise NoCode(f"{_short(data)} stands for no value")
    return decoder(data, store)


def _short(data: Any) -> str:
    text = json.dumps(data)
    return text if len(text) <= 80 else text[:77] + "..."


def _expect_kind(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise NoCode(f"{_short(value)} stands where a {kind.__name__} is expected")
    return value


def _decode_float(data: Any, store: Store) -> float:
    text = _expect_kind(str, data["float"])
    if text in ("inf", "-inf"):
        return float(text)
    if re.fullmatch(r"[0-9a-f]{16}", text) is None:
        raise NoCode(f"{text!r:.60} is no float")
    return struct.unpack(">d", bytes.fromhex(text))[0]


def _decode_enum(data: Any, store: Store) -> Any:
    kind, _, name = _expect_kind(str, data["enum"]).partition(".")
    return _known(dict(_known(enums(), kind, "enumeration").__members__), name, kind)


def _decode_record(data: Any, store: Store) -> Any:
    fields = _known(RECORDS, data["record"], "record")
    values = _expect_kind(dict, data["fields"])
    if set(values) != set(fields) or not hasattr(lax, data["record"]):
        raise NoCode(f"a {data['record']} has the fields {fields}, not {tuple(values)}")
    return getattr(lax, data["record"])(**{name: decode(x, store) for name, x in values.items()})


def _decode_policy(data: Any, store: Store) -> Any:
    kind, fields = _known(POLICIES, data["policy"], "policy")
    values = _expect_kind(dict, data["fields"])
    if set(values) != set(fields):
        raise NoCode(f"a policy {data['policy']} has the fields {tuple(fields)}, not {tuple(values)}")
    return kind(**{name: decode(x, store) for name, x in values.items()})


def _functions() -> dict[str, Callable[..., Any]]:
    return {name: getattr(lax, name) for name in FUNCTIONS}


def _known(table: dict[str, Any], name: Any, what: str) -> Any:
    if not isinstance(name, str) or name not in table:
        raise NoCode(f"no {what} is called {name!r}")
    return table[name]


def _decode_array(data: Any, store: Store) -> np.ndarray:
    return store.array(
        data["array"],
        decode_type(f"{data['dtype']}{data['shape']}".replace(" ", "")).shape,
        decode_dtype(data["dtype"]),
    )


def _decode_scalar(data: Any, store: Store) -> Any:
    return decode_bytes(data["bytes"], decode_dtype(data["scalar"]))[()]


def decode_bytes(text: Any, dtype: Any) -> np.ndarray:
    """The scalar of ``dtype`` with these bytes in hexadecimal digits."""
    if type(text) is not str or re.fullmatch(f"[0-9a-f]{{{2 * dtype.itemsize}}}", text) is None or not dtype.itemsize:
        raise NoCode(f"{text!r:.60} are not the bytes of a {dtype}")
    bits = np.frombuffer(bytes.fromhex(text), dtype).reshape(())
    if dtype.kind == "b" and bits.view(np.uint8) > 1:
        raise NoCode(f"{text!r} are not the bytes of a bool")
    return bits


def _decode_complex(data: Any, store: Store) -> complex:
    parts = [decode(x, store) for x in _expect_kind(list, data["complex"])]
    if [type(x) for x in parts] != [float, float]:
        raise NoCode(f"{_short(data)} is no complex number")
    return complex(*parts)


def _decode_dict(data: Any, store: Store) -> dict[Any, Any]:
    pairs = [(decode(k, store), decode(v, store)) for k, v in _expect_kind(list, data["dict"])]
    return _without_duplicates(dict(pairs), len(pairs))


def _without_duplicates(entries: Any, count: int) -> Any:
    if len(entries) != count:
        raise NoCode("the same key stands there twice")
    return entries


def _decode_jaxpr(data: Any, store: Store) -> Any:
    graph = store.graph(data["jaxpr"])
    check(graph)
    if expanded(graph, JAXPR_NODES) > JAXPR_NODES:
        raise NoCode(f"a jaxpr of more than {JAXPR_NODES} operations stands among the parameters of a primitive")
    jaxpr = jax.make_jaxpr(lambda *args: evaluate(graph, args))(*[shape_of(t) for t in graph.in_types])
    return jaxpr if _expect_kind(bool, data["closed"]) else jaxpr.jaxpr


def shape_of(type: ShapedArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(type.shape, type.dtype, weak_type=type.weak_type)


def _primitive(name: Any) -> Any:
    try:
        return primitive(_expect_kind(str, name))
    except KeyError:
        raise NoCode(f"this version of JAX ({jax.__version__}) exports no primitive called {name!r}") from None


#: by the keys of the object
_DECODERS: dict[tuple[str, ...], Callable[[Any, Store], Any]] = {
    ("float",): _decode_float,
    ("list",): lambda data, store: [decode(x, store) for x in _expect_kind(list, data["list"])],
    ("dict",): _decode_dict,
    ("frozenset",): lambda data, store: frozenset([decode(x, store) for x in _expect_kind(list, data["frozenset"])]),
    ("complex",): _decode_complex,
    ("graph",): lambda data, store: store.graph(data["graph"]),
    ("registered",): lambda data, store: _known(_named, data["registered"], "registered value"),
    ("function",): lambda data, store: _known(_functions(), data["function"], "function"),
    ("enum",): _decode_enum,
    ("fields", "record"): _decode_record,
    ("fields", "policy"): _decode_policy,
    ("scalar_type",): lambda data, store: decode_dtype(data["scalar_type"]).type,
    ("bytes", "scalar"): _decode_scalar,
    ("array", "dtype", "shape"): _decode_array,
    ("dtype",): lambda data, store: decode_dtype(data["dtype"]),
    ("closed", "jaxpr"): _decode_jaxpr,
    ("primitive",): lambda data, store: _primitive(data["primitive"]),
    ("tree",): lambda data, store: decode_tree(data["tree"]),
    ("key_implementation",): lambda data, store: _known(
        key_implementations(), data["key_implementation"], "random key"
    ),
    ("rule",): lambda data, store: store.rule(data["rule"]),
}


# --------------------------------------------------------------------------------------------------------------------
# pytree structures


def encode_tree(tree: Any) -> Any:
    """The JSON of a structure made of tuples, lists, dicts and None.

    Raises:
      NoCode: other containers are in it.
    """
    return _encode_container(tree_util.tree_unflatten(tree, [_LEAF] * tree.num_leaves))


_LEAF = object()


def _encode_container(tree: Any) -> Any:
    kind = type(tree)
    if tree is _LEAF:
        return "*"
    if tree is None:
        return None
    if kind in (tuple, list):
        return {kind.__name__: [_encode_container(x) for x in tree]}
    if kind in (dict, OrderedDict) and all(type(k) in (str, int, bool) for k in tree):
        return {kind.__name__: [[k, _encode_container(x)] for k, x in tree.items()]}
    raise NoCode(
        f"the container {kind.__module__}.{kind.__qualname__} has no place in a file; tuples, lists and dicts have"
    )


def decode_tree(data: Any) -> Any:
    return tree_util.tree_structure(_decode_container(data))


def _decode_container(data: Any) -> Any:
    if data is None:
        return None
    if data == "*":
        return 0
    if isinstance(data, dict) and len(data) == 1:
        ((kind, items),) = data.items()
        if kind == "tuple":
            return tuple([_decode_container(x) for x in _expect_kind(list, items)])
        if kind == "list":
            return [_decode_container(x) for x in _expect_kind(list, items)]
        if kind in ("dict", "OrderedDict"):
            pairs = [(_key(k), _decode_container(x)) for k, x in _expect_kind(list, items)]
            return _without_duplicates(dict(pairs) if kind == "dict" else OrderedDict(pairs), len(pairs))
    raise NoCode(f"{_short(data)} stands for no container")


def _key(key: Any) -> Any:
    if type(key) not in (str, int, bool):
        raise NoCode(f"{_short(key)} is no key of a dict")
    return key
