"""Preparing a transpose: forward-mode rules are replaced by their functions, and jumps are refused.

Most operations that are not linear are found by their pull-backs, which read the inputs.  Those of functions with
jumps read nothing: their slope is zero, or constant, wherever there is one.  So here a value counts if it depends on
the linear inputs at all, whatever its derivative, and every operation between these and the outputs has to be linear.
"""

from collections.abc import Sequence

from attrs import frozen

from fgrad import errors
from fgrad.graph.foreign import linear_in
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import cond, custom_jvp, custom_vmap, remat, scan, while_
from fgrad.graph.shards import shard_map
from fgrad.jaxcore import is_inexact
from fgrad.passes.dependence import at_node, is_foreign, rule_of
from fgrad.rules.kinds import Zero


@frozen
class _Body:
    """A graph that a region runs on its inputs from ``start`` on.

    After ``consts`` inputs come ``carried`` ones that are its first outputs of the round before.
    """

    graph: Graph
    start: int = 0
    consts: int = 0
    carried: int = 0


#: by region, the parameter with the bodies from which its derivative is made; one not listed answers for itself
_HELD = {scan: "body", cond: "branches", remat: "body", custom_vmap: "call", shard_map: "body"}

#: what jumps although its rule is not ``Zero``: one of two arguments may have a slope, and so have complex numbers
_JUMPS = frozenset({"nextafter", "rem", "sign"})


def _bodies(op: Op) -> list[_Body]:
    if op.primitive not in _HELD:
        return []
    held = op.params[_HELD[op.primitive]]
    if op.primitive is cond:
        return [_Body(branch, 1) for branch in held]
    return [_Body(held, 0, op.params.get("num_consts", 0), op.params.get("num_carry", 0))]


def opened(graph: Graph, linear: Sequence[int]) -> Graph:
    """The graph with rules for forward mode left out where they concern the inputs ``linear``, also the foreign ones.

    A transpose is one of the function itself.  Its tangents may be something else, or the function on tangents again.
    """
    return _opened(graph, dependent_on(graph, linear))


def _opened(graph: Graph, dependent: set[int]) -> Graph:
    builder = Builder(graph.in_types)
    numbers = [*builder.inputs, *(builder.const(const) for const in graph.consts)]
    changed = False
    for node in graph.nodes:
        given = [i in dependent for i in node.inputs]
        args = tuple([numbers[i] for i in node.inputs])
        if any(given) and node.op.primitive is custom_jvp:
            numbers += builder.splice(_opened_body(_Body(node.op.params["call"]), given), args, node.source)
            changed = True
            continue
        op = _opened_op(node.op, given) if any(given) else node.op
        if any(given) and is_foreign(op):
            op = linear_in(op, given)
        first = builder.emit(op, args, node.source)
        numbers += range(first, first + len(op.out_types))
        changed = changed or op is not node.op
    return builder.finish([numbers[i] for i in graph.outputs], builder.inputs) if changed else graph


def _opened_body(body: _Body, given: Sequence[bool]) -> Graph:
    return _opened(body.graph, _body_dependent(body, given))


def _opened_op(op: Op, given: Sequence[bool]) -> Op:
    bodies = _bodies(op)
    graphs = tuple([_opened_body(body, given) for body in bodies])
    if all(graph is body.graph for graph, body in zip(graphs, bodies, strict=True)):
        return op
    held = graphs if op.primitive is cond else graphs[0]
    return intern(op.primitive, {**op.params, _HELD[op.primitive]: held}, op.in_types)


def refuse_jumps(graph: Graph, linear: Sequence[int], outputs: Sequence[int]) -> None:
    """Go through a graph of floating-point numbers that is to be transposed.

    Raises:
      NotLinearError: an operation on the way from the inputs ``linear`` to the ``outputs`` is not linear.
    """
    _reached(graph, dependent_on(graph, linear), [graph.outputs[j] for j in outputs])


def dependent_on(graph: Graph, wrt: Sequence[int]) -> set[int]:
    """The values that depend on the values ``wrt`` at all."""
    dependent = set(wrt)
    for node, outs in graph.numbered():
        if not dependent.isdisjoint(node.inputs):
            moved = _moved(node.op, [i in dependent for i in node.inputs])
            dependent.update([number for number, moves in zip(outs, moved, strict=True) if moves])
    return dependent


def _moved(op: Op, given: Sequence[bool]) -> Sequence[bool]:
    """Which outputs depend on the ``given`` inputs."""
    bodies = _bodies(op)
    if not bodies:
        return [op.name != "zeros_like"] * len(op.out_types)
    key = ("moved", tuple(given))
    if key not in op.derived:
        by_body = [_body_moved(body, given) for body in bodies]
        op.derived[key] = [any(outs) for outs in zip(*by_body, strict=True)]
    return op.derived[key]


def _body_moved(body: _Body, given: Sequence[bool]) -> list[bool]:
    dependent = _body_dependent(body, given)
    return [i in dependent for i in body.graph.outputs]


def _body_dependent(body: _Body, given: Sequence[bool]) -> set[int]:
    """The values of a body that depend on the region's ``given`` inputs, in whichever round."""
    wrt = {i for i, is_given in enumerate(given[body.start :]) if is_given}
    while True:
        dependent = dependent_on(body.graph, sorted(wrt))
        wider = wrt | {body.consts + k for k, out in enumerate(body.graph.outputs[: body.carried]) if out in dependent}
        if wider == wrt:
            return dependent
        wrt = wider


def _reached(graph: Graph, dependent: set[int], live: Sequence[int]) -> set[int]:
    """The dependent values that the values ``live`` are made of, by linear operations.

    Raises:
      NotLinearError: one of the operations is not linear.
    """
    reached = dependent.intersection(live)
    first = len(graph.types)
    for node in reversed(graph.nodes):
        op = node.op
        first -= len(op.out_types)
        wanted = [first + k in reached for k in range(len(op.out_types))]
        if any(wanted):
            at_node(node, _check, op, [i in dependent for i in node.inputs], wanted)
            reached.update([i for i in node.inputs if i in dependent])
    return reached


def _check(op: Op, given: Sequence[bool], wanted: Sequence[bool]) -> None:
    bodies = _bodies(op)
    for body in bodies:
        _check_body(body, given, wanted)
    if bodies:
        return
    if op.primitive is while_:  # the number of steps depends on the inputs, or is not known to be independent of them
        raise errors.reverse_while()
    # what is not inexact cannot be linear in what is
    exact = any(is_wanted and not is_inexact(t) for t, is_wanted in zip(op.out_types, wanted, strict=True))
    if exact or op.name in _JUMPS or isinstance(rule_of(op), Zero):
        raise errors.not_linear(op.name)


def _check_body(body: _Body, given: Sequence[bool], wanted: Sequence[bool]) -> None:
    dependent = _body_dependent(body, given)
    outputs = body.graph.outputs
    live = {k for k, is_wanted in enumerate(wanted) if is_wanted}
    while True:
        reached = _reached(body.graph, dependent, [outputs[k] for k in sorted(live)])
        wider = live | {k for k in range(body.carried) if body.consts + k in reached}
        if wider == live:
            return
        live = wider
