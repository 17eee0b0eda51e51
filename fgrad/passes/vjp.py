"""Reverse mode: a graph to the graph of its values and its vector-Jacobian product."""

from collections.abc import Sequence

from attrs import frozen

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.regions import is_inexact
from fgrad.passes.local import tangent_type
from fgrad.passes.walks import backward, forward


@frozen(eq=False)
class Joint:
    """A graph and its derivative in one.

    ``graph`` takes the primal inputs and then one (co)tangent per live output (or input); it returns the primal
    outputs and then the derivatives.  ``results`` says for each wanted derivative at which of those it stands, None
    for a zero that no operation would compute.
    """

    graph: Graph
    results: tuple[int | None, ...]


def vjp(graph: Graph, wrt: Sequence[int], live: Sequence[bool] | None = None) -> Joint:
    """The graph (inputs, cotangents of the live outputs) -> (outputs, cotangents of the inputs ``wrt``)."""
    live = [is_inexact(t) for t in graph.out_types] if live is None else live
    builder = Builder(graph.in_types)
    seeds = [
        (value, builder.input(tangent_type(graph.types[value])))
        for value, yes in zip(graph.outputs, live, strict=True)
        if yes
    ]
    outputs, cts = pulled(builder, graph, wrt, seeds)
    positions: dict[int, int] = {}
    for i in wrt:
        if i in cts:
            positions[i] = len(positions)
    return Joint(builder.finish([*outputs, *(cts[i] for i in positions)]), tuple([positions.get(i) for i in wrt]))


def pulled(
    builder: Builder, graph: Graph, wrt: Sequence[int], seeds: Sequence[tuple[int, int]]
) -> tuple[list[int], dict[int, int]]:
    """Write ``graph``, applied to the first inputs of ``builder``, and its pull-back.

    ``seeds`` are values of the graph with their cotangents in the builder.  Returns where the graph's outputs and the
    cotangents of its inputs ``wrt`` (but for zeros) stand.
    """
    walk = forward(builder, graph, builder.inputs[: len(graph.in_types)], wrt, [value for value, _ in seeds])
    return [walk.numbers[i] for i in graph.outputs], backward(walk, seeds)
