"""How the memory layout of gradients depends on the operands' layouts and on what was saved."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from attrs import evolve

from fgrad.mutable.operation.plan import Pullback
from fgrad.seam import needed_inputs


class ColumnMajorGradients:
    """The pull-backs of a plan, by which matrix operands are column-major: their gradients are column-major, too.

    Arguments:
      factors: for each such operand, its position among those present, and its position.

    Source: PyTorch: torch/csrc/autograd/FunctionsManual.cpp, mm_mat1_backward
    """

    __slots__ = ("factors", "cache")

    def __init__(self, factors: Sequence[tuple[int, int]]):
        self.factors: Sequence[tuple[int, int]] = factors
        self.cache: dict[tuple[Pullback, int], Pullback] = {}

    def for_operands(self, pullback: Pullback, operands: Sequence[Any]) -> Pullback:
        """The pull-back for operands with these layouts."""
        for index, i in self.factors:
            x = operands[i]
            g = x._geometry
            if g is None:
                storage = x._storage
                if storage.strides is None and storage.home is None:
                    continue
                g = x._geometry_of()
            height = g.sizes[0]
            if g.strides == (1, height):
                pullback = self.cache.get((pullback, index)) or self._column_major(pullback, index, height)
        return pullback

    def _column_major(self, pullback: Pullback, index: int, height: int) -> Pullback:
        """The pull-back with a column-major gradient of the operand at a position, if it computes that gradient."""
        strides = [(1, height) if at == index else old for at, old in zip(pullback.wrt, pullback.strides, strict=True)]
        result = evolve(pullback, strides=tuple(strides)) if index in pullback.wrt else pullback
        self.cache[pullback, index] = result
        return result


@lru_cache(1 << 12)
def saved_reads(pullback: Pullback) -> tuple[tuple[int, ...], ...]:
    """For each gradient the indices of the saved values that it is computed from."""
    graph = pullback.routine.graph
    count = len(pullback.inputs) + len(pullback.outputs)
    outputs = range(len(graph.outputs))
    reads = [needed_inputs(graph, [j == k for j in outputs])[1][:count] for k in outputs]
    return tuple([tuple([i for i, yes in enumerate(each) if yes]) for each in reads])
