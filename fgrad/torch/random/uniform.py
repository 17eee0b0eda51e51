"""Uniform real numbers, and Bernoulli events."""

import math
from typing import Any

import numpy as np

from fgrad.torch.random.fused import fma_double, fma_single
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.scalars import (
    BOOL,
    COMPLEX_PARTS,
    FLOAT32,
    FLOAT64,
    FLOATING,
    SIGNED_AND_BYTE,
    Array,
    Shape,
    cpp_name,
    limits,
    not_implemented,
    rounded,
    scalar_name,
)

_BERNOULLI_TYPES = SIGNED_AND_BYTE | FLOATING | {BOOL}
_BAD_PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  "
    "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
)


def _check_bounds(dtype: np.dtype[Any], low: float, high: float) -> None:
    if dtype not in FLOATING:
        raise not_implemented("check_uniform_bounds", dtype)
    lowest, highest = limits(dtype)
    for name, bound in (("from", low), ("to", high)):
        if not lowest <= bound <= highest:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if not high - low <= highest:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{scalar_name(dtype)}>::max(), but found to={high:g} and "
            f"from={low:g} which result in to-from to exceed the limit"
        )


def uniform(shape: Shape, dtype: np.dtype[Any], generator: Generator, low: float = 0.0, high: float = 1.0) -> Array:
    """Real numbers in ``[low, high)``, in the order of memory; of complex numbers, both parts.

    Raises ``RuntimeError`` for bounds that are out of order or that the type cannot hold, ``NotImplementedError`` for a
    type that is not of floating point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> uniform((3,), np.dtype("float32"), Generator().manual_seed(0))
    array([0.4962566 , 0.7682218 , 0.08847743], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.uniform_.html
    """
    count = math.prod(shape)
    if dtype in COMPLEX_PARTS:
        if count == 0:
            return np.empty(shape, dtype)
        return uniform((*shape, 2), COMPLEX_PARTS[dtype], generator, low, high).view(dtype)[..., 0]
    low, high = float(low), float(high)
    _check_bounds(dtype, low, high)
    if dtype == FLOAT64:
        values = fma_double(generator.doubles(count), high - low, low)
    elif dtype == FLOAT32 and (low, high) == (0.0, 1.0):
        return generator.floats(count).reshape(shape)
    else:
        single_low, single_high = np.float32(low), np.float32(high)
        values = fma_single(generator.floats(count), float(single_high - single_low), float(single_low))
    values = rounded(values, dtype).reshape(shape)
    # values rounded up to the excluded upper bound become the lower one
    lowest, highest = rounded(np.array([low, high]), dtype)
    return np.where(values == highest, lowest, values)


def bernoulli(shape: Shape, dtype: np.dtype[Any], generator: Generator, probability: float | Array = 0.5) -> Array:
    """Ones with a probability, zeros otherwise; one probability for all, or an array that broadcasts to the shape.

    Raises ``RuntimeError`` for a probability outside [0, 1], ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> bernoulli((4,), np.dtype("float32"), Generator().manual_seed(0), 0.3)
    array([0., 0., 0., 0.], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.bernoulli_.html
    """
    count = math.prod(shape)
    if not isinstance(probability, float | int | np.number):
        return _bernoulli_each(shape, dtype, generator, probability)
    if not 0 <= probability <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={probability:g}")
    if count == 0:
        return np.empty(shape, dtype)
    if dtype not in _BERNOULLI_TYPES:
        raise not_implemented("bernoulli_scalar_cpu_", dtype)
    return generator.events(count, float(probability)).astype(dtype).reshape(shape)


def _bernoulli_each(shape: Shape, dtype: np.dtype[Any], generator: Generator, probability: Array) -> Array:
    if 0 in shape:
        return np.empty(shape, dtype)
    if dtype not in _BERNOULLI_TYPES:
        raise not_implemented("bernoulli_tensor_cpu_self_", dtype)
    if probability.dtype not in FLOATING:
        raise not_implemented("bernoulli_tensor_cpu_p_", probability.dtype)
    draw, precision = (generator.doubles, FLOAT64) if probability.dtype == FLOAT64 else (generator.floats, FLOAT32)
    chances = np.broadcast_to(probability, shape).astype(precision).ravel()
    bad = None if generator.engine else ~((chances >= 0) & (chances <= 1))
    if bad is not None and bad.any():
        draw(int(bad.argmax()))  # those before it have been drawn
        raise RuntimeError(_BAD_PROBABILITY)
    return (draw(chances.size) < chances).astype(dtype).reshape(shape)


def dropout_noise(shape: Shape, dtype: np.dtype[Any], generator: Generator, probability: float) -> Array:
    """The factors of dropout: zero with probability ``p`` below 1, else ``1 / (1 - p)``.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> dropout_noise((4,), np.dtype("float32"), Generator().manual_seed(2), 0.5)
    array([0., 2., 0., 0.], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.dropout.html
    """
    precision = FLOAT64 if dtype == FLOAT64 else FLOAT32
    kept = bernoulli(shape, dtype, generator, 1.0 - probability).astype(precision, copy=False)
    kept /= precision.type(1.0 - probability)
    return kept.astype(dtype, copy=False)
