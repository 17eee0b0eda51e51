"""Normal and log-normal numbers."""

import math
from typing import Any

import numpy as np
from jax import lax

from fgrad.torch.random import libm
from fgrad.torch.random.box_muller import AHEAD, blocks_of_sixteen, following, pairs
from fgrad.torch.random.fused import fma_double
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.scalars import (
    COMPLEX_PARTS,
    FLOAT32,
    FLOAT64,
    FLOATING,
    Array,
    Shape,
    not_implemented,
    rounded,
)
from fgrad.torch.random.twister import Engine


def standard_normal(generator: Generator, count: int) -> Array:
    """``count`` float64 numbers, two from a pair of draws; the generator keeps an odd one for the next call."""
    if generator.engine is not None:
        return _normal_in_a_program(generator.engine, count)
    with generator.lock:
        waiting = generator.next_double_normal_sample
        before = np.array([] if waiting is None or count == 0 else [waiting])
        missing = count - len(before)
        values = np.concatenate([before, pairs(generator.doubles(missing + missing % 2))])
        if count:
            generator.next_double_normal_sample = float(values[-1]) if missing % 2 else None
        return values[:count]


def _normal_in_a_program(engine: Engine, count: int) -> Any:
    """The same on traced values, which tell whether a number is pending."""
    has, waiting = engine.waiting
    missing = count - has.astype(np.int32)
    drawn = missing + missing % 2
    drawn_pairs = pairs(engine.doubles(count + count % 2, drawn))
    engine.wait(missing % 2 == 1, lax.dynamic_index_in_dim(drawn_pairs, drawn - 1, keepdims=False))
    with_pending = np.concatenate([np.reshape(waiting, (1,)), drawn_pairs])[:count]
    return np.where(has, with_pending, drawn_pairs[:count])


def _blocks(generator: Generator, count: int, dtype: np.dtype[Any], mean: float, std: float) -> Array:
    """At least 16 numbers in blocks of 16; if the last block is not full, the last 16 numbers are redrawn."""
    if dtype == FLOAT32 and count % 16 == 0 and count <= AHEAD and generator.engine is None:
        return following(generator, count, mean, std)
    draw = generator.doubles if dtype == FLOAT64 else generator.floats
    in_blocks = count - count % 16
    with generator.lock:
        # the 16-bit types draw block by block, the others fill the whole array first
        values = draw(in_blocks if dtype.itemsize == 2 else count)[:in_blocks]
        if count == in_blocks:
            return blocks_of_sixteen(values, mean, std)
        values = np.concatenate([values, draw(16)])
    values = blocks_of_sixteen(values, mean, std)
    return np.concatenate([values[: count - 16], values[in_blocks:]])


def normal(
    shape: Shape,
    dtype: np.dtype[Any],
    generator: Generator,
    mean: float = 0.0,
    std: float = 1.0,
    contiguous: bool = True,
) -> Array:
    """Normal numbers, in the order of memory.

    A contiguous tensor of 16 numbers or more is filled in blocks, any other one by one: the values differ.  The real
    and the imaginary part of complex numbers have half the variance each.

    Raises ``RuntimeError`` for a negative ``std``, ``NotImplementedError`` for a type that is not of floating point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> normal((3,), np.dtype("float32"), Generator().manual_seed(0))
    array([ 1.5409961, -0.2934289, -2.1787894], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.normal_.html
    """
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    if dtype in COMPLEX_PARTS:
        parts = normal((*shape, 2), COMPLEX_PARTS[dtype], generator, mean, std / math.sqrt(2.0), contiguous)
        return parts.view(dtype)[..., 0]
    if dtype not in FLOATING:
        raise not_implemented("normal_kernel_cpu", dtype)
    if count >= 16 and contiguous:
        values = _blocks(generator, count, dtype, mean, std)
    else:
        values = fma_double(standard_normal(generator, count), std, mean)
    return rounded(values, dtype).reshape(shape)


def log_normal(shape: Shape, dtype: np.dtype[Any], generator: Generator, mean: float = 1.0, std: float = 2.0) -> Array:
    """Numbers whose logarithms are normal.

    Raises ``RuntimeError`` if ``std`` is not positive, ``NotImplementedError`` for a type that is not of floating
    point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> log_normal((2,), np.dtype("float32"), Generator().manual_seed(0), 0.0, 1.0)
    array([4.669239 , 0.7457022], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.log_normal_.html
    """
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    if dtype not in FLOATING:
        raise not_implemented("log_normal_cpu", dtype)
    values = libm.exp(fma_double(standard_normal(generator, count), std, mean))
    return rounded(values, dtype).reshape(shape)
