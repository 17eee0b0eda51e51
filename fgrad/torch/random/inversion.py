"""Exponential, Cauchy and geometric numbers: a uniform number put through the inverse of the distribution function."""

import math
from typing import Any

import numpy as np

from fgrad.torch.random import libm
from fgrad.torch.random.fused import fma_double
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.scalars import (
    FLOATING,
    SIGNED_AND_BYTE,
    Array,
    Shape,
    cpp_name,
    not_implemented,
    rounded,
    scalar_name,
    truncated,
)

_CONTINUOUS = "distribution is a continuous probability distribution. dtype must be a floating point but you specified"


def exponential(shape: Shape, dtype: np.dtype[Any], generator: Generator, rate: float = 1.0) -> Array:
    """Exponential numbers of a rate.

    Raises ``RuntimeError`` for a rate that is not positive and for a type that is not of floating point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> exponential((2,), np.dtype("float32"), Generator().manual_seed(0))
    array([3.5083263, 1.2303847], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.exponential_.html
    """
    if not rate > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    if dtype not in FLOATING:
        raise RuntimeError(f"Exponential {_CONTINUOUS} {scalar_name(dtype)}")
    values = -1.0 / rate * libm.log1p(-generator.doubles(count))
    return rounded(values, dtype).reshape(shape)


def cauchy(shape: Shape, dtype: np.dtype[Any], generator: Generator, median: float = 0.0, sigma: float = 1.0) -> Array:
    """Cauchy numbers around a median, with a half width.

    Raises ``RuntimeError`` if ``sigma`` is not positive and for a type that is not of floating point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> cauchy((2,), np.dtype("float32"), Generator().manual_seed(0))
    array([10.59773  ,  0.7647673], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.cauchy_.html
    """
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if dtype not in FLOATING:
        raise RuntimeError(f"Cauchy {_CONTINUOUS} {cpp_name(dtype)}")
    tangents = libm.tan(math.pi * (generator.doubles(math.prod(shape)) - 0.5))
    return rounded(fma_double(tangents, sigma, median), dtype).reshape(shape)


def geometric(shape: Shape, dtype: np.dtype[Any], generator: Generator, probability: float) -> Array:
    """The number of trials until the first success; integer types wrap around.

    Raises ``RuntimeError`` for a probability outside (0, 1), ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> geometric((4,), np.dtype("int64"), Generator().manual_seed(0), 0.3)
    array([1, 1, 3, 1])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.geometric_.html
    """
    if not 0 < probability < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={probability:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    if dtype not in FLOATING | SIGNED_AND_BYTE:
        raise not_implemented("geometric_cpu", dtype)
    values = np.ceil(libm.log(generator.doubles(count)) / math.log1p(-probability))
    convert = rounded if dtype in FLOATING else truncated
    return convert(values, dtype).reshape(shape)
