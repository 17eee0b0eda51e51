"""Evenly spaced numbers, bit for bit those of PyTorch.

The grid of an image's own points (``affine_grid`` of the identity) lies where the derivative of an interpolation jumps:
there the last bit of a coordinate decides which pixels receive the gradient.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.torch.random.fused import fma_double, fma_single


def rounded(x: Any, step: Any, i: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``x + step * i``, the product rounded and then the sum."""
    return x + step * i.astype(dtype)


def fused(x: Any, step: Any, i: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``x + step * i`` with one rounding; but two in half precision, as in PyTorch's compiled loop."""
    if dtype.kind == "c":
        part = x.real.dtype
        result = np.empty(i.shape, dtype)
        result.real, result.imag = fused(x.real, step.real, i, part), fused(x.imag, step.imag, i, part)
        return result
    fma = _FUSED.get(dtype)
    return rounded(x, step, i, dtype) if fma is None else fma(i.astype(dtype), step.item(), x.item())


_FUSED = {np.dtype(np.float32): fma_single, np.dtype(np.float64): fma_double}


def evenly_spaced(
    start: Any, end: Any, steps: int, dtype: np.dtype, plus_product: Callable[..., np.ndarray] = fused
) -> np.ndarray:
    """``steps`` numbers from ``start`` to ``end``, each half counted from its own end.

    >>> evenly_spaced(-1, 1, 5, np.dtype("float32"))
    array([-1. , -0.5,  0. ,  0.5,  1. ], dtype=float32)

    Source: `torch.linspace <https://docs.pytorch.org/docs/2.13/generated/torch.linspace.html>`_.
    """
    i = np.arange(steps)
    with np.errstate(all="ignore"):
        if steps == 1:
            return np.full((1,), start, dtype)
        first, last = dtype.type(start), dtype.type(end)
        step = dtype.type(dtype.type(last - first) / dtype.type(max(steps - 1, 1)))
        low, high = plus_product(first, step, i, dtype), plus_product(last, -step, steps - 1 - i, dtype)
    return np.where(i < steps // 2, low, high)
