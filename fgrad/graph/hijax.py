"""JAX's extensions (``jax.experimental.hijax``): primitives that bring their own rules, as calls with custom rules.

Such a primitive is an object that says how it is computed (``expand``) and what its derivative is (``jvp``; ``vjp_fwd``
and ``vjp_bwd_retval``), whatever the derivative of that computation would be.  ``jnp.ldexp``, ``jnp.frexp`` and
``lax.custom_root`` of the newest JAX are such.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
from attrs import define
from jax import tree_util

from fgrad.graph.graph import Graph, applied
from fgrad.graph.importing import IMPORTERS, custom_jvp_op, custom_vjp_op, from_jaxpr
from fgrad.graph.op import Op
from fgrad.graph.regions import Deferred, DeferredByZeros, VjpRule, plain
from fgrad.jaxcore import (
    HiPrim,
    HiZero,
    ShapedArray,
    closed_parts,
    is_closed_jaxpr,
    is_high,
    is_inexact,
    is_open_jaxpr,
    name_of,
    tangent_dtype,
)

_NAME = "call_hi_primitive"


def of_arrays(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether a call that holds extensions can be recorded: all its values, and those within, are arrays."""
    if primitive.name == _NAME:
        return _arrays([*params["_prim"].in_avals_flat, *params["_prim"].out_avals_flat])
    return name_of(primitive) in IMPORTERS and all(map(_jaxpr_of_arrays, _jaxprs(params.values())))


def label(primitive: Any, params: dict[str, Any]) -> str:
    """What a user calls the primitive: its class where it is one of JAX's extensions."""
    return type(params["_prim"]).__name__ if primitive.name == _NAME else primitive.name


def _jaxprs(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _jaxprs(value)
        elif is_closed_jaxpr(value) or is_open_jaxpr(value):
            yield value


def _jaxpr_of_arrays(jaxpr: Any) -> bool:
    constvars, _, invars, eqns, _ = closed_parts(jaxpr)
    results = [v for eqn in eqns for v in eqn.outvars]
    return _arrays([v.aval for v in (*constvars, *invars, *results)]) and all(
        of_arrays(eqn.primitive, eqn.params)
        for eqn in eqns
        if is_high(eqn.primitive, [v.aval for v in eqn.invars], eqn.params)
    )


def _arrays(types: Iterable[Any]) -> bool:
    return all(isinstance(t, ShapedArray) for t in types)


def _hi_primitive(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op | Graph:
    prim = params["_prim"]
    call = _staged(partial(_expanded, prim), in_types)
    if prim.effects:
        return call
    label = type(prim).__name__
    pushes, pulls = [getattr(type(prim), name) is not getattr(HiPrim, name) for name in ("jvp", "vjp_fwd")]
    # With rules for both modes: NOTE [A function with both rules].  Without any, asking for one says what is missing.
    if pulls or not pushes:
        rule = Deferred(("hijax", "vjp", prim), partial(_vjp_rule, prim, call))
        rule.native = partial(_called, prim)
        op = custom_vjp_op(call, 0, rule, label, in_types)
        if not pushes:
            return op
        call = applied(op)
    push = partial(_jvp_rule, prim, call)
    deferred = DeferredByZeros(Deferred(("hijax", "jvp", prim), partial(push, (True,) * len(in_types))), push)
    deferred.native = partial(_called, prim)
    return custom_jvp_op(call, 0, deferred, label, in_types)


IMPORTERS[_NAME] = _hi_primitive


def _staged(function: Any, types: Sequence[ShapedArray]) -> Graph:
    return from_jaxpr(jax.make_jaxpr(function)(*map(plain, types)))


def _called(prim: Any, *args: Any) -> list[Any]:
    return tree_util.tree_leaves(prim(*tree_util.tree_unflatten(prim.in_tree, args)))


def _expanded(prim: Any, *args: Any) -> list[Any]:
    return tree_util.tree_leaves(prim.expand(*tree_util.tree_unflatten(prim.in_tree, args)))


def _jvp_rule(prim: Any, call: Graph, live: Sequence[bool]) -> Graph:
    """The forward-mode rule, which is told of the tangents that are not ``live`` as zeros."""
    types, n = call.in_types, len(call.in_types)

    def push(*flat: Any) -> list[Any]:
        given = iter(flat[n:])
        tangents = [next(given) if is_inexact(t) else None for t in types]
        with_zeros = [
            x if x is not None and is_live else _zero(t) for x, t, is_live in zip(tangents, types, live, strict=True)
        ]
        outs, out_tangents = prim.jvp(*[tree_util.tree_unflatten(prim.in_tree, xs) for xs in (flat[:n], with_zeros)])
        return [*tree_util.tree_leaves(outs), *_inexact_ones(prim.out_tree, out_tangents, call.out_types)]

    return _staged(push, [*types, *filter(is_inexact, types)])


def _vjp_rule(prim: Any, call: Graph) -> VjpRule:
    """The reverse-mode rule; every input that may have a derivative is said to have one."""
    types = call.in_types
    wrt = tuple([i for i, t in enumerate(types) if is_inexact(t)])
    kept: list[Any] = []

    def forward(*args: Any) -> list[Any]:
        flags = tree_util.tree_unflatten(prim.in_tree, [i in wrt for i in range(len(types))])
        outs, residuals, *_ = prim.vjp_fwd(flags, *tree_util.tree_unflatten(prim.in_tree, args))
        leaves, tree = tree_util.tree_flatten(residuals)
        # what is no array (the flags, say) is part of the rule
        kept[:] = [tree, *[None if isinstance(x, jax.Array) else x for x in leaves]]
        return [*[x for x in leaves if isinstance(x, jax.Array)], *tree_util.tree_leaves(outs)]

    def backward(*flat: Any) -> list[Any]:
        given, (tree, *leaves) = iter(flat), kept
        residuals = tree_util.tree_unflatten(tree, [next(given) if x is None else x for x in leaves])
        cts = [next(given) if is_inexact(t) else _zero(t) for t in call.out_types]
        cotangents = _pulled(prim, residuals, tree_util.tree_unflatten(prim.out_tree, cts))
        return _inexact_ones(prim.in_tree, cotangents, types)

    first = _staged(forward, types)
    count = len(first.outputs) - len(call.outputs)
    second = _staged(backward, [*first.out_types[:count], *filter(is_inexact, call.out_types)])
    return VjpRule(first, second, wrt)


@define(eq=False)
class _Accumulator:
    """What a rule adds the parts of a cotangent to, in the place of JAX's ``GradAccum``."""

    aval: ShapedArray
    total: Any = None

    def accum(self, part: Any) -> None:
        if part is not None and not isinstance(part, HiZero):
            self.total = part if self.total is None else jax.numpy.add(self.total, part)


def _pulled(prim: Any, residuals: Any, ct: Any) -> Any:
    """The cotangents of the arguments, which a rule returns or adds up itself."""
    if type(prim).vjp_bwd is HiPrim.vjp_bwd:
        if hasattr(prim, "vjp_bwd_retval_logs"):  # from JAX 0.11 on, and some rules define only that
            return prim.vjp_bwd_retval_logs(residuals, ct)[0]
        return prim.vjp_bwd_retval(residuals, ct)
    accumulators = [_Accumulator(ShapedArray(t.shape, tangent_dtype(t.dtype))) for t in prim.in_avals_flat]
    prim.vjp_bwd(residuals, ct, *tree_util.tree_unflatten(prim.in_tree, accumulators))
    return tree_util.tree_unflatten(prim.in_tree, [a.total for a in accumulators])


def _zero(type: ShapedArray) -> Any:
    return HiZero(ShapedArray(type.shape, tangent_dtype(type.dtype)))


def _inexact_ones(tree: Any, derivatives: Any, types: Sequence[ShapedArray]) -> list[Any]:
    """The (co)tangents of the inexact ones among values of ``types``, as a rule returned them; zeros as arrays."""
    return [
        jax.numpy.zeros(t.shape, t.dtype) if x is None or isinstance(x, HiZero) else x
        for x, t in zip(tree.flatten_up_to(derivatives), types, strict=True)
        if is_inexact(t)
    ]
