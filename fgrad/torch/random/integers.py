"""Uniform integers, and permutations."""

import math
from array import array
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fgrad.mutable.context.warning import warn
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.scalars import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATING,
    INT64,
    INT64_MAX,
    INT64_MIN,
    INTEGRAL,
    SIGNED_AND_BYTE,
    Array,
    Shape,
    cpp_name,
    digits,
    limits,
    not_implemented,
    rounded,
    scalar_name,
)

# from this range on, a 32-bit word modulo the range would be too biased
_LONG_RANGE = 2**28
_LONG_PERMUTATION = (2**32 - 1) // 20


def _converted(values: Array, dtype: np.dtype[Any]) -> Array:
    return rounded(values, dtype) if dtype in FLOATING else values.astype(dtype)


def random(shape: Shape, dtype: np.dtype[Any], generator: Generator) -> Array:
    """Integers from zero to the highest of an integer type, or to ``2**digits`` of a floating-point type.

    Raises ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> random((3,), np.dtype("uint8"), Generator().manual_seed(0))
    array([172,  47, 117], dtype=uint8)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.random_.html
    """
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    if dtype not in FLOATING | SIGNED_AND_BYTE | {BOOL}:
        raise not_implemented("random_kernel_cpu", dtype)
    words = generator.long_words(count) if dtype in (INT64, FLOAT64) else generator.words(count)
    if dtype == BOOL:
        ends = 2
    elif dtype in FLOATING:
        ends = 2 ** digits(dtype) + 1
    else:
        ends = int(np.iinfo(dtype).max) + 1
    return _converted(words % words.dtype.type(ends), dtype).reshape(shape)


def random_range(shape: Shape, dtype: np.dtype[Any], generator: Generator, low: int, high: int | None) -> Array:
    """Integers in ``[low, high)``; without ``high``, up to the highest integer that the type has exactly.

    From ``-2**63`` without ``high``, all 64-bit integers.

    Raises ``RuntimeError`` for bounds that are out of order or that the type cannot hold; warns of bounds beyond which
    a floating-point type does not have all integers.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> random_range((4,), np.dtype("int64"), Generator().manual_seed(0), 0, 10)
    array([4, 9, 3, 0])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.randint.html
    """
    count = math.prod(shape)
    if high is None and low == INT64_MIN:
        return np.empty(shape, dtype) if count == 0 else _random_full(shape, dtype, generator)
    low, last = _bounds(dtype, low, high)
    _check_bounds(dtype, low, last)
    if count == 0:
        return np.empty(shape, dtype)
    size = last - low + 1
    words = generator.long_words(count) if size >= _LONG_RANGE else generator.words(count)
    values = (words % words.dtype.type(size)).astype(np.uint64) + np.uint64(low % 2**64)
    return _converted(values.view(np.int64), dtype).reshape(shape)


def _random_full(shape: Shape, dtype: np.dtype[Any], generator: Generator) -> Array:
    if dtype not in SIGNED_AND_BYTE | FLOATING - {FLOAT16}:
        raise not_implemented("random_full_64_bits_range_kernel_cpu", dtype)
    if dtype not in (INT64, FLOAT64, FLOAT32, BFLOAT16):
        raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
    return _converted(generator.long_words(math.prod(shape)).view(np.int64), dtype).reshape(shape)


def _round_trip(dtype: np.dtype[Any], value: int) -> int:
    """An integer converted to a floating-point type and back, with x86's overflow."""
    with np.errstate(over="ignore"):
        converted = float(rounded(np.array([value], np.int64), dtype)[0])
    return int(converted) if -(2.0**63) <= converted < 2.0**63 else INT64_MIN


def _spacing(dtype: np.dtype[Any], value: int) -> int:
    """The distance between the numbers of a floating-point type at an integer."""
    return 1 << (abs(value).bit_length() - digits(dtype))


def _bounds(dtype: np.dtype[Any], low: int, high: int | None) -> tuple[int, int]:
    """The first and the last integer, moved inwards to representable ones."""
    if high is not None and not low < high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype in FLOATING:
        above = _round_trip(dtype, low + 1)
        if above < low:
            low = above + _spacing(dtype, low + 1)
        if high is None:
            last = 2 ** digits(dtype)
            if not low < last:
                raise RuntimeError(
                    "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but "
                    f"got from={low} > to_inc={last}"
                )
            return low, last
        below = _round_trip(dtype, high - 1)
        if below >= high:
            high = below - _spacing(dtype, high - 1)
        if not low < high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
                f"from={low} >= to={high}"
            )
    if high is not None:
        return low, high - 1
    if dtype == BOOL:
        return low, 1
    if dtype in INTEGRAL:
        # the bounds are signed 64-bit integers
        return low, (int(np.iinfo(dtype).max) + 2**63) % 2**64 - 2**63
    raise RuntimeError("random_from_to_impl handles only integral, floating-point and boolean types")


def _check_bounds(dtype: np.dtype[Any], low: int, last: int) -> None:
    named = (("from", low), ("to - 1", last))
    if dtype in FLOATING:
        lowest, highest = limits(dtype)
    elif dtype == BOOL:
        lowest, highest = 0, 1
    elif dtype in INTEGRAL:
        lowest, highest = int(np.iinfo(dtype).min), min(int(np.iinfo(dtype).max), INT64_MAX)
    else:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    for name, bound in named:
        if not lowest <= bound <= highest:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if dtype in FLOATING:
        exact = digits(dtype)
        for name, bound in named:
            if abs(bound) > 2**exact:
                warn(
                    f"{name} is out of bounds [-(2^{exact}), 2^{exact}]. Due to precision limitations "
                    f"{cpp_name(dtype)} can support discrete uniform distribution only within this range. This warning "
                    "will become an error in version 1.7 release, please fix the code in advance",
                )


_C_NAMES = {"int8": "int8_t", "int16": "int16_t", "int32": "int", "uint8": "uint8_t"}
_EXACT_LENGTHS = {FLOAT16: "2049", FLOAT32: "2^24+1", FLOAT64: "2^53+1"}


def _check_length(count: int, dtype: np.dtype[Any]) -> None:
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    if dtype in _EXACT_LENGTHS and count > 2 ** digits(dtype) + 1:
        raise RuntimeError(f"n cannot be greater than {_EXACT_LENGTHS[dtype]} for {scalar_name(dtype)} type.")
    if dtype in SIGNED_AND_BYTE and count > int(np.iinfo(dtype).max) + 1:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES[dtype.name]} without overflow")
    if dtype not in SIGNED_AND_BYTE | FLOATING:
        raise not_implemented("randperm", dtype)


def randperm(count: int, dtype: np.dtype[Any], generator: Generator) -> Array:
    """The integers below ``count`` in random order.

    Raises ``RuntimeError`` for a negative count and for one that the type cannot hold, ``NotImplementedError`` for a
    type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> randperm(5, np.dtype("int64"), Generator().manual_seed(0))
    array([4, 0, 1, 3, 2])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.randperm.html
    """
    _check_length(count, dtype)
    order = _shuffled(count, generator) if count < _LONG_PERMUTATION else _shuffled_inside_out(count, generator)
    return _converted(order, dtype)


def _shuffled(count: int, generator: Generator) -> Array:
    """Fisher and Yates' shuffle: each position swaps with itself or a later one."""
    if count == 0:
        return np.empty(0, np.int64)
    ranges = np.arange(count, 1, -1, dtype=np.uint32)
    chosen = np.arange(count - 1) + generator.words(count - 1) % ranges
    if not isinstance(chosen, np.ndarray):
        return _swapped(count, chosen)
    partners = chosen.tolist()
    order = list(range(count))
    for i, partner in enumerate(partners):
        order[i], order[partner] = order[partner], order[i]
    return np.array(order, np.int64)


def _swapped(count: int, partners: Any) -> Any:
    """The integers below ``count`` with each position swapped with its partner, traced."""

    def swapped(i: Any, order: Any) -> Any:
        partner = partners[i]
        one, other = order[i], order[partner]
        return order.at[i].set(other).at[partner].set(one)

    return lax.fori_loop(0, count - 1, swapped, jnp.arange(count))


def _shuffled_inside_out(count: int, generator: Generator) -> Array:
    """The inside-out shuffle: each new position swaps with itself or an earlier one.  Long words keep it unbiased."""
    generator.check_on_host()
    order = array("q", range(count))
    block = 2**20
    with generator.lock:
        for start in range(0, count, block):
            indices = np.arange(start, min(start + block, count), dtype=np.uint64)
            partners = generator.long_words(len(indices)) % (indices + np.uint64(1))
            for i, partner in enumerate(partners.tolist(), start):
                order[i], order[partner] = order[partner], i
    return np.frombuffer(order, np.int64)
