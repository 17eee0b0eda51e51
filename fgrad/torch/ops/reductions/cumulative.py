"""Cumulative sums, products and extrema, differences, and the trapezoidal rule."""

from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.write.inplace import apply_inplace, check_written
from fgrad.torch import return_types
from fgrad.torch.ops.indexing.coordinates import take_along
from fgrad.torch.ops.reductions.reductions import sum
from fgrad.torch.ops.table.broadcasting import choose, common, inexact
from fgrad.torch.ops.table.kinds import check_kinds, kind, single
from fgrad.torch.ops.table.outputs import CAST_ONTO_ITSELF, COMPUTED_ONTO_ITSELF, NOT_TAKEN, SCALAR, SCALARS, Memory
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Number, composite, operation, operation_of
from fgrad.torch.ops.views.joining import cat
from fgrad.torch.ops.views.views import slice_axis, unsqueeze, view_sizes, wrap_dim
from fgrad.torch.random.scalars import cpp_name


def _cumulative(name: str, input: Any, dim: int, dtype: Any, scan: Any) -> Any:
    if dtype is not None:
        input = cast(input, dtype)
    elif input.dtype.kind in "biu":
        input = cast(input, dtypes.int64)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input
    if not input.size:
        return input
    check_kinds(f"{name}_out_cpu", "ifc", input)
    return single(lambda x: scan(x, dim))(input)


def _cumulative_inplace(operation: Operation, tensor: Tensor, dim: int, dtype: Any) -> Tensor:
    """In place, PyTorch computes in the tensor's own type and accepts no other."""
    check_written(tensor)
    wrap_dim(dim, len(tensor._type.shape))
    own_dtype = tensor._type.dtype
    if dtype is not None and dtype is not own_dtype:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {cpp_name(own_dtype.numpy)} and output tensor dtype "
            f"{cpp_name(dtype.numpy)} should match"
        )
    return apply_inplace(operation, (tensor,), (dim, own_dtype))


@operation("CumsumBackward0", out=COMPUTED_ONTO_ITSELF)
def cumsum(input: Array, dim: int, *, dtype: Any = None) -> Any:
    """The cumulative sums along an axis.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1., 2., 3.]).cumsum(0)
    tensor([1., 3., 6.])

    Source: `torch.cumsum <https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html>`_.
    """
    return _cumulative("cumsum", input, dim, dtype, lax.cumsum)


@composite(function=False)
def cumsum_(self: Array, dim: int, *, dtype: Any = None) -> Tensor:
    """``cumsum`` in place."""
    return _cumulative_inplace(operation_of(cumsum), self, dim, dtype)


@operation("CumprodBackward0", always_saved=("self", "result"), out=COMPUTED_ONTO_ITSELF)
def cumprod(input: Array, dim: int, *, dtype: Any = None) -> Any:
    """The cumulative products along an axis.

    Source: `torch.cumprod <https://docs.pytorch.org/docs/stable/generated/torch.cumprod.html>`_.
    """
    return _cumulative("cumprod", input, dim, dtype, lax.cumprod)


@composite(function=False)
def cumprod_(self: Array, dim: int, *, dtype: Any = None) -> Tensor:
    """``cumprod`` in place."""
    return _cumulative_inplace(operation_of(cumprod), self, dim, dtype)


@operation("LogcumsumexpBackward0", always_saved=("self", "result"), out=evolve(SCALAR, memory=Memory.SAME))
def logcumsumexp(input: Array, dim: int) -> Any:
    """The logarithms of the cumulative sums of exponentials along an axis.

    Source: `torch.logcumsumexp <https://docs.pytorch.org/docs/stable/generated/torch.logcumsumexp.html>`_.
    """
    check_kinds("logcumsumexp_out_cpu", "fc", input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input
    if kind(input) != "c" or not input.size:
        return single(lambda x: _real_logcumsumexp(x, dim))(input)

    def pullback(ct: Any, out: Any, x: Any) -> Any:
        return fgrad.vjp(lambda x: lax.cumlogsumexp(x, dim), x)[1](ct)

    def pushforward(tangents: Any, out: Any, x: Any) -> Any:
        return fgrad.jvp(lambda x: lax.cumlogsumexp(x, dim), (x,), tangents)[1]

    # the derivative is the same on every branch
    return fgrad.define_rule(lambda x: _complex_logcumsumexp(x, dim), vjp=pullback, jvp=pushforward)(input)


def _real_logcumsumexp(input: Any, dim: int, reverse: bool = False) -> Any:
    """``logcumsumexp`` of real numbers."""

    def pullback(ct: Any, out: Any, x: Any) -> Any:
        # as in PyTorch, separately for positive and negative cotangents, which matters at infinities
        smallest = lax.full_like(ct, jnp.finfo(ct.dtype).min)
        logarithm = jnp.log(jnp.abs(ct))
        parts = [choose(sign, logarithm, smallest) - out for sign in (ct > 0, ct < 0)]
        above, below = [jnp.exp(_real_logcumsumexp(part, dim, not reverse) + x) for part in parts]
        return above - below

    def pushforward(tangents: Any, out: Any, x: Any) -> Any:
        return fgrad.jvp(lambda x: lax.cumlogsumexp(x, dim, reverse), (x,), tangents)[1]

    return fgrad.define_rule(lambda x: lax.cumlogsumexp(x, dim, reverse), vjp=pullback, jvp=pushforward)(input)


def _complex_logcumsumexp(input: Any, dim: int) -> Any:
    """``logcumsumexp`` of complex numbers, on the branch that results from adding one by one."""

    def add(sum: Any, x: Any) -> tuple[Any, Any]:
        is_less = lax.lt(lax.real(x), lax.real(sum))
        smaller, larger = choose(is_less, x, sum), choose(is_less, sum, x)
        stable = larger + jnp.log1p(jnp.exp(smaller - larger))
        infinite = lax.eq(lax.real(smaller), lax.real(larger)) & jnp.isinf(lax.real(larger))
        total = choose(lax.real(larger) < 0, smaller, jnp.log(jnp.exp(smaller) + jnp.exp(larger)))
        sum = choose(infinite, total, stable)
        return sum, sum

    terms = jnp.moveaxis(input, dim, 0)
    _, sums = lax.scan(add, jnp.full(terms.shape[1:], -np.inf, terms.dtype), terms)
    return jnp.moveaxis(sums, 0, dim)


def _cumulative_extrema(input: Any, dim: int, better: Any, kernel: str) -> Any:
    """Cumulative extrema and their indices: of equal ones the last, and after a NaN the last NaN."""
    check_kinds(kernel, "bif", input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim or not input.size:
        return input, jnp.zeros(input.shape, np.int64)
    positions = lax.broadcasted_iota(np.int64, input.shape, dim)

    def compose(first: Any, second: Any) -> Any:
        (value_a, index_a), (value_b, index_b) = first, second
        take = better(value_b, value_a)
        if kind(input) == "f":
            take = lax.ne(value_b, value_b) | (take & lax.eq(value_a, value_a))
        return choose(take, value_b, value_a), choose(take, index_b, index_a)

    _, indices = lax.associative_scan(compose, (lax.stop_gradient(input), positions), axis=dim)
    return take_along(input, indices, dim), indices


@overload("cummax", "CummaxBackward0", outputs=("values", "indices"), always_saved=("self",))
def _cummax(input: Array, dim: int) -> Any:
    return _cumulative_extrema(input, dim, lax.ge, "cummax_cpu")


@overload("cummin", "CumminBackward0", outputs=("values", "indices"), always_saved=("self",))
def _cummin(input: Array, dim: int) -> Any:
    return _cumulative_extrema(input, dim, lax.le, "cummin_cpu")


@composite(out=SCALARS)
def cummax(input: Array, dim: int) -> Any:
    """The cumulative maxima along an axis, and their indices.

    Source: `torch.cummax <https://docs.pytorch.org/docs/stable/generated/torch.cummax.html>`_.
    """
    return return_types.cummax(apply(_cummax.operation, (input,), (dim,)))


@composite(out=SCALARS)
def cummin(input: Array, dim: int) -> Any:
    """The cumulative minima along an axis, and their indices.

    Source: `torch.cummin <https://docs.pytorch.org/docs/stable/generated/torch.cummin.html>`_.
    """
    return return_types.cummin(apply(_cummin.operation, (input,), (dim,)))


# -- differences and integrals ---------------------------------------------------------------------------------------


@composite(out=CAST_ONTO_ITSELF)
def diff(input: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The ``n``-th differences of neighbours along an axis.

    Source: `torch.diff <https://docs.pytorch.org/docs/stable/generated/torch.diff.html>`_.
    """
    shape = input._type.shape
    if not shape:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, len(shape))
    if not n:
        return input.detach().clone().copy_(input)
    parts = [x for x in (prepend, input, append) if x is not None]
    for x in parts:
        _check_fits(shape, x._type.shape, dim)
    differences = input if len(parts) == 1 else cat(parts, dim)
    for _ in range(min(n, differences._type.shape[dim])):
        size = differences._type.shape[dim]
        later, earlier = slice_axis(differences, dim, 1, size, 1), slice_axis(differences, dim, 0, size - 1, 1)
        differences = later.logical_xor(earlier) if differences._type.dtype is dtypes.bool_ else later - earlier
    return differences


def _check_fits(shape: Ints, other: Ints, dim: int) -> None:
    """Raise PyTorch's error for a shape that differs along another axis."""
    if len(other) != len(shape):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for i, (n, m) in enumerate(zip(shape, other, strict=True)):
        if i != dim and n != m:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({i}) = {n}, but got tensor.size({i}) = {m}"
            )


@overload("mul", "MulBackward1", promote=common)
def _times_number(input: Array, other: Number) -> Any:
    return input * lax.convert_element_type(other, input.dtype)


@overload("div", "DivBackward1", promote=inexact)
def _over_number(input: Array, other: Number) -> Any:
    return input / lax.convert_element_type(other, input.dtype)


def _neighbours(y: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    size = y._type.shape[dim]
    return slice_axis(y, dim, 0, size - 1, 1), slice_axis(y, dim, 1, size, 1)


def _spacing(function: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances between sample points, with the axes of the samples."""
    shape = y._type.shape
    if x._type.shape[-1:] != shape[dim : dim + 1] if len(x._type.shape) == 1 else not x._type.shape:
        raise RuntimeError(f"{function}: There must be one `x` value for each sample point")
    if len(x._type.shape) == 1:
        x = view_sizes(x, tuple([shape[dim] if i == dim else 1 for i in range(len(shape))]))
    while len(x._type.shape) < len(shape):
        x = unsqueeze(x, 0)
    before, after = _neighbours(x, dim)
    return after - before


def _trapezoids(function: str, y: Tensor, x: Any, dim: int) -> tuple[Tensor | None, int]:
    shape = y._type.shape
    names = "`y`" if x is None else "`x` or `y`"
    if dtypes.bool_ in (y._type.dtype, None if x is None else x._type.dtype):
        raise RuntimeError(f"{function}: received a bool input for {names}, but bool is not supported")
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return (None if x is None else _spacing(function, y, x, wrap_dim(dim, len(shape)))), wrap_dim(dim, len(shape))


@composite(method=False, out=NOT_TAKEN)
def trapezoid(y: Array, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of samples along an axis by the trapezoidal rule.

    Arguments:
      y: the samples.
      x: the sample points; without them the samples are ``dx`` apart.

    Source: `torch.trapezoid <https://docs.pytorch.org/docs/stable/generated/torch.trapezoid.html>`_.
    """
    widths, axis = _trapezoids("trapezoid", y, x, dim)
    if not y._type.shape[axis]:
        return y.new_zeros([size for d, size in enumerate(y._type.shape) if d != axis])
    first, last = _neighbours(y, axis)
    if widths is not None:
        return _over_number(sum((first + last) * widths, axis), 2.0)
    size = y._type.shape[axis]
    ends = _times_number(y.select(axis, 0) + y.select(axis, size - 1), 0.5)
    return _times_number(sum(y, axis) - ends, 1 if dx is None else dx)


@composite(method=False, out=NOT_TAKEN)
def trapz(y: Array, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """``trapezoid`` by another name."""
    return trapezoid(y, x, dim=dim) if dx is None else trapezoid(y, x, dx=dx, dim=dim)


@composite(method=False, out=NOT_TAKEN)
def cumulative_trapezoid(y: Array, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The cumulative integrals along an axis by the trapezoidal rule.

    Source: `torch.cumulative_trapezoid
    <https://docs.pytorch.org/docs/stable/generated/torch.cumulative_trapezoid.html>`_.
    """
    widths, axis = _trapezoids("cumulative_trapezoid", y, x, dim)
    first, last = _neighbours(y, axis)
    if widths is not None:
        return _over_number(cumsum((first + last) * widths, axis), 2.0)
    return cumsum(_times_number(first + last, (1 if dx is None else dx) * 0.5), axis)
