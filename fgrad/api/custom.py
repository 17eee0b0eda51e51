"""Functions with their own derivative: ``custom_jvp`` and ``custom_vjp``.

They wrap JAX's classes of the same names, which all JAX transformations and fgrad's recorder know, and check what each
rule returns.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import check_function, flattened, names, positions
from fgrad.graph.bwd import cotangent_of
from fgrad.jaxcore import ShapedArray, tangent_dtype, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.record.origin import function_name
from fgrad.record.recording import without_tracers

SymbolicZero = jax.custom_derivatives.SymbolicZero


class custom_jvp:
    """A function with its own forward-mode rule; reverse mode follows by transposing it.

    Arguments:
      fun: takes and returns pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that are not arrays; the rule gets them first.

    Raises, when called:
      MissingCustomRuleError: no rule has been defined.
      RuleTypeError: the rule did not return a pair, or a tangent has another structure, shape or dtype than the output.

    >>> import fgrad, jax.numpy as jnp
    >>> @fgrad.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 10 * jnp.cos(x) * t
    >>> fgrad.grad(f)(0.0)
    Array(10., dtype=float32, weak_type=True)

    Source: `jax.custom_jvp <https://docs.jax.dev/en/latest/_autosummary/jax.custom_jvp.html>`_.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        check_function(fun, "custom_jvp")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.jvp: Callable[..., Any] | None = None
        self._inner = jax.custom_jvp(
            fun,
            nondiff_argnums=positions(nondiff_argnums, "nondiff_argnums", "custom_jvp") or (),
            nondiff_argnames=names(nondiff_argnames, "nondiff_argnames", "custom_jvp") or (),
        )

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Define the rule: ``jvp(*nondiff_args, primals, tangents)`` returns ``(output, tangent of the output)``.

        With ``symbolic_zeros`` a tangent may be a ``SymbolicZero`` instead of an array.  Returns ``jvp``.
        """
        check_function(jvp, "custom_jvp: jvp=")
        name = function_name(self.fun)

        @functools.wraps(jvp)
        def checked(*args: Any) -> Any:
            with _rule("jvp", name, jvp):
                return _checked_pair(jvp(*args), name)

        self.jvp = jvp
        self._inner.defjvp(checked, symbolic_zeros=symbolic_zeros)
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the rule argument by argument: ``jvps[i](tangent, output, *primals)``, None for a zero derivative."""
        if self._inner.nondiff_argnums:
            raise TypeError("defjvps does not take nondiff_argnums; give the whole rule with defjvp.")

        for i, rule in enumerate(jvps):
            if rule is not None:
                check_function(rule, f"custom_jvp: jvps[{i}]")

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise TypeError(
                    f"{function_name(self.fun)!r} was given {len(jvps)} rules by defjvps and called with "
                    f"{len(primals)} arguments; give one rule (or None) for each argument."
                )
            out = self(*primals)
            terms = [rule(t, out, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule is not None]
            if not terms:
                return out, tree_util.tree_map(zero_tangent_of, out)
            return out, tree_util.tree_map(lambda *xs: functools.reduce(_plus, xs), *terms)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise errors.missing_custom_rule(function_name(self.fun), "custom_jvp")
        return self._inner(*args, **kwargs)


class custom_vjp:
    """A function with its own reverse-mode rule; forward mode (which JAX refuses) follows by transposing it.

    Arguments:
      fun: takes and returns pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that are not arrays; ``bwd`` gets them first.

    Raises, when called:
      MissingCustomRuleError: no rule has been defined.
      RuleTypeError: ``fwd`` did not return a pair, or ``bwd`` a tuple with a cotangent (or None) of each argument's
        structure and shape, or one for a real argument is complex.

    >>> import fgrad, jax.numpy as jnp
    >>> @fgrad.custom_vjp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (10 * jnp.cos(x) * ct,))
    >>> fgrad.grad(f)(0.0)
    Array(10., dtype=float32, weak_type=True)

    Source: `jax.custom_vjp <https://docs.jax.dev/en/latest/_autosummary/jax.custom_vjp.html>`_.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        check_function(fun, "custom_vjp")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self._inner = jax.custom_vjp(
            fun,
            nondiff_argnums=positions(nondiff_argnums, "nondiff_argnums", "custom_vjp") or (),
            nondiff_argnames=names(nondiff_argnames, "nondiff_argnames", "custom_vjp") or (),
        )

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the rule.

        Arguments:
          fwd: takes the function's arguments; returns ``(output, residuals)``.
          bwd: takes the nondiff arguments, the residuals and the output's cotangent; returns a tuple with a cotangent,
            or None for zero, for each other argument.  A cotangent is converted to its argument's dtype.
          symbolic_zeros: ``fwd`` gets objects with ``value`` and ``perturbed``, ``bwd`` may get a ``SymbolicZero``.
          optimize_remat: accepted; fgrad drops what a recomputed ``fwd`` need not compute in any case.
        """
        check_function(fwd, "custom_vjp: fwd=")
        check_function(bwd, "custom_vjp: bwd=")
        name = function_name(self.fun)
        nondiff = self._inner.nondiff_argnums  # type: ignore[attr-defined]

        @functools.wraps(fwd)
        def checked_fwd(*args: Any, **kwargs: Any) -> Any:
            with _rule("fwd", name, fwd):
                pair = fwd(*args, **kwargs)
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise errors.bad_custom_rule("fwd", name, "output", "a pair (output, residuals)", _describe(pair))
            flattened(pair[1], "residuals", f"The fwd rule of {name!r}")
            differentiable = tuple([x for i, x in enumerate(args) if i not in nondiff])
            return pair[0], (_types_of(differentiable), pair[1])

        @functools.wraps(bwd)
        def checked_bwd(*args: Any) -> Any:
            *first, (types, residuals), ct = args
            with _rule("bwd", name, bwd):
                return _checked_cotangents(bwd(*first, residuals, ct), types, name)

        self.fwd, self.bwd = fwd, bwd
        self._inner.defvjp(checked_fwd, checked_bwd, symbolic_zeros=symbolic_zeros)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise errors.missing_custom_rule(function_name(self.fun), "custom_vjp")
        if nondiff := self._inner.nondiff_argnums:  # type: ignore[attr-defined]
            # JAX takes no tracers there, and has a mask, say, as an array
            args = tuple([tree_util.tree_map(without_tracers, x) if i in nondiff else x for i, x in enumerate(args)])
            kwargs = tree_util.tree_map(without_tracers, kwargs)
        return self._inner(*args, **kwargs)


# --------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _rule(rule: str, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """A context for a user's rule, whose errors are marked as the rule's."""
    try:
        yield
    except Exception as error:
        errors.in_rule(error, rule, name, function)
        raise


def zero_tangent_of(x: Any) -> Any:
    """The zero tangent of an array: ``float0`` if it is integer or boolean."""
    dtype = tangent_dtype(typeof(x).dtype)
    shape = typeof(x).shape
    return np.zeros(shape, dtype) if dtype == jax.dtypes.float0 else jax.numpy.zeros(shape, dtype)


def _plus(a: Any, b: Any) -> Any:
    return a if getattr(a, "dtype", None) == jax.dtypes.float0 else jax.numpy.add(a, b)


def _checked_pair(result: Any, name: str) -> Any:
    """The result of a forward-mode rule, checked to be a pair of an output and its tangent."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise errors.bad_custom_rule("jvp", name, "output", "a pair (output, tangent of the output)", _describe(result))
    out, tangent = result
    of = f"The jvp rule of {name!r}"
    flat, tree = flattened(out, "the output", of)
    flat_tangent, tangent_tree = flattened(tangent, "the tangent output", of)
    if tree != tangent_tree:
        raise errors.bad_custom_rule(
            "jvp", name, "the tangent output", f"the output's structure {tree}", str(tangent_tree)
        )
    for i, (x, t) in enumerate(zip(flat, flat_tangent, strict=True)):
        if is_inexact(typeof(x)):
            path = "tangent" + tree_util.keystr(tree_util.tree_flatten_with_path(out)[0][i][0])
            flat_tangent[i] = _fitting(t, typeof(x), "jvp", name, path, _tangent_of)
    return out, tree_util.tree_unflatten(tree, flat_tangent)


def _fitting(
    value: Any, primal: ShapedArray, rule: str, name: str, path: str, converted: Callable[[ShapedArray, Any], Any]
) -> Any:
    """A (co)tangent, checked against the type of its primal, and in that dtype if it may be ``converted``."""
    expected = ShapedArray(primal.shape, tangent_dtype(primal.dtype))
    if isinstance(value, SymbolicZero):
        got: Any = value.aval
    else:
        try:
            if isinstance(value, jax.ShapeDtypeStruct):
                raise TypeError
            got = typeof(value)
        except TypeError:
            raise errors.bad_custom_rule(rule, name, path, expected.str_short(), _describe(value)) from None
        if got.shape == expected.shape and got.dtype != expected.dtype:
            value = converted(expected, value)
            got = typeof(value)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise errors.bad_custom_rule(
            rule, name, path, f"{expected.str_short()} (the value there has type {primal.str_short()})", got.str_short()
        )
    return value


def _tangent_of(type: ShapedArray, tangent: Any) -> Any:
    """A tangent in this dtype if it is weak, as a Python number is, and that loses nothing; else as it is."""
    weak = typeof(tangent).weak_type and jax.numpy.result_type(tangent, type.dtype) == type.dtype
    return jax.lax.convert_element_type(tangent, type.dtype) if weak else tangent


@tree_util.register_static
@frozen
class _Types:
    """The structure and types of a function's arguments, stored with the residuals."""

    tree: Any
    types: tuple[ShapedArray, ...]


def _types_of(args: tuple[Any, ...]) -> _Types:
    flat, tree = tree_util.tree_flatten(args)
    # with symbolic_zeros a leaf is an object with the attribute ``value``
    return _Types(tree, tuple([typeof(x.value if hasattr(x, "perturbed") else x) for x in flat]))


def _checked_cotangents(cts: Any, types: _Types, name: str) -> Any:
    """The result of a backward rule, checked against the arguments, of which it is a prefix; None is zero."""
    args = tree_util.tree_unflatten(types.tree, types.types)
    flattened(cts, "output", f"The bwd rule of {name!r}")
    if not isinstance(cts, tuple | list) or len(cts) != len(args):
        raise errors.bad_custom_rule(
            "bwd", name, "output", f"a tuple with one cotangent for each of {len(args)} arguments", _describe(cts)
        )

    def fit(path: Any, value: Any, arg: Any) -> Any:
        if value is None:
            return None
        if not isinstance(arg, ShapedArray):  # as in JAX, the value is the cotangent of each leaf
            return tree_util.tree_map_with_path(lambda rest, leaf: fit((*path, *rest), value, leaf), arg)
        if not is_inexact(arg):
            return None
        return _fitting(value, arg, "bwd", name, "output" + tree_util.keystr(path), cotangent_of)

    try:
        return tree_util.tree_map_with_path(fit, tuple(cts), args, is_leaf=lambda x: x is None)
    except ValueError as error:
        if isinstance(error, errors.RuleTypeError):
            raise
        raise errors.bad_custom_rule(
            "bwd", name, "output", str(types.tree), str(tree_util.tree_structure(tuple(cts)))
        ) from None


def _describe(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of length {len(value)}"
    if isinstance(value, dict):
        return f"a dict with keys {sorted(map(str, value))}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array {typeof(value).str_short()}"
    return f"{errors.shown(value)} of type {type(value).__name__}"
