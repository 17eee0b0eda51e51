"""Staging and mapping: ``jit``, ``eval_shape``, ``closure_convert``, ``vmap`` and ``stop_gradient``."""

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import check_function, flattened, leaves, names, positions, with_positions
from fgrad.api.recorded import by_graph
from fgrad.graph.graph import Builder, Const, evaluate
from fgrad.graph.op import BATCHING
from fgrad.graph.source import boundary
from fgrad.jaxcore import Tracer, current_trace, is_evaluating, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.passes.simplify import simplify
from fgrad.record.operands import explain
from fgrad.record.origin import Call, parameter
from fgrad.record.refusals import check_leaks
from fgrad.record.stager import stage
from fgrad.run.executable import run


def jit(
    fun: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    **options: Any,
) -> Any:
    """Compile a function: it is recorded once per structure, types and static values, simplified, and given to XLA.

    Arguments:
      fun: takes and returns pytrees of arrays.  Left out, ``jit`` returns a decorator.
      static_argnums, static_argnames: arguments that are part of the program; they must be hashable.
      donate_argnums, donate_argnames: arguments whose memory may be reused for the results.
      options: the other keywords of ``jax.jit`` (``in_shardings``, ``out_shardings``, ``inline``, ...).

    Returns:
      The compiled function, with the methods of a ``jax.jit`` function: ``lower``, ``trace``, ``eval_shape``,
      ``clear_cache``.

    Raises:
      NotConcreteError: ``fun`` asks for the number behind a traced value (``if x > 0``); the message names the line.
      UnhashableStaticError: a static argument is unhashable; the message names it.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.jit(fgrad.grad(lambda x: jnp.sum(x ** 2)))(jnp.array([1.0, 2.0]))
    Array([2., 4.], dtype=float32)

    Source: `jax.jit <https://docs.jax.dev/en/latest/_autosummary/jax.jit.html>`_.
    """
    keywords = {
        "static_argnums": static_argnums, "static_argnames": static_argnames,
        "donate_argnums": donate_argnums, "donate_argnames": donate_argnames, **options,
    }  # fmt: skip
    if fun is None:
        return lambda fun: jit(fun, **keywords)
    check_function(fun, "jit")
    for name in ("static_argnums", "donate_argnums"):
        keywords[name] = positions(keywords[name], name, "jit")
    for name in ("static_argnames", "donate_argnames"):
        keywords[name] = names(keywords[name], name, "jit")
    compiled = jax.jit(_staged(fun), **keywords)
    statics = keywords["static_argnums"], keywords["static_argnames"]
    return compiled if statics == (None, None) else Jitted(fun, compiled, *statics)


def _staged(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun`` by way of its simplified graph, called under JAX's trace with tracers as the dynamic arguments."""

    @functools.wraps(fun)
    def staged(*args: Any, **kwargs: Any) -> Any:
        # nothing is traced with disable_jit, or when JAX searches for the origin of a NaN (jax_debug_nans)
        if jax.config.jax_disable_jit or is_evaluating(current_trace()):  # type: ignore[attr-defined]
            return fun(*args, **kwargs)
        flat, tree = tree_util.tree_flatten((args, kwargs))
        traced_in = [i for i, x in enumerate(flat) if isinstance(x, Tracer)]
        outputs: list[Any] = []

        def flat_fun(*tracers: Any) -> list[Any]:
            new_args, new_kwargs = tree_util.tree_unflatten(tree, with_positions(flat, traced_in, tracers))
            out = leaves(fun(*new_args, **new_kwargs), "output", "jit: the function's output")
            outputs.extend((out, weakref.ref(current_trace())))
            return out.values

        traced = [flat[i] for i in traced_in]
        graph, lifted = stage(flat_fun, [typeof(x) for x in traced], Call(fun, "jit", tree, None, traced_in))
        stager = outputs.pop()
        result = outputs.pop().unflatten(evaluate(simplify(graph), [*traced, *lifted]))
        # a strong reference to the stager would itself count as a leak
        if jax.config.jax_check_tracer_leaks and stager() is not None:  # type: ignore[attr-defined]
            check_leaks(stager())
        return result

    return staged


def is_staged(fun: Any) -> bool:
    """Whether a function is one that ``jit`` passes to JAX; its ``__wrapped__`` is the user's."""
    return getattr(fun, "__code__", None) is _staged_code


_staged_code = _staged(lambda: None).__code__


class Jitted:
    """A ``jax.jit`` function with static arguments, whose error for an unhashable one names it."""

    def __init__(
        self, fun: Callable[..., Any], compiled: Any, argnums: tuple[int, ...] | None, argnames: tuple[str, ...] | None
    ):
        functools.update_wrapper(self, fun)
        self._compiled = compiled
        self._argnums = argnums or ()
        self._argnames = argnames or ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._compiled(*args, **kwargs)
        except (TypeError, ValueError, RecursionError):
            self._check(args, kwargs)
            raise

    def _check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        try:
            names = list(inspect.signature(self.__wrapped__).parameters)  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            names = []
        for i, value in enumerate(args):
            name = names[i] if i < len(names) else None
            if i in self._argnums or i - len(args) in self._argnums or name in self._argnames:
                _check_hashable(value, f"args[{i}]" + (f" ({name})" if name else ""))
        for name, value in kwargs.items():
            if name in self._argnames or (name in names and names.index(name) in self._argnums):
                _check_hashable(value, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_compiled":
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __repr__(self) -> str:
        return repr(self._compiled)


def _check_hashable(value: Any, path: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise errors.unhashable_static(path, value, "jit") from None


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of what a function returns, without computing it.

    Arguments:
      fun: takes and returns pytrees of arrays.
      args, kwargs: its arguments: arrays, or ``jax.ShapeDtypeStruct`` in their place.

    Returns:
      The output's pytree with ``jax.ShapeDtypeStruct`` leaves.

    >>> import fgrad, jax, jax.numpy as jnp
    >>> fgrad.eval_shape(fgrad.grad(lambda x: jnp.sum(x ** 2)), jax.ShapeDtypeStruct((3,), jnp.float32))
    ShapeDtypeStruct(shape=(3,), dtype=float32)

    Source: `jax.eval_shape <https://docs.jax.dev/en/latest/_autosummary/jax.eval_shape.html>`_.
    """
    check_function(fun, "eval_shape")
    return jax.eval_shape(fun, *args, **kwargs)


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """``fun`` as a function of its arguments and of the traced values that it closes over.

    For functions with custom derivative rules that take a function, which may close over values that are being
    differentiated: pass those as arguments.

    Arguments:
      fun: takes and returns pytrees of arrays.
      example_args: arguments of the types with which it will be called.

    Returns:
      ``(converted, values)``: ``converted(*args, *values)`` equals ``fun(*args)`` and closes over no traced
      floating-point value.

    Raises:
      TypeError: ``converted`` is called with arguments of another structure than the examples.

    >>> import fgrad
    >>> converted, values = fgrad.closure_convert(lambda x: 2 * x, 1.0)
    >>> converted(3.0, *values), values
    (Array(6., dtype=float32, weak_type=True), [])

    Source: `jax.closure_convert <https://docs.jax.dev/en/latest/_autosummary/jax.closure_convert.html>`_.
    """
    check_function(fun, "closure_convert")
    flat, in_tree = flattened(example_args, "example_args", "closure_convert")
    outputs: list[Any] = []

    def flat_fun(*tracers: Any) -> list[Any]:
        out = leaves(
            fun(*tree_util.tree_unflatten(in_tree, tracers)), "output", "closure_convert: the function's output"
        )
        outputs.append(out)
        return out.values

    graph, lifted = stage(flat_fun, [typeof(x) for x in flat])
    out = outputs.pop()
    hoisted = [isinstance(x, Tracer) and is_inexact(typeof(x)) for x in lifted]
    # hoisted values remain the last inputs; the others become constants
    n = len(flat)
    builder = Builder(graph.in_types[:n])
    extra = [
        builder.input(typeof(x)) if is_hoisted else builder.const(Const.of(x))
        for x, is_hoisted in zip(lifted, hoisted, strict=True)
    ]
    closed = builder.finish(builder.splice(graph, [*builder.inputs[:n], *extra]))

    def converted(*args: Any) -> Any:
        count = len(args) - sum(hoisted)
        values, tree = tree_util.tree_flatten(args[:count])
        if tree != in_tree:
            raise TypeError(
                "The function made by closure_convert must be called with arguments of the example's structure, then "
                f"the {sum(hoisted)} hoisted values.\n  expected: {in_tree}\n  got:      {tree}"
            )
        return out.unflatten(run(closed, [*values, *args[count:]]))

    return converted, [x for x, is_hoisted in zip(lifted, hoisted, strict=True) if is_hoisted]


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
    spmd_axis_name: Any = None, **options: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Map a function over an axis of its arguments: ``jax.vmap``, which composes with fgrad's transformations.

    Arguments:
      fun: takes and returns pytrees of arrays.
      in_axes, out_axes: which axis of each argument and output is mapped: an int, None (none), or pytrees of them.
      axis_name: a name for the mapped axis, for ``jax.lax.psum`` and the like.
      axis_size: its size; needed only where no argument is mapped.
      spmd_axis_name: the mesh axis over which the mapped axis is sharded.
      options: passed to ``jax.vmap`` (``sum_match`` of JAX 0.12).

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.vmap(fgrad.grad(lambda x, y: x * y ** 2), in_axes=(None, 0))(1.0, jnp.array([2.0, 3.0]))
    Array([4., 9.], dtype=float32, weak_type=True)

    Source: `jax.vmap <https://docs.jax.dev/en/latest/_autosummary/jax.vmap.html>`_.
    """

    check_function(fun, "vmap")
    # JAX does not recover from pytrees that contain themselves
    flattened((in_axes, out_axes), "in_axes or out_axes", "vmap")

    def checked(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        flattened(result, "output", "vmap: the function's output")
        return result

    @functools.wraps(fun)
    def ruled(*args: Any, **kwargs: Any) -> Any:
        # JAX knows only its own batching rules; those of ``define_rule`` apply when fgrad runs a graph
        try:
            return by_graph(checked, *args, **kwargs) if BATCHING else checked(*args, **kwargs)
        except Exception as error:
            explain(error)
            raise

    mapped = jax.vmap(
        ruled,
        in_axes=in_axes,
        out_axes=out_axes,
        axis_name=axis_name,
        axis_size=axis_size,
        spmd_axis_name=spmd_axis_name,
        **options,
    )

    @boundary
    @functools.wraps(fun)
    def mapped_fun(*args: Any, **kwargs: Any) -> Any:
        flattened((args, kwargs), "an argument", "vmap")
        try:
            return mapped(*args, **kwargs)
        except ValueError as error:
            _add_unmapped(error, _unmapped(fun, in_axes, args))
            raise

    return mapped_fun


def _add_unmapped(error: ValueError, arguments: Sequence[str]) -> None:
    """Add the arguments that lack the axis to JAX's error from a call of a mapped function."""
    if arguments and not getattr(error, "located", False):
        error.args = (
            f"{error}\n\nWithout the axis: {', '.join(arguments)}.\n"
            "Way out: give in_axes an entry for each argument, with None for one that is not mapped: "
            "in_axes=(0, None).",
        )
        error.located = True  # type: ignore[attr-defined]


def _unmapped(fun: Callable[..., Any], in_axes: Any, args: Sequence[Any]) -> list[str]:
    """The arguments that lack the mapped axis, each with its type."""
    axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
    descriptions = []
    for i, (axis, value) in enumerate(zip(axes, args, strict=False)):
        if isinstance(axis, int):
            for path, x in tree_util.tree_flatten_with_path(value)[0]:
                type = typeof(x)
                if not -len(type.shape) <= axis < len(type.shape):
                    descriptions.append(f"{parameter(fun, i)}{tree_util.keystr(path)} is {type.str_short()}")
    return descriptions


def stop_gradient(x: Any) -> Any:
    """``x``, a pytree of arrays, as a constant: no derivative flows through it.

    >>> import fgrad
    >>> fgrad.grad(lambda x: x * fgrad.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)

    Source: `jax.lax.stop_gradient <https://docs.jax.dev/en/latest/_autosummary/jax.lax.stop_gradient.html>`_.
    """
    flattened(x, "x", "stop_gradient")
    return jax.lax.stop_gradient(x)
