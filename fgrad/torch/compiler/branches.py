"""A function whose first call differs from later ones: two graphs, and a flag in the state that chooses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import lax, numpy as jnp

from fgrad.graph.graph import Builder, Graph, evaluate
from fgrad.graph.op import intern
from fgrad.jaxcore import primitive, with_x64
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
        return cls(simplify(_with_narrow_starts(graph)), reads, [x is not None for x in outs])

    def __call__(self, *values: Any) -> list[Any]:
        results = iter(evaluate(self.graph, [values[i] for i in self.reads]))
        return [next(results) if computes else values[i] for i, computes in enumerate(self.computes)]


#: operations on parts of arrays, and how many operands come before those that say where the part starts
_PARTS = {"dynamic_slice": 1, "dynamic_update_slice": 2}


def _with_narrow_starts(graph: Graph) -> Graph:
    """A graph in which parts of arrays start at numbers of 32 bits.

    Where JAX has mapped such an operation, it clamps the starts when it compiles the program.  That is after this layer
    has enabled types of 64 bits, so it would take them for numbers of 32.
    """
    builder = Builder(graph.in_types)
    values, types = [*builder.inputs, *map(builder.const, graph.consts)], graph.types
    for node in graph.nodes:
        op, inputs = node.op, [values[i] for i in node.inputs]
        first = _PARTS.get(op.name, len(inputs))
        starts = [types[i] for i in node.inputs[first:]]
        if any(start.dtype == np.int64 for start in starts) and max(op.in_types[0].shape) <= np.iinfo(np.int32).max:
            casts = [intern(primitive("convert_element_type"), _TO_32, (start,)) for start in starts]
            inputs[first:] = [builder.emit(cast, (i,)) for cast, i in zip(casts, inputs[first:], strict=True)]
            op = intern(op.primitive, op.params, [*op.in_types[:first], *[cast.out_types[0] for cast in casts]])
        number = builder.emit(op, tuple(inputs), node.source)
        values += range(number, number + len(op.out_types))
    return builder.finish([values[i] for i in graph.outputs])


_TO_32 = {"new_dtype": np.dtype(np.int32), "weak_type": False, "sharding": None}


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
