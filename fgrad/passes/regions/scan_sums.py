"""Sums over the steps of a scan, taken outside it.

NOTE [Sums over steps]
The cotangent of a constant of a loop, a weight of a recurrent network, is a sum over the steps of, mostly, a product of
two matrices.  Carried through the loop it is read and written at every step, though it is larger than the factors.  The
factors of all steps together give it as one product, with the steps among the axes that are summed over.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.jaxtypes import varying_axes


@frozen(eq=False)
class Contraction:
    """A product of two values of each step, or the sum of one: the steps join the axes that it sums over."""

    op: Op
    operands: tuple[int, ...]


@frozen(eq=False)
class Applied:
    """A linear operation on sums."""

    op: Op
    sums: "tuple[Sum, ...]"


Sum: TypeAlias = Contraction | Applied

#: linear operations that may as well follow a sum over the steps
_LINEAR = frozenset({"add_any", "transpose", "reshape"})
#: so many operations at most lead to a sum: what is added to itself counts twice, as it is emitted twice
_LARGEST = 100


def sums_over_steps(graph: Graph, constant: Callable[[int], bool]) -> dict[int, Sum]:
    """Of the values of a body those whose sum over the steps is that of a product or sum of values of each step.

    ``constant`` says of an input whether it is the same in every step.
    """
    first_const, inputs = len(graph.in_types) + len(graph.consts), len(graph.in_types)
    sums: dict[int, Sum] = {}
    sizes: dict[int, int] = {}
    for node, outs in graph.numbered():
        if any(varying_axes(t) for t in (*node.op.in_types, *node.op.out_types)):
            continue
        if node.op.name in _LINEAR and all(i in sums for i in node.inputs):
            size = 1 + sum([sizes[i] for i in node.inputs])
            if size < _LARGEST:
                sums[outs[0]] = Applied(node.op, tuple([sums[i] for i in node.inputs]))
                sizes[outs[0]] = size
        elif node.op.name in ("dot_general", "reduce_sum") and not any(
            i < first_const and (i >= inputs or constant(i)) for i in node.inputs
        ):
            sums[outs[0]] = Contraction(node.op, node.inputs)
            sizes[outs[0]] = 1
    return sums


def operands_of(total: Sum) -> list[int]:
    """The values of each step that a sum is taken of."""
    if isinstance(total, Contraction):
        return list(total.operands)
    return [i for part in total.sums for i in operands_of(part)]


def emit_sum(builder: Builder, total: Sum, stacked: Mapping[int, int]) -> int:
    """Emit a sum over the steps, given the values of all steps of its operands."""
    if isinstance(total, Applied):
        return builder.emit(total.op, tuple([emit_sum(builder, part, stacked) for part in total.sums]))
    operands = tuple([stacked[i] for i in total.operands])
    params = total.op.params
    if total.op.name == "dot_general":
        contracting, batch = params["dimension_numbers"]
        numbers = tuple([(0, *_behind(axes)) for axes in contracting]), tuple(map(_behind, batch))
        params = {**params, "dimension_numbers": numbers}
    else:
        params = {**params, "axes": (0, *_behind(params["axes"]))}
    return builder.emit(intern(total.op.primitive, params, [builder.types[i] for i in operands]), operands)


def _behind(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of a step's value, as they are behind the axis of the steps."""
    return tuple([axis + 1 for axis in axes])
