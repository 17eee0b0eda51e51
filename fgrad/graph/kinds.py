"""What a parameter of a primitive in a file may be: kinds, each in words and as a question about a value.

A kind looks at a value with the whole operation at hand, since an axis is one only of some operand.
"""

import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import lax

from fgrad.graph.encoding import FUNCTIONS, enums, is_device, key_implementations
from fgrad.graph.graph import Graph
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.regions import Deferred
from fgrad.jaxcore import Primitive, ShapedArray, is_closed_jaxpr, is_open_jaxpr

#: the largest number in a file: JAX counts and measures in 64 bits
LARGEST = (1 << 63) - 1
#: the longest text in a file
LETTERS = 1 << 16


@frozen
class Call:
    """The operation that a parameter belongs to."""

    types: Sequence[ShapedArray]
    params: dict[str, Any]

    @property
    def rank(self) -> int:
        return len(self.types[0].shape) if self.types else 0


@frozen
class Kind:
    """What a parameter may be: in words, and as a question."""

    what: str
    accepts: Callable[[Any, Call], bool]


def is_int(value: Any, low: int = -LARGEST - 1, high: int = LARGEST) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def is_ints(value: Any, low: int = -LARGEST - 1, count: int | None = None) -> bool:
    fits = type(value) is tuple and all(is_int(x, low) for x in value)
    return fits and (count is None or len(value) == count)


def is_axes(value: Any, rank: int) -> bool:
    return is_ints(value, 0) and all(x < rank for x in value) and len(set(value)) == len(value)


def is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= LETTERS and not any("\ud800" <= c <= "\udfff" for c in value)


def is_number(value: Any, dtype: Any) -> bool:
    """Whether a Python or NumPy number has a place among the values of ``dtype``."""
    if isinstance(value, bool | np.bool_):
        return True
    if dtype.kind == "b":
        return is_int(value, 0, 1)
    if isinstance(value, int | np.integer):
        info = jax.numpy.iinfo(dtype) if jax.dtypes.issubdtype(dtype, np.integer) else None
        return is_int(value) and (info is None or bool(info.min <= value <= info.max))
    if isinstance(value, float | np.floating):
        return jax.dtypes.issubdtype(dtype, np.inexact)
    return isinstance(value, complex | np.complexfloating) and jax.dtypes.issubdtype(dtype, np.complexfloating)


def integer(low: int, high: int = LARGEST) -> Kind:
    upper = f" to {high}" if high < LARGEST else " on"
    return Kind(f"an integer from {low}{upper}", lambda value, call: is_int(value, low, high))


def integers(low: int) -> Kind:
    return Kind(f"a tuple of integers from {low} on", lambda value, call: is_ints(value, low))


def per_axis(low: int) -> Kind:
    """One integer for each axis of the operand."""
    return Kind(
        f"a tuple with an integer from {low} on for each axis",
        lambda value, call: is_ints(value, low, call.rank),
    )


def member(name: str) -> Kind:
    return Kind(f"a member of {name}", lambda value, call: name in enums() and type(value) is enums()[name])


def one_of(*values: Any) -> Kind:
    texts = " or ".join([repr(v) for v in values])
    return Kind(texts, lambda value, call: any(type(value) is type(v) and value == v for v in values))


def optional(kind: Kind) -> Kind:
    return Kind(f"None or {kind.what}", lambda value, call: value is None or kind.accepts(value, call))


def each(kind: Kind) -> Kind:
    return Kind(f"a tuple of which each is {kind.what}", lambda value, call: (
        type(value) is tuple and all(kind.accepts(x, call) for x in value)
    ))  # fmt: skip


def is_padding(value: Any, count: int, width: int) -> bool:
    fits = type(value) is tuple and len(value) == count and all(is_ints(x, count=width) for x in value)
    return fits and (width == 2 or all(x[2] >= 0 for x in value))


def is_precision(value: Any) -> bool:
    if type(value) is tuple:
        return len(value) == 2 and all(type(x) is lax.Precision for x in value)
    return value is None or type(value) in (lax.Precision, lax.DotAlgorithmPreset) or is_algorithm(value)


def is_algorithm(value: Any) -> bool:
    """Whether this is a ``DotAlgorithm`` as its constructor takes it."""
    if type(value) is not lax.DotAlgorithm:
        return False
    *dtypes, left, right, products, imprecise = value
    return (
        all(isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)) for x in dtypes)
        and all(is_int(x, 1, 16) for x in (left, right, products))
        and type(imprecise) is bool
    )


def is_accuracy(value: Any) -> bool:
    if type(value) is lax.Tolerance:
        return all(type(x) is float and 0 <= x < np.inf for x in (value.atol, value.rtol)) and is_int(value.ulps, 0)
    return value is None or type(value) is enums()["AccuracyMode"]


def is_contraction(value: Any, call: Call) -> bool:
    """Whether this is ((lhs, rhs contracted axes), (lhs, rhs batch axes))."""
    pairs = type(value) is tuple and len(value) == 2 and all(type(x) is tuple and len(x) == 2 for x in value)
    if not pairs or len(call.types) < 2:
        return False
    sides = zip(*value, strict=True)
    return all(
        type(contracted) is type(batch) is tuple and is_axes((*contracted, *batch), len(t.shape))
        for (contracted, batch), t in zip(sides, call.types, strict=False)
    )


def is_ragged(value: Any, call: Call) -> bool:
    return (
        type(value) is lax.RaggedDotDimensionNumbers
        and is_contraction(value.dot_dimension_numbers, call)
        and is_axes(value.lhs_ragged_dimensions, call.rank)
        and is_axes(value.rhs_group_dimensions, len(call.types[1].shape))
    )


def is_convolution(value: Any, call: Call) -> bool:
    return type(value) is lax.ConvDimensionNumbers and all(
        is_axes(spec, call.rank) and len(spec) == call.rank for spec in (value.lhs_spec, value.rhs_spec, value.out_spec)
    )


def is_indexing(kind: type, value: Any) -> bool:
    """Whether these are the dimension numbers of a gather or a scatter, whose type rules check the ranges."""
    return type(value) is kind and all(is_ints(x, 0) for x in value)


def is_inner(value: Any, closed: bool) -> bool:
    return is_closed_jaxpr(value) if closed else is_open_jaxpr(value) or is_closed_jaxpr(value)


def is_reducer(value: Any, call: Call) -> bool:
    """Whether a jaxpr takes two scalars for each operand and gives one, of their dtypes."""
    if not is_inner(value, closed=False):
        return False
    graph, half = from_jaxpr(value), call.types[: len(call.types) // 2]
    scalars = [((), t.dtype) for t in half]
    ins, outs = [[(t.shape, t.dtype) for t in types] for types in (graph.in_types, graph.out_types)]
    return ins == [*scalars, *scalars] and outs == scalars and not graph.effects


def is_single(value: Any, name: str) -> bool:
    """Whether a jaxpr is one operation on its two inputs."""
    graph = from_jaxpr(value)
    return [(n.op.name, n.inputs) for n in graph] == [(name, (0, 1))] and graph.outputs == (2,)


def is_update(value: Any, call: Call, name: str) -> bool:
    """Whether a jaxpr puts an update of a scatter into an element, for ``scatter-add`` and its like by ``name``."""
    if not is_inner(value, closed=False) or len(call.types) != 3:
        return False
    graph, scalar = from_jaxpr(value), ((), call.types[0].dtype)
    ins, outs = [[(t.shape, t.dtype) for t in types] for types in (graph.in_types, graph.out_types)]
    return ins == [scalar, scalar] and outs == [scalar] and not graph.effects and (not name or is_single(value, name))


def is_formatted(value: Any, call: Call) -> bool:
    """Whether a format string only inserts its arguments, without attribute look-ups or widths."""
    if not is_text(value):
        return False
    fields = [x[1:] for x in string.Formatter().parse(value) if x[1] is not None]
    return all(name == "" and not spec and conversion is None for name, spec, conversion in fields) and (
        len(fields) == len(call.types) or not call.params["has_placeholders"]
    )


_PRINTED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("edgeitems", "threshold", "precision", "linewidth"), lambda x: is_int(x, 0, 1 << 31)),
    **dict.fromkeys(("nanstr", "infstr"), is_text),
    "floatmode": lambda x: x in ("fixed", "unique", "maxprec", "maxprec_equal"),
    "sign": lambda x: x in ("-", "+", " "),
    "suppress": lambda x: type(x) is bool,
    "legacy": lambda x: x is False,
    "formatter": lambda x: x is None,
    "override_repr": lambda x: x is None,
}


def is_print_options(value: Any) -> bool:
    return type(value) is tuple and all(
        type(x) is tuple and len(x) == 2 and type(x[0]) is str and x[0] in _PRINTED and _PRINTED[x[0]](x[1])
        for x in value
    )


def is_call_tree(value: Any, call: Call) -> bool:
    return isinstance(value, jax.tree_util.PyTreeDef) and value.num_leaves == len(call.types)


def is_group(value: Any) -> bool:
    return type(value) is tuple and all(is_ints(x, 0) for x in value)


def is_named_axes(value: Any, call: Call) -> bool:
    return type(value) is tuple and all(is_text(x) or is_int(x, 0, call.rank - 1) for x in value)


NOTHING = Kind("None", lambda value, call: value is None or is_device(value))
EMPTY = Kind("an empty tuple", lambda value, call: value == () and type(value) is tuple)
FLAG = Kind("a bool", lambda value, call: type(value) is bool)
REAL = Kind("a finite number", lambda value, call: type(value) in (int, float) and abs(value) <= LARGEST)
TEXT = Kind("a string", lambda value, call: is_text(value))
DTYPE = Kind("a dtype", lambda value, call: isinstance(value, np.dtype) and value != jax.dtypes.float0)
INDEX_DTYPE = Kind("an integer dtype", lambda value, call: isinstance(value, np.dtype) and value.kind in "iu")
SHAPE = integers(0)
AXIS = Kind("an axis of the operand", lambda value, call: is_int(value, 0, call.rank - 1))
AXES = Kind("a tuple of distinct axes of the operand", lambda value, call: is_axes(value, call.rank))
ORDER = Kind("an order of the axes of the operand", lambda value, call: (
    is_axes(value, call.rank) and len(value) == call.rank
))  # fmt: skip
PADDING = Kind("a tuple with two integers for each axis", lambda value, call: is_padding(value, call.rank, 2))
CONV_PADDING = Kind("a tuple with two integers for each axis in space", lambda value, call: (
    is_padding(value, call.rank - 2, 2)
))  # fmt: skip
CONV_STEPS = Kind("a tuple with a positive integer for each axis in space", lambda value, call: (
    is_ints(value, 1, call.rank - 2)
))  # fmt: skip
PRECISION = Kind("a precision, two of them, or a dot algorithm", lambda value, call: is_precision(value))
ACCURACY = Kind("an AccuracyMode, a Tolerance or None", lambda value, call: is_accuracy(value))
CONTRACTION = Kind("two pairs of axes to contract and to go along", is_contraction)
KEY = Kind("an implementation of random keys", lambda value, call: value in key_implementations().values())
GRAPH = Kind("a graph", lambda value, call: isinstance(value, Graph))
RULE = Kind("a rule", lambda value, call: isinstance(value, Deferred))
COUNT = Kind("a number of operands", lambda value, call: is_int(value, 0, len(call.types)))
REDUCER = Kind("a jaxpr of pairs of scalars", is_reducer)
COMPARISON = Kind("the primitive ge or le", lambda value, call: (
    isinstance(value, Primitive) and value.name in ("ge", "le")
))  # fmt: skip


#: windows of ``float0`` pass JAX's own checks, and fail where they are run
OF_NUMBERS = Kind(f"{PADDING.what}, of windows of numbers", lambda value, call: (
    PADDING.accepts(value, call) and call.types[0].dtype != jax.dtypes.float0
))  # fmt: skip


def window(steps: str = "base_dilation window_dilation window_dimensions window_strides") -> dict[str, Kind]:
    return {"padding": OF_NUMBERS, **dict.fromkeys(steps.split(), per_axis(1))}


def scatter(name: str) -> dict[str, Kind]:
    return {
        "dimension_numbers": Kind("ScatterDimensionNumbers", lambda value, call: (
            is_indexing(lax.ScatterDimensionNumbers, value)
        )),
        "indices_are_sorted": FLAG, "unique_indices": FLAG, "mode": member("GatherScatterMode"),
        "update_consts": EMPTY,
        "update_jaxpr": Kind("the jaxpr that puts an update in its place", lambda value, call: (
            (value is None and not name) or is_update(value, call, name)
        )),
    }  # fmt: skip


def is_size_override(value: Any, call: Call) -> bool:
    """Whether ``approx_top_k`` may take the operand for part of one of this size along the reduced axis."""
    axis = call.params["reduction_dimension"]
    return is_int(value, -1, (1 << 31) - 1) and (value == -1 or value >= call.types[0].shape[axis])


def is_transformed(call: Call) -> bool:
    """Whether the lengths of a Fourier transform are the extents of the operand's last axes."""
    lengths, kind = call.params["fft_lengths"], call.params["fft_type"]
    if kind is lax.FftType.IRFFT and lengths:
        lengths = (*lengths[:-1], lengths[-1] // 2 + 1)
    return not lengths or call.types[0].shape[-len(lengths) :] == lengths


def is_source_of_windows(call: Call) -> bool:
    """Whether the first operand of ``select_and_scatter_add`` has a value for each window of the second."""
    _, operand = call.types
    windows = [call.params[k] for k in ("window_dimensions", "window_strides", "padding")]
    output = jax.eval_shape(
        lambda x: lax.reduce_window(x, np.zeros((), x.dtype), lax.add, *windows),
        jax.ShapeDtypeStruct(operand.shape, operand.dtype),
    )
    return output.shape == call.types[0].shape


def is_computation(value: Any, call: Call) -> bool:
    jaxpr = call.params["jaxpr"]
    if not is_closed_jaxpr(jaxpr) or not is_reducer(jaxpr, call):
        return False
    names = [of for name, of in FUNCTIONS.items() if getattr(lax, name) is value]
    return value is None or (bool(names) and is_single(jaxpr, names[0]))
