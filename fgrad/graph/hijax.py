"""JAX's extensions (``jax.experimental.hijax``): primitives that bring their own rules, as calls with custom rules.

Such a primitive is an object that says how it is computed (``expand``) and what its derivative is (``jvp``; ``vjp_fwd``
and ``vjp_bwd_retval``), whatever the derivative of that computation would be.  ``jnp.ldexp``, ``jnp.frexp`` and
``lax.custom_root`` of the newest JAX are such.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
from attrs import define
from jax import tree_util

from fgrad.graph.graph import Graph, applied
from fgrad.graph.importing import IMPORTERS, custom_jvp_op, custom_vjp_op, staged
from fgrad.graph.op import Op
from fgrad.graph.regions import Deferred, DeferredByZeros, VjpRule, plain
from fgrad.jaxcore import (
    HiPrim,
    HiZero,
    ShapedArray,
    closed_parts,
    is_closed_jaxpr,
    is_high,
    is_open_jaxpr,
    name_of,
    tangent_dtype,
)
from fgrad.jaxtypes import is_inexact

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
        pull = _by_zeros("vjp", prim, _vjp_rule, call, [*in_types, *call.out_types])
        op = custom_vjp_op(call, 0, pull, label, in_types)
        if not pushes:
            return op
        call = applied(op)
    push = _by_zeros("jvp", prim, _jvp_rule, call, in_types)
    return custom_jvp_op(call, 0, push, label, in_types)


IMPORTERS[_NAME] = _hi_primitive


def _by_zeros(mode: str, prim: Any, rule: Callable[..., Any], call: Graph, types: Sequence[ShapedArray]) -> Deferred:
    """The rule for one mode, which is told which tangents or cotangents are zeros."""
    of = partial(rule, prim, call)
    deferred = DeferredByZeros(Deferred(("hijax", mode, prim), partial(of, tuple(map(is_inexact, types)))), of)
    deferred.native = partial(_called, prim)
    return deferred


def _staged(function: Any, types: Sequence[ShapedArray]) -> Graph:
    return staged(function, list(map(plain, types)))


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
        inexact = list(map(is_inexact, call.out_types))
        pushed = itertools.compress(prim.out_tree.flatten_up_to(out_tangents), inexact)
        return [*tree_util.tree_leaves(outs), *_arrays_of(list(pushed), list(filter(is_inexact, call.out_types)))]

    return _staged(push, [*types, *filter(is_inexact, types)])


def _vjp_rule(prim: Any, call: Graph, live: Sequence[bool]) -> VjpRule:
    """The reverse-mode rule, which is told which inputs are differentiated, and of the other cotangents as zeros."""
    types, n = call.in_types, len(call.in_types)
    wrt = tuple([i for i, t in enumerate(types) if live[i] and is_inexact(t)])
    kept: list[Any] = []

    def forward(*args: Any) -> list[Any]:
        flags = tree_util.tree_unflatten(prim.in_tree, [i in wrt for i in range(n)])
        outs, residuals, *_ = prim.vjp_fwd(flags, *tree_util.tree_unflatten(prim.in_tree, args))
        leaves, tree = tree_util.tree_flatten(residuals)
        # what is no array (the flags, say) is part of the rule
        kept[:] = [tree, *[None if isinstance(x, jax.Array) else x for x in leaves]]
        return [*[x for x in leaves if isinstance(x, jax.Array)], *tree_util.tree_leaves(outs)]

    def backward(*flat: Any) -> list[Any]:
        given, (tree, *leaves) = iter(flat), kept
        residuals = tree_util.tree_unflatten(tree, [next(given) if x is None else x for x in leaves])
        cts = [next(given) if is_inexact(t) else None for t in call.out_types]
        with_zeros = [
            ct if ct is not None and is_live else _zero(t)
            for ct, t, is_live in zip(cts, call.out_types, live[n:], strict=True)
        ]
        cotangents = _pulled(prim, residuals, tree_util.tree_unflatten(prim.out_tree, with_zeros))
        leaves = prim.in_tree.flatten_up_to(cotangents)
        return _arrays_of([leaves[i] for i in wrt], [types[i] for i in wrt])

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
    if hasattr(prim, "vjp_bwd_retval_logs"):  # from JAX 0.11 on; there not yet for rules that add up themselves
        with contextlib.suppress(NotImplementedError):
            return prim.vjp_bwd_retval_logs(residuals, ct)[0]
    if type(prim).vjp_bwd is HiPrim.vjp_bwd:
        return prim.vjp_bwd_retval(residuals, ct)
    accumulators = [_Accumulator(ShapedArray(t.shape, tangent_dtype(t.dtype))) for t in prim.in_avals_flat]
    prim.vjp_bwd(residuals, ct, *tree_util.tree_unflatten(prim.in_tree, accumulators))
    return tree_util.tree_unflatten(prim.in_tree, [a.total for a in accumulators])


def _zero(type: ShapedArray) -> Any:
    return HiZero(ShapedArray(type.shape, tangent_dtype(type.dtype)))


def _arrays_of(derivatives: Sequence[Any], types: Sequence[ShapedArray]) -> list[Any]:
    """(Co)tangents as a rule returned them, with zeros as arrays."""
    return [
        jax.numpy.zeros(t.shape, t.dtype) if x is None or isinstance(x, HiZero) else x
        for x, t in zip(derivatives, types, strict=True)
    ]
