"""Sums, means and products over axes, counts and tests of elements."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype, is_half
from fgrad.torch.ops.creation.making import sizes_of
from fgrad.torch.ops.table.broadcasting import choose, inexact, number_like
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import CAST, COMPUTED, NOT_TAKEN, TRUTH, WITHOUT_NAN, floating
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Dims as Dims, Ints as SpreadInts, composite, operation
from fgrad.torch.ops.views.views import wrap_dim, wrap_dims
from fgrad.torch.random.scalars import scalar_name


def axes_of(dim: Dims, rank: int) -> Ints:
    """The non-negative axes to reduce; None and an empty tuple mean all."""
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple([d for d in wrap_dims((dim,) if isinstance(dim, int) else dim, rank) if d < rank])


def reduced_count(shape: Any, axes: Ints) -> int:
    """How many elements each result is reduced from."""
    return math.prod([shape[i] for i in axes])


def static_dims(dim: Dims) -> Ints | None:
    """Axes as a static parameter."""
    if dim is None:
        return None
    return (operator.index(dim),) if hasattr(dim, "__index__") else tuple(map(operator.index, dim))


def _summable(input: Any, dtype: Dtype | None) -> Any:
    """The operand of a sum or product: integers and booleans are converted to int64."""
    if dtype is not None:
        return cast(input, dtype)
    return cast(input, dtypes.int64) if input.dtype.kind in "biu" else input


def total(x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
    """The sum over axes in the type of the elements; for booleans, whether any is true."""
    axes = tuple([axis % x.ndim for axis in axes])
    if x.dtype == np.bool_:
        return jnp.any(x, axes, keepdims=keepdims)
    if x.dtype not in (np.float32, np.float64):
        # without a type, JAX sums half precision in single and rounds once, as PyTorch does, but would widen integers
        return jnp.sum(x, axes, dtype=x.dtype if x.dtype.kind in "iu" else None, keepdims=keepdims)
    # ``jnp.sum`` traces a program of its own for each new type, for some milliseconds
    summed = lax.reduce_sum(x, axes)
    return lax.expand_dims(summed, axes) if keepdims else summed


def _sum_or_reshape(input: Any, axes: Ints, keepdim: bool) -> Any:
    """The sum over axes; a reshape if there is nothing to sum, so that the gradient is one, as in PyTorch."""
    shape = [1 if i in axes else n for i, n in enumerate(input.shape) if keepdim or i not in axes]
    return lax.reshape(input if reduced_count(input.shape, axes) == 1 else total(input, axes), shape)


# -- sums ------------------------------------------------------------------------------------------------------------


@overload("sum", "SumBackward0", passing="alias")
def _sum_all(input: Array, *, dtype: Any = None) -> Any:
    return total(_summable(input, dtype), tuple(range(input.ndim)))


@overload("sum", "SumBackward1", passing="alias")
def _sum_dim(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dim == () and not keepdim:
        return total(_summable(input, dtype), tuple(range(input.ndim)))
    return _sum_or_reshape(_summable(input, dtype), axes_of(dim, input.ndim), keepdim)


@composite(out=COMPUTED)
def sum(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of all elements, or over one or several axes.

    Arguments:
      input: the tensor.
      dim: the axis or axes to sum over; all if None.
      keepdim: keep these axes, with size 1.
      dtype: convert the elements to this type first; integers are summed as int64 by default.

    Raises:
      IndexError: there is no such axis.

    >>> import fgrad.torch as torch
    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])

    Source: `torch.sum <https://docs.pytorch.org/docs/stable/generated/torch.sum.html>`_.
    """
    if dim is None and keepdim is False:
        return apply(_sum_all.operation, (input,), (dtype,))
    return apply(_sum_dim.operation, (input,), (static_dims(dim), keepdim, dtype))


@composite(function=False)
def sum_to_size(self: Array, size: SpreadInts) -> Tensor:
    """The sum over the axes along which a tensor of this size would be broadcast to the tensor's.

    Raises:
      RuntimeError: the size cannot be broadcast to the tensor's.

    >>> import fgrad.torch as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])

    Source: `torch.Tensor.sum_to_size
    <https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.sum_to_size.html>`_.
    """
    sizes = sizes_of((size,), "sum_to_size")
    shape = self._type.shape
    extra = len(shape) - len(sizes)
    axes = [i for i, n in enumerate(shape) if i < extra or (sizes[i - extra] == 1 and n != 1)]
    remaining = [n for i, n in enumerate(shape) if i >= extra and i not in axes]
    if extra < 0 or remaining != [n for i, n in enumerate(sizes) if i + extra not in axes]:
        raise RuntimeError(f"size {{{list(sizes)}}} is not expandable to size {{{list(shape)}}}.")
    if not sizes:
        return sum(self)
    total = sum(self, axes, keepdim=True) if axes else self
    return total.view(sizes) if extra else total


def _nansum(input: Any, dim: Dims, keepdim: bool, dtype: Any) -> Any:
    if input.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if dtype is not None and dtype.is_complex:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{dtype.scalar_name}'")
    if kind(input) == "f":
        input = choose(lax.ne(input, input), 0, input)
    return total(_summable(input, dtype), axes_of(dim, input.ndim), keepdim)


@operation("NansumBackward0", out=WITHOUT_NAN)
def nansum(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over axes, with NaN as zero.

    Source: `torch.nansum <https://docs.pytorch.org/docs/stable/generated/torch.nansum.html>`_.
    """
    return _nansum(input, dim, keepdim, dtype)


# -- means -----------------------------------------------------------------------------------------------------------


def _mean(input: Any, dim: Dims, keepdim: bool, dtype: Dtype | None) -> Any:
    if dtype is None and input.dtype.kind in "biu":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {scalar_name(input.dtype)}"
        )
    if dtype is not None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(
                "mean(): could not infer output dtype. Optional dtype must be either a floating point or complex "
                f"dtype. Got: {dtype.scalar_name}"
            )
        input = cast(input, dtype)
    return average(input, axes_of(dim, input.ndim), keepdim)


def average(input: Any, axes: Ints, keepdim: bool) -> Any:
    """The mean over axes; for 16-bit elements it is rounded only once."""
    widened = cast(input, dtypes.float32) if is_half(input.dtype) else input
    total = _sum_or_reshape(widened, axes, keepdim)
    return lax.convert_element_type(lax.div(total, number_like(reduced_count(input.shape, axes), total)), input.dtype)


@overload("mean", "MeanBackward0")
def _mean_all(input: Array, *, dtype: Any = None) -> Any:
    return _mean(input, None, False, dtype)


@overload("mean", "MeanBackward1")
def _mean_dim(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _mean(input, dim, keepdim, dtype)


@composite(out=CAST)
def mean(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of all elements, or over one or several axes.

    Raises:
      RuntimeError: the elements are integers and ``dtype`` is not given.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1., 2., 6.]).mean()
    tensor(3.)

    Source: `torch.mean <https://docs.pytorch.org/docs/stable/generated/torch.mean.html>`_.
    """
    if dim is None and keepdim is False:
        return apply(_mean_all.operation, (input,), (dtype,))
    return apply(_mean_dim.operation, (input,), (static_dims(dim), keepdim, dtype))


@composite(out=CAST)
def nanmean(input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over axes of the elements that are not NaN.

    Source: `torch.nanmean <https://docs.pytorch.org/docs/stable/generated/torch.nanmean.html>`_.
    """
    if not input._type.inexact:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input._type.dtype.scalar_name}"
        )
    dims = static_dims(dim)
    return nansum(input, dims, keepdim, dtype=dtype) / sum(input.detach() == input.detach(), dims, keepdim)


# -- products --------------------------------------------------------------------------------------------------------


def _products_of_others(x: Any, axes: Ints) -> Any:
    """For each element the product of all others, without division."""
    order = (*axes, *(i for i in range(x.ndim) if i not in axes))
    permuted = lax.transpose(x, order)
    flat = lax.reshape(permuted, (reduced_count(x.shape, axes), *permuted.shape[len(axes) :]))
    one, count = lax.full((1, *flat.shape[1:]), 1, x.dtype), flat.shape[0]
    before = lax.cumprod(lax.concatenate([one, lax.slice_in_dim(flat, 0, count - 1)], 0), 0)
    after = lax.cumprod(lax.concatenate([lax.slice_in_dim(flat, 1, count), one], 0), 0, reverse=True)
    products = lax.reshape(lax.mul(before, after), permuted.shape)
    return lax.transpose(products, tuple([order.index(i) for i in range(x.ndim)]))


def _prod(input: Any, axes: Ints, keepdim: bool) -> Any:
    if not input.ndim:
        return input  # so that its gradient does not depend on it, as in PyTorch
    if input.dtype == np.bool_:
        return jnp.all(input, axes, keepdims=keepdim)
    if kind(input) not in "fc" or not reduced_count(input.shape, axes):
        return jnp.prod(input, axes, dtype=input.dtype, keepdims=keepdim)

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        # as in PyTorch, the result divided by the element, unless one is zero
        ct, out = (lax.expand_dims(v, () if keepdim else axes) for v in (ct, out))
        zero = lax.eq(x, lax.full_like(x, 0))
        divided = out / choose(zero, 1, x)
        any_zero = jnp.any(zero, axes, keepdims=True)
        return (ct * choose(any_zero, _products_of_others(x, axes), divided),)

    return fgrad.define_rule(lambda x: jnp.prod(x, axes, keepdims=keepdim), vjp=pullback)(input)


@overload("prod", "ProdBackward0", always_saved=("self", "result"))
def _prod_all(input: Array, *, dtype: Any = None) -> Any:
    return _prod(_summable(input, dtype), tuple(range(input.ndim)), False)


@overload("prod", "ProdBackward1", always_saved=("self", "result"))
def _prod_dim(input: Array, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _prod(_summable(input, dtype), axes_of(dim, input.ndim), keepdim)


@composite(autocast="fp32", out=COMPUTED)
def prod(input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product of all elements, or along an axis.

    Source: `torch.prod <https://docs.pytorch.org/docs/stable/generated/torch.prod.html>`_.
    """
    if dim is None:
        return apply(_prod_all.operation, (input,), (dtype,))
    return apply(_prod_dim.operation, (input,), (dim, keepdim, dtype))


# -- logarithms of sums ----------------------------------------------------------------------------------------------


@operation(
    "LogsumexpBackward0",
    promote=inexact,
    out=floating("logsumexp(): Expected floating point type for result tensor, but got: {got}"),
)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials over axes, without overflow.

    Source: `torch.logsumexp <https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html>`_.
    """
    axes = axes_of(dim, input.ndim)

    def forward(x: Any) -> Any:
        if not x.size:
            return jnp.log(jnp.sum(lax.exp(x), axes, keepdims=keepdim))
        top = jnp.max(lax.real(x) if x.dtype.kind == "c" else x, axes, keepdims=True)
        top = choose(lax.abs(top) == np.inf, 0, top)
        logarithms = jnp.log(jnp.sum(lax.exp(x - top), axes, keepdims=True)) + top
        return logarithms if keepdim else lax.squeeze(logarithms, axes)

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        ct, out = (lax.expand_dims(v, () if keepdim else axes) for v in (ct, out))
        return (ct * lax.exp(x - out),)

    return fgrad.define_rule(forward, vjp=pullback)(input)


# -- tests -----------------------------------------------------------------------------------------------------------


def _test_nonzero(input: Any, dim: Dims, keepdim: bool, test: Any) -> Any:
    # here an empty tuple means no axes; for sums it means all
    axes = () if dim == () else axes_of(dim, input.ndim)
    result = test(lax.ne(input, lax.full_like(input, 0)), axes, keepdims=keepdim)
    return cast(result, dtypes.uint8) if input.dtype == np.uint8 else result


@operation("AllBackward0", out=TRUTH)
def all(input: Array, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether all elements are nonzero.

    Source: `torch.all <https://docs.pytorch.org/docs/stable/generated/torch.all.html>`_.
    """
    return _test_nonzero(input, dim, keepdim, jnp.all)


@operation("AnyBackward0", out=TRUTH)
def any(input: Array, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether an element is nonzero.

    Source: `torch.any <https://docs.pytorch.org/docs/stable/generated/torch.any.html>`_.
    """
    return _test_nonzero(input, dim, keepdim, jnp.any)


@operation("CountNonzeroBackward0", out=NOT_TAKEN)
def count_nonzero(input: Array, dim: Dims = None) -> Any:
    """The number of nonzero elements.

    Source: `torch.count_nonzero <https://docs.pytorch.org/docs/stable/generated/torch.count_nonzero.html>`_.
    """
    nonzero = lax.ne(input, lax.full_like(input, 0))
    return jnp.sum(nonzero, axes_of(dim, input.ndim), dtype=np.int64)


@operation(None)
def hash_tensor(input: Array, dim: Dims = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """The exclusive or of the elements' bits, as numbers of 64 bits.

    >>> import fgrad.torch as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 4])).item()
    7

    Source: `torch.hash_tensor <https://docs.pytorch.org/docs/stable/generated/torch.hash_tensor.html>`_.
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    check_nonempty("hash_tensor", input.shape, dim, called="hash_tensor")
    check_kinds("xor_sum_cpu", "bif", input)
    if kind(input) == "f":
        bits = lax.bitcast_convert_type(input.astype(np.float64), np.uint64)
    else:
        bits = input.astype(np.int64).astype(np.uint64)
    axes: Any = axes_of(dim, input.ndim)
    return jnp.bitwise_xor.reduce(bits, axis=axes, keepdims=keepdim)


def check_nonempty(
    function: str, shape: Any, dim: Dims, error: type[Exception] = RuntimeError, called: str = ""
) -> None:
    """Raise PyTorch's error for an empty reduction that has no identity; ``called`` is how it names the function."""
    called = called or f"{function}()"
    if dim is None or dim == ():
        if 0 in shape:
            hint = " Specify the reduction dim with the 'dim' argument." if error is RuntimeError else ""
            raise error(f"{called}: Expected reduction dim to be specified for input.numel() == 0.{hint}")
        return
    for d in (dim,) if isinstance(dim, int) else dim:
        if shape and not shape[wrap_dim(d, len(shape))]:
            raise IndexError(f"{called}: Expected reduction dim {d} to have non-zero size.")
