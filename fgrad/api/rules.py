"""``define_rule``: what a user says about the derivative of a primitive or function, in one place; and its check."""

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
from fgrad.jaxcore import Primitive, current_trace, is_inexact, primitive, remember_primitive, typeof
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
    """Give a primitive or a function its derivative, in whichever mode is at hand; the other mode is derived from it.

    Arguments:
      target: a JAX primitive (``jax.extend.core.Primitive``), its name, or a Python function over pytrees of arrays.
      vjp: ``vjp(ct, out, *args, **params)`` returns a tuple with a cotangent, or None for zero, for each argument.
      jvp: ``jvp(tangents, out, *args, **params)`` returns the tangent of the output, or None for zero; ``tangents``
        is a tuple with None for each argument that has none.
      transpose: says that the target is linear: ``transpose(ct, *args, **params)`` returns cotangents as ``vjp`` does
        and reads nothing of the linear arguments but shape and dtype.  It gives both modes.
      batching: ``batching(axis_size, in_batched, *args, **params)`` returns ``(out, out_batched)``, where
        ``in_batched`` says which arguments have a leading mapped axis, and ``out_batched`` which results.
      linear_args: with ``transpose``: in which arguments the target is linear, if not in all inexact ones.
      check: arguments at which to check the given rules against each other and against finite differences, at once.
      replace: overwrite a rule that the primitive has already.

    ``ct`` and ``out`` have the structure of the function's output; for a primitive they are arrays (tuples of arrays if
    it has multiple results), and ``params`` are its parameters.  Rules are written with ``jax.lax`` or ``jax.numpy``;
    they are differentiated in their turn.

    Returns:
      For a function, the function with these rules, to be called in its place; JAX's transformations keep them too.
      For a primitive, the primitive, whose batching rule ``jax.vmap`` follows too.

    Raises:
      ValueError: no rule is given, or the primitive has one already.
      RuleCheckError: with ``check``, two rules disagree, or a rule and finite differences.
      RuleCallError: a rule does not take what it is called with; the message names its line and what it was given.

    >>> import fgrad, jax.numpy as jnp
    >>> f = fgrad.define_rule(lambda x: jnp.log(1 + jnp.exp(x)),
    ...                       vjp=lambda ct, out, x: (ct * (1 - jnp.exp(-out)),), check=(0.5,))
    >>> fgrad.grad(f)(0.0), fgrad.jvp(f, (0.0,), (1.0,))[1]
    (Array(0.5, dtype=float32, weak_type=True), Array(0.5, dtype=float32, weak_type=True))

    Source: it does in one call what JAX spreads over `jax.custom_jvp, jax.custom_vjp, custom_batching.custom_vmap
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
    given = Rules(
        **{kind: explained(kind, name, rule) for kind, rule in rules.items()},
        linear_args=None if linear_args is None else tuple(linear_args),
    )
    if isinstance(target, Primitive):
        result: Any = _for_primitive(target, given, replace)
    elif callable(target):
        result = _for_function(target, given)
    else:
        raise TypeError(f"define_rule takes a primitive, its name, or a function; got {errors.shown(target)}.")
    if check is not None:
        check_rule(result, *check)
    return result


@frozen(eq=False)
class Rules:
    """What a user has given."""

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


_given: dict[Any, Rules] = {}


def _by_name(name: str) -> Primitive:
    try:
        return primitive(name)
    except KeyError:
        raise ValueError(
            f"define_rule: no primitive of the name {name!r} is known. Pass the Primitive object itself."
        ) from None


def _for_primitive(target: Primitive, given: Rules, replace: bool) -> Primitive:
    derivative = bool(given.vjp or given.jvp or given.transpose)
    held: Any = RULES.get(target) or RULES.get(target.name) if derivative else None
    if held is None and given.batching is not None:
        held = BATCHING.get(target)
    if not replace and held is not None:
        raise ValueError(
            f"The primitive {target.name!r} has a rule already: {held!r}.\nPass replace=True to overwrite it."
        )
    earlier = _given.get(target, Rules())
    if derivative:
        linear = given.transpose is not None and given.vjp is None and given.jvp is None
        RULES[target] = (
            Linear(given.transpose, given.linear_args)  # type: ignore[arg-type]
            if linear
            else General(vjp=given.vjp or _vjp_of_transpose(given), jvp=given.jvp)
        )
        _given[target] = evolve(given, batching=given.batching or earlier.batching)
    else:
        _given[target] = evolve(earlier, batching=given.batching)
    if given.batching is not None:
        # the rule may use primitives with such rules, even this one, and may itself be mapped
        enter_batching(target, functools.wraps(given.batching)(functools.partial(by_graph, given.batching)))
    remember_primitive(target)
    clear_cache()  # derivatives made from an earlier rule are kept with the operations
    return target


def _vjp_of_transpose(given: Rules) -> Callable[..., Any] | None:
    transpose = given.transpose
    return None if transpose is None else lambda ct, out, *args, **params: transpose(ct, *args, **params)


def _for_function(fun: Callable[..., Any], given: Rules) -> Callable[..., Any]:
    plain = fun
    if given.batching is not None:
        mapped = jax.custom_batching.custom_vmap(_positional(fun))
        mapped.def_vmap(given.batching)
        plain = functools.wraps(fun)(lambda *args: mapped(*args))
    vjp = given.vjp or _vjp_of_transpose(given)
    # see NOTE [A function with both rules]: forward mode meets the outer rule, reverse mode looks through to the inner
    inner = plain if vjp is None else _with_vjp(plain, given, vjp, lambda *args: outer(*args))
    jvp = given.jvp
    if jvp is None and given.transpose is not None and given.vjp is None:
        # JAX, which cannot transpose a custom_vjp call, gets the plain function to transpose
        jvp = _jvp_of_linear(given, lambda *args: (outer if isinstance(current_trace(), Recording) else plain)(*args))
    outer = inner if jvp is None else _with_jvp(inner, jvp, lambda *args: outer(*args))

    @functools.wraps(fun)
    def ruled(*args: Any, **kwargs: Any) -> Any:
        return outer(*_bound(fun, args, kwargs))

    ruled.fgrad_rules = given  # type: ignore[attr-defined]
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
    fun: Callable[..., Any], given: Rules, vjp: Callable[..., Any], again: Callable[..., Any]
) -> Callable[..., Any]:
    name = getattr(fun, "__name__", "function")
    kind, rule = ("vjp", given.vjp) if given.vjp else ("transpose", given.transpose)
    custom = custom_vjp(_positional(fun))

    def fwd(*args: Any) -> Any:
        out = again(*args)  # the ruled function, so that higher derivatives follow the rule too
        return out, (out, args)

    def bwd(residuals: Any, ct: Any) -> Any:
        out, args = residuals
        cts = vjp(ct, out, *args)
        cts = tuple(cts) if isinstance(cts, tuple | list) else (cts,)
        check_count(kind, name, rule, cts, args)
        return cts

    custom.defvjp(fwd, functools.wraps(rule or vjp)(bwd))
    return custom


def _with_jvp(fun: Callable[..., Any], jvp: Callable[..., Any], again: Callable[..., Any]) -> Callable[..., Any]:
    custom = custom_jvp(_positional(fun))

    @functools.wraps(jvp)
    def rule(primals: Any, tangents: Any) -> Any:
        out = again(*primals)
        tangents = tuple([tree_util.tree_map(_none_for_float0, t) for t in tangents])
        return out, _filled(jvp(tangents, out, *primals), out)

    custom.defjvp(rule)
    return custom


def _none_for_float0(t: Any) -> Any:
    return None if getattr(t, "dtype", None) == jax.dtypes.float0 else t


def _filled(tangent: Any, out: Any) -> Any:
    """The output's tangent with zeros for None, a prefix of the output's structure, and for integer outputs."""

    def fill(t: Any, x: Any) -> Any:
        if t is None:
            return tree_util.tree_map(zero_tangent_of, x)
        return (
            t
            if len(tree_util.tree_leaves(x)) != 1 or is_inexact(typeof(tree_util.tree_leaves(x)[0]))
            else zero_tangent_of(x)
        )

    return tree_util.tree_map(fill, tangent, out, is_leaf=lambda x: x is None)


def _jvp_of_linear(given: Rules, fun: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a linear function: itself."""

    def jvp(tangents: Any, out: Any, *args: Any) -> Any:
        linear = [given.is_linear(i, x) for i, x in enumerate(args)]
        taken = [
            tree_util.tree_map(lambda p, t: zero_tangent_of(p) if t is None else t, x, t) if is_linear else x
            for x, t, is_linear in zip(args, tangents, linear, strict=True)
        ]
        return fun(*taken)

    return jvp


# --------------------------------------------------------------------------------------------------------------------
# checking


def check_rule(target: Any, *args: Any, **params: Any) -> None:
    """Check the rules that ``define_rule`` was given for ``target``, at ``args``.

    ``vjp`` and ``jvp`` are held against finite differences and against each other, ``transpose`` against the target
    itself, ``batching`` against the results one by one.  What ``vjp`` and ``jvp`` give is differentiated in its turn,
    and held against finite differences of the first derivative.

    Arguments:
      target: the function that ``define_rule`` returned, or the primitive or its name.
      args: arguments to check at, where the function is smooth.
      params: parameters, for a primitive.

    Raises:
      RuleCheckError: a rule is wrong; the message says which, in which order, what was expected and got.
      RuleCallError: a rule does not take what it is called with, or returns something of another form.
      ValueError: the target was given no rule by ``define_rule``.

    >>> import fgrad, jax.numpy as jnp
    >>> f = fgrad.define_rule(lambda x: x ** 2, vjp=lambda ct, out, x: (3 * x * ct,))
    >>> fgrad.check_rule(f, 1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.RuleCheckError: ...
    """
    if isinstance(target, str):
        target = _by_name(target)
    given = _given.get(target) if isinstance(target, Primitive) else getattr(target, "fgrad_rules", None)
    if given is None:
        raise ValueError(f"check_rule: {errors.shown(target)} was given no rule by define_rule.")
    name = target.name if isinstance(target, Primitive) else getattr(target, "__name__", "function")
    fun = functools.partial(target.bind, **params) if isinstance(target, Primitive) else target
    args = tree_util.tree_map(jax.numpy.asarray, args)
    _RuleCheck(name, given, fun, args, params).run()


@frozen(eq=False)
class _RuleCheck:
    name: str
    given: Rules
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    params: dict[str, Any]

    def run(self) -> None:
        flat, tree = tree_util.tree_flatten(self.args)
        moving = [i for i, x in enumerate(flat) if is_inexact(typeof(x))]
        point = [flat[i] for i in moving]

        def function(xs: Sequence[Any]) -> list[Any]:
            result = self.fun(*tree_util.tree_unflatten(tree, with_positions(flat, moving, xs)))
            return [y for y in tree_util.tree_leaves(result) if is_inexact(typeof(y))]

        direction = fd.directions(point, seed=0)
        tangents = fd.cast(direction, point)
        numeric = fd.slopes(function, point, direction, fd.default_step(point)).central
        out = self.fun(*self.args)
        ct = tree_util.tree_map(lambda y: _random_like(y) if is_inexact(typeof(y)) else None, out)
        cts = tree_util.tree_leaves(ct)
        spread: list[Any] = [None] * len(flat)
        for i, t in zip(moving, tangents, strict=True):
            spread[i] = t
        by_arg = tree_util.tree_unflatten(tree, spread)
        slopes = {"finite differences": fd.inner(cts, numeric)}
        if self.given.jvp is not None:
            derivatives = self.given.jvp(tuple(by_arg), out, *self.args, **self.params)
            slopes["jvp"] = fd.inner(cts, self.leaves_of(derivatives, out))
        if self.given.vjp is not None:
            slopes["vjp"] = self.paired("vjp", self.given.vjp(ct, out, *self.args, **self.params), by_arg)
        if self.given.transpose is not None:
            self.check_linear(by_arg)
            derivatives = self.given.transpose(ct, *self.args, **self.params)
            slopes["transpose"] = self.paired("transpose", derivatives, by_arg)
        self.compare(slopes, fd.default_tolerance(point) * (1 + abs(slopes["finite differences"])))
        self.check_second_order(function, point, cts, tangents)
        if self.given.batching is not None:
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
        """The derivative of a rule must be that of what it gives: rules are differentiated as any other code."""
        cts = [ct for ct in cts if ct is not None]
        firsts: dict[str, fd.Flat] = {}
        if self.given.vjp is not None:
            firsts["vjp"] = lambda xs: reverse_derivative(function, list(xs))[1](cts)[0]
        if self.given.jvp is not None:
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
        filled = tree_util.tree_leaves(_filled(tangent, out))
        return [t for t, y in zip(filled, tree_util.tree_leaves(out), strict=True) if is_inexact(typeof(y))]

    def paired(self, kind: str, cts: Any, tangents: Any) -> float:
        """The pairing of what a reverse rule returned with the tangents; None counts nothing."""
        cts = tuple(cts) if isinstance(cts, tuple | list) else (cts,)
        check_cotangents(kind, self.name, getattr(self.given, kind), cts, self.args)
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
        """f(x + t) must be f(x) + f(t) in the arguments in which the target is said to be linear."""
        linear = [self.given.is_linear(i, x) for i, x in enumerate(self.args)]

        def at(change: Callable[[Any, Any], Any]) -> list[Any]:
            new = [
                tree_util.tree_map(lambda x, t: x if t is None else change(x, t), x, t) if is_linear else x
                for x, t, is_linear in zip(self.args, tangents, linear, strict=True)
            ]
            return [fd.wide(y) for y in tree_util.tree_leaves(self.fun(*new))]

        both, first, second = at(lambda x, t: x + t), at(lambda x, t: x), at(lambda x, t: t)
        added = [a + b for a, b in zip(first, second, strict=True)]
        tolerance = fd.default_tolerance([x for x in tree_util.tree_leaves(self.args) if is_inexact(typeof(x))])
        if not fd.close_to(both, added, tolerance, tolerance):
            raise errors.rules_disagree(self.name, "transpose", "linearity, f(x + t) = f(x) + f(t)", added, both)

    def check_batching(self) -> None:
        size = 3
        every = range(len(self.args))
        for mapped in (set(every), *({i} for i in every)):
            stacked = [
                tree_util.tree_map(lambda x: jax.numpy.stack([_moved(x, k) for k in range(size)]), x)
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


def _moved(x: Any, k: int) -> Any:
    return x * (1 + k / 8) if is_inexact(typeof(x)) else x
