"""Preparing a transpose: drop forward-mode rules, and refuse functions with jumps.

The pull-back of a nonlinear operation usually reads its inputs, which gives it away.  That of a function with jumps
reads nothing: its slope is zero or constant wherever there is one.  So here a value is *dependent* if it depends on
the linear inputs at all, whatever its derivative, and each operation between them and the outputs must be linear.
"""

from collections.abc import Sequence

from attrs import frozen

from fgrad import errors
from fgrad.graph.foreign import linear_in
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import cond, custom_jvp, custom_vmap, remat, scan, while_
from fgrad.graph.shards import shard_map
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import at_node, is_foreign, rule_of
from fgrad.rules.kinds import Zero


@frozen
class _Body:
    """A graph that a region runs on its inputs from ``start`` on.

    Its inputs are ``consts`` constants, then ``carried`` values, which are also its first outputs, then the rest.
    """

    graph: Graph
    start: int = 0
    consts: int = 0
    carried: int = 0


#: by region, the parameter with the bodies that are differentiated; regions not listed count as plain operations
_BODY_PARAMS = {scan: "body", cond: "branches", remat: "body", custom_vmap: "call", shard_map: "body"}

#: functions with jumps whose rule is not ``Zero``: some have a slope in the other argument, or for complex numbers
_JUMPS = frozenset({"nextafter", "rem", "sign"})


def _bodies(op: Op) -> list[_Body]:
    if op.primitive not in _BODY_PARAMS:
        return []
    param = op.params[_BODY_PARAMS[op.primitive]]
    if op.primitive is cond:
        return [_Body(branch, 1) for branch in param]
    return [_Body(param, 0, op.params.get("num_consts", 0), op.params.get("num_carry", 0))]


def without_jvp_rules(graph: Graph, linear: Sequence[int]) -> Graph:
    """The graph without forward-mode rules, foreign ones included, of what depends on the inputs ``linear``.

    A transpose is that of the function itself, which a custom rule need not agree with.
    """
    return _without_jvp_rules(graph, dependent_on(graph, linear))


def _without_jvp_rules(graph: Graph, dependent: set[int]) -> Graph:
    builder = Builder(graph.in_types)
    numbers = [*builder.inputs, *(builder.const(const) for const in graph.consts)]
    changed = False
    for node in graph.nodes:
        dependent_in = [i in dependent for i in node.inputs]
        args = tuple([numbers[i] for i in node.inputs])
        op = node.op
        if any(dependent_in):
            if op.primitive is custom_jvp:
                function = _body_without_jvp_rules(_Body(op.params["call"]), dependent_in)
                numbers += builder.splice(function, args, node.source)
                changed = True
                continue
            op = _op_without_jvp_rules(op, dependent_in)
            if is_foreign(op):
                op = linear_in(op, dependent_in)
        first = builder.emit(op, args, node.source)
        numbers += range(first, first + len(op.out_types))
        changed = changed or op is not node.op
    return builder.finish([numbers[i] for i in graph.outputs], builder.inputs) if changed else graph


def _body_without_jvp_rules(body: _Body, dependent_in: Sequence[bool]) -> Graph:
    return _without_jvp_rules(body.graph, _dependent_in_body(body, dependent_in))


def _op_without_jvp_rules(op: Op, dependent_in: Sequence[bool]) -> Op:
    bodies = _bodies(op)
    graphs = tuple([_body_without_jvp_rules(body, dependent_in) for body in bodies])
    if all(graph is body.graph for graph, body in zip(graphs, bodies, strict=True)):
        return op
    param = graphs if op.primitive is cond else graphs[0]
    return intern(op.primitive, {**op.params, _BODY_PARAMS[op.primitive]: param}, op.in_types)


def refuse_jumps(graph: Graph, linear: Sequence[int], outputs: Sequence[int]) -> None:
    """Check a graph of floating-point numbers that is to be transposed.

    Raises:
      NotLinearError: an operation on the way from the inputs ``linear`` to the ``outputs`` is not linear.
    """
    _require_linear(graph, dependent_on(graph, linear), [graph.outputs[j] for j in outputs])


def dependent_on(graph: Graph, wrt: Sequence[int]) -> set[int]:
    """The values that depend on the values ``wrt`` at all."""
    dependent = set(wrt)
    for node, outs in graph.numbered():
        if not dependent.isdisjoint(node.inputs):
            dependent_out = _dependent_outputs(node.op, [i in dependent for i in node.inputs])
            dependent.update([number for number, is_dependent in zip(outs, dependent_out, strict=True) if is_dependent])
    return dependent


def _dependent_outputs(op: Op, dependent_in: Sequence[bool]) -> Sequence[bool]:
    bodies = _bodies(op)
    if not bodies:
        return [op.name != "zeros_like"] * len(op.out_types)
    key = ("dependent outputs", tuple(dependent_in))
    if key not in op.derived:
        by_body = [_dependent_body_outputs(body, dependent_in) for body in bodies]
        op.derived[key] = [any(outs) for outs in zip(*by_body, strict=True)]
    return op.derived[key]


def _dependent_body_outputs(body: _Body, dependent_in: Sequence[bool]) -> list[bool]:
    dependent = _dependent_in_body(body, dependent_in)
    return [i in dependent for i in body.graph.outputs]


def _dependent_in_body(body: _Body, dependent_in: Sequence[bool]) -> set[int]:
    """The values of a body that depend, in some iteration, on the dependent inputs of its region."""
    wrt = {i for i, is_dependent in enumerate(dependent_in[body.start :]) if is_dependent}
    while True:
        dependent = dependent_on(body.graph, sorted(wrt))
        wider = wrt | {body.consts + k for k, out in enumerate(body.graph.outputs[: body.carried]) if out in dependent}
        if wider == wrt:
            return dependent
        wrt = wider


def _require_linear(graph: Graph, dependent: set[int], live: Sequence[int]) -> set[int]:
    """The dependent values from which the values ``live`` are computed.

    Raises:
      NotLinearError: an operation between them is not linear.
    """
    reached = dependent.intersection(live)
    first = len(graph.types)
    for node in reversed(graph.nodes):
        op = node.op
        first -= len(op.out_types)
        live_out = [first + k in reached for k in range(len(op.out_types))]
        if any(live_out):
            at_node(node, _require_linear_op, op, [i in dependent for i in node.inputs], live_out)
            reached.update([i for i in node.inputs if i in dependent])
    return reached


def _require_linear_op(op: Op, dependent_in: Sequence[bool], live_out: Sequence[bool]) -> None:
    bodies = _bodies(op)
    for body in bodies:
        _require_linear_body(body, dependent_in, live_out)
    if bodies:
        return
    if op.primitive is while_:  # the number of steps may depend on the inputs
        raise errors.reverse_while()
    # an integer result is not linear in inexact inputs
    exact = any(is_live and not is_inexact(t) for t, is_live in zip(op.out_types, live_out, strict=True))
    if exact or op.name in _JUMPS or isinstance(rule_of(op), Zero):
        raise errors.not_linear(op.name)


def _require_linear_body(body: _Body, dependent_in: Sequence[bool], live_out: Sequence[bool]) -> None:
    dependent = _dependent_in_body(body, dependent_in)
    outputs = body.graph.outputs
    live = {k for k, is_live in enumerate(live_out) if is_live}
    while True:
        reached = _require_linear(body.graph, dependent, [outputs[k] for k in sorted(live)])
        wider = live | {k for k in range(body.carried) if body.consts + k in reached}
        if wider == live:
            return
        live = wider
