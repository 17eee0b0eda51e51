"""Window functions: weights that fade a frame of a signal in and out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.torch.ops.creation.copying import clone
from fgrad.torch.ops.creation.making import filled, requiring_grad, tensor_from_array
from fgrad.torch.ops.creation.ranges import arange
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import composite
from fgrad.torch.random.scalars import cpp_name


def _window(
    name: str,
    length: int,
    periodic: bool,
    weights_at: Callable[[Tensor, int], Tensor],
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """A window with weights computed from the indices 0, 1, ... and their number, one more for a periodic window."""
    element_type = get_default_dtype() if dtype is None else dtype
    if not element_type.is_floating_point and not element_type.is_complex:
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: TensorOptions(dtype={cpp_name(element_type.numpy)}, "
            "device=cpu, layout=Strided (default), requires_grad=false (default), pinned_memory=false, "
            "memory_format=(nullopt))"
        )
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length < 2:
        return filled((length,), 1, element_type, device, requires_grad)
    count = length + bool(periodic)
    with no_grad():
        window = clone(weights_at(arange(count, dtype=element_type, device=device), count)[:length])
    return requiring_grad(window) if requires_grad else window


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Hann window: one period of a cosine, scaled to the range from 0 to 1.

    Arguments:
      window_length: the number of weights.
      periodic: make a window longer by one and drop its last weight, with which the next period begins.
      dtype, device, requires_grad: of the tensor.

    Raises:
      RuntimeError: the length is negative, or the type of elements is not a floating-point type.

    >>> import fgrad.torch as torch
    >>> torch.hann_window(4), torch.hann_window(3, periodic=False)
    (tensor([0.0000, 0.5000, 1.0000, 0.5000]), tensor([0., 1., 0.]))

    Source: `torch.hann_window <https://docs.pytorch.org/docs/2.13/generated/torch.hann_window.html>`_.
    """
    weights_at = _general_hamming(0.5, 0.5)
    return _window("hann_window", window_length, periodic, weights_at, dtype, device, requires_grad)


def _general_hamming(alpha: float, beta: float) -> Callable[[Tensor, int], Tensor]:
    return lambda indices, count: indices.mul_(math.pi * 2.0 / (count - 1)).cos_().mul_(-beta).add_(alpha)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Hamming window: ``alpha`` minus ``beta`` times one period of a cosine.  Arguments as of ``hann_window``.

    >>> import fgrad.torch as torch
    >>> torch.hamming_window(3, periodic=False)
    tensor([0.0800, 1.0000, 0.0800])

    Source: `torch.hamming_window <https://docs.pytorch.org/docs/2.13/generated/torch.hamming_window.html>`_.
    """
    weights_at = _general_hamming(alpha, beta)
    return _window("hamming_window", window_length, periodic, weights_at, dtype, device, requires_grad)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Bartlett window: a triangle.  Arguments as of ``hann_window``.

    >>> import fgrad.torch as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])

    Source: `torch.bartlett_window <https://docs.pytorch.org/docs/2.13/generated/torch.bartlett_window.html>`_.
    """

    def weights_at(indices: Tensor, count: int) -> Tensor:
        rising = indices.mul_(2.0 / (count - 1))
        middle = ((count - 1) >> 1) + 1
        rising[middle:].mul_(-1).add_(2)
        return rising

    return _window("bartlett_window", window_length, periodic, weights_at, dtype, device, requires_grad)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Blackman window: a sum of two cosines.  Arguments as of ``hann_window``.

    >>> import fgrad.torch as torch
    >>> torch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])

    Source: `torch.blackman_window <https://docs.pytorch.org/docs/2.13/generated/torch.blackman_window.html>`_.
    """

    def weights_at(indices: Tensor, count: int) -> Tensor:
        indices.mul_(math.pi / (count - 1))
        return indices.mul(4).cos_().mul_(0.08) - indices.mul(2).cos_().mul_(0.5) + 0.42

    return _window("blackman_window", window_length, periodic, weights_at, dtype, device, requires_grad)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Kaiser window: a Bessel function over a half circle; a larger ``beta`` makes it narrower.

    The other arguments are as of ``hann_window``.

    >>> import fgrad.torch as torch
    >>> torch.kaiser_window(3, periodic=False, beta=3.0)
    tensor([0.2049, 1.0000, 0.2049])

    Source: `torch.kaiser_window <https://docs.pytorch.org/docs/2.13/generated/torch.kaiser_window.html>`_.
    """

    def weights_at(indices: Tensor, count: int) -> Tensor:
        positions = np.arange(count) / ((count - 1) / 2) - 1
        weights = np.i0(float(beta) * np.sqrt(1 - positions**2)) / np.i0(float(beta))
        return tensor_from_array(weights, indices.dtype, device)

    return _window("kaiser_window", window_length, periodic, weights_at, dtype, device, requires_grad)
