"""Random tensors for tests."""

import math
from collections.abc import Sequence
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.limits import finfo, iinfo
from fgrad.torch.ops.creation.creation import empty
from fgrad.torch.ops.random.random import randint, uniform_
from fgrad.torch.ops.views.complex_views import view_as_real


def _bounds(low: Any, high: Any, defaults: tuple[int, int], least: Any, most: Any, dtype: Any) -> tuple[Any, Any]:
    """The interval, clipped to the range of the dtype."""
    low = defaults[0] if low is None else low
    high = defaults[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    inexact = dtype.is_floating_point or dtype.is_complex
    if low == high and inexact:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    low, high = (min(max(x, least), most) for x in (low, high))
    return (low, high) if inexact else (math.ceil(low), math.ceil(high))


def _uniform(tensor: Tensor, low: float, high: float) -> None:
    # an interval wider than the largest number is scaled by a half
    if high - low >= finfo(tensor.dtype).max:
        uniform_(tensor, low / 2, high / 2).mul_(2)
    else:
        uniform_(tensor, low, high)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor whose elements are uniform in ``[low, high)``.

    Arguments:
      shape: the sizes, spread out or as a sequence.
      dtype, device: of the tensor.
      low, high: by default -9 and 9, for integers -9 (0 if unsigned) and 10; clipped to the range of the dtype.
      requires_grad: whether it requires grad.
      noncontiguous: make it every other element of a longer tensor.
      exclude_zero: replace zeros by the smallest positive number.
      memory_format: the memory format.

    Raises:
      ValueError: the interval is empty or outside the range of the dtype; integers cannot require grad;
        ``noncontiguous`` and ``memory_format`` are both given.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.testing.make_tensor(2, dtype=torch.float32, device="cpu", low=0, high=1)
    tensor([0.4963, 0.7682])

    Source: `torch.testing.make_tensor <https://docs.pytorch.org/docs/2.13/testing.html>`_.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    inexact = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not inexact:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    spread = noncontiguous and math.prod(sizes) > 1
    if spread:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    if inexact:
        least, most = finfo(dtype).min, finfo(dtype).max
        bounds = _bounds(low, high, (-9, 9), least, most, dtype)
        result = empty(sizes, device=device, dtype=dtype)
        _uniform(view_as_real(result) if dtype.is_complex else result, *bounds)
    else:
        limits = (0, 2) if dtype is dtypes.bool_ else (iinfo(dtype).min, iinfo(dtype).max + (dtype is not dtypes.int64))
        defaults = (0, 2) if dtype is dtypes.bool_ else (-9, 10)
        result = randint(*_bounds(low, high, defaults, *limits, dtype), sizes, device=device, dtype=dtype)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = finfo(dtype).tiny if inexact else 1
    return result.requires_grad_() if requires_grad else result
