"""Reverse mode: ``grad``, ``value_and_grad`` and ``vjp``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import lax, tree_util

from fgrad import errors
from fgrad.api.arguments import Argnums, argnums_tuple, leaves, resolve, with_positions
from fgrad.api.recorded import close, record
from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.op import intern
from fgrad.graph.regions import is_inexact
from fgrad.jaxcore import ShapedArray, primitive, tangent_dtype, typeof
from fgrad.passes import vjp as vjp_pass
from fgrad.passes.local import tangent_type
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import simplify
from fgrad.run.program import program, run


def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """The gradient of a scalar-valued function, as a function of the same arguments.

    Arguments:
      fun: returns a scalar (shape ``()``, real floating point), or ``(scalar, aux)`` with ``has_aux``.
      argnums: which positional arguments to differentiate: an int (negative counts from the end) or a tuple of ints.
      has_aux: ``fun`` also returns auxiliary data, passed through undifferentiated.
      holomorphic: ``fun`` is complex-differentiable; inputs and output must then be complex.
      allow_int: integer and boolean arguments are let through; their gradient is of dtype ``float0``.

    Returns:
      A function giving the gradient: a pytree of the structure, shapes and dtypes of the argument (a tuple of them
      for a tuple ``argnums``), or ``(gradient, aux)``.  Complex gradients follow JAX: the conjugate of PyTorch's.

    Raises:
      TypeError: the output is not a real scalar, or an input has no derivative (integer, non-array); the message
        names its path.
      ValueError: ``argnums`` is out of range.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.grad(lambda x: jnp.sum(x ** 3))(jnp.array([1.0, 2.0]))
    Array([ 3., 12.], dtype=float32)

    Source: the meaning of every argument is that of `jax.grad
    <https://docs.jax.dev/en/latest/_autosummary/jax.grad.html>`_.
    """
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @functools.wraps(fun, assigned=_NAMES)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """Like ``grad``, giving ``(value, gradient)``, with ``has_aux`` ``((value, aux), gradient)``.

    >>> import fgrad
    >>> fgrad.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    Arguments, errors and source: as for ``grad``.
    """
    return functools.wraps(fun, assigned=_NAMES)(_value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad"))


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def _value_and_grad(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool, holomorphic: bool, allow_int: bool, what: str
) -> Callable[..., Any]:
    if not callable(fun):
        raise TypeError(f"{what} takes a function, got {fun!r} of type {type(fun).__name__}.")
    wanted = argnums_tuple(argnums, what)
    single = not isinstance(argnums, Sequence)

    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        positions = resolve(wanted, len(args), what)
        chosen = tuple([args[i] for i in positions])
        flat = leaves(chosen, "args", what)
        _check_inputs(flat.values, lambda i: _arg_path(chosen, positions, i), holomorphic, allow_int, what)

        def call(tracers: Sequence[Any]) -> Any:
            return fun(*with_positions(args, positions, flat.unflatten(tracers)), **kwargs)

        recorder, result = record(call, flat.values)
        value, aux = _split_aux(result, has_aux, what)
        _check_output(value, holomorphic, what)
        aux_flat, aux_tree = tree_util.tree_flatten(aux)
        traced = [i for i, x in enumerate(aux_flat) if recorder.records((x,))]
        recorded = close(recorder, [value, *(aux_flat[i] for i in traced)])
        types = recorded.made("value_and_grad", _grad_plan)
        outs = types.program(recorded.values)
        for i, x in zip(traced, outs[1 : 1 + len(traced)], strict=True):
            aux_flat[i] = x
        grads = [outs[k] if k is not None else _zero(x) for k, x in zip(types.at, flat.values, strict=False)]
        gradient = flat.unflatten(grads)
        gradient = gradient[0] if single else gradient
        return ((outs[0], tree_util.tree_unflatten(aux_tree, aux_flat)) if has_aux else outs[0]), gradient

    return value_and_grad_fun


@frozen(eq=False)
class _Plan:
    """A program whose outputs are value, aux and gradients; ``at`` says where each input's gradient stands."""

    program: Any
    at: tuple[int | None, ...]


def _grad_plan(graph: Graph) -> _Plan:
    """The joint graph of value and gradient, the cotangent of the first output being one."""
    wrt = [i for i, t in enumerate(graph.in_types) if is_inexact(t)]
    joint = vjp_pass.vjp(graph, wrt, [k == 0 for k in range(len(graph.outputs))])
    builder = Builder(graph.in_types)
    value_type = graph.out_types[0]
    seed_type = tangent_type(value_type)
    one = builder.const(Const(np.ones((), seed_type.dtype), seed_type))
    outs = builder.splice(joint.graph, [*builder.inputs, one])
    m = len(graph.outputs)
    at: list[int | None] = [None] * len(graph.in_types)
    for i, k in zip(wrt, joint.results, strict=True):
        if k is not None:
            outs[m + k] = _weak_again(builder, outs[m + k], graph.in_types[i])
            at[i] = m + k
    return _Plan(program(simplify(builder.finish(outs))), tuple(at))


def _weak_again(builder: Builder, number: int, type: ShapedArray) -> int:
    """A derivative with respect to a weakly typed value (a Python number) is weakly typed, as in JAX."""
    if not type.weak_type or builder.types[number].weak_type:
        return number
    op = intern(
        primitive("convert_element_type"), {"new_dtype": type.dtype, "weak_type": True, "sharding": None},
        (builder.types[number],),
    )  # fmt: skip
    return builder.emit(op, (number,))


def _zero(x: Any) -> Any:
    type = typeof(x)
    dtype = tangent_dtype(type.dtype)
    if dtype == jax.dtypes.float0:
        return np.zeros(type.shape, dtype)
    return lax.full(type.shape, 0, dtype) if not type.weak_type else jax.numpy.zeros_like(x)


def _split_aux(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{what} with has_aux=True: the function must return a pair (value, aux), got {type(result).__name__}"
            f"{f' of length {len(result)}' if isinstance(result, tuple) else ''}."
        )
    return result


def _check_inputs(values: Sequence[Any], path: Callable[[int], str], holomorphic: bool, allow_int: bool, what: str) -> None:
    for i, x in enumerate(values):
        dtype = typeof(x).dtype
        if holomorphic:
            if not jax.dtypes.issubdtype(dtype, np.complexfloating):
                raise TypeError(
                    f"{what} with holomorphic=True needs complex inputs, but {path(i)} has dtype {dtype}. "
                    "Convert it, e.g. x.astype(jnp.complex64), or leave holomorphic out for a real-valued function."
                )
        elif not is_inexact(typeof(x)) and not allow_int:
            raise errors.integer_input(path(i), typeof(x).str_short(), what)


def _arg_path(chosen: Any, positions: Sequence[int], i: int) -> str:
    with_paths, _ = tree_util.tree_flatten_with_path(chosen)
    path = with_paths[i][0]
    return f"args[{positions[path[0].idx]}]" + tree_util.keystr(path[1:])


def _check_output(value: Any, holomorphic: bool, what: str) -> None:
    if not isinstance(value, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
        if hasattr(value, "__jax_array__"):
            return
        raise errors.output_not_scalar(what, _describe(value))
    type = typeof(value)
    if type.shape != ():
        raise errors.output_not_scalar(what, f"an array of shape {type.shape}")
    if holomorphic:
        if not jax.dtypes.issubdtype(type.dtype, np.complexfloating):
            raise TypeError(f"{what} with holomorphic=True needs a complex output, got dtype {type.dtype}.")
    elif jax.dtypes.issubdtype(type.dtype, np.complexfloating):
        raise TypeError(
            f"{what} needs a real output, got dtype {type.dtype}. For a complex-differentiable function of complex "
            "inputs pass holomorphic=True; otherwise return a real number, e.g. its real part or absolute value, or use vjp."
        )
    elif not is_inexact(type):
        raise TypeError(
            f"{what} needs a floating-point output, got dtype {type.dtype}: the function's result is an integer or "
            "boolean, which has no derivative."
        )


def _describe(value: Any) -> str:
    if value is None:
        return "None (is a return statement missing?)"
    if isinstance(value, tuple | list | dict):
        hint = "; to return more than the loss use has_aux=True" if isinstance(value, tuple) else ""
        return f"a {type(value).__name__}{hint}"
    return f"{value!r} of type {type(value).__name__}"


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``fun(*primals)`` and the function from output cotangents to input cotangents.

    Arguments:
      fun: takes and returns pytrees of arrays.
      primals: where to evaluate it.
      has_aux: ``fun`` returns ``(output, aux)``.

    Returns:
      ``(output, vjp_fun)``, or ``(output, vjp_fun, aux)``.  ``vjp_fun(ct)`` takes a pytree of the output's structure,
      shapes and dtypes and returns a tuple with a cotangent for each primal.  It may be called any number of times.

    Raises:
      TypeError, ValueError: a primal is not an array, or a cotangent has another structure, shape or dtype than the
        output (the message names the path, and what was expected and given).

    >>> import fgrad, jax.numpy as jnp
    >>> y, vjp_fun = fgrad.vjp(jnp.sin, 0.0)
    >>> vjp_fun(2.0)
    (Array(2., dtype=float32, weak_type=True),)

    Source: `jax.vjp <https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html>`_.
    """
    flat = leaves(primals, "primals", "vjp")
    recorder, result = record(lambda tracers: fun(*flat.unflatten(tracers)), flat.values)
    result, aux = _split_aux(result, has_aux, "vjp")
    out_flat = leaves(result, "output", "vjp: the function's output")
    aux_flat, aux_tree = tree_util.tree_flatten(aux)
    traced = [i for i, x in enumerate(aux_flat) if recorder.records((x,))]
    n = len(out_flat.values)
    recorded = close(recorder, [*out_flat.values, *(aux_flat[i] for i in traced)])
    split: _Split = recorded.made(("vjp", n), lambda graph: _split(graph, n))
    known = run(split.halves.known, recorded.values)
    outs, residuals = known[: n + len(traced)], known[n + len(traced) :]
    for i, x in zip(traced, outs[n:], strict=True):
        aux_flat[i] = x

    out_types = [typeof(x) for x in outs[:n]]

    def vjp_fun(ct: Any) -> Any:
        cts = matching(ct, out_flat, out_types, "the cotangent given to vjp's function", "the output")
        live = [x for x, t in zip(cts, out_types, strict=True) if is_inexact(t)]
        found = run(split.halves.unknown, [*residuals, *live])
        grads = [found[k] if k is not None else _zero(x) for k, x in zip(split.at, flat.values, strict=False)]
        return flat.unflatten(grads)

    vjp_fun.__name__ = "vjp_fun"
    vjp_result = tree_util.Partial(vjp_fun)
    output = out_flat.unflatten(outs[:n])
    return (output, vjp_result, tree_util.tree_unflatten(aux_tree, aux_flat)) if has_aux else (output, vjp_result)


@frozen(eq=False)
class _Split:
    halves: Halves
    at: tuple[int | None, ...]


def _split(graph: Graph, n: int) -> _Split:
    wrt = [i for i, t in enumerate(graph.in_types) if is_inexact(t)]
    live = [k < n and is_inexact(t) for k, t in enumerate(graph.out_types)]
    joint = vjp_pass.vjp(graph, wrt, live)
    builder = Builder(joint.graph.in_types)
    outs = builder.splice(joint.graph, builder.inputs)
    m = len(graph.outputs)
    at: list[int | None] = [None] * len(graph.in_types)
    for i, k in zip(wrt, joint.results, strict=True):
        if k is not None:
            outs[m + k] = _weak_again(builder, outs[m + k], graph.in_types[i])
            at[i] = k
    whole = simplify(builder.finish(outs))
    first_ct = len(graph.in_types)
    halves = partition(whole, range(first_ct, len(whole.in_types)), [k >= m for k in range(len(whole.outputs))])
    return _Split(halves, tuple(at))


def matching(tree: Any, pattern: Any, types: Sequence[ShapedArray], what: str, of: str) -> list[Any]:
    """The leaves of ``tree``, which must have the structure of ``pattern`` and be (co)tangents of ``types``.

    Raises:
      TypeError: the structures differ.
      ValueError: a leaf has another shape or dtype than the (co)tangent of its counterpart.
    """
    flat, treedef = tree_util.tree_flatten(tree)
    if treedef != pattern.tree:
        raise TypeError(
            f"The structure of {what} must be that of {of}.\n  expected: {pattern.tree}\n  got:      {treedef}"
        )
    found = []
    for i, (x, type) in enumerate(zip(flat, types, strict=True)):
        expected = tangent_dtype(type.dtype)
        if expected == jax.dtypes.float0:
            found.append(x)
            continue
        if isinstance(x, np.ndarray):
            x = jax.numpy.array(x)
        got = typeof(x)
        path = what + tree_util.keystr(tree_util.tree_flatten_with_path(tree)[0][i][0])
        if got.shape != type.shape or got.dtype != expected:
            if got.weak_type and got.shape == type.shape and jax.numpy.result_type(x, expected) == expected:
                pass
            else:
                raise ValueError(
                    f"{path} has the wrong type.\n  expected: {ShapedArray(type.shape, expected).str_short()} "
                    f"(that of {of})\n  got:      {got.str_short()}"
                )
        if got.weak_type or got.dtype != expected:
            x = lax.convert_element_type(x, expected)
        found.append(x)
    return found


