"""A function whose first call differs from later ones: two graphs, and a flag in the state that chooses."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from jax import lax, numpy as jnp

from fgrad.graph.graph import Builder, Graph, evaluate
from fgrad.jaxcore import with_x64
from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.values.evaluation import array_type
from fgrad.passes.simplify import simplify
from fgrad.seam import stage_closed


@frozen(eq=False)
class Branch:
    """One of the two.

    Attributes:
      graph: from the values that it reads to those that it computes.
      reads: the indices of what it reads among the values of both.
      computes: for each value of both, whether it computes a new one; otherwise the value stays.
    """

    graph: Graph
    reads: list[int]
    computes: list[bool]

    @classmethod
    def of(cls, tape: Tape, ins: Sequence[Any], outs: Sequence[Any]) -> "Branch":
        """The recording of a tape, from inputs to values; None stands for those that it does not have."""
        reads = [i for i, x in enumerate(ins) if x is not None]
        graph = tape.closed([ins[i] for i in reads], [x for x in outs if x is not None])
        return cls(simplify(graph), reads, [x is not None for x in outs])

    def __call__(self, *values: Any) -> list[Any]:
        results = iter(evaluate(self.graph, [values[i] for i in self.reads]))
        return [next(results) if computes else values[i] for i, computes in enumerate(self.computes)]


def begun_or_not(first: Branch, later: Branch, state: int) -> Graph:
    """The graph of both; its input after so many values of state says whether the first call has been made.

    Raises:
      RuntimeError: the two compute values of different types.
    """
    types = later.graph.in_types
    ins = [*types[:state], array_type((), bool), *types[state:]]

    def call(*values: Any) -> list[Any]:
        begun, rest = values[state], (*values[:state], *values[state + 1 :])
        outs = lax.cond(begun, later, first, *rest)
        return [*outs[:state], jnp.ones((), bool), *outs[state:]]

    return simplify(with_x64(stage_closed, call, ins))


def reordered(graph: Graph, ins: Sequence[int], outs: Sequence[int]) -> Graph:
    """A graph with its inputs and outputs in another order."""
    builder = Builder([graph.in_types[i] for i in ins])
    inputs = dict(zip(ins, builder.inputs, strict=True))
    outputs = builder.splice(graph, [inputs[i] for i in range(len(ins))])
    return builder.finish([outputs[i] for i in outs])
