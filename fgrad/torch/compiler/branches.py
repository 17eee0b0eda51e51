"""A function whose first call does something else than the later ones: two graphs, and a state that says which."""

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
      graph: from the values that it takes to those that it gives.
      takes: the places of what it takes among the values of both.
      gives: for each value of both after the call whether it gives one; else the value stays.
    """

    graph: Graph
    takes: list[int]
    gives: list[bool]

    @classmethod
    def of(cls, tape: Tape, ins: Sequence[Any], outs: Sequence[Any]) -> "Branch":
        """What a tape has recorded, from inputs to values; None stands for what it does not know."""
        takes = [i for i, x in enumerate(ins) if x is not None]
        graph = tape.closed([ins[i] for i in takes], [x for x in outs if x is not None])
        return cls(simplify(graph), takes, [x is not None for x in outs])

    def __call__(self, *values: Any) -> list[Any]:
        found = iter(evaluate(self.graph, [values[i] for i in self.takes]))
        return [next(found) if gives else values[i] for i, gives in enumerate(self.gives)]


def begun_or_not(first: Branch, later: Branch, state: int) -> Graph:
    """The graph of both; after so many values of state comes whether the first call has been made.

    Raises:
      RuntimeError: the two give values of other types.
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
    given = dict(zip(ins, builder.inputs, strict=True))
    found = builder.splice(graph, [given[i] for i in range(len(ins))])
    return builder.finish([found[i] for i in outs])
