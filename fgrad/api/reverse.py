"""Reverse mode: ``grad``, ``value_and_grad`` and ``vjp``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import (
    Argnums,
    argnums_tuple,
    check_function,
    check_reduce_axes,
    flags,
    flattened,
    leaves,
    normalised,
    resolve,
    with_positions,
)
from fgrad.api.names import Differentiation, marked
from fgrad.api.pullback import VJP, Pullback, zero
from fgrad.api.recorded import call, close, inexact_inputs, record, recorded_aux, set_aux, split_aux, weak_as
from fgrad.api.references import vjp_of_references
from fgrad.graph.graph import Graph
from fgrad.graph.source import boundary
from fgrad.jaxcore import ShapedArray, Tracer, typeof
from fgrad.jaxtypes import is_inexact, is_reference
from fgrad.passes.dependence import varied_from
from fgrad.passes.local import filled, tangent_type
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import Simplifier, simplify
from fgrad.passes.vjp import pulled, vjp as vjp_pass
from fgrad.record.origin import Call, function_name
from fgrad.run.executable import Program, run


def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar-valued function, as a function of the same arguments.

    Arguments:
      fun: returns a scalar (shape ``()``, real floating point), or ``(scalar, aux)`` with ``has_aux``.
      argnums: which positional arguments to differentiate: an int (negative counts from the end) or a tuple of ints.
      has_aux: ``fun`` also returns auxiliary data, passed through undifferentiated.
      holomorphic: ``fun`` is complex-differentiable; inputs and output must then be complex.
      allow_int: integer and boolean arguments are let through; their gradient is of dtype ``float0``.
      reduce_axes: accepted for JAX's sake; must be empty, as in JAX.

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
    check_reduce_axes(reduce_axes, "grad")
    argnums = normalised(argnums, "grad")
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @boundary
    @functools.wraps(fun, assigned=_NAMES)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return marked(grad_fun, _differentiation(fun, argnums, has_aux))


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """Like ``grad``, giving ``(value, gradient)``, with ``has_aux`` ``((value, aux), gradient)``.

    >>> import fgrad
    >>> fgrad.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    Arguments, errors and source: as for ``grad``.
    """
    check_reduce_axes(reduce_axes, "value_and_grad")
    argnums = normalised(argnums, "value_and_grad")
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")
    derived = boundary(functools.wraps(fun, assigned=_NAMES)(both))
    return marked(derived, _differentiation(fun, argnums, has_aux, with_value=True))


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def _differentiation(
    fun: Callable[..., Any], argnums: int | tuple[int, ...], has_aux: bool, with_value: bool = False
) -> Differentiation:
    single = isinstance(argnums, int)
    return Differentiation(fun, (argnums,) if single else argnums, single, has_aux, with_value)


def _value_and_grad(
    fun: Callable[..., Any],
    argnums: int | tuple[int, ...],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    what: str,
) -> Callable[..., Any]:
    check_function(fun, what)
    wanted = argnums_tuple(argnums, what)
    single = isinstance(argnums, int)
    # grad drops the first of the outputs (value, aux, gradients), which then need not be computed
    first = 1 if what == "grad" else 0

    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        positions = resolve(wanted, len(args), what)
        chosen = tuple([args[i] for i in positions])
        flat = leaves(chosen, "args", what)
        of = Call(fun, what, flat.tree, positions)
        check_inputs(flat.values, lambda i: arg_path(chosen, positions, i), holomorphic, allow_int, of)

        def chosen_only(tracers: Sequence[Any]) -> Any:
            return fun(*with_positions(args, positions, flat.unflatten(tracers)), **kwargs)

        recorder, result = record(chosen_only, flat.values, of)
        try:
            value, aux = split_aux(result, has_aux, what)
            _check_output(value, holomorphic, what)
            aux_flat, aux_tree = flattened(aux, "aux", what)
            traced, aux_values = recorded_aux(recorder, aux_flat) if aux_flat else ((), ())
            recorded = close(recorder, [value, *aux_values])
        finally:
            recorder.open = False
        count = len(flat.values)
        plan = recorded.cached((what, count), lambda graph: _grad_plan(graph, count, first))
        outs = plan.program(recorded.values)
        if traced:
            set_aux(aux_flat, traced, outs[1 - first : 1 - first + len(traced)])
        grads = [outs[k] if k is not None else zero(typeof(x)) for k, x in zip(plan.results, flat.values, strict=True)]
        gradient = flat.unflatten(grads)
        gradient = gradient[0] if single else gradient
        value = None if first else outs[0]
        return ((value, tree_util.tree_unflatten(aux_tree, aux_flat)) if has_aux else value), gradient

    return value_and_grad_fun


@frozen(eq=False)
class _Plan:
    """A program with the outputs value, aux and gradients; ``results`` has the index of each input's gradient."""

    program: Program
    results: tuple[int | None, ...]


def _grad_plan(graph: Graph, count: int, first: int) -> _Plan:
    """The joint graph of value and gradient, with its outputs from ``first`` on."""
    wrt = inexact_inputs(graph.in_types, count)
    builder = Simplifier(graph.in_types)
    one = filled(builder, 1, tangent_type(graph.out_types[0]))
    outputs, cts = pulled(builder, graph, wrt, [(graph.outputs[0], one)])
    outs = outputs[first:]
    results: list[int | None] = [None] * count
    for i in wrt:
        if i in cts:
            results[i] = len(outs)
            outs.append(weak_as(builder, cts[i], graph.in_types[i]))
    return _Plan(Program.of(builder.finish(outs)), tuple(results))


def check_inputs(
    values: Sequence[Any], path: Callable[[int], str], holomorphic: bool, allow_int: bool, of: Call
) -> None:
    """Refuse inputs without derivatives.

    Raises:
      TypeError: an input is integer (without ``allow_int``) or, with ``holomorphic``, not complex.
    """
    for i, x in enumerate(values):
        type = typeof(x)
        if holomorphic:
            if not jax.dtypes.issubdtype(type.dtype, np.complexfloating):
                raise TypeError(
                    f"{of.what} with holomorphic=True needs complex inputs, but {path(i)} has dtype {type.dtype}. "
                    "Convert it, e.g. x.astype(jnp.complex64), or leave holomorphic out for a real-valued function."
                )
        elif not is_inexact(type) and not allow_int:
            named = f"{of.argument(i)} of {function_name(of.function)}"
            raise errors.integer_input(path(i), type.str_short(), of.what, named)


def arg_path(chosen: Any, positions: Sequence[int], i: int) -> str:
    """The readable path of the ``i``-th leaf of the arguments at ``positions``."""
    with_paths, _ = tree_util.tree_flatten_with_path(chosen)
    path = with_paths[i][0]
    return f"args[{positions[path[0].idx]}]" + tree_util.keystr(path[1:])


def _check_output(value: Any, holomorphic: bool, what: str) -> None:
    if not isinstance(value, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
        if isinstance(value, Tracer) and is_reference(value.aval):
            raise errors.reference_argument("the function's output", what)
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
            "inputs pass holomorphic=True; otherwise return a real number, e.g. its absolute value, or use vjp."
        )
    elif not is_inexact(type):
        raise errors.integer_output(what, type.dtype)


def _describe(value: Any) -> str:
    if value is None:
        return "None (is a return statement missing?)"
    if isinstance(value, tuple | list | dict):
        hint = "; to return more than the loss use has_aux=True" if isinstance(value, tuple) else ""
        return f"a {type(value).__name__}{hint}"
    return f"{errors.shown(value)} of type {type(value).__name__}"


@boundary
def vjp(
    fun: Callable[..., Any],
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Sequence[Any] = (),
    saveable_args: Any = True,
    in_nzs: Any = None,
) -> Any:
    """The value of ``fun(*primals)`` and the function from output cotangents to input cotangents.

    Arguments:
      fun: takes and returns pytrees of arrays.
      primals: where to evaluate it.  One may be a reference (``jax.new_ref``): its cotangent is in a reference, too,
        which is given by ``with_refs``.
      has_aux: ``fun`` returns ``(output, aux)``.
      reduce_axes: accepted for JAX's sake; must be empty, as in JAX.
      saveable_args: which primals may be saved for ``vjp_fun``: a bool for each, or for parts of it, or one for all.
        In ``vjp_fun.args_res`` those that it needs and that may not be saved are ``NotSaveable()``, to be replaced.
      in_nzs: which primals have cotangents, in the same form; those of the others are zero.  ``vjp_fun.out_nzs`` says
        which outputs depend on them.

    Returns:
      ``(output, vjp_fun)``, or ``(output, vjp_fun, aux)``.  ``vjp_fun(ct)`` takes a pytree of the output's structure,
      shapes and dtypes and returns a tuple with a cotangent for each primal.  It may be called any number of times.
      The cotangent of an integer is not read: it may be of any dtype.  It is a pytree of what is kept for it; see
      ``VJP`` for its ``with_refs``, which adds the cotangents to references.

    Raises:
      TypeError, ValueError: a primal is not an array, or a cotangent has another structure, shape or dtype than the
        output (the message names the path, and what was expected and given).

    >>> import fgrad, jax.numpy as jnp
    >>> y, vjp_fun = fgrad.vjp(jnp.sin, 0.0)
    >>> vjp_fun(2.0)
    (Array(2., dtype=float32, weak_type=True),)

    Source: `jax.vjp <https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html>`_.
    """
    check_function(fun, "vjp")
    check_reduce_axes(reduce_axes, "vjp")
    try:
        flat = leaves(primals, "primals", "vjp")
    except errors.ReferenceArgumentError:
        of_values = functools.partial(vjp, saveable_args=saveable_args, in_nzs=in_nzs)
        return vjp_of_references(of_values, fun, primals, has_aux)
    saveable = None if saveable_args is True else flags(saveable_args, flat.tree, "saveable_args", "vjp")
    nonzero = None if in_nzs is None else flags(in_nzs, flat.tree, "in_nzs", "vjp")
    called = call(
        lambda tracers: fun(*flat.unflatten(tracers)),
        flat.values,
        has_aux,
        Call(fun, "vjp", flat.tree, range(len(primals))),
    )
    program = called.recorded.cached(
        ("vjp", called.kind, called.recorded.lines, nonzero), lambda graph: split(graph, *called.kind, nonzero)
    )
    known = run(program.halves.known, called.recorded.values)
    count = len(known) - program.halves.num_residuals
    pullback = Pullback(
        program.halves.unknown, program.results, program.in_types, program.out_types, flat.tree, called.out.tree,
        program.out_nonzero,
    )  # fmt: skip
    vjp_fun = VJP.of(pullback, known[count:], program.halves.known.outputs[count:], saveable)
    output, aux = called.outputs(known[:count])
    return (output, vjp_fun, aux) if has_aux else (output, vjp_fun)


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function, as two separate functions.

    Arguments:
      fun: takes and returns pytrees of arrays.
      argnums: which positional arguments to differentiate: an int or a tuple of ints.
      has_aux: ``fun`` returns ``(output, aux)``.
      jitted: compile both.

    Returns:
      ``(fwd, bwd)``.  ``fwd(*args)`` gives ``(output, residuals)``, or ``(output, residuals, aux)``;
      ``bwd(residuals, ct)`` gives the cotangent of the argument (a tuple of them for a tuple ``argnums``).

    Raises:
      TypeError, ValueError: as ``grad`` and ``vjp`` do.

    >>> import fgrad, jax.numpy as jnp
    >>> fwd, bwd = fgrad.fwd_and_bwd(lambda x, w: x * w, argnums=(0, 1))
    >>> y, residuals = fwd(2.0, 3.0)
    >>> y, bwd(residuals, 1.0)[0]
    (Array(6., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))

    Source: `jax.fwd_and_bwd <https://docs.jax.dev/en/latest/_autosummary/jax.fwd_and_bwd.html>`_.
    """
    check_function(fun, "fwd_and_bwd")
    argnums = normalised(argnums, "fwd_and_bwd")
    wanted = argnums_tuple(argnums, "fwd_and_bwd")
    single = isinstance(argnums, int)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        positions = resolve(wanted, len(args), "fwd_and_bwd")
        chosen = [args[i] for i in positions]
        return vjp(lambda *xs: fun(*with_positions(args, positions, xs), **kwargs), *chosen, has_aux=has_aux)

    def bwd(residuals: VJP, ct: Any) -> Any:
        cotangents = residuals(ct)
        return cotangents[0] if single else cotangents

    return (jax.jit(fwd), jax.jit(bwd)) if jitted else (fwd, bwd)


@frozen(eq=False)
class Split:
    """A function's graph cut for reverse mode: values and residuals first, then from cotangents to cotangents.

    ``results`` has, for each input, the index of its cotangent among the outputs of the second half, None for zero.
    ``out_nonzero`` says of each output whether it depends on the inputs.
    """

    halves: Halves
    results: tuple[int | None, ...]
    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]
    out_nonzero: tuple[bool, ...]


def split(graph: Graph, outputs: int, inputs: int, nonzero: Sequence[bool] | None = None) -> Split:
    """The reverse mode of the first ``outputs`` outputs in the first ``inputs`` inputs, in two halves.

    Inputs not flagged in ``nonzero`` have no cotangents.
    """
    wrt = inexact_inputs(graph.in_types, inputs, nonzero)
    live = [k < outputs and is_inexact(t) for k, t in enumerate(graph.out_types)]
    joint = vjp_pass(graph, wrt, live)
    results: list[int | None] = [None] * inputs
    for i, k in zip(wrt, joint.results, strict=True):
        results[i] = k
    m, full = len(graph.outputs), simplify(joint.graph)
    halves = partition(full, range(len(graph.in_types), len(full.in_types)), [k >= m for k in range(len(full.outputs))])
    varied = varied_from(graph, wrt)
    dependent = tuple([live[k] and graph.outputs[k] in varied for k in range(outputs)])
    return Split(halves, tuple(results), graph.in_types[:inputs], graph.out_types[:outputs], dependent)
