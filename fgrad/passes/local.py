"""Derivatives of one operation as small graphs: what they look like, and how they are written.

A *pull-back* maps (inputs, outputs, cotangents) to input cotangents; a *push-forward* maps (inputs, outputs,
tangents) to output tangents.  The passes splice them in.  A region (a loop, a branch) makes its derivative together
with its values: its push-forward maps (inputs, live tangents) to (outputs, tangents); its reverse mode is an
``Adjoint``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import lax

from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import strong
from fgrad.jaxcore import ShapedArray, primitive, varying_axes
from fgrad.record.stager import stage_closed


@frozen(eq=False)
class Local:
    """A pull-back or push-forward: ``graph`` and, for each wanted result, the index of its output or None for zero."""

    graph: Graph
    results: tuple[int | None, ...]


@frozen(eq=False)
class Adjoint:
    """Reverse mode of a region: ``forward`` maps inputs to (outputs, residuals); ``backward`` maps (inputs, outputs,
    residuals, live cotangents) to input cotangents, placed as ``results`` says."""

    forward: Graph
    backward: Graph
    results: tuple[int | None, ...]


def tangent_type(type: ShapedArray) -> ShapedArray:
    """The type of the (co)tangents of a value of an inexact type; and of an integer that is transposed."""
    return strong(type)


class PushforwardBuilder(Builder):
    """Writes the push-forward of a region; its inputs are the operation's inputs and the tangents of the live ones."""

    def __init__(self, op: Op, live: Sequence[bool]):
        super().__init__(op.in_types)
        self.ins: list[int] = self.inputs[:]
        #: by position among the operation's inputs
        self.tangents: dict[int, int] = {
            i: self.input(tangent_type(op.in_types[i])) for i, yes in enumerate(live) if yes
        }

    def tangent(self, i: int) -> int:
        """The tangent of an input, zeros where it has none."""
        return self.tangents[i] if i in self.tangents else zeros(self, tangent_type(self.types[self.ins[i]]))

    def pushed(self, outs: Sequence[int], tangents: Mapping[int, int]) -> Local:
        """The push-forward that gives these outputs, and tangents by the position of their output."""
        live = [k for k in range(len(outs)) if k in tangents]
        place = {k: i for i, k in enumerate(live)}
        graph = self.finish([*outs, *(tangents[k] for k in live)])
        return Local(graph, tuple([place.get(k) for k in range(len(outs))]))


class PullbackBuilder(Builder):
    """Writes the backward graph of a region; its inputs are those of ``Adjoint.backward``."""

    def __init__(self, op: Op, live: Sequence[bool], residuals: Sequence[ShapedArray] = ()):
        n, m = len(op.in_types), len(op.out_types)
        super().__init__([*op.in_types, *op.out_types, *residuals])
        self.ins: list[int] = self.inputs[:n]
        self.outs: list[int] = self.inputs[n : n + m]
        self.residuals: list[int] = self.inputs[n + m :]
        #: by position among the operation's outputs
        self.cotangents: dict[int, int] = {
            k: self.input(tangent_type(op.out_types[k])) for k, yes in enumerate(live) if yes
        }

    def cotangent(self, k: int) -> int:
        """The cotangent of an output, zeros where it has none."""
        return self.cotangents[k] if k in self.cotangents else zeros(self, tangent_type(self.types[self.outs[k]]))

    def adjoint(self, forward: Graph, cotangents: Mapping[int, int], needs: Sequence[bool]) -> Adjoint:
        """The adjoint whose backward graph gives these cotangents, by the position of their input."""
        wanted = [i for i, yes in enumerate(needs) if yes]
        live = [i for i in wanted if i in cotangents]
        place = {i: k for k, i in enumerate(live)}
        return Adjoint(forward, self.finish([cotangents[i] for i in live]), tuple([place.get(i) for i in wanted]))


def add(builder: Builder, a: int, b: int, source: Any = None) -> int:
    """Emit the sum of two (co)tangents."""
    op = intern(primitive("add_any"), {}, (builder.types[a], builder.types[b]))
    return builder.emit(op, (a, b), source)


def zeros(builder: Builder, type: ShapedArray) -> int:
    """Emit zeros of a type."""
    return filled(builder, 0, type)


def filled(builder: Builder, value: float, type: ShapedArray) -> int:
    """Emit a constant-filled array of a type."""
    number = builder.const(Const(np.full((), value, type.dtype), ShapedArray((), type.dtype)))
    if type.shape:
        params = {"shape": type.shape, "broadcast_dimensions": (), "sharding": None}
        number = builder.emit(intern(primitive("broadcast_in_dim"), params, (builder.types[number],)), (number,))
    if axes := varying_axes(type):  # among the parts of a shard_map
        vary = stage_closed(lambda x: [lax.pcast(x, axes, to="varying")], [builder.types[number]])
        (number,) = builder.splice(vary, [number])
    return number
