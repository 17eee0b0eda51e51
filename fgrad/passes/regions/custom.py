"""Custom rules: a region's own jvp or vjp in place of the derivative of its body.

NOTE [A function with both rules]
A function may have a rule for each mode (``fgrad.define_rule``).  It is a custom_jvp call whose body is one custom_vjp
call and nothing else.  Forward mode meets the outer rule first; reverse mode looks through to the inner one.  Under
JAX's own transformations, which know no such pairs, the outer rule serves both modes.  So does a user's rule of a
function that only calls one with a custom vjp: the rule of a pair is marked (``beside_vjp``), and from the body of any
other a custom vjp that is all of it is taken out (``ruled_by``).

A rule says nothing about integers: where these are transposed, the call counts as its body.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, applied, labelled
from fgrad.graph.linear_regions import no_forward_mode, only_transposed
from fgrad.graph.op import Op, intern
from fgrad.graph.references import accesses_reference
from fgrad.graph.regions import Deferred, VjpRule, python_call_graph, vjp_call
from fgrad.jaxcore import ShapedArray, for_want_of_numbers
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import of_integers
from fgrad.passes.linearity import dependent_on
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, PushforwardBuilder, tangent_type
from fgrad.passes.partition import partition
from fgrad.passes.regions.mapped import plain_adjoint
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import adjoint, transpose
from fgrad.rules.kinds import RULES, Region, define


def adjoint_of_tangents(op: Op, local: Local, needs: Sequence[bool], live: Sequence[bool]) -> Adjoint:
    """Reverse mode from forward mode: run what does not depend on the tangents, transpose the rest."""
    n, m = len(op.in_types), len(op.out_types)
    full = simplify(local.graph)
    varied = list(range(n, len(full.in_types)))
    halves = partition(full, varied, [k >= m for k in range(len(full.outputs))])
    forward = halves.known
    wanted = [(k, local.results[k]) for k in range(m) if live[k] and local.results[k] is not None]
    residuals = halves.num_residuals
    linear = list(range(residuals, residuals + len(varied)))
    graph, results = transpose(halves.unknown, linear, [j for _, j in wanted if j is not None])
    builder = PullbackBuilder(op, live, halves.unknown.in_types[:residuals])
    cotangents = builder.splice(graph, [*builder.residuals, *(builder.cotangents[k] for k, _ in wanted)])
    return Adjoint(forward, builder.finish(cotangents), results)


def _jvp_tangents(op: Op, live: tuple[bool, ...], numbers: bool = True) -> Local:
    """Forward mode by the rule; with ``numbers``, one that asks for those of tangents waits until they are known."""
    k = op.params["num_consts"]
    if any(live[:k]):
        raise errors.closed_over("custom_jvp", op.params["label"])
    try:
        rule = op.params["rule"].of(live[k:])
    except Exception as error:
        if not (for_want_of_numbers(error) and numbers and op.params["rule"].function is not None):
            raise
        return _called(op, live, op.params["rule"])
    _refuse_accesses(op, rule)
    builder = PushforwardBuilder(op, live)
    return _checked(op, builder, builder.splice(rule, _primals_and_tangents(op, builder)))


def _refuse_accesses(op: Op, rule: Graph) -> None:
    """Refuse a rule that uses references in the forward pass; a recording runs such a rule itself, if it can."""
    if any(map(accesses_reference, rule.nodes)):
        raise errors.rule_closes_over_reference(op.params["label"])


def _primals_and_tangents(op: Op, builder: PushforwardBuilder) -> list[int]:
    """What a rule for forward mode takes: the primals, and the tangents of the inexact ones."""
    k = op.params["num_consts"]
    inexact = [i for i in range(k, len(op.in_types)) if is_inexact(op.in_types[i])]
    return [*builder.ins[k:], *map(builder.tangent, inexact)]


def _called(op: Op, live: tuple[bool, ...], rule: Deferred) -> Local:
    """Forward mode by calling the rule for the tangents, on numbers; the outputs are those of the function."""
    builder = PushforwardBuilder(op, live)
    ins = _primals_and_tangents(op, builder)
    out_types = [*op.out_types, *(tangent_type(t) for t in op.out_types if is_inexact(t))]
    function = Deferred(("called", rule.key), lambda: rule.function)
    called = builder.splice(python_call_graph(function, [builder.types[i] for i in ins], out_types), ins)
    outs = builder.splice(op.params["call"], builder.ins)
    return _checked(op, builder, [*outs, *called[len(outs) :]])


def _checked(op: Op, builder: PushforwardBuilder, outs: Sequence[int]) -> Local:
    """The push-forward from a rule's outputs, whose tangents must have the right types."""
    m = len(op.out_types)
    inexact = [k for k, t in enumerate(op.out_types) if is_inexact(t)]
    tangents = dict(zip(inexact, outs[m:], strict=True))
    for k, number in tangents.items():
        _check(op, builder.types[number], tangent_type(op.out_types[k]))
    return builder.pushed(outs[:m], tangents)


def _check(op: Op, got: ShapedArray, expected: ShapedArray) -> None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise errors.bad_rule(op.params["label"], got.str_short(), expected.str_short())


def _jvp_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    if of_integers(op.in_types[i] for i, needed in enumerate(needs) if needed):
        return plain_adjoint(op, needs, live)
    inner = _inner_adjoint(op, needs, live)
    if inner is not None:
        return inner
    return adjoint_of_tangents(op, _jvp_tangents(op, needs, False), needs, live)


def _inner_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint | None:
    """Reverse mode by the custom vjp that is the whole body."""
    node = vjp_call(op.params["call"])
    if node is None:
        return None
    n, ins = len(op.in_types), node.inputs
    inner = adjoint(node.op, tuple([needs[i] for i in ins]), live)
    builder = Builder(op.in_types)
    forward = builder.finish(builder.splice(inner.forward, ins))
    builder = Builder([*op.in_types, *inner.backward.in_types[n:]])
    backward = builder.finish(builder.splice(inner.backward, [*ins, *builder.inputs[n:]]))
    place = dict(zip([i for i in ins if needs[i]], inner.results, strict=True))
    return Adjoint(forward, backward, tuple([place[i] for i, needed in enumerate(needs) if needed]))


def _jvp_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    """Which outputs vary by the rule: one may give tangents that do not depend on those of the inputs."""
    everything = [True] * len(op.out_types)
    if any(needs[: op.params["num_consts"]]) or vjp_call(op.params["call"]) is not None:
        return everything
    try:
        local = _jvp_tangents(op, needs, False)
    except Exception as error:
        if not for_want_of_numbers(error):
            raise
        return everything  # a rule that branches on tangents, which is an error only where they are needed
    return results_moved(op, local)


def results_moved(op: Op, local: Local) -> list[bool]:
    """Which outputs of an operation have tangents that depend on those of its inputs."""
    graph, n, m = local.graph, len(op.in_types), len(op.out_types)
    # one that depends on them without being linear counts too: there is a derivative, which is refused
    dependent = dependent_on(graph, range(n, len(graph.in_types)))
    return [r is not None and graph.outputs[m + r] in dependent for r in local.results]


define("custom_jvp", Region(adjoint=_jvp_adjoint, tangents=_jvp_tangents, varied=_jvp_varied))


def _vjp_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    k, m, tokens = op.params["num_consts"], len(op.out_types), op.params["rule"].num_tokens
    if of_integers(op.in_types[i] for i, needed in enumerate(needs) if needed):
        return plain_adjoint(op, needs, live)
    if not any(needs[: len(needs) - tokens]):
        return plain_adjoint(op, needs, live)  # of the function's own arguments, none is differentiated
    if any(needs[:k]):
        raise errors.closed_over("custom_vjp", op.params["label"])
    rule: VjpRule = op.params["rule"].of((*needs[k:], *live))
    _refuse_accesses(op, rule.forward)
    num_res = len(rule.forward.outputs) - m
    builder = Builder(op.in_types)
    # most rules call the function itself
    outs = builder.splice(labelled(rule.forward, op.params["label"]), builder.inputs[k:])
    forward = builder.finish([*outs[num_res:], *outs[:num_res]])

    backward = PullbackBuilder(op, live, rule.forward.out_types[:num_res])
    if not tokens or any(live[: m - tokens]):
        cts = [backward.cotangent(j) for j, t in enumerate(op.out_types) if is_inexact(t)]
        cotangents = backward.splice(rule.backward, [*backward.residuals, *cts])
        gradients = {k + i: number for i, number in zip(rule.wrt, cotangents, strict=True) if needs[k + i]}
    else:  # the backward rule does not run, and references stay as they are
        kept = range(1, tokens + 1)
        gradients = {len(needs) - i: backward.cotangent(m - i) for i in kept if needs[len(needs) - i] and live[m - i]}
    for i in sorted(gradients):
        _check(op, backward.types[gradients[i]], tangent_type(op.in_types[i]))
    return backward.adjoint(forward, gradients, needs)


def _vjp_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    """Forward mode through a custom vjp: its backward graph, transposed (JAX refuses; the rule determines it).

    Where that cannot be transposed, the tangents may still be asked for, by ``linearize``, and transposed, but not
    computed.
    """
    n, m = len(op.in_types), len(op.out_types)
    inexact = tuple([is_inexact(t) for t in op.out_types])
    reverse = _vjp_adjoint(op, live, inexact)
    num_res = len(reverse.forward.outputs) - m
    ins = [(j, r) for j, r in enumerate(reverse.results) if r is not None]
    linear = list(range(n + m + num_res, len(reverse.backward.in_types)))
    moved = [k for k, differentiable in enumerate(inexact) if differentiable]
    builder = PushforwardBuilder(op, live)
    outs = builder.splice(reverse.forward, builder.ins)
    args = [*builder.ins, *outs, *(builder.inputs[n + j] for j, _ in ins)]
    try:
        graph, results = transpose(reverse.backward, linear, [r for _, r in ins])
    except (errors.NotLinearError, errors.ReverseWhileError):
        params = {
            "label": op.params["label"], "backward": _outputs(reverse.backward, [r for _, r in ins]),
            "num_consts": n + m + num_res,
        }  # fmt: skip
        first = builder.emit(intern(only_transposed, params, [builder.types[i] for i in args]), tuple(args))
        return builder.pushed(outs[:m], {k: first + i for i, k in enumerate(moved)})
    tangents = builder.splice(graph, args)
    return builder.pushed(outs[:m], {k: tangents[at] for k, at in zip(moved, results, strict=True) if at is not None})


def _outputs(graph: Graph, which: Sequence[int]) -> Graph:
    builder = Builder(graph.in_types)
    outs = builder.splice(graph, builder.inputs)
    return builder.finish([outs[k] for k in which])


def _transposed(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    n = op.params["num_consts"]
    if any(needs[:n]):
        raise no_forward_mode(op.params["label"])
    builder = PullbackBuilder(op, live)
    cotangents = map(builder.cotangent, range(len(op.out_types)))
    outs = builder.splice(op.params["backward"], [*builder.ins[:n], *cotangents])
    return builder.adjoint(applied(op), dict(enumerate(outs, n)), needs)


def _refused(op: Op, *_: Any) -> NoReturn:
    raise no_forward_mode(op.params["label"])


RULES[only_transposed] = Region(adjoint=_transposed, tangents=_refused)


define("custom_vjp", Region(adjoint=_vjp_adjoint, tangents=_vjp_tangents))
