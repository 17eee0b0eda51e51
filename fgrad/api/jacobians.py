"""Jacobians and Hessians: ``jacfwd``, ``jacrev``, ``jacobian``, ``hessian``, and the product ``hvp``.

A whole Jacobian is one graph: the linear half of the derivative, mapped over the rows of the identity, all at once or
``chunk_size`` rows at a time.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import lax

from fgrad import errors
from fgrad.api.arguments import (
    Argnums,
    Leaves,
    argnums_tuple,
    check_function,
    leaves,
    normalised,
    resolve,
    with_positions,
)
from fgrad.api.forward import jvp, linear_split
from fgrad.api.names import Differentiation, marked
from fgrad.api.recorded import Called, call, inexact_inputs, split_aux, with_weakness
from fgrad.api.reverse import arg_path, check_inputs, split, value_and_grad
from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.source import boundary
from fgrad.jaxcore import ShapedArray, tangent_dtype
from fgrad.jaxtypes import is_inexact
from fgrad.passes.simplify import simplify
from fgrad.record.origin import Call
from fgrad.record.stager import stage_closed
from fgrad.run.executable import Program, calls_python

_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def jacfwd(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian of a function, column by column in forward mode: the better choice for few inputs.

    Arguments:
      fun: takes and returns pytrees of arrays.
      argnums: which positional arguments to differentiate: an int (negative counts from the end) or a tuple of ints.
      has_aux: ``fun`` returns ``(output, aux)``.
      holomorphic: ``fun`` is complex-differentiable; inputs and output must then be complex.
      chunk_size: how many columns to compute at once; smaller means less memory and more time.  None: all at once.

    Returns:
      A function of the same arguments giving the Jacobian: the output's structure, and in place of each of its leaves
      the argument's structure (a tuple of them for a tuple ``argnums``) with blocks of shape
      ``output.shape + input.shape``; or ``(jacobian, aux)``.

    Raises:
      TypeError: an input is not real (not complex, with ``holomorphic``); the message names its path.
      ValueError: ``argnums`` is out of range, or ``chunk_size`` is not positive.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.jacfwd(lambda x: jnp.array([x[0] * x[1], x[1] ** 2]))(jnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [0., 6.]], dtype=float32)

    Source: `jax.jacfwd <https://docs.jax.dev/en/latest/_autosummary/jax.jacfwd.html>`_.
    """
    return _jacobian(fun, argnums, has_aux, chunk_size, "jacfwd", _Forward(holomorphic))


def jacrev(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, *, chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian of a function, row by row in reverse mode: the better choice for few outputs.

    Arguments, results and errors are those of ``jacfwd``, and:
      allow_int: integer and boolean arguments are let through; their blocks are zeros of their dtype.
      chunk_size: how many rows to compute at once.

    Raises also:
      TypeError: an output is complex without ``holomorphic``, or an integer.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.jacrev(lambda x: {"sum": jnp.sum(x), "twice": 2 * x})(jnp.ones(2))
    {'sum': Array([1., 1.], dtype=float32), 'twice': Array([[2., 0.],
           [0., 2.]], dtype=float32)}

    Source: `jax.jacrev <https://docs.jax.dev/en/latest/_autosummary/jax.jacrev.html>`_.
    """
    return _jacobian(fun, argnums, has_aux, chunk_size, "jacrev", _Reverse(holomorphic, allow_int))


#: ``jacobian`` is another name of ``jacrev``, as in JAX
jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Hessian of a function: the forward-mode Jacobian of its reverse-mode Jacobian.

    Arguments, results and errors are those of ``jacfwd``; the blocks have shape ``output.shape + input.shape +
    input.shape``.  ``chunk_size`` bounds how many columns are computed at once.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.hessian(lambda x: x[0] ** 2 * x[1])(jnp.array([1.0, 2.0]))
    Array([[4., 2.],
           [2., 0.]], dtype=float32)

    Source: `jax.hessian <https://docs.jax.dev/en/latest/_autosummary/jax.hessian.html>`_.
    """
    inner = _jacobian(fun, argnums, has_aux, chunk_size, "hessian", _Reverse(holomorphic, False))
    return _jacobian(inner, argnums, has_aux, chunk_size, "hessian", _Forward(holomorphic))


@boundary
def hvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], argnums: Argnums = 0,
    has_aux: bool = False, *, with_value_and_grad: bool = False,
) -> Any:  # fmt: skip
    """The product of a scalar function's Hessian with a vector, forward over reverse, without forming the Hessian.

    It is ``jvp(grad(fun, argnums), primals, tangents)[1]``, at the cost of a few evaluations of ``fun``.

    Arguments:
      fun: returns a real scalar, or ``(scalar, aux)`` with ``has_aux``.
      primals: a tuple of the arguments of ``fun``.
      tangents: the vector: one tangent for each primal, of its structure, shapes and dtypes.
      argnums: of which arguments the result is wanted; ``(0, 1)`` gives a pair, the blocks of the product that belong
        to the first and to the second argument.
      with_value_and_grad: return the value and the gradient too; they are worked out on the way.

    Returns:
      The product, a pytree like the argument; ``(value, gradient, product)`` if so asked; with ``has_aux``, ``aux``
      last.

    Raises:
      TypeError, ValueError: as ``grad`` and ``jvp`` do.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.hvp(lambda x: jnp.sum(x ** 3), (jnp.array([1.0, 2.0]),), (jnp.array([1.0, 0.0]),))
    Array([6., 0.], dtype=float32)

    Source: the `autodiff cookbook <https://docs.jax.dev/en/latest/notebooks/autodiff_cookbook.html>`_, "Hessian-vector
    products using both forward- and reverse-mode".
    """
    both = value_and_grad(fun, argnums, has_aux)

    def gradient(*args: Any) -> Any:
        value, grads = both(*args)
        value, aux = value if has_aux else (value, None)
        return grads, (value, grads, aux)

    _, product, (value, grads, aux) = jvp(gradient, primals, tangents, has_aux=True)
    result = (value, grads, product) if with_value_and_grad else product
    if not has_aux:
        return result
    return (*result, aux) if with_value_and_grad else (result, aux)


# --------------------------------------------------------------------------------------------------------------------


def _jacobian(
    fun: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    chunk_size: int | None,
    what: str,
    mode: "_Forward | _Reverse",
) -> Callable[..., Any]:
    check_function(fun, what)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"{what}: chunk_size must be None or a positive int, got {errors.shown(chunk_size)}.")
    argnums = normalised(argnums, what)
    wanted = argnums_tuple(argnums, what)
    single = isinstance(argnums, int)

    @boundary
    @functools.wraps(fun, assigned=_NAMES)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        positions = resolve(wanted, len(args), what)
        chosen = tuple([args[i] for i in positions])
        flat = leaves(chosen, "args", what)
        of = Call(fun, what, flat.tree, positions)
        mode.check(flat.values, lambda i: arg_path(chosen, positions, i), of)

        def on_chosen(tracers: Sequence[Any]) -> Any:
            return fun(*with_positions(args, positions, flat.unflatten(tracers)), **kwargs)

        def checked(tracers: Sequence[Any]) -> Any:
            result = on_chosen(tracers)
            value, _ = split_aux(result, has_aux, what)
            mode.check_outputs(leaves(value, "output", f"{what}: the function's output"), what)
            return result

        called = call(checked, flat.values, has_aux, of)
        program = called.recorded.cached(
            (what, mode, chunk_size, called.kind), lambda graph: mode.blocks(graph, *called.kind, chunk_size)
        )
        outs = program(called.recorded.values)
        aux = called.outputs(outs)[1]
        jacobian = _nested(called, flat, outs[len(called.recorded.outputs) :], single, mode)
        return (jacobian, aux) if has_aux else jacobian

    return marked(jacobian_fun, Differentiation(fun, wanted, single, has_aux))


def _nested(called: Called, flat: Leaves, blocks: Sequence[Any], single: bool, mode: "_Forward | _Reverse") -> Any:
    """The blocks, one per inexact output and input, in JAX's nesting, with zeros for the others."""
    rest = iter(blocks)
    rows = []
    for out in called.out.types:
        row = [
            next(rest) if is_inexact(out) and is_inexact(t) else _zeros(out, t, mode.like(out, t)) for t in flat.types
        ]
        tree = flat.unflatten(row)
        rows.append(tree[0] if single else tree)
    return called.out.unflatten(rows)


def _zeros(out: ShapedArray, t: ShapedArray, like: ShapedArray) -> Any:
    return with_weakness(jax.numpy.zeros((*out.shape, *t.shape), like.dtype), like)


def _program(function: Callable[..., Any], types: Sequence[ShapedArray], rows: Graph) -> Callable[..., Any]:
    """A flat function that maps ``rows`` over an identity, as a program."""
    if calls_python(rows):  # rules that need concrete numbers cannot be staged
        return lambda values: function(*values)
    return Program.of(simplify(stage_closed(function, types)))


@frozen
class _Forward:
    holomorphic: bool

    def check(self, values: Sequence[Any], path: Callable[[int], str], of: Call) -> None:
        check_inputs(values, path, self.holomorphic, False, of)
        for i, x in enumerate(values):
            if not self.holomorphic and jax.dtypes.issubdtype(jax.typeof(x).dtype, np.complexfloating):
                raise TypeError(
                    f"{of.what} needs real inputs, but {path(i)} has dtype {jax.typeof(x).dtype}. For a "
                    "complex-differentiable function pass holomorphic=True; otherwise use jvp."
                )

    def check_outputs(self, out: Leaves, what: str) -> None:
        _check_holomorphic(out, self.holomorphic, what)

    @staticmethod
    def like(out: ShapedArray, _: ShapedArray) -> ShapedArray:
        """The type whose dtype and weakness a block has."""
        return out

    def blocks(self, graph: Graph, outputs: int, inputs: int, chunk_size: int | None) -> Callable[..., Any]:
        """The program of the outputs, followed by a block for each inexact output and input."""
        cut = linear_split(graph, outputs, inputs)
        wrt = [cut.in_types[i] for i in inexact_inputs(cut.in_types, inputs)]
        sizes = [math.prod(t.shape) for t in wrt]

        def function(*ins: Any) -> list[Any]:
            known = evaluate(cut.halves.known, ins)
            count = len(graph.outputs)
            columns = _over_identity(lambda ts: evaluate(cut.halves.unknown, [*known[count:], *ts]), wrt, chunk_size)
            pieces = []
            for result, out in zip(cut.results, cut.out_types, strict=True):
                if not is_inexact(out):
                    continue
                block = None if result is None or not columns else jax.numpy.moveaxis(columns[result], 0, -1)
                pieces += _pieces(
                    block, out, wrt, sizes, -1, lambda t, out=out: (*out.shape, *t.shape), lambda _, out=out: out
                )
            return [*known[:count], *pieces]

        return _program(function, graph.in_types, cut.halves.unknown)


@frozen
class _Reverse:
    holomorphic: bool
    allow_int: bool

    def check(self, values: Sequence[Any], path: Callable[[int], str], of: Call) -> None:
        check_inputs(values, path, self.holomorphic, self.allow_int, of)

    def check_outputs(self, out: Leaves, what: str) -> None:
        _check_holomorphic(out, self.holomorphic, what)
        for i, t in enumerate(out.types):
            if not is_inexact(t):
                raise TypeError(
                    f"{what} needs floating-point outputs, but {out.paths[i]} has dtype {t.dtype}. Return it as aux "
                    "(has_aux=True), or use jacfwd, which gives zeros for it."
                )
            if not self.holomorphic and jax.dtypes.issubdtype(t.dtype, np.complexfloating):
                raise TypeError(
                    f"{what} needs real outputs, but {out.paths[i]} has dtype {t.dtype}. For a complex-differentiable "
                    "function of complex inputs pass holomorphic=True; otherwise take the real part, or use vjp."
                )

    @staticmethod
    def like(_: ShapedArray, t: ShapedArray) -> ShapedArray:
        """The type whose dtype and weakness a block has."""
        return t

    def blocks(self, graph: Graph, outputs: int, inputs: int, chunk_size: int | None) -> Callable[..., Any]:
        """The program of the outputs, followed by a block for each inexact output and input."""
        cut = split(graph, outputs, inputs)
        outs = [t for t in cut.out_types if is_inexact(t)]
        sizes = [math.prod(t.shape) for t in outs]
        wrt = inexact_inputs(cut.in_types, inputs)

        def function(*ins: Any) -> list[Any]:
            known = evaluate(cut.halves.known, ins)
            count = len(graph.outputs)
            rows = _over_identity(lambda cts: evaluate(cut.halves.unknown, [*known[count:], *cts]), outs, chunk_size)
            columns = []
            for i in wrt:
                result, t = cut.results[i], cut.in_types[i]
                block = None if result is None or not rows else rows[result]
                columns.append(_pieces(block, t, outs, sizes, 0, lambda o, t=t: (*o.shape, *t.shape), lambda _, t=t: t))
            return [*known[:count], *(column[k] for k in range(len(outs)) for column in columns)]

        return _program(function, graph.in_types, cut.halves.unknown)


def _check_holomorphic(out: Leaves, holomorphic: bool, what: str) -> None:
    for i, t in enumerate(out.types):
        if holomorphic and not jax.dtypes.issubdtype(t.dtype, np.complexfloating):
            raise TypeError(
                f"{what} with holomorphic=True needs complex outputs, but {out.paths[i]} has dtype {t.dtype}."
            )


def _pieces(
    block: Any, like: ShapedArray, parts: Sequence[ShapedArray], sizes: Sequence[int], axis: int,
    shape: Callable[[ShapedArray], tuple[int, ...]], type: Callable[[ShapedArray], ShapedArray],
) -> list[Any]:  # fmt: skip
    """``block`` cut along ``axis`` into pieces of ``sizes``, each with its own shape and type; None is zero."""
    pieces = []
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        wanted = type(part)
        if block is None:
            piece = lax.full(shape(part), 0, tangent_dtype(wanted.dtype))
        else:
            piece = lax.slice_in_dim(block, start, start + size, axis=axis) if len(sizes) > 1 else block
            piece = lax.reshape(piece, shape(part))
        pieces.append(with_weakness(piece, wanted))
        start += size
    return pieces


def _over_identity(
    linear: Callable[[Sequence[Any]], list[Any]], types: Sequence[ShapedArray], chunk_size: int | None
) -> list[Any]:
    """``linear`` on each row of the identity over values of ``types``, stacked along a new leading axis."""
    total = sum(math.prod(t.shape) for t in types)
    if total == 0:
        return []

    def rows(first: Any, count: int) -> list[Any]:
        return jax.vmap(lambda *xs: linear(xs))(*_identity_rows(first, count, types))

    if chunk_size is None or chunk_size >= total:
        return rows(0, total)
    chunks = -(-total // chunk_size)
    stacked = lax.map(lambda first: rows(first, chunk_size), lax.mul(lax.iota(np.int32, chunks), np.int32(chunk_size)))
    joined = [lax.reshape(x, (chunks * chunk_size, *x.shape[2:])) for x in stacked]
    return [lax.slice_in_dim(x, 0, total) for x in joined]


def _identity_rows(first: Any, count: int, types: Sequence[ShapedArray]) -> list[Any]:
    """Rows ``first`` to ``first + count`` of the identity, cut into values of ``types``; zeros beyond its end."""
    rows = []
    start = 0
    for t in types:
        size = math.prod(t.shape)
        index = lax.add(lax.broadcasted_iota(np.int32, (count, size), 0), lax.convert_element_type(first, np.int32))
        column = lax.add(lax.broadcasted_iota(np.int32, (count, size), 1), np.int32(start))
        hot = lax.convert_element_type(lax.eq(index, column), tangent_dtype(t.dtype))
        rows.append(lax.reshape(hot, (count, *t.shape)))
        start += size
    return rows
