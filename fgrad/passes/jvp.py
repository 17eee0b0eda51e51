"""Forward mode: a graph to the graph of its values and its Jacobian-vector product."""

from collections.abc import Sequence

from fgrad.graph.graph import Builder, Graph, applied, graphs_of
from fgrad.graph.op import Op
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import at_node, is_differentiated_jointly, is_zero
from fgrad.passes.local import tangent_type
from fgrad.passes.trim import trim, without_inputs
from fgrad.passes.vjp import Joint, pushforward, tangents as region_tangents


def jvp(graph: Graph, wrt: Sequence[int]) -> Joint:
    """The graph (inputs, tangents of the inputs ``wrt``) -> (outputs, tangents of the outputs that vary)."""
    builder = Builder(graph.in_types)
    tangents: dict[int, int] = {}
    for i in wrt:
        tangents[i] = builder.input(tangent_type(graph.in_types[i]))
    numbers = list(builder.inputs[: len(graph.in_types)]) + [builder.const(c) for c in graph.consts]
    for node in graph.nodes:
        op = node.op
        args = [numbers[i] for i in node.inputs]
        live = [tangents[i] for i in node.inputs if i in tangents]
        if live and at_node(node, is_zero, op):
            live = []
        start = len(numbers)
        if live and is_differentiated_jointly(op):
            local = at_node(node, region_tangents, op, tuple([i in tangents for i in node.inputs]))
            outs = builder.splice(local.graph, [*args, *live], node.source)
            count = len(op.out_types)
            numbers += outs[:count]
            derivatives = outs[count:]
        else:
            first = builder.emit(op, tuple(args), node.source)
            numbers += range(first, first + len(op.out_types))
            if not live:
                continue
            local = at_node(node, pushforward, op, tuple([i in tangents for i in node.inputs]))
            source = node.source and node.source.derivative_of(op.name)
            derivatives = builder.splice(local.graph, [*args, *numbers[start:], *live], source)
        for k, result in enumerate(local.results):
            if result is not None and is_inexact(op.out_types[k]):
                tangents[start + k] = derivatives[result]
    outs: list[int] = []
    results: list[int | None] = []
    for value in graph.outputs:
        results.append(len(outs) if value in tangents else None)
        if value in tangents:
            outs.append(tangents[value])
    return Joint(builder.finish([*(numbers[i] for i in graph.outputs), *outs]), tuple(results))


def values_by_rules(op: Op, live: tuple[bool, ...]) -> Graph:
    """The results of an operation whose ``live`` inputs are differentiated: by forward rules where it has these."""
    key = ("values", live)
    values = op.derived.get(key)
    if values is None:
        graph = applied(op)
        if _calls_rules(op):
            n, m = len(op.in_types), len(op.out_types)
            full = jvp(graph, [i for i, is_live in enumerate(live) if is_live]).graph
            builder = Builder(full.in_types)
            graph = trim(builder.finish(builder.splice(full, builder.inputs)[:m]))
            graph = without_inputs(graph, [i < n for i in range(len(full.in_types))])
        values = op.derived[key] = graph
    return values


def _calls_rules(op: Op) -> bool:
    """Whether an operation is, or has in it, a call of a function with a custom rule."""
    return "rule" in op.params or any(_calls_rules(node.op) for graph in graphs_of(op) for node in graph.nodes)
