"""``torch.masked``: reductions and normalisations of the elements that a mask selects.

A mask is broadcast to the tensor; where it is false, an element is ignored: it is replaced by the identity of the
reduction (0 for a sum, -inf for a maximum).  ``MaskedTensor`` is not supported.

>>> import fgrad.torch as torch
>>> torch.masked.mean(torch.tensor([1., 2., 6.]), mask=torch.tensor([True, False, True]))
tensor(3.5000)

Source: `torch.masked <https://docs.pytorch.org/docs/stable/masked.html>`_.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, dtype as Dtype, float32, int64, uint8
from fgrad.mutable.types.limits import iinfo
from fgrad.torch import ops
from fgrad.torch.nn import functional as F
from fgrad.torch.ops.linalg.matrix_functions import vector_norm

#: one axis, several, or None for all
Dims = int | Sequence[int] | None


def _identity(function: str, input: Tensor, ord: Any = 2) -> float:
    """The identity of a reduction."""
    dtype = input.dtype
    if function == "sum":
        return 0
    if function == "prod":
        return 1
    if function == "norm":
        if ord != -math.inf:
            return 0
        if not dtype.is_floating_point:
            raise AssertionError(f"input must be floating point, got {dtype}")
        return math.inf
    if function == "median":
        return math.nan
    low = function in ("amax", "argmax", "logaddexp", "logsumexp")
    if dtype.is_floating_point or (dtype.is_complex and function == "logsumexp"):
        return -math.inf if low else math.inf
    if dtype is bool_ or not (dtype.is_signed or dtype is uint8):
        raise NotImplementedError(f"identity of {function} on {dtype} input")
    return iinfo(dtype).min if low else iinfo(dtype).max


def _canonical(input: Tensor, mask: Tensor) -> Tensor:
    """A boolean mask in the shape of the tensor."""
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
            )
        mask = ops.broadcast_to(mask.clone(), input.shape)
    return mask.to(bool_)


def _filled(function: str, input: Tensor, mask: Tensor | None, *params: Any) -> Tensor:
    """The tensor with the identity of a function where the mask is false."""
    if mask is None:
        return input
    mask = _canonical(input, mask)
    return ops.where(mask, input, ops.tensor(_identity(function, input, *params), dtype=input.dtype))


def _axes(dim: Dims, rank: int) -> tuple[int, ...]:
    """Axes, non-negative and sorted; None and an empty tuple mean all."""
    if dim is None or dim == ():
        return tuple(range(rank))
    rank = max(rank, 1)
    axes: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in axes:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        axes.append(d % rank)
    return tuple(sorted(axes))


def _summed_type(input: Tensor) -> Dtype:
    """The dtype of a sum or product: int64 for narrower integers."""
    dtype = input.dtype
    return dtype if dtype.is_floating_point or dtype.is_complex else int64


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the elements over axes.

    >>> import fgrad.torch as torch
    >>> torch.masked.sum(torch.tensor([[1, 2], [3, 4]]), 1, mask=torch.tensor([True, False]))
    tensor([1, 3])
    """
    axes = _axes(dim, input.ndim)
    return ops.sum(_filled("sum", input, mask), axes, bool(keepdim), dtype=dtype or _summed_type(input))


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the elements over axes.

    >>> import fgrad.torch as torch
    >>> torch.masked.prod(torch.tensor([2., 3., 4.]), mask=torch.tensor([True, False, True]))
    tensor(8.)
    """
    axes = _axes(dim, input.ndim)
    product = _filled("prod", input, mask).to(dtype=dtype or _summed_type(input))
    for axis in reversed(axes):
        product = product.prod(dim=axis, keepdim=bool(keepdim))
    return product


def cumsum(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The sums of the elements up to each along an axis.

    >>> import fgrad.torch as torch
    >>> torch.masked.cumsum(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    dtype = dtype or input.dtype
    axis = _axes(dim, input.ndim)[0]
    return ops.cumsum(_filled("sum", input, mask), axis, dtype=dtype).to(dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The products of the elements up to each along an axis: see ``cumsum``."""
    dtype = dtype or input.dtype
    axis = _axes(dim, input.ndim)[0]
    return ops.cumprod(_filled("prod", input, mask), axis, dtype=dtype).to(dtype=dtype)


def _extreme(
    function: Callable[..., Tensor], input: Tensor, dim: Dims, keepdim: bool, dtype: Any, mask: Tensor | None
) -> Tensor:
    filled = _filled(function.__name__, input, mask)
    return function(filled, _axes(dim, input.ndim), bool(keepdim)).to(dtype=dtype or input.dtype)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The largest element over axes.

    >>> import fgrad.torch as torch
    >>> torch.masked.amax(torch.tensor([1., 5.]), mask=torch.tensor([True, False]))
    tensor(1.)
    """
    return _extreme(ops.amax, input, dim, keepdim, dtype, mask)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest element over axes: see ``amax``."""
    return _extreme(ops.amin, input, dim, keepdim, dtype, mask)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the largest element along an axis.

    >>> import fgrad.torch as torch
    >>> torch.masked.argmax(torch.tensor([1., 5.]), mask=torch.tensor([True, False]))
    tensor(0.)
    """
    return ops.argmax(_filled("argmax", input, mask), dim, bool(keepdim)).to(dtype=dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the smallest element along an axis: see ``argmax``."""
    return ops.argmin(_filled("argmin", input, mask), dim, bool(keepdim)).to(dtype=dtype or input.dtype)


def _count_and_mask(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The number of selected elements, and the canonical mask."""
    if mask is None:
        return sum(input.new_ones(input.shape, dtype=int64), dim, keepdim=keepdim), None
    mask = _canonical(input, mask)
    return mask.sum(dim=dim, keepdim=bool(keepdim)), mask


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the elements over axes; nan where none is left.

    Raises:
      ValueError: the result's type is neither floating point nor complex.

    >>> import fgrad.torch as torch
    >>> torch.masked.mean(torch.tensor([[1., 2.], [3., 4.]]), 0, mask=torch.tensor([[True], [False]]))
    tensor([1., 2.])
    """
    source = "Input" if dtype is None else "Optional"
    wanted: Dtype = dtype or input.dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {wanted}"
        )
    count, mask = _count_and_mask(input, dim, keepdim, mask)
    return sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask) / count


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the elements along an axis; nan where none is left.

    Raises:
      ValueError: none is left, and the dtype is not floating point.

    >>> import fgrad.torch as torch
    >>> torch.masked.median(torch.tensor([3., 1., 2.]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    axis = _axes(dim, input.ndim)[0]
    wanted = dtype or input.dtype
    floating = input.dtype.is_floating_point
    medians = ops.nanmedian(
        _filled("median", input if floating else input.to(dtype=float32), mask), axis, keepdim
    ).values
    if floating:
        return medians
    if ops.isnan(medians).any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return medians.to(dtype=wanted)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials over axes.

    >>> import fgrad.torch as torch
    >>> torch.masked.logsumexp(torch.tensor([1., 5.]), mask=torch.tensor([True, False]))
    tensor(1.)
    """
    axes = _axes(dim, input.ndim)
    return ops.logsumexp(_filled("logsumexp", input, mask), axes, keepdim=keepdim).to(dtype=dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of the exponentials of two tensors, each with its own mask.

    >>> import fgrad.torch as torch
    >>> torch.masked.logaddexp(torch.tensor([1.]), torch.tensor([5.]), other_mask=torch.tensor([False]))
    tensor([1.])
    """
    first, second = _filled("logaddexp", input, input_mask), _filled("logaddexp", other, other_mask)
    return ops.logaddexp(first, second).to(dtype=dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of the elements over axes, as ``torch.linalg.vector_norm``.

    >>> import fgrad.torch as torch
    >>> torch.masked.norm(torch.tensor([3., 5., 4.]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    filled = _filled("norm", input, mask, ord)
    return vector_norm(filled, ord, _axes(dim, input.ndim), bool(keepdim), dtype=dtype or input.dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements over axes; nan where none is left.

    Raises:
      AssertionError: both ``unbiased`` and ``correction`` are given.

    >>> import fgrad.torch as torch
    >>> torch.masked.var(torch.tensor([1., 9., 3.]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    removed = float(correction) if correction is not None else float(unbiased is not False)
    wanted: Dtype = dtype or (input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else float32)
    computed = wanted if wanted.is_floating_point or wanted.is_complex else float32
    count, mask = _count_and_mask(input, dim, True, mask)
    deviations = ops.subtract(input, ops.divide(sum(input, dim, keepdim=True, dtype=wanted, mask=mask), count))
    total = sum(deviations * deviations.conj(), dim, keepdim=keepdim, dtype=computed, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    if removed:
        count = ops.subtract(count.to(computed.to_real() if computed.is_complex else computed), removed)
        count = ops.maximum(count, count.new_zeros([]))
    return ops.divide(total, count).to(dtype=wanted)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the elements over axes: see ``var``."""
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The exponentials of the elements along an axis, divided by their sum.

    >>> import fgrad.torch as torch
    >>> torch.masked.softmax(torch.tensor([1., 1., 5.]), 0, mask=torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    axis = _axes(dim, input.ndim)[0]
    return F.softmax(_filled("amax", input, mask), axis, dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of ``softmax``."""
    axis = _axes(dim, input.ndim)[0]
    return F.log_softmax(_filled("amax", input, mask), axis, dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """``softmax`` of the negative elements."""
    axis = _axes(dim, input.ndim)[0]
    return F.softmin(_filled("amin", input, mask), axis, dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The elements divided by their norm along an axis, or by ``eps`` if that is larger.

    >>> import fgrad.torch as torch
    >>> torch.masked.normalize(torch.tensor([3., 5., 4.]), 2, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    filled = _filled("sum", input, mask)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return ops.divide(filled, ops.maximum(size, size.new_full([], eps)))
