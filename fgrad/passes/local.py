"""Derivatives of one operation, as small graphs worked out once from its rule and kept with the operation.

A *pull-back* maps (inputs, outputs, cotangents) to input cotangents; a *push-forward* maps (inputs, outputs,
tangents) to output tangents.  The passes splice them in.  Both are recorded from the rule's lax code, so what a
rule reads of inputs and outputs is known: the values that its graph uses.

NOTE [One rule, two modes]
``Elementwise`` scales serve both modes.  ``Linear`` and ``Bilinear`` push forward by applying the primitive itself
to tangents.  A ``General`` rule gives one mode; the other is the transpose of its graph, which is linear in the
(co)tangents: the transpose of a push-forward is a pull-back and the reverse.

NOTE [Integers]
An integer has no derivative, but ``linear_transpose`` also turns round functions from integers to integers.  Such a
walk is known by where it starts, at integer inputs.  In it every value that depends on these counts, whatever its type,
and must be an integer and linear in them: where a derivative would be zero, there is no transpose and an error.

This is one file, and a long one, because a missing mode is the transpose of the given one, and transposing walks
backward over pull-backs: the two halves call each other.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import lax

from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import is_inexact, strong
from fgrad.graph.source import Source, is_hidden
from fgrad.jaxcore import ShapedArray, primitive, varying_axes
from fgrad.passes.dependence import at_node, is_whole, of_integers, rule_of, varied_from
from fgrad.passes.linearity import opened, refuse_jumps
from fgrad.passes.trim import trim
from fgrad.record.recording import stage_closed
from fgrad.rules.kinds import Bilinear, Elementwise, General, Linear, Region, Rule, Undefined, Zero


@frozen(eq=False)
class Local:
    """A pull-back or push-forward: ``graph`` and, for each wanted result, the index of its output or None for zero."""

    graph: Graph
    results: tuple[int | None, ...]


def tangent_type(type: ShapedArray) -> ShapedArray:
    """The type of the (co)tangents of a value of an inexact type; and of an integer that is transposed."""
    return strong(type)


def _is_integer(type: ShapedArray) -> bool:
    return jax.dtypes.issubdtype(type.dtype, np.integer)


def pullback(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Local:
    """Inputs of the graph: the op's inputs, its outputs, the live cotangents.  One result per needed input."""
    key = ("pullback", needs, live)
    found = op.derived.get(key)
    if found is None:
        found = op.derived[key] = _pullback(op, needs, live)
    return found


def pushforward(op: Op, live: tuple[bool, ...]) -> Local:
    """Inputs of the graph: the op's inputs, its outputs, the live tangents.  One result per output."""
    key = ("pushforward", live)
    found = op.derived.get(key)
    if found is None:
        found = op.derived[key] = _pushforward(op, live)
    return found


# --------------------------------------------------------------------------------------------------------------------


def _pullback(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Local:
    rule = rule_of(op)
    if isinstance(rule, Zero):  # met among integers only: no slope, but no linear function either
        raise errors.not_linear(op.name)
    n, m = len(op.in_types), len(op.out_types)
    ct_types = [tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes]
    wanted = [i for i in range(n) if needs[i]]
    exact = of_integers([op.in_types[i] for i in wanted])
    only_forward = isinstance(rule, General) and rule.vjp is None
    if exact and (only_forward or not all(map(_is_integer, ct_types))):
        raise errors.not_linear(op.name)

    if only_forward:
        forward = pushforward(op, tuple(needs))
        return _transposed_push(op, forward, wanted, live)

    def function(*flat: Any) -> list[Any]:
        ins, outs, cts = flat[:n], flat[n : n + m], list(flat[n + m :])
        found = _apply_vjp(op, rule, wanted, ins, outs, cts, live)
        if exact and any(found[i] is None for i in wanted):
            raise errors.not_linear(op.name)
        return [found[i] for i in wanted]

    return recorded(
        function, [*op.in_types, *op.out_types, *ct_types], [tangent_type(op.in_types[i]) for i in wanted], op
    )


def _apply_vjp(
    op: Op,
    rule: Rule,
    wanted: Sequence[int],
    ins: Sequence[Any],
    outs: Sequence[Any],
    live_cts: Sequence[Any],
    live: Sequence[bool],
) -> dict[int, Any]:
    exact = of_integers([op.in_types[i] for i in wanted])
    cts = _spread(live_cts, live, op.out_types, exact)
    multiple = op.primitive.multiple_results
    ct = tuple(cts) if multiple else cts[0]
    out = tuple(outs) if multiple else outs[0]
    match rule:
        case Elementwise(scales):
            scales = _per_argument(scales, len(ins))
            return {
                i: None if scales[i] is None else _unbroadcast(scales[i](ct, out, *ins, **op.params), ins[i])
                for i in wanted
            }
        case Linear(transpose):
            found = _as_tuple(transpose(ct, *ins, **op.params), len(ins))
            linear = range(len(ins)) if exact else linear_args(rule, op)
            return {i: found[i] if i in linear else None for i in wanted}
        case Bilinear(lhs, rhs):
            return {i: (lhs, rhs)[i](ct, ins[0], ins[1], **op.params) if i < 2 else None for i in wanted}
        case General(vjp) if vjp is not None:
            found = _as_tuple(vjp(ct, out, *ins, **op.params), len(ins))
            return {i: found[i] for i in wanted}
        case Undefined(reason):
            raise errors.undefined(op.name, reason)
        case _:
            return dict.fromkeys(wanted)


def _pushforward(op: Op, live: tuple[bool, ...]) -> Local:
    rule = rule_of(op)
    n, m = len(op.in_types), len(op.out_types)
    varied = [i for i in range(n) if live[i]]
    t_types = [tangent_type(op.in_types[i]) for i in varied]
    inexact_out = tuple([is_inexact(t) for t in op.out_types])

    if isinstance(rule, General) and rule.jvp is None:
        return _transposed_pull(op, pullback(op, live, inexact_out), varied, inexact_out)

    def function(*flat: Any) -> list[Any]:
        ins, outs, tangents = flat[:n], flat[n : n + m], flat[n + m :]
        found = _apply_jvp(op, rule, varied, ins, outs, tangents)
        return [t if yes else None for t, yes in zip(found, inexact_out, strict=True)]

    return recorded(function, [*op.in_types, *op.out_types, *t_types], [tangent_type(t) for t in op.out_types], op)


def _apply_jvp(
    op: Op, rule: Rule, varied: Sequence[int], ins: Sequence[Any], outs: Sequence[Any], tangents: Sequence[Any]
) -> Sequence[Any]:
    by_arg = dict(zip(varied, tangents, strict=True))
    multiple = op.primitive.multiple_results
    out = tuple(outs) if multiple else outs[0]
    match rule:
        case Elementwise(scales):
            scales = _per_argument(scales, len(ins))
            shape = op.out_types[0].shape
            terms = [
                scales[i](_broadcast(t, shape), out, *ins, **op.params)
                for i, t in by_arg.items()
                if scales[i] is not None
            ]
            return [_total(terms)]
        case Linear():
            linear = linear_args(rule, op)
            if not any(i in linear for i in varied):
                return [None] * len(outs)
            args = [by_arg.get(i, _zeros(x)) if i in linear else x for i, x in enumerate(ins)]
            found = op.primitive.bind(*args, **op.params)
            return found if multiple else [found]
        case Bilinear():
            terms = []
            for i, t in by_arg.items():
                if i < 2:
                    args = list(ins)
                    args[i] = t
                    terms.append(op.primitive.bind(*args, **op.params))
            return [_total(terms)]
        case General(_, jvp) if jvp is not None:
            tangents = tuple([by_arg.get(i) for i in range(len(ins))])
            found = jvp(tangents, out, *ins, **op.params)
            return found if multiple else [found]
        case Undefined(reason):
            raise errors.undefined(op.name, reason)
        case _:
            return [None] * len(outs)


def linear_args(rule: Linear, op: Op) -> Sequence[int]:
    """The positions in which a linear primitive is linear."""
    if rule.args is not None:
        return rule.args
    return [i for i, t in enumerate(op.in_types) if is_inexact(t)]


def _per_argument(scales: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return scales if len(scales) >= n else (*scales, *[None] * (n - len(scales)))


def _as_tuple(found: Any, n: int) -> Sequence[Any]:
    if isinstance(found, tuple | list):
        return [*found, *[None] * (n - len(found))]
    return [found, *[None] * (n - 1)]


def _total(terms: Sequence[Any]) -> Any:
    terms = [t for t in terms if t is not None]
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = lax.add(total, term)
    return total


def _zeros(x: Any) -> Any:
    return _zeros_of(tangent_type(x.aval))


def _zeros_of(type: ShapedArray) -> Any:
    found = lax.full(type.shape, 0, type.dtype)
    axes = varying_axes(type)
    return lax.pcast(found, axes, to="varying") if axes else found


def _spread(live_cts: Sequence[Any], live: Sequence[bool], types: Sequence[ShapedArray], exact: bool) -> list[Any]:
    found = iter(live_cts)
    return [
        next(found) if yes else _zeros_of(t) if exact or is_inexact(t) else None
        for yes, t in zip(live, types, strict=True)
    ]


def _broadcast(t: Any, shape: tuple[int, ...]) -> Any:
    return (
        t
        if t.shape == shape
        else lax.broadcast(t, shape)
        if t.ndim == 0
        else lax.broadcast_in_dim(t, shape, range(t.ndim))
    )


def _unbroadcast(ct: Any, x: Any) -> Any:
    if ct is None or ct.shape == x.shape:
        return ct
    if x.ndim == 0:
        return _sum(ct, tuple(range(ct.ndim)))
    axes = tuple([i for i, (a, b) in enumerate(zip(ct.shape, x.shape, strict=True)) if a != b])
    return lax.reshape(_sum(ct, axes), x.shape)


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return lax.reduce_sum(x, axes)


def recorded(
    function: Callable[..., list[Any]],
    in_types: Sequence[ShapedArray],
    expected: Sequence[ShapedArray],
    op: Op,
) -> Local:
    """Stage a rule; its ``None`` results become symbolic zeros, its other results are checked against ``expected``."""
    results: list[int | None] = []

    def values(*flat: Any) -> list[Any]:
        found = []
        for value, type in zip(function(*flat), expected, strict=True):
            if value is None:
                results.append(None)
                continue
            if value.shape != type.shape or value.dtype != type.dtype:
                raise _bad_rule(op, value.aval.str_short(), type.str_short())
            results.append(len(found))
            found.append(value)
        return found

    graph = stage_closed(values, in_types)
    return Local(graph, tuple(results))


def _bad_rule(op: Op, got: str, expected: str) -> Exception:
    """The error of a rule that returns another type; with its line if it is the user's."""
    error = errors.bad_rule(op.name, got, expected)
    rule = rule_of(op)
    for kind in ("vjp", "jvp", "transpose"):
        function = inspect.unwrap(getattr(rule, kind, None) or _bad_rule)
        code = getattr(function, "__code__", None)
        if code is not None and not is_hidden(code):
            errors.in_rule(error, kind, op.name, function)
    return error


def _transposed_push(op: Op, forward: Local, wanted: Sequence[int], live: tuple[bool, ...]) -> Local:
    """The pull-back that is the transpose of a push-forward."""
    n, m = len(op.in_types), len(op.out_types)
    base = n + m
    outs = [(k, j) for k, j in enumerate(forward.results) if live[k] and j is not None]
    linear = list(range(base, base + len(wanted)))
    graph, results = transpose(forward.graph, linear, [j for _, j in outs])
    # its inputs are (ins, outs, cotangents of the chosen outputs); lay them out over all live cotangents
    ct_types = [tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes]
    builder = Builder([*op.in_types, *op.out_types, *ct_types])
    position = {k: base + i for i, k in enumerate([k for k in range(m) if live[k]])}
    found = builder.splice(graph, [*builder.inputs[:base], *(position[k] for k, _ in outs)])
    return Local(builder.finish(found), results)


def _transposed_pull(op: Op, back: Local, varied: Sequence[int], live_outs: Sequence[bool]) -> Local:
    """The push-forward that is the transpose of a pull-back."""
    n, m = len(op.in_types), len(op.out_types)
    base = n + m
    ins = [(k, j) for k, j in enumerate(back.results) if j is not None]
    outs = [k for k in range(m) if live_outs[k]]
    linear = list(range(base, base + len(outs)))
    graph, results = transpose(back.graph, linear, [j for _, j in ins])
    t_types = [tangent_type(op.in_types[i]) for i in varied]
    builder = Builder([*op.in_types, *op.out_types, *t_types])
    found = builder.splice(graph, [*builder.inputs[:base], *(base + k for k, _ in ins)])
    by_out = dict(zip(outs, results, strict=True))
    return Local(builder.finish(found), tuple([by_out.get(k) for k in range(m)]))


# --------------------------------------------------------------------------------------------------------------------
# regions


@frozen(eq=False)
class Adjoint:
    """Reverse mode of a region: ``forward`` maps inputs to (outputs, residuals); ``backward`` maps (inputs, outputs,
    residuals, live cotangents) to input cotangents, placed as ``results`` says."""

    forward: Graph
    backward: Graph
    results: tuple[int | None, ...]


def adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    key = ("adjoint", needs, live)
    found = op.derived.get(key)
    if found is None:
        rule = rule_of(op)
        assert isinstance(rule, Region)
        found = op.derived[key] = rule.adjoint(op, needs, live)
    return found


def tangents(op: Op, live: tuple[bool, ...]) -> Local:
    """Forward mode of a region: (inputs, live tangents) to (outputs, tangents); results count from the tangents on."""
    key = ("tangents", live)
    found = op.derived.get(key)
    if found is None:
        rule = rule_of(op)
        assert isinstance(rule, Region)
        found = op.derived[key] = rule.tangents(op, live)
    return found


# --------------------------------------------------------------------------------------------------------------------
# the two walks of reverse mode


@frozen(eq=False)
class Walk:
    """A forward walk done: where each value stands in the builder, which vary, and the regions' residuals by node."""

    builder: Builder
    graph: Graph
    numbers: list[int]
    varied: set[int]
    regions: dict[int, tuple[Adjoint, tuple[bool, ...], list[int]]]


def forward(
    builder: Builder,
    graph: Graph,
    inputs: Sequence[int],
    wrt: Sequence[int],
    live: Sequence[int],
) -> Walk:
    """Copy ``graph`` into ``builder``, regions in the form that keeps residuals, ready for ``backward``.

    ``live`` are the values that will be given cotangents.
    """
    varied = varied_from(graph, wrt)
    reached = varied.intersection(live)
    first = len(graph.types)
    for node in reversed(graph.nodes):
        count = len(node.op.out_types)
        first -= count
        if not reached.isdisjoint(range(first, first + count)):
            reached.update([i for i in node.inputs if i in varied])
    numbers = [*inputs, *(builder.const(const) for const in graph.consts)]
    regions: dict[int, tuple[Adjoint, tuple[bool, ...], list[int]]] = {}
    for at, node in enumerate(graph.nodes):
        op = node.op
        args = tuple([numbers[i] for i in node.inputs])
        number, count = len(numbers), len(op.out_types)
        if is_whole(op) and any(number + k in reached for k in range(count)):
            needs = tuple([i in varied for i in node.inputs])
            may = tuple([number + k in reached for k in range(count)])
            found = at_node(node, adjoint, op, needs, may)
            outs = builder.splice(found.forward, args, node.source)
            numbers += outs[:count]
            regions[at] = (found, may, outs[count:])
        else:
            first = builder.emit(op, args, node.source)
            numbers += range(first, first + count)
    return Walk(builder, graph, numbers, varied, regions)


def backward(walk: Walk, cts: dict[int, int]) -> dict[int, int]:
    """Walk from the last node to the first, emitting pull-backs.

    ``cts`` maps the graph's values to their cotangents in the builder; it is completed and returned.
    """
    builder, graph, numbers, varied = walk.builder, walk.graph, walk.numbers, walk.varied
    first = len(graph.types)
    sources: dict[tuple[int, str], Source] = {}
    for at in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[at]
        op = node.op
        count = len(op.out_types)
        first -= count
        live = tuple([first + k in cts and first + k in varied for k in range(count)])
        if True not in live:
            continue
        needs = tuple([i in varied for i in node.inputs])
        source = node.source
        if source is not None:
            # one object for all the rounds of a loop
            key = (id(source), op.name)
            source = sources[key] = sources.get(key) or source.derivative_of(op.name)
        args = [numbers[i] for i in node.inputs]
        args += numbers[first : first + count]
        if at in walk.regions:
            # the region was prepared for every output that might get a cotangent
            found, may, residuals = walk.regions[at]
            args += residuals
            args += [
                cts[first + k] if live[k] else zeros(builder, tangent_type(op.out_types[k]))
                for k in range(count)
                if may[k]
            ]
            graph_of, results = found.backward, found.results
        else:
            local = at_node(node, pullback, op, needs, live)
            args += [cts[first + k] for k in range(count) if live[k]]
            graph_of, results = local.graph, local.results
        outs = builder.splice(graph_of, args, source)
        wanted = [i for i in node.inputs if i in varied]
        for i, result in zip(wanted, results, strict=True):
            if result is None:
                continue
            held = cts.get(i)
            cts[i] = outs[result] if held is None else add(builder, held, outs[result], source)
    return cts


def add(builder: Builder, a: int, b: int, source: Any = None) -> int:
    """Emit the sum of two (co)tangents."""
    op = intern(primitive("add_any"), {}, (builder.types[a], builder.types[b]))
    return builder.emit(op, (a, b), source)


def zeros(builder: Builder, type: ShapedArray) -> int:
    """Emit zeros of a type."""
    return filled(builder, 0, type)


def filled(builder: Builder, value: float, type: ShapedArray) -> int:
    """Emit one number everywhere, as a value of a type."""
    number = builder.const(Const(np.full((), value, type.dtype), ShapedArray((), type.dtype)))
    if type.shape:
        params = {"shape": type.shape, "broadcast_dimensions": (), "sharding": None}
        number = builder.emit(intern(primitive("broadcast_in_dim"), params, (builder.types[number],)), (number,))
    if axes := varying_axes(type):  # among the parts of a shard_map
        vary = stage_closed(lambda x: [lax.pcast(x, axes, to="varying")], [builder.types[number]])
        (number,) = builder.splice(vary, [number])
    return number


def transpose(graph: Graph, linear: Sequence[int], outputs: Sequence[int]) -> tuple[Graph, tuple[int | None, ...]]:
    """The transpose of ``graph`` in the inputs numbered ``linear``, for the outputs at positions ``outputs``.

    The new graph's inputs are the other inputs in order, then one cotangent per output; with it, for each linear
    input, the index of its output there, or None for zero.

    Raises:
      NotLinearError: the graph is not linear in those inputs.
    """
    graph = opened(graph, linear)
    if not of_integers([graph.in_types[i] for i in linear]):
        refuse_jumps(graph, linear, outputs)
    held = [i for i in range(len(graph.in_types)) if i not in set(linear)]
    # the linear inputs get places too, so that a pull-back may name them (for their shapes); reading one is an error
    builder = Builder(graph.in_types)
    walk = forward(builder, graph, builder.inputs[:], linear, [graph.outputs[j] for j in outputs])
    cts: dict[int, int] = {}
    ct_inputs = []
    for j in outputs:
        value = graph.outputs[j]
        ct = builder.input(tangent_type(graph.types[value]))
        ct_inputs.append(ct)
        if value in walk.varied:
            cts[value] = add(builder, cts[value], ct) if value in cts else ct
    cts = backward(walk, cts)
    found = [i for i in linear if i in cts]
    full = trim(builder.finish([cts[i] for i in found]))
    read = {i for node in full.nodes for i in node.inputs} | set(full.outputs)
    if any(i in read for i in linear):
        guilty = next(node for node in full.nodes if any(i in linear for i in node.inputs))
        of = guilty.source.of if guilty.source is not None else None
        raise errors.not_linear(of or guilty.op.name)
    rest = Builder([full.in_types[i] for i in (*held, *range(len(graph.in_types), len(full.in_types)))])
    place = dict(zip([*held, *range(len(graph.in_types), len(full.in_types))], rest.inputs, strict=True))
    # an unread input needs some number of its type; it is dropped again
    spare = {i: rest.input(full.in_types[i]) for i in linear}
    outs = rest.splice(full, [place[i] if i in place else spare[i] for i in range(len(full.in_types))])
    at = {i: k for k, i in enumerate(found)}
    return rest.finish(outs, list(place.values())), tuple([at.get(i) for i in linear])
