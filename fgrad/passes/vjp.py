"""Reverse mode: a graph to the graph of its values and its vector-Jacobian product.

Two walks over the nodes, forward and backward, splice in the derivatives of operations.  The pull-back and the
push-forward of an operation are derived from its rule when first needed, and cached with the operation.

NOTE [One rule, two modes]
``Elementwise`` scales serve both modes.  ``Linear`` and ``Bilinear`` push forward by applying the primitive itself
to tangents.  A ``General`` rule gives one mode; the other is the transpose of its graph, which is linear in the
(co)tangents: the transpose of a push-forward is a pull-back and the reverse.  So both halves stand in one file:
a pull-back may be a transpose, and transposing is a walk that splices in pull-backs.

NOTE [Integers]
An integer has no derivative, but ``linear_transpose`` also transposes functions from integers to integers.  A walk
that starts at integer inputs is such a transpose.  Every value that depends on these must be an integer and linear in
them; where a derivative would be zero, it is an error.

NOTE [Rules called with zeros]
The backward rule of a ``custom_vjp`` need not be linear: that of flax's 8-bit operations returns a new scale, whatever
the cotangents are.  So JAX calls it even if what uses the results has a rule that returns no cotangent for them
(None); with zeros.  It is not called if the results are not used, or cut off by ``stop_gradient``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op
from fgrad.graph.regions import custom_vjp
from fgrad.graph.source import Source
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import at_node, is_differentiated_jointly, of_integers, rule_of, varied_from
from fgrad.passes.linearity import refuse_jumps, without_jvp_rules
from fgrad.passes.local import Adjoint, Local, add, apply_jvp, apply_vjp, recorded, tangent_type, zeros
from fgrad.passes.trim import trim, without_inputs
from fgrad.rules.kinds import General, OfComplex, Region, Zero


@frozen(eq=False)
class Joint:
    """A graph and its derivative in one.

    ``graph`` takes the primal inputs and then one (co)tangent per live output (or input); it returns the primal
    outputs and then the derivatives.  ``results`` has, for each wanted derivative, its index among those, or None for
    a symbolic zero.
    """

    graph: Graph
    results: tuple[int | None, ...]


def vjp(graph: Graph, wrt: Sequence[int], live: Sequence[bool] | None = None) -> Joint:
    """The graph (inputs, cotangents of the live outputs) -> (outputs, cotangents of the inputs ``wrt``)."""
    live = [is_inexact(t) for t in graph.out_types] if live is None else live
    builder = Builder(graph.in_types)
    seeds = [
        (value, builder.input(tangent_type(graph.types[value])))
        for value, is_live in zip(graph.outputs, live, strict=True)
        if is_live
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
    """Emit ``graph``, applied to the first inputs of ``builder``, and its pull-back.

    ``seeds`` are values of the graph with their cotangents in the builder.  Returns the numbers in the builder of the
    graph's outputs, and of the cotangents of its values that are not zero.
    """
    walk = forward(builder, graph, builder.inputs[: len(graph.in_types)], wrt, [value for value, _ in seeds])
    return [walk.numbers[i] for i in graph.outputs], backward(walk, seeds)


# --------------------------------------------------------------------------------------------------------------------
# derivatives of one operation


def pullback(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Local:
    """Inputs of the graph: the op's inputs, its outputs, the live cotangents.  One result per needed input."""
    key = ("pullback", needs, live)
    local = op.derived.get(key)
    if local is None:
        local = op.derived[key] = _pullback(op, needs, live)
    return local


def pushforward(op: Op, live: tuple[bool, ...]) -> Local:
    """Inputs of the graph: the op's inputs, its outputs, the live tangents.  One result per output."""
    key = ("pushforward", live)
    local = op.derived.get(key)
    if local is None:
        local = op.derived[key] = _pushforward(op, live)
    return local


def _is_integer(type: ShapedArray) -> bool:
    return jax.dtypes.issubdtype(type.dtype, np.integer)


def _pullback(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Local:
    rule = rule_of(op)
    if isinstance(rule, Zero):  # reached for integers only: such a function is not linear
        raise errors.not_linear(op.name)
    n, m = len(op.in_types), len(op.out_types)
    ct_types = [tangent_type(t) for t, is_live in zip(op.out_types, live, strict=True) if is_live]
    wanted = [i for i in range(n) if needs[i]]
    exact = of_integers([op.in_types[i] for i in wanted])
    only_forward = isinstance(rule, General) and rule.vjp is None
    if exact and (only_forward or isinstance(rule, OfComplex) or not all(map(_is_integer, ct_types))):
        raise errors.not_linear(op.name)

    if only_forward:
        forward = pushforward(op, tuple(needs))
        return _transposed_pushforward(op, forward, wanted, live)

    def function(*flat: Any) -> list[Any]:
        ins, outs, cts = flat[:n], flat[n : n + m], list(flat[n + m :])
        cotangents = apply_vjp(op, rule, wanted, ins, outs, cts, live)
        if exact and any(cotangents[i] is None for i in wanted):
            raise errors.not_linear(op.name)
        return [cotangents[i] for i in wanted]

    return recorded(
        function, [*op.in_types, *op.out_types, *ct_types], [tangent_type(op.in_types[i]) for i in wanted], op
    )


def _pushforward(op: Op, live: tuple[bool, ...]) -> Local:
    rule = rule_of(op)
    n, m = len(op.in_types), len(op.out_types)
    varied = [i for i in range(n) if live[i]]
    t_types = [tangent_type(op.in_types[i]) for i in varied]
    inexact_out = tuple([is_inexact(t) for t in op.out_types])

    if isinstance(rule, General) and rule.jvp is None:
        return _transposed_pullback(op, pullback(op, live, inexact_out), varied, inexact_out)

    def function(*flat: Any) -> list[Any]:
        ins, outs, tangents = flat[:n], flat[n : n + m], flat[n + m :]
        tangents_out = apply_jvp(op, rule, varied, ins, outs, tangents)
        return [t if differentiable else None for t, differentiable in zip(tangents_out, inexact_out, strict=True)]

    return recorded(function, [*op.in_types, *op.out_types, *t_types], [tangent_type(t) for t in op.out_types], op)


def _transposed_pushforward(op: Op, forward: Local, wanted: Sequence[int], live: tuple[bool, ...]) -> Local:
    """The pull-back that is the transpose of a push-forward."""
    n, m = len(op.in_types), len(op.out_types)
    base = n + m
    outs = [(k, j) for k, j in enumerate(forward.results) if live[k] and j is not None]
    linear = list(range(base, base + len(wanted)))
    graph, results = transpose(forward.graph, linear, [j for _, j in outs])
    # the inputs of ``graph`` are ins, outs and the cotangents of ``outs`` alone; here there is one per live output
    ct_types = [tangent_type(t) for t, is_live in zip(op.out_types, live, strict=True) if is_live]
    builder = Builder([*op.in_types, *op.out_types, *ct_types])
    position = {k: base + i for i, k in enumerate([k for k in range(m) if live[k]])}
    outputs = builder.splice(graph, [*builder.inputs[:base], *(position[k] for k, _ in outs)])
    return Local(builder.finish(outputs), results)


def _transposed_pullback(op: Op, pulled: Local, varied: Sequence[int], live_outs: Sequence[bool]) -> Local:
    """The push-forward that is the transpose of a pull-back."""
    n, m = len(op.in_types), len(op.out_types)
    base = n + m
    ins = [(k, j) for k, j in enumerate(pulled.results) if j is not None]
    outs = [k for k in range(m) if live_outs[k]]
    linear = list(range(base, base + len(outs)))
    graph, results = transpose(pulled.graph, linear, [j for _, j in ins])
    t_types = [tangent_type(op.in_types[i]) for i in varied]
    builder = Builder([*op.in_types, *op.out_types, *t_types])
    outputs = builder.splice(graph, [*builder.inputs[:base], *(base + k for k, _ in ins)])
    by_out = dict(zip(outs, results, strict=True))
    return Local(builder.finish(outputs), tuple([by_out.get(k) for k in range(m)]))


def adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    key = ("adjoint", needs, live)
    derivative = op.derived.get(key)
    if derivative is None:
        rule = rule_of(op)
        assert isinstance(rule, Region)
        derivative = op.derived[key] = rule.adjoint(op, needs, live)
    return derivative


def tangents(op: Op, live: tuple[bool, ...]) -> Local:
    """Forward mode of a region: (inputs, live tangents) to (outputs, tangents); results count from the tangents on."""
    key = ("tangents", live)
    local = op.derived.get(key)
    if local is None:
        rule = rule_of(op)
        assert isinstance(rule, Region)
        local = op.derived[key] = rule.tangents(op, live)
    return local


# --------------------------------------------------------------------------------------------------------------------
# the walks


@frozen(eq=False)
class Walk:
    """A forward walk: the number of each value in the builder, the values that vary, and regions' residuals by node.

    ``by_zeros`` are the nodes whose rules are called with zeros alone: NOTE [Rules called with zeros].
    """

    builder: Builder
    graph: Graph
    numbers: list[int]
    varied: set[int]
    regions: dict[int, tuple[Adjoint, tuple[bool, ...], list[int]]]
    by_zeros: set[int]


def forward(
    builder: Builder,
    graph: Graph,
    inputs: Sequence[int],
    wrt: Sequence[int],
    live: Sequence[int],
) -> Walk:
    """Copy ``graph`` into ``builder``, with regions in the form that returns residuals, for ``backward``.

    ``live`` are the values that will get cotangents.
    """
    varied = varied_from(graph, wrt)
    reached = varied.intersection(live)
    adjoints: dict[int, tuple[Adjoint, tuple[bool, ...]]] = {}
    without_cotangent: set[int] = set()
    by_zeros: set[int] = set()
    first = len(graph.types)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        count = len(node.op.out_types)
        first -= count
        wanted = [i for i in node.inputs if i in varied]
        if reached.isdisjoint(range(first, first + count)):
            if without_cotangent.isdisjoint(range(first, first + count)):
                continue
            if node.op.primitive is not custom_vjp:
                without_cotangent.update(wanted)
                continue
            by_zeros.add(position)
        if is_differentiated_jointly(node.op):
            needs = tuple([i in varied for i in node.inputs])
            may_be_live = tuple([first + k in reached for k in range(count)])
            region = at_node(node, adjoint, node.op, needs, may_be_live)
            adjoints[position] = region, may_be_live
            # the rule of a custom_vjp may return no cotangent for some inputs
            without_cotangent.update([i for i, r in zip(wanted, region.results, strict=True) if r is None])
            wanted = [i for i, r in zip(wanted, region.results, strict=True) if r is not None]
        reached.update(wanted)
    numbers = [*inputs, *(builder.const(const) for const in graph.consts)]
    regions: dict[int, tuple[Adjoint, tuple[bool, ...], list[int]]] = {}
    for position, node in enumerate(graph.nodes):
        args = tuple([numbers[i] for i in node.inputs])
        count = len(node.op.out_types)
        if position in adjoints:
            region, may_be_live = adjoints[position]
            outs = builder.splice(region.forward, args, node.source)
            numbers += outs[:count]
            regions[position] = (region, may_be_live, outs[count:])
        else:
            first = builder.emit(node.op, args, node.source)
            numbers += range(first, first + count)
    return Walk(builder, graph, numbers, varied, regions, by_zeros)


def backward(walk: Walk, seeds: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Walk from the last node to the first, emitting pull-backs.

    ``seeds`` are values of the graph with their cotangents in the builder; those of one value are added up.
    Returns the cotangents of all values that have one.
    """
    builder, graph, numbers, varied = walk.builder, walk.graph, walk.numbers, walk.varied
    cts: dict[int, int] = {}
    for value, ct in seeds:
        if value in varied:
            cts[value] = add(builder, cts[value], ct) if value in cts else ct
    first = len(graph.types)
    sources: dict[tuple[int, str], Source] = {}
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        op = node.op
        count = len(op.out_types)
        first -= count
        live = tuple([first + k in cts and first + k in varied for k in range(count)])
        if True not in live and position not in walk.by_zeros:
            continue
        needs = tuple([i in varied for i in node.inputs])
        source = node.source
        if source is not None:
            # one object for all iterations of an unrolled loop
            key = (id(source), op.name)
            source = sources[key] = sources.get(key) or source.derivative_of(op.name)
        args = [numbers[i] for i in node.inputs]
        args += numbers[first : first + count]
        if position in walk.regions:
            # the region was prepared for all outputs that may get a cotangent
            region, may_be_live, residuals = walk.regions[position]
            args += residuals
            args += [
                cts[first + k] if live[k] else zeros(builder, tangent_type(op.out_types[k]))
                for k in range(count)
                if may_be_live[k]
            ]
            derivative, results = region.backward, region.results
        else:
            local = at_node(node, pullback, op, needs, live)
            args += [cts[first + k] for k in range(count) if live[k]]
            derivative, results = local.graph, local.results
        outs = builder.splice(derivative, args, source)
        wanted = [i for i in node.inputs if i in varied]
        for i, result in zip(wanted, results, strict=True):
            if result is None:
                continue
            previous = cts.get(i)
            cts[i] = outs[result] if previous is None else add(builder, previous, outs[result], source)
    return cts


def transpose(graph: Graph, linear: Sequence[int], outputs: Sequence[int]) -> tuple[Graph, tuple[int | None, ...]]:
    """The transpose of ``graph`` in the inputs numbered ``linear``, for the outputs at positions ``outputs``.

    The new graph's inputs are the other inputs in order, then one cotangent per output; with it, for each linear
    input, the index of its output there, or None for zero.

    Raises:
      NotLinearError: the graph is not linear in those inputs.
    """
    graph = without_jvp_rules(graph, linear)
    if not of_integers([graph.in_types[i] for i in linear]):
        refuse_jumps(graph, linear, outputs)
    # the linear inputs are inputs here too, since a pull-back may need their shapes; reading their values is an error
    builder = Builder(graph.in_types)
    walk = forward(builder, graph, builder.inputs[:], linear, [graph.outputs[j] for j in outputs])
    values = [graph.outputs[j] for j in outputs]
    cts = backward(walk, [(value, builder.input(tangent_type(graph.types[value]))) for value in values])
    reached = [i for i in linear if i in cts]
    full = trim(builder.finish([cts[i] for i in reached]))
    linear_inputs = set(linear)
    for node in full.nodes:
        if not linear_inputs.isdisjoint(node.inputs):
            of = node.source.of if node.source is not None else None
            raise errors.not_linear(of or node.op.name)
    index = {i: k for k, i in enumerate(reached)}
    keep = [i not in linear_inputs for i in range(len(full.in_types))]
    return without_inputs(full, keep), tuple([index.get(i) for i in linear])
