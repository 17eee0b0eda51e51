"""``define_rule``: a user's derivative rules for a primitive or function; and ``check_rule``."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.custom_batching
import numpy as np
from attrs import evolve, frozen
from jax import tree_util

from fgrad import errors
from fgrad.api import differences as fd
from fgrad.api.arguments import check_function, with_positions
from fgrad.api.custom import custom_jvp, custom_vjp, zero_tangent_of
from fgrad.api.forward import jvp as forward_derivative
from fgrad.api.recorded import by_graph
from fgrad.api.reverse import vjp as reverse_derivative
from fgrad.api.rule_calls import check_cotangents, check_count, explained
from fgrad.api.staging import vmap
from fgrad.graph.op import BATCHING, enter_batching
from fgrad.graph.regions import beside_vjp
from fgrad.jaxcore import Primitive, current_trace, primitive, remember_primitive, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.record.recording import Recording
from fgrad.rules.kinds import RULES, General, Linear
from fgrad.run.executable import clear_cache


def define_rule(
    target: Any,
    *,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    batching: Callable[..., Any] | None = None,
    linear_args: Sequence[int] | None = None,
    check: Sequence[Any] | None = None,
    replace: bool = False,
) -> Any:
    """Define the derivative of a primitive or a function in either mode; the other mode is derived from it.

    Arguments:
      target: a JAX primitive (``jax.extend.core.Primitive``), its name, or a Python function over pytrees of arrays.
      vjp: ``vjp(ct, out, *args, **params)`` returns a tuple with a cotangent, or None for zero, for each argument.
      jvp: ``jvp(tangents, out, *args, **params)`` returns the tangent of the output, or None for zero; ``tangents``
        is a tuple with None for each argument that has none.
      transpose: for a linear target: ``transpose(ct, *args, **params)`` returns cotangents as ``vjp`` does and reads
        only the shapes and dtypes of the linear arguments.  It gives both modes.
      batching: ``batching(axis_size, in_batched, *args, **params)`` returns ``(out, out_batched)``, where
        ``in_batched`` says which arguments have a leading mapped axis, and ``out_batched`` which results.
      linear_args: with ``transpose``: the arguments in which the target is linear, if not all inexact ones.
      check: arguments at which to check the rules at once, against each other and against finite differences.
      replace: overwrite a rule that the primitive already has.

    ``ct`` and ``out`` have the structure of the function's output; for a primitive they are arrays (tuples of arrays if
    it has multiple results), and ``params`` are its parameters.  Rules are written with ``jax.lax`` or ``jax.numpy``,
    and are differentiated for higher derivatives.

    Returns:
      For a function, the function with these rules, to be called in its place; JAX's transformations follow them too.
      For a primitive, the primitive; ``jax.vmap`` follows its batching rule too.

    Raises:
      ValueError: there is no rule, or the primitive already has one.
      RuleCheckError: with ``check``, two rules disagree, or a rule and finite differences.
      RuleCallError: a rule does not accept its arguments; the message names its line and the arguments.

    >>> import fgrad, jax.numpy as jnp
    >>> f = fgrad.define_rule(lambda x: jnp.log(1 + jnp.exp(x)),
    ...                       vjp=lambda ct, out, x: (ct * (1 - jnp.exp(-out)),), check=(0.5,))
    >>> fgrad.grad(f)(0.0), fgrad.jvp(f, (0.0,), (1.0,))[1]
    (Array(0.5, dtype=float32, weak_type=True), Array(0.5, dtype=float32, weak_type=True))

    Source: does in one call what JAX spreads over `jax.custom_jvp, jax.custom_vjp, custom_batching.custom_vmap
    <https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html>`_ and its rule tables.
    """
    rules = {"vjp": vjp, "jvp": jvp, "transpose": transpose, "batching": batching}
    for name, rule in rules.items():
        if rule is not None:
            check_function(rule, f"define_rule: {name}=")
    if all(rule is None for rule in rules.values()):
        raise ValueError("define_rule needs a rule: give at least one of vjp=, jvp=, transpose= and batching=.")
    if isinstance(target, str):
        target = _by_name(target)
    name = target.name if isinstance(target, Primitive) else getattr(target, "__name__", "function")
    new = Rules(
        **{kind: explained(kind, name, rule) for kind, rule in rules.items()},
        linear_args=None if linear_args is None else tuple(linear_args),
    )
    if isinstance(target, Primitive):
        result: Any = _for_primitive(target, new, replace)
    elif callable(target):
        result = _for_function(target, new)
    else:
        raise TypeError(f"define_rule takes a primitive, its name, or a function; got {errors.shown(target)}.")
    if check is not None:
        check_rule(result, *check)
    return result


@frozen(eq=False)
class Rules:
    """The rules that a user defined for one target."""

    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    batching: Callable[..., Any] | None = None
    linear_args: tuple[int, ...] | None = None

    def is_linear(self, i: int, x: Any) -> bool:
        """Whether the target is linear in its ``i``-th argument ``x``, a pytree."""
        if self.linear_args is not None:
            return i in self.linear_args
        return any(is_inexact(typeof(leaf)) for leaf in tree_util.tree_leaves(x))


#: by primitive
_user_rules: dict[Any, Rules] = {}


def _by_name(name: str) -> Primitive:
    try:
        return primitive(name)
    except KeyError:
        raise ValueError(
            f"define_rule: no primitive named {name!r} is known. Pass the Primitive object itself."
        ) from None


def _for_primitive(target: Primitive, new: Rules, replace: bool) -> Primitive:
    derivative = bool(new.vjp or new.jvp or new.transpose)
    existing: Any = RULES.get(target) or RULES.get(target.name) if derivative else None
    if existing is None and new.batching is not None:
        existing = BATCHING.get(target)
    if not replace and existing is not None:
        raise ValueError(
            f"The primitive {target.name!r} has a rule already: {existing!r}.\nPass replace=True to overwrite it."
        )
    earlier = _user_rules.get(target, Rules())
    if derivative:
        linear = new.transpose is not None and new.vjp is None and new.jvp is None
        RULES[target] = (
            Linear(new.transpose, new.linear_args)  # type: ignore[arg-type]
            if linear
            else General(vjp=new.vjp or _vjp_of_transpose(new), jvp=new.jvp)
        )
        _user_rules[target] = evolve(new, batching=new.batching or earlier.batching)
    else:
        _user_rules[target] = evolve(earlier, batching=new.batching)
    if new.batching is not None:
        # the rule may use primitives with such rules, even this one, and may itself be mapped
        enter_batching(target, functools.wraps(new.batching)(functools.partial(by_graph, new.batching)))
    remember_primitive(target)
    clear_cache()  # operations cache derivatives made from an earlier rule
    return target


def _vjp_of_transpose(rules: Rules) -> Callable[..., Any] | None:
    transpose = rules.transpose
    return None if transpose is None else lambda ct, out, *args, **params: transpose(ct, *args, **params)


def _for_function(fun: Callable[..., Any], rules: Rules) -> Callable[..., Any]:
    plain = fun
    if rules.batching is not None:
        mapped = jax.custom_batching.custom_vmap(_positional(fun))
        mapped.def_vmap(rules.batching)
        plain = functools.wraps(fun)(lambda *args: mapped(*args))
    vjp = rules.vjp or _vjp_of_transpose(rules)
    # see NOTE [A function with both rules]: forward mode sees the outer rule, reverse mode looks through to the inner
    inner = plain if vjp is None else _with_vjp(plain, rules, vjp, lambda *args: outer(*args))
    jvp = rules.jvp
    if jvp is None and rules.transpose is not None and rules.vjp is None:
        # JAX cannot transpose a custom_vjp call, so it gets the plain function
        jvp = _jvp_of_linear(rules, lambda *args: (outer if isinstance(current_trace(), Recording) else plain)(*args))
    outer = inner if jvp is None else _with_jvp(inner, jvp, lambda *args: outer(*args), vjp is not None)

    @functools.wraps(fun)
    def ruled(*args: Any, **kwargs: Any) -> Any:
        return outer(*_bound(fun, args, kwargs))

    ruled.fgrad_rules = rules  # type: ignore[attr-defined]
    return ruled


def _positional(fun: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(fun)(lambda *args: fun(*args))


def _bound(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Bind all arguments by position, as rules take them."""
    if not kwargs:
        return args
    bound = inspect.signature(fun).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"Arguments of a function with its own rule must be positional; got {sorted(bound.kwargs)} by keyword."
        )
    return bound.args


def _with_vjp(
    fun: Callable[..., Any], rules: Rules, vjp: Callable[..., Any], ruled: Callable[..., Any]
) -> Callable[..., Any]:
    name = getattr(fun, "__name__", "function")
    kind, rule = ("vjp", rules.vjp) if rules.vjp else ("transpose", rules.transpose)
    custom = custom_vjp(_positional(fun))

    def fwd(*args: Any) -> Any:
        out = ruled(*args)  # so that higher derivatives follow the rule too
        return out, (out, args)

    def bwd(residuals: Any, ct: Any) -> Any:
        out, args = residuals
        cts = vjp(ct, out, *args)
        cts = tuple(cts) if isinstance(cts, tuple | list) else (cts,)
        check_count(kind, name, rule, cts, args)
        return cts

    custom.defvjp(fwd, functools.wraps(rule or vjp)(bwd))
    return custom


def _with_jvp(
    fun: Callable[..., Any], jvp: Callable[..., Any], ruled: Callable[..., Any], has_vjp: bool
) -> Callable[..., Any]:
    custom = custom_jvp(_positional(fun))

    @functools.wraps(jvp)
    def rule(primals: Any, tangents: Any) -> Any:
        out = ruled(*primals)
        tangents = tuple([tree_util.tree_map(_none_for_float0, t) for t in tangents])
        return out, _with_zeros(jvp(tangents, out, *primals), out)

    custom.defjvp(beside_vjp(rule) if has_vjp else rule)
    return custom


def _none_for_float0(t: Any) -> Any:
    return None if getattr(t, "dtype", None) == jax.dtypes.float0 else t


def _with_zeros(tangent: Any, out: Any) -> Any:
    """The output's tangent with zeros for integer outputs and for None, which may stand for a subtree."""

    def fill(t: Any, x: Any) -> Any:
        if t is None:
            return tree_util.tree_map(zero_tangent_of, x)
        leaves = tree_util.tree_leaves(x)
        return t if len(leaves) != 1 or is_inexact(typeof(leaves[0])) else zero_tangent_of(x)

    return tree_util.tree_map(fill, tangent, out, is_leaf=lambda x: x is None)


def _jvp_of_linear(rules: Rules, fun: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a linear function: itself."""

    def jvp(tangents: Any, out: Any, *args: Any) -> Any:
        linear = [rules.is_linear(i, x) for i, x in enumerate(args)]
        new_args = [
            tree_util.tree_map(lambda p, t: zero_tangent_of(p) if t is None else t, x, t) if is_linear else x
            for x, t, is_linear in zip(args, tangents, linear, strict=True)
        ]
        return fun(*new_args)

    return jvp


# --------------------------------------------------------------------------------------------------------------------
# checking


def check_rule(target: Any, *args: Any, **params: Any) -> None:
    """Check the rules defined by ``define_rule`` for ``target``, at ``args``.

    ``vjp`` and ``jvp`` are compared with finite differences and with each other, ``transpose`` with the target itself,
    ``batching`` with the unbatched results.  The derivatives of ``vjp`` and ``jvp`` are compared with finite
    differences of the first derivative.

    Arguments:
      target: the function that ``define_rule`` returned, or the primitive or its name.
      args: arguments to check at, where the function is smooth.
      params: parameters, for a primitive.

    Raises:
      RuleCheckError: a rule is wrong; the message says which one, and what was expected and got.
      RuleCallError: a rule does not accept its arguments, or returns something of the wrong form.
      ValueError: the target has no rule from ``define_rule``.

    >>> import fgrad, jax.numpy as jnp
    >>> f = fgrad.define_rule(lambda x: x ** 2, vjp=lambda ct, out, x: (3 * x * ct,))
    >>> fgrad.check_rule(f, 1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.RuleCheckError: ...
    """
    if isinstance(target, str):
        target = _by_name(target)
    rules = _user_rules.get(target) if isinstance(target, Primitive) else getattr(target, "fgrad_rules", None)
    if rules is None:
        raise ValueError(f"check_rule: {errors.shown(target)} has no rule from define_rule.")
    name = target.name if isinstance(target, Primitive) else getattr(target, "__name__", "function")
    fun = functools.partial(target.bind, **params) if isinstance(target, Primitive) else target
    args = tree_util.tree_map(jax.numpy.asarray, args)
    _RuleCheck(name, rules, fun, args, params).run()


@frozen(eq=False)
class _RuleCheck:
    name: str
    rules: Rules
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    params: dict[str, Any]

    def run(self) -> None:
        flat, tree = tree_util.tree_flatten(self.args)
        inexact = [i for i, x in enumerate(flat) if is_inexact(typeof(x))]
        point = [flat[i] for i in inexact]

        def function(xs: Sequence[Any]) -> list[Any]:
            result = self.fun(*tree_util.tree_unflatten(tree, with_positions(flat, inexact, xs)))
            return [y for y in tree_util.tree_leaves(result) if is_inexact(typeof(y))]

        direction = fd.directions(point, seed=0)
        tangents = fd.cast(direction, point)
        numeric = fd.slopes(function, point, direction, fd.default_step(point)).central
        out = self.fun(*self.args)
        ct = tree_util.tree_map(lambda y: _random_like(y) if is_inexact(typeof(y)) else None, out)
        cts = tree_util.tree_leaves(ct)
        flat_tangents: list[Any] = [None] * len(flat)
        for i, t in zip(inexact, tangents, strict=True):
            flat_tangents[i] = t
        by_arg = tree_util.tree_unflatten(tree, flat_tangents)
        slopes = {"finite differences": fd.inner(cts, numeric)}
        if self.rules.jvp is not None:
            derivatives = self.rules.jvp(tuple(by_arg), out, *self.args, **self.params)
            slopes["jvp"] = fd.inner(cts, self.leaves_of(derivatives, out))
        if self.rules.vjp is not None:
            slopes["vjp"] = self.paired("vjp", self.rules.vjp(ct, out, *self.args, **self.params), by_arg)
        if self.rules.transpose is not None:
            self.check_linear(by_arg)
            derivatives = self.rules.transpose(ct, *self.args, **self.params)
            slopes["transpose"] = self.paired("transpose", derivatives, by_arg)
        self.compare(slopes, fd.default_tolerance(point) * (1 + abs(slopes["finite differences"])))
        self.check_second_order(function, point, cts, tangents)
        if self.rules.batching is not None:
            self.check_batching()

    def compare(self, slopes: dict[str, float], tolerance: float) -> None:
        for first in ("jvp", "vjp", "transpose"):
            for second in ("finite differences", "jvp", "vjp"):
                if first in slopes and second in slopes and not abs(slopes[first] - slopes[second]) <= tolerance:
                    other = second if second == "finite differences" else f"the {second} rule"
                    raise errors.rules_disagree(
                        self.name, first, other, f"{slopes[second]:.6g}", f"{slopes[first]:.6g}"
                    )

    def check_second_order(self, function: fd.Flat, point: list[Any], cts: list[Any], tangents: Sequence[Any]) -> None:
        """The derivative of a rule must be the second derivative, since rules are differentiated for it."""
        cts = [ct for ct in cts if ct is not None]
        firsts: dict[str, fd.Flat] = {}
        if self.rules.vjp is not None:
            firsts["vjp"] = lambda xs: reverse_derivative(function, list(xs))[1](cts)[0]
        if self.rules.jvp is not None:
            firsts["jvp"] = lambda xs: forward_derivative(function, (list(xs),), (list(tangents),))[1]
        direction = fd.directions(point, seed=2)
        for kind, first in firsts.items():
            numeric = fd.slopes(first, point, direction, fd.default_step(point))
            out, pull = reverse_derivative(first, point)
            weights = fd.cast(fd.directions([np.ones(y.shape, y.dtype) for y in out], seed=3), out)
            expected, close = fd.inner(weights, numeric.central), fd.inner(weights, numeric.close)
            got = fd.inner(pull(weights)[0], direction)
            tolerance = fd.default_tolerance(point) * (1 + abs(expected))
            if not min(abs(got - expected), abs(got - close)) <= tolerance:
                raise errors.rules_disagree(
                    self.name,
                    f"second derivative of the {kind}",
                    "finite differences of the first, which is right",
                    f"{expected:.6g}",
                    f"{got:.6g}",
                )

    def leaves_of(self, tangent: Any, out: Any) -> list[Any]:
        tangents = tree_util.tree_leaves(_with_zeros(tangent, out))
        return [t for t, y in zip(tangents, tree_util.tree_leaves(out), strict=True) if is_inexact(typeof(y))]

    def paired(self, kind: str, cts: Any, tangents: Any) -> float:
        """The inner product of the cotangents that a reverse rule returned and the tangents; None is zero."""
        cts = tuple(cts) if isinstance(cts, tuple | list) else (cts,)
        check_cotangents(kind, self.name, getattr(self.rules, kind), cts, self.args)
        total = 0.0
        for ct, t, arg in zip(cts, tangents, self.args, strict=False):
            if ct is not None and t is not None:
                pairs = tree_util.tree_map(
                    lambda c, x, _: 0.0 if c is None or x is None else fd.inner([c], [x]),
                    ct,
                    t,
                    arg,
                    is_leaf=lambda c: c is None,
                )
                total += sum(tree_util.tree_leaves(pairs))
        return total

    def check_linear(self, tangents: Any) -> None:
        """f(x + t) must be f(x) + f(t) in the linear arguments."""
        linear = [self.rules.is_linear(i, x) for i, x in enumerate(self.args)]

        def outputs(change: Callable[[Any, Any], Any]) -> list[Any]:
            new = [
                tree_util.tree_map(lambda x, t: x if t is None else change(x, t), x, t) if is_linear else x
                for x, t, is_linear in zip(self.args, tangents, linear, strict=True)
            ]
            return [fd.wide(y) for y in tree_util.tree_leaves(self.fun(*new))]

        both, first, second = outputs(lambda x, t: x + t), outputs(lambda x, t: x), outputs(lambda x, t: t)
        added = [a + b for a, b in zip(first, second, strict=True)]
        tolerance = fd.default_tolerance([x for x in tree_util.tree_leaves(self.args) if is_inexact(typeof(x))])
        if not fd.close_to(both, added, tolerance, tolerance):
            raise errors.rules_disagree(self.name, "transpose", "linearity, f(x + t) = f(x) + f(t)", added, both)

    def check_batching(self) -> None:
        size = 3
        every = range(len(self.args))
        for mapped in (set(every), *({i} for i in every)):
            stacked = [
                tree_util.tree_map(lambda x: jax.numpy.stack([_scaled(x, k) for k in range(size)]), x)
                if i in mapped
                else x
                for i, x in enumerate(self.args)
            ]
            axes = [0 if i in mapped else None for i in every]
            got = vmap(self.fun, in_axes=axes)(*stacked)
            for k in range(size):
                row = [tree_util.tree_map(lambda x, k=k: x[k], x) if i in mapped else x for i, x in enumerate(stacked)]
                expected = tree_util.tree_leaves(self.fun(*row))
                rows = [y[k] for y in tree_util.tree_leaves(got)]
                inexact = [x for x in tree_util.tree_leaves(row) if is_inexact(typeof(x))]
                tolerance = fd.default_tolerance(inexact)
                if not fd.close_to(rows, expected, tolerance, tolerance):
                    which = "all arguments mapped" if len(mapped) > 1 else f"argument {min(mapped)} mapped"
                    raise errors.rules_disagree(
                        self.name, "batching", f"the results one by one ({which})", expected, rows
                    )


def _random_like(y: Any) -> Any:
    (direction,) = fd.directions([np.ones(y.shape, y.dtype)], seed=1)
    return jax.numpy.asarray(direction, y.dtype)


def _scaled(x: Any, k: int) -> Any:
    return x * (1 + k / 8) if is_inexact(typeof(x)) else x
