"""Graphs that replace elements of their first input, as what there is to compute and what there is to write.

An indexed assignment, ``index_add`` and their like are such graphs: all but their last operation compute indices and
updates, and that one is a scatter into the first input.  Where its array may be changed, the scatter takes the time of
the updates, and not of a copy of the array.
"""

from attrs import frozen

from fgrad.graph.graph import Builder, Graph
from fgrad.run.kernels.kernel import Places, kernel
from fgrad.run.numpy_program import with_calls_inlined


@frozen(eq=False)
class Replacement:
    """The indices and updates of a scatter from all inputs but the first, and how to write them there."""

    graph: Graph
    places: Places


def replacement(graph: Graph) -> Replacement | None:
    """What a graph replaces in its first input; None for any other graph."""
    graph = with_calls_inlined(graph)
    if not graph.nodes or graph.outputs != (len(graph.types) - 1,):
        return None
    *before, scatter = graph.nodes
    row = kernel(scatter.op)
    if row is None or row.places is None or scatter.inputs[0] != 0 or 0 in scatter.inputs[1:]:
        return None
    if any(0 in node.inputs for node in before):
        return None
    builder = Builder(graph.in_types[1:])
    numbers = [-1, *builder.inputs, *map(builder.const, graph.consts)]
    for node in before:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        numbers += range(first, first + len(node.op.out_types))
    return Replacement(builder.finish([numbers[i] for i in scatter.inputs[1:]]), row.places)
