"""Convolution: both transposes of ``conv_general_dilated`` are convolutions again.

Along one spatial dimension, with stride ``s``, input dilation ``d``, kernel dilation ``r`` and low padding ``p``, the
product ``x[j] w[k]`` is added to ``out[i]`` where

    i s + k r - p = j d .

Solved for ``j`` this is a convolution over ``out`` with the kernel reversed (``k' = K - 1 - k``): ``d`` and ``s`` trade
places, and the low padding is ``(K - 1) r - p``.  Solved for ``k``, with ``out`` as the kernel, ``s`` and ``r`` trade
places and the low padding stays.  In both, the high padding is what makes the result as long as it has to be; it may
be negative, which crops.

The other dimensions contract as in a matrix product, with ``g`` groups of features ...

    x[n, g c]  w[g o, c]  ->  out[n, g o]
    ct[n, g o]  w[o, g c]  ->  x[n, g c]       groups of features, after moving g from w's outputs to its inputs
    x[g c, n]  ct[n, g o]  ->  w[c, g o]       groups of batch: x with batch and features swapped

... or of batch

    x[g n, c]  w[g o, c]  ->  out[n, g o]
    ct[n, g o]  w[o, g c]  ->  x[n, g c]       groups of features; then g moves from x's features to its batch
    x[c, g n]  ct[n, g o]  ->  w[c, g o]       groups of features
"""

from collections.abc import Sequence
from typing import Any

from jax import dtypes, lax

from fgrad.rules.arithmetic import zeros
from fgrad.rules.kinds import Bilinear, define
from fgrad.rules.products import permuted_sharding, with_dtype


def _extent(size: int, dilation: int) -> int:
    """The length of ``size`` elements with ``dilation - 1`` holes between neighbours."""
    return (size - 1) * dilation + 1 if size else 0


def _move_groups(x: Any, source: int, target: int, groups: int) -> Any:
    """Cut dimension ``source`` into ``groups`` and make the group the major part of dimension ``target``."""
    if groups == 1:
        return x
    shape = list(x.shape)
    shape[source : source + 1] = [groups, shape[source] // groups]
    x = lax.reshape(x, shape)
    order = [axis for axis in range(x.ndim) if axis != source]
    # After the cut, `target` has moved by one if it came after `source`.
    order.insert(order.index(target + (target > source)), source)
    merged = [x.shape[axis] for axis in order]
    merged[target : target + 2] = [merged[target] * merged[target + 1]]
    return lax.reshape(lax.transpose(x, order), merged)


def _same_dtype(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in one dtype: convolution does not mix, and ``preferred_element_type`` can set the cotangent's apart."""
    dtype = dtypes.result_type(x.dtype, y.dtype)
    return lax.convert_element_type(x, dtype), lax.convert_element_type(y, dtype)


def _sizes(x: Any, spec: Sequence[int]) -> list[int]:
    return [x.shape[axis] for axis in spec[2:]]


def _zeros(x: Any) -> Any:
    """The cotangent of ``x`` where no window fits: XLA refuses to convolve with an empty kernel."""
    return zeros(x)


def _conv_lhs(
    ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
    batch_group_count, precision=None, preferred_element_type=None, **_,
):  # fmt: skip
    if ct.size == 0:
        return _zeros(x)
    x_spec, w_spec, out_spec = dimension_numbers
    groups = feature_group_count * batch_group_count  # one of the two is 1
    kernel = lax.rev(_move_groups(w, w_spec[0], w_spec[1], groups), w_spec[2:])
    sizes = zip(_sizes(x, x_spec), _sizes(w, w_spec), _sizes(ct, out_spec), strict=True)
    lows = [low for low, _high in padding]
    pads = []
    for (n, k, m), s, d, r, low in zip(sizes, window_strides, lhs_dilation, rhs_dilation, lows, strict=True):
        before = _extent(k, r) - 1 - low
        pads.append((before, _extent(n, d) + _extent(k, r) - 1 - _extent(m, s) - before))
    ct, kernel = _same_dtype(ct, kernel)
    out = lax.conv_general_dilated(
        ct,
        kernel,
        window_strides=lhs_dilation,
        padding=pads,
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=lax.ConvDimensionNumbers(out_spec, (w_spec[1], w_spec[0], *w_spec[2:]), x_spec),
        feature_group_count=groups,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=permuted_sharding(x, range(x.ndim)),
    )
    return with_dtype(_move_groups(out, x_spec[1], x_spec[0], batch_group_count), x)


def _conv_rhs(
    ct, x, w, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
    batch_group_count, precision=None, preferred_element_type=None, **_,
):  # fmt: skip
    if ct.size == 0:
        return _zeros(w)
    x_spec, w_spec, out_spec = dimension_numbers
    sizes = zip(_sizes(x, x_spec), _sizes(w, w_spec), _sizes(ct, out_spec), strict=True)
    lows = [low for low, _high in padding]
    pads = []
    for (n, k, m), s, d, r, low in zip(sizes, window_strides, lhs_dilation, rhs_dilation, lows, strict=True):
        pads.append((low, _extent(k, r) + _extent(m, s) - 1 - _extent(n, d) - low))
    x, kernel = _same_dtype(x, ct)
    swapped = [(spec[1], spec[0], *spec[2:]) for spec in (x_spec, out_spec, w_spec)]
    out = lax.conv_general_dilated(
        x,
        kernel,
        window_strides=rhs_dilation,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=lax.ConvDimensionNumbers(*swapped),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=permuted_sharding(w, range(w.ndim)),
    )
    return with_dtype(out, w)


define("conv_general_dilated", Bilinear(_conv_lhs, _conv_rhs))
