"""Smaller graphs that compute the same: common sub-expressions, trivial algebra, scalar constants, dead code.

A builder rewrites each operation, as it is emitted, in terms of earlier ones.  A rewrite applies only if the result
has the same type and, but for the sign of a zero, the same value.  Nothing is reassociated.

NOTE [Splats]
A *splat* is a value all of whose elements are one known scalar: a scalar constant, or a broadcast of one.  Seeds of
gradients and slopes of linear pieces are splats, so folding them removes most of what a derivative adds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.op import Op, Region, filling, intern
from fgrad.graph.source import Source
from fgrad.jaxcore import ShapedArray, Tracer, primitive, typeof

COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
#: elementwise primitives that take a rank-0 operand together with a full one
SCALAR_OPERANDS = frozenset(
    {"add", "sub", "mul", "div", "max", "min", "pow", "rem", "atan2", "eq", "ne", "lt", "le", "gt", "ge"}
)


class Simplifier(Builder):
    """A builder that emits a simpler equal value where it knows one, and shares equal nodes."""

    def __init__(self, in_types: Sequence[ShapedArray] = ()):
        super().__init__(in_types)
        self.splats: dict[int, Any] = {}
        self.producers: dict[int, tuple[Op, tuple[int, ...]]] = {}
        #: the first output of its operation, for outputs that are not the first
        self.first: dict[int, int] = {}
        self.seen: dict[tuple[Op, tuple[int, ...]], int] = {}
        #: the first of equal operations, and the same by their keys
        self.equal: dict[Op, Op] = {}
        self.by_key: dict[tuple[Any, ...], Op] = {}

    def type(self, number: int) -> ShapedArray:
        return self.types[number]

    def const(self, const: Const) -> int:
        known = len(self.types)
        number = super().const(const)
        if number < known:
            return number
        value = const.value
        if const.type.size == 1 and not isinstance(value, Tracer) and _is_number(const.type):
            self.splats[number] = np.asarray(value).reshape(())[()]
        return number

    def emit(self, op: Op, inputs: tuple[int, ...], source: Source | None = None) -> int:
        """Rewrite the operation, or append it; the number of its first output."""
        name = op.name
        rewrite = REWRITES.get(name)
        if rewrite is not None:
            rewritten = _attempt(rewrite, self, op, inputs, source)
            if rewritten is not None:
                return rewritten
        if name in SCALAR_OPERANDS and not self.splats.keys().isdisjoint(inputs):
            op, inputs = _scalar_operand(self, op, inputs)
        return self.write(op, inputs, source)

    def write(self, op: Op, args: tuple[int, ...], source: Source | None) -> int:
        """Append a node unless an equal one exists."""
        if op.effects:
            return super().emit(op, args, source)
        if op.name in COMMUTATIVE and args[0] > args[1] and op.in_types[0] == op.in_types[1]:
            args = (args[1], args[0])
        key = (op, args)
        number = self.seen.get(key)
        if number is None and (first := self._first_equal(op)) is not op:
            op, key = first, (first, args)
            number = self.seen.get(key)
        if number is None:
            number = self.seen[key] = super().emit(op, args, source)
            self.producers[number] = key
            for k in range(1, len(op.out_types)):
                self.first[number + k] = number
        return number

    def _first_equal(self, op: Op) -> Op:
        """The first operation equal to this one: parts recorded before the table of operations was cleared differ."""
        first = self.equal.get(op)
        if first is None:
            first = op if isinstance(op.primitive, Region) else self.by_key.setdefault(op.key, op)
            self.equal[op] = first
        return first

    def splat(self, value: Any, type: ShapedArray, source: Source | None) -> int:
        """A value of ``type`` filled with a scalar."""
        # 0-d, of exactly the type's dtype
        scalar = np.asarray(value).astype(type.dtype)
        kind = ShapedArray((), type.dtype, type.weak_type)
        # a Python scalar keeps the type weak, if it has this dtype
        number = self.const(Const(scalar.item() if type.weak_type and typeof(scalar.item()) == kind else scalar, kind))
        if type.shape:
            op = filling(type, self.type(number))
            if op.out_types[0] != type:
                raise _TypeChanged
            number = self.write(op, (number,), source)
            self.splats[number] = scalar[()]
        return number


class _TypeChanged(Exception):
    """A rewrite would change a type; the node stays as it is."""


def _is_number(type: ShapedArray) -> bool:
    return not jax.dtypes.issubdtype(type.dtype, jax.dtypes.extended) and type.dtype != jax.dtypes.float0


def simplify(graph: Graph) -> Graph:
    """An equivalent graph with the same inputs and outputs and no more nodes."""
    w = Simplifier(graph.in_types)
    return w.finish(w.splice(graph, w.inputs), w.inputs)


def _attempt(
    rewrite: Callable[..., int | None], w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None
) -> int | None:
    try:
        rewritten = rewrite(w, op, args, source)
    except _TypeChanged:
        return None
    return rewritten if rewritten is not None and w.type(rewritten) == op.out_types[0] else None


def _scalar_operand(w: Simplifier, op: Op, args: tuple[int, ...]) -> tuple[Op, tuple[int, ...]]:
    """Use the scalar itself where an operand is a broadcast of it and the other operand has the full shape."""
    shape = op.out_types[0].shape
    if not shape:
        return op, args
    for k in (1, 0):
        other = w.type(args[1 - k])
        if args[k] in w.producers and args[k] in w.splats and other.shape == shape and w.type(args[k]).shape == shape:
            scalar = w.producers[args[k]][1][0]
            if w.type(scalar).shape:
                continue
            new = list(args)
            new[k] = scalar
            try:
                changed = intern(op.primitive, op.params, [w.type(i) for i in new])
            except (TypeError, ValueError):  # this operand must be full
                continue
            if changed.out_types == op.out_types:
                return changed, tuple(new)
    return op, args


# --------------------------------------------------------------------------------------------------------------------
# rewrites: (writer, op, args, source) -> number of an equal value, or None


def _is(w: Simplifier, number: int, value: float) -> bool:
    splat = w.splats.get(number)
    return splat is not None and bool(splat == value)


_FOLDS: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "div": np.divide,
}  # fmt: skip


def _fold(w: Simplifier, op: Op, args: Sequence[int], source: Source | None) -> int | None:
    """All arguments are known scalars: compute the operation, in its own type."""
    values = []
    for i in args:
        value = w.splats.get(i)
        if value is None:
            return None
        values.append(value)
    type = op.out_types[0]
    if type.dtype == np.bool_ or (op.name == "div" and not np.issubdtype(type.dtype, np.inexact)):
        return None
    with np.errstate(all="ignore"):
        return w.splat(_FOLDS[op.name](*[np.asarray(v).astype(type.dtype) for v in values]), type, source)


def _add(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    for k in (0, 1):
        if _is(w, args[k], 0) and w.type(args[1 - k]) == op.out_types[0]:
            return args[1 - k]
    return _fold(w, op, args, source)


def _sub(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    if _is(w, args[1], 0):
        return args[0]
    negated = _negated(w, args[1])
    if negated is not None and w.type(negated) == w.type(args[0]) == op.out_types[0]:
        return w.write(intern(primitive("add"), {}, [w.type(args[0]), w.type(negated)]), (args[0], negated), source)
    return _fold(w, op, args, source)


def _mul(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    for k in (0, 1):
        splat, other = w.splats.get(args[k]), args[1 - k]
        if splat is not None and (splat == 1 or splat == -1) and w.type(other) == op.out_types[0]:
            return other if splat == 1 else _neg_of(w, other, source)
    folded = _fold(w, op, args, source)
    if folded is not None:
        return folded
    # move signs outwards, where they cancel
    for k in (0, 1):
        inner = _negated(w, args[k])
        if inner is not None and w.type(inner) == w.type(args[k]):
            new = list(args)
            new[k] = inner
            changed = intern(op.primitive, op.params, [w.type(i) for i in new])
            if changed.out_types == op.out_types:
                product = _attempt(_mul, w, changed, tuple(new), source)
                return _neg_of(w, w.write(changed, tuple(new), source) if product is None else product, source)
    return None


def _neg_of(w: Simplifier, number: int, source: Source | None) -> int:
    inner = _negated(w, number)
    if inner is not None:
        return inner
    return w.write(intern(primitive("neg"), {}, [w.type(number)]), (number,), source)


def _negated(w: Simplifier, number: int) -> int | None:
    producer = w.producers.get(number)
    return producer[1][0] if producer is not None and producer[0].name == "neg" else None


def _neg(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    inner = _negated(w, args[0])
    return inner if inner is not None else _fold(w, op, args, source)


def _div(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    return args[0] if _is(w, args[1], 1) else _fold(w, op, args, source)


def _same_type(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    """Conversions, broadcasts, blocks as large as the array, and the like that change nothing."""
    return args[0] if w.type(args[0]) == op.out_types[0] else None


def _convert(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    type = op.out_types[0]
    if w.type(args[0]) == type:
        return args[0]
    splat = w.splats.get(args[0])
    if splat is None or type.dtype == np.bool_ or np.iscomplexobj(splat):
        return None
    return w.splat(splat, type, source)


def _broadcast(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    if len(args) != 1:
        return None
    if w.type(args[0]) == op.out_types[0]:
        return args[0]
    splat = w.splats.get(args[0])
    return None if splat is None else w.splat(splat, op.out_types[0], source)


def _reshape(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    if op.name == "reshape" and op.params.get("dimensions") is not None:
        return None  # it permutes the axes first, so an equal shape does not mean an equal array
    rewritten = _broadcast(w, op, args, source)
    if rewritten is not None or op.name != "reshape":
        return rewritten
    producer = w.producers.get(args[0])
    if producer is not None and producer[0].name == "reshape" and producer[0].params.get("dimensions") is None:
        inner = producer[1][0]
        if w.type(inner) == op.out_types[0]:
            return inner
        return w.write(intern(op.primitive, op.params, [w.type(inner)]), (inner,), source)
    return None


def _transpose(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    permutation = tuple(op.params["permutation"])
    if permutation == tuple(range(len(permutation))):
        return args[0]
    splat = w.splats.get(args[0])
    if splat is not None:
        return w.splat(splat, op.out_types[0], source)
    producer = w.producers.get(args[0])
    if producer is not None and producer[0].name == "transpose":
        inner_permutation, inner = producer[0].params["permutation"], producer[1][0]
        both = tuple([int(inner_permutation[i]) for i in permutation])
        if both == tuple(range(len(both))):
            return inner
        return w.write(intern(op.primitive, {**op.params, "permutation": both}, [w.type(inner)]), (inner,), source)
    return None


def _reduce_sum(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    if not op.params["axes"]:
        return args[0]
    return None


def _integer_pow(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    return args[0] if op.params["y"] == 1 else None


def _select(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    return args[1] if all(i == args[1] for i in args[2:]) else None


def _rev(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    return args[0] if not op.params["dimensions"] else None


def _update(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    """A block as large as the whole array replaces it, for XLA moves its start to where the block fits."""
    return args[1] if w.type(args[1]) == op.out_types[0] else None


#: operations of one operand with which conjugation commutes
_REAL_LINEAR = frozenset((
    "transpose", "reshape", "broadcast_in_dim", "squeeze", "slice", "split", "unstack", "rev", "neg", "reduce_sum",
))  # fmt: skip


#: how many operations back to look for a conjugate
_REACH = 8


def _conjugated(w: Simplifier, number: int) -> int | None:
    """The conjugate of a value computed from a conjugate by operations that commute with conjugation, or by none."""
    path: list[tuple[Op, int]] = []
    while len(path) < _REACH:
        first = w.first.get(number, number)
        producer = w.producers.get(first)
        if producer is None:
            return None
        op, args = producer
        if op.name == "conj":
            break
        if op.name not in _REAL_LINEAR or len(args) != 1:
            return None
        path.append((op, number - first))
        number = args[0]
    else:
        return None
    if w.type(args[0]) != w.type(number):
        return None
    number = args[0]
    for op, k in reversed(path):
        number = w.write(op, (number,), None) + k
    return number


def _conj(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    return _conjugated(w, args[0])


def _part(w: Simplifier, op: Op, args: tuple[int, ...], source: Source | None) -> int | None:
    """The real or the imaginary part of a conjugate."""
    producer = w.producers.get(args[0])
    if producer is None or producer[0].name != "conj" or w.type(producer[1][0]) != op.in_types[0]:
        return None
    part = w.write(op, producer[1], source)
    return part if op.name == "real" else _neg_of(w, part, source)


REWRITES: dict[str, Callable[..., int | None]] = {
    "add": _add, "add_any": _add, "sub": _sub, "mul": _mul, "neg": _neg, "div": _div,
    "convert_element_type": _convert, "broadcast_in_dim": _broadcast, "reshape": _reshape, "squeeze": _reshape,
    "transpose": _transpose, "reduce_sum": _reduce_sum, "integer_pow": _integer_pow, "select_n": _select,
    "conj": _conj, "real": _part, "imag": _part, "copy": _same_type, "rev": _rev,
    "slice": _same_type, "dynamic_slice": _same_type, "dynamic_update_slice": _update,
}  # fmt: skip
