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


def complex_evenly_spaced(start: complex, end: complex, steps: int, dtype: np.dtype) -> np.ndarray:
    """Evenly spaced complex numbers: the real and the imaginary parts each for themselves."""
    numbers: Any = np.empty(steps, dtype)
    numbers.real = evenly_spaced(start.real, end.real, steps, numbers.real.dtype)
    numbers.imag = evenly_spaced(start.imag, end.imag, steps, numbers.imag.dtype)
    return numbers


#: how many bytes PyTorch's loop fills at a time, whatever the processor
_VECTOR = 32


def stepped(start: float, step: float, count: int, dtype: np.dtype) -> np.ndarray:
    """``count`` numbers in steps, the first being ``start``.

    PyTorch fills two vectors at a time: the first number of each is rounded to the type, and the others are counted
    from it. What is left over is counted from the start. All is rounded once, but within a vector of ``bfloat16``.

    >>> stepped(0.0, 0.1, 4, np.dtype("float32"))
    array([0. , 0.1, 0.2, 0.3], dtype=float32)

    Source: `torch.arange <https://docs.pytorch.org/docs/2.13/generated/torch.arange.html>`_.
    """
    lanes = _VECTOR // dtype.itemsize
    exact, fma = (np.float32, fma_single) if dtype.itemsize == 2 else (np.float64, fma_double)
    start, step = exact(start).item(), exact(step).item()
    numbers = fma(np.arange(count, dtype=exact), step, start).astype(dtype)
    vectors = numbers[: count // (2 * lanes) * 2 * lanes].reshape(-1, lanes)
    first = vectors[:, 0].astype(exact)
    for lane in range(1, lanes):
        if dtype.name == "bfloat16":
            vectors[:, lane] = first + exact(step) * exact(lane)
        else:
            vectors[:, lane] = fma(np.full_like(first, lane), step, first)
    return numbers
