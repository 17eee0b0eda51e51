"""Rules for the primitives that move entries about: reshape, broadcast, transpose, concatenate, pad, slice.

All of them are linear, and copy every entry of the input to some places of the output.  The transpose
therefore moves the entries back, and adds up those that were copied to several places.
"""

from typing import Any

import numpy as np
from jax import lax

from fgrad.jaxcore import typeof
from fgrad.jaxtypes import explicit_sharding
from fgrad.rules.arithmetic import filled, zeros
from fgrad.rules.kinds import Linear, Zero, define

# ---- one input, every entry kept


def _reshape(ct: Any, x: Any, *, dimensions: Any = None, **_: Any) -> Any:
    if dimensions is None:
        return (lax.reshape(ct, x.shape),)
    # With `dimensions`, reshape reads the operand in that order of axes.
    read = lax.reshape(ct, tuple(x.shape[d] for d in dimensions))
    return (lax.transpose(read, _inverse(dimensions)),)


def _inverse(permutation: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(permutation))


define("reshape", Linear(_reshape))

define("squeeze", Linear(lambda ct, x, **_: (lax.reshape(ct, x.shape),)))

define("transpose", Linear(lambda ct, x, *, permutation, **_: (lax.transpose(ct, _inverse(permutation)),)))

define("rev", Linear(lambda ct, x, *, dimensions, **_: (lax.rev(ct, dimensions),)))


# ---- one input, entries repeated


def _broadcast_in_dim(ct: Any, x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    # An axis of length 1 may have been stretched; one that has length 1 still is dropped by reshaping.
    kept = {d for d, size in zip(broadcast_dimensions, x.shape, strict=True) if size != 1}
    summed = tuple(d for d, size in enumerate(shape) if d not in kept and size != 1)
    return (lax.reshape(lax.reduce_sum(ct, summed), x.shape),)


define("broadcast_in_dim", Linear(_broadcast_in_dim))


def _tile(ct: Any, x: Any, *, reps: Any, **_: Any) -> Any:
    # Entry i of an axis of length n went to i, i + n, i + 2 n, ...
    split = tuple(size for pair in zip(reps, x.shape, strict=True) for size in pair)
    sharding = explicit_sharding(typeof(x))
    if sharding is not None:
        sharding = sharding.update(spec=[axes for each in sharding.spec for axes in (None, each)])
    return (lax.reduce_sum(lax.reshape(ct, split, out_sharding=sharding), tuple(range(0, len(split), 2))),)


define("tile", Linear(_tile))


# ---- several inputs, or several outputs


def _concatenate(ct: Any, *xs: Any, dimension: int, **_: Any) -> Any:
    return tuple(lax.split(ct, [x.shape[dimension] for x in xs], dimension))


define("concatenate", Linear(_concatenate))

define("split", Linear(lambda cts, x, *, axis, **_: (lax.concatenate(cts, axis),)))

define("stack", Linear(lambda ct, *xs, axis, **_: tuple(lax.unstack(ct, axis))))

define("unstack", Linear(lambda cts, x, *, axis, **_: (lax.stack(cts, axis),)))


# ---- entries left out, or put between others


def _pad(ct: Any, x: Any, value: Any, *, padding_config: Any, **_: Any) -> Any:
    low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    # Undo the edges (a negative edge had cropped: there the cotangent is zero), then skip the interior.
    unpadded = lax.pad(ct, _zero(ct), tuple((-lo, -hi, 0) for lo, hi in zip(low, high, strict=True)))
    kept = lax.slice(unpadded, (0,) * len(low), unpadded.shape, tuple(i + 1 for i in interior))
    # A mask, since the difference of two sums would lose digits, and all of them where a cotangent is infinite.
    inside = lax.pad(filled(x, True, bool), np.zeros((), bool), padding_config)
    padding = lax.select(inside, zeros(ct), ct)
    return kept, lax.reduce_sum(padding, tuple(range(len(low))))


def _zero(ct: Any) -> Any:
    return np.zeros((), ct.dtype)


define("pad", Linear(_pad))


def _slice(ct: Any, x: Any, *, start_indices: Any, strides: Any = None, **_: Any) -> Any:
    strides = strides or (1,) * len(start_indices)
    config = []
    for size, start, stride, taken in zip(x.shape, start_indices, strides, ct.shape, strict=True):
        span = 1 + (taken - 1) * stride if taken else 0
        config.append((start, size - start - span, stride - 1))
    return (lax.pad(ct, _zero(ct), config),)


define("slice", Linear(_slice))


# ---- no input to differentiate

define("iota empty empty2 zeros_like", Zero("a constant"))
