"""Operations that move no data, as functions of their operand's geometry.

NOTE [Gradients that are views]
Where PyTorch's formula only passes a gradient on (``add``), expands it (``sum``), reorders it (``t``) or cuts it
(``cat``), the result shares the incoming gradient's memory, and its strides show it.  A view of the whole gradient
needs no program: what uses it reads it so.  Pieces are computed by one program for all, and remembered by the views.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

from attrs import evolve, frozen

from fgrad.mutable.layout.geometry import Geometry, Ints, viewed_strides
from fgrad.seam import Graph, Op


def _transpose(op: Op, k: int, g: Geometry) -> Geometry:
    order = op.params["permutation"]
    return evolve(g, sizes=tuple([g.sizes[i] for i in order]), strides=tuple([g.strides[i] for i in order]))


def _reshape(op: Op, k: int, g: Geometry) -> Geometry | None:
    shape = op.out_types[0].shape
    strides = viewed_strides(g.sizes, g.strides, shape)
    return None if strides is None else evolve(g, sizes=shape, strides=strides)


def _broadcast(op: Op, k: int, g: Geometry) -> Geometry:
    shape = op.out_types[0].shape
    return evolve(g, sizes=shape, strides=_expanded(g.sizes, g.strides, shape, op.params["broadcast_dimensions"]))


def _expanded(sizes: Ints, strides: Ints, shape: Ints, axes: Ints) -> Ints:
    """The strides of a tensor whose axes become ``axes`` of a shape: new axes are inserted and expanded.

    A scalar has no axes to insert others between, and is expanded as it is.
    """
    if not sizes:
        return (0,) * len(shape)
    have, steps = list(sizes), list(strides)
    for axis in range(len(shape)):
        if axis not in axes:
            steps.insert(axis, have[axis] * steps[axis] if axis < len(have) else 1)
            have.insert(axis, 1)
    return tuple([step if n == m else 0 for n, m, step in zip(have, shape, steps, strict=True)])


def _slice(op: Op, k: int, g: Geometry) -> Geometry:
    starts, steps = op.params["start_indices"], op.params["strides"] or (1,) * len(g.sizes)
    return evolve(
        g,
        sizes=op.out_types[0].shape,
        strides=tuple([s * step for s, step in zip(g.strides, steps, strict=True)]),
        offset=g.offset + sum(s * start for s, start in zip(g.strides, starts, strict=True)),
    )


def _split(op: Op, k: int, g: Geometry) -> Geometry:
    start = sum(op.params["sizes"][:k])
    return evolve(g, sizes=op.out_types[k].shape, offset=g.offset + start * g.strides[op.params["axis"]])


def _unstack(op: Op, k: int, g: Geometry) -> Geometry:
    axis = op.params["axis"]
    return evolve(
        g,
        sizes=op.out_types[k].shape,
        strides=(*g.strides[:axis], *g.strides[axis + 1 :]),
        offset=g.offset + k * g.strides[axis],
    )


def _part(op: Op, k: int, g: Geometry) -> Geometry | None:
    """The real or the imaginary part; None for elements that are conjugated or negated on reading."""
    if g.conj or g.neg:
        return None
    return evolve(
        g,
        strides=tuple([2 * s for s in g.strides]),
        offset=2 * g.offset + (op.name == "imag"),
        dtype=g.dtype.to_real(),
    )


#: the ``k``-th result of an operation as a view of its operand, None if strides cannot express it
MOVES: dict[str, Callable[[Op, int, Geometry], Geometry | None]] = {
    "transpose": _transpose, "reshape": _reshape, "broadcast_in_dim": _broadcast, "slice": _slice, "split": _split,
    "unstack": _unstack, "real": _part, "imag": _part,
}  # fmt: skip


#: the primitives whose result has all elements of the operand
KEEP_ALL = frozenset(("transpose", "reshape", "broadcast_in_dim"))


@frozen
class ViewChain:
    """A sequence of operations, each with the index of the result that is passed on: a function of a geometry."""

    steps: tuple[tuple[Op, int], ...]

    @property
    def keeps_all(self) -> bool:
        """Whether the result has all elements."""
        return all(op.name in KEEP_ALL for op, _ in self.steps)

    @property
    def reshapes(self) -> bool:
        """Whether the result differs in its shape alone."""
        return all(op.name == "reshape" for op, _ in self.steps)

    def __call__(self, geometry: Geometry, *numbers: Any) -> Geometry | None:
        return _moved(self.steps, geometry)


@lru_cache(1 << 12)
def _moved(steps: tuple[tuple[Op, int], ...], geometry: Geometry) -> Geometry | None:
    moved: Geometry | None = geometry
    for op, k in steps:
        if moved is not None:
            moved = MOVES[op.name](op, k, moved)
    return moved


#: from an incoming gradient's geometry and the operation's Python numbers to the geometry of a view of it
View = Callable[..., Geometry | None]
#: which incoming gradient a gradient is a view of, and the view; None for the gradient itself
GradientView = tuple[int, View | None]


#: what a gradient is whose elements are the incoming one's: "itself" is that tensor, or a new one if its shape is
#: another (a sum over axes of size 1); "view" that tensor or a view of it; "alias" always a view; "copy" a new tensor
Passing = Literal["itself", "view", "alias", "copy"]
#: another tensor on the memory of the incoming gradient
WHOLE = ViewChain(())


def gradient_views(graph: Graph, before: int) -> tuple[tuple[int, ViewChain | None] | None, ...]:
    """For each output of a pull-back the incoming gradient (an input from ``before`` on) it is a view of, if any."""
    producers = {number: (node, k) for node, outs in graph.numbered() for k, number in enumerate(outs)}
    outputs: list[tuple[int, ViewChain | None] | None] = []
    for at in graph.outputs:
        steps: list[tuple[Op, int]] = []
        while at in producers and producers[at][0].op.name in MOVES:
            node, k = producers[at]
            steps.append((node.op, k))
            at = node.inputs[0]
        is_gradient = before <= at < len(graph.in_types)
        outputs.append((at - before, ViewChain(tuple(reversed(steps))) if steps else None) if is_gradient else None)
    return tuple(outputs)


def passed_on(passing: Passing, views: tuple[GradientView | None, ...]) -> tuple[GradientView | None, ...]:
    """The gradients that are views of incoming ones, by those that could be."""
    if passing == "copy":
        return (None,) * len(views)
    if passing == "alias":
        return tuple([p and (p[0], p[1] or WHOLE) for p in views])
    if passing == "itself":
        return tuple([None if p and isinstance(p[1], ViewChain) and p[1].reshapes else p for p in views])
    return views
