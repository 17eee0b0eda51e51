"""Arrays normalised by their mean and variance, with the closed derivative.

Written with lax: networks call these with many shapes, and each function of jnp would be traced for each.
"""

import math
from typing import Any

from jax import lax

from fgrad.api.rules import define_rule
from fgrad.mutable.layout.geometry import Ints
from fgrad.torch.ops.table.broadcasting import number_like


def normalised(x: Any, weight: Any, bias: Any, axes: Ints, along: Ints, eps: Any) -> tuple[Any, Any, Any]:
    """The elements less their mean over some axes, divided by their standard deviation, times a weight, plus a bias.

    ``eps`` is added to the variance.  Weight and bias lie along the axes ``along``, and may be None.  The derivative is
    the closed formula, which is shorter than the chain rule through mean and variance, and shorter still where
    everything that is normalised together has the same weight.  Means and variances are results, too, for statistics
    that are kept, and have no derivative.

    Source: S. Ioffe, C. Szegedy, `Batch normalization <https://arxiv.org/abs/1502.03167>`_, 2015, section 3.
    """
    axes = tuple([axis % x.ndim for axis in axes])
    if set(axes).isdisjoint(along) and len(axes) + len(along) == x.ndim:
        return _of_one_weight(x, weight, bias, axes, along, eps)
    others = [axis for axis in range(x.ndim) if axis not in along]

    def forward(x: Any, weight: Any, bias: Any, eps: Any) -> tuple[Any, Any, Any]:
        centred, mean, variance = _centred(x, axes)
        unit = lax.mul(centred, spread(_scale(variance, eps), x))
        return affine(unit, weight, bias, along), mean, variance

    def vjp(cts: Any, outs: Any, x: Any, weight: Any, bias: Any, eps: Any) -> tuple[Any, ...]:
        ct, (centred, _, variance) = cts[0], _centred(x, axes)
        scale = _scale(variance, eps)
        unit = lax.mul(centred, spread(scale, x))
        weighted = affine(ct, weight, None, along)
        within = lax.sub(weighted, spread(_mean(weighted, axes), x))
        along_unit = lax.mul(unit, spread(_mean(lax.mul(weighted, unit), axes), x))
        return (
            lax.mul(lax.sub(within, along_unit), spread(scale, x)),
            None if weight is None else lax.reshape(lax.reduce_sum(lax.mul(ct, unit), others), weight.shape),
            None if bias is None else lax.reshape(lax.reduce_sum(ct, others), bias.shape),
            None,
        )

    return define_rule(forward, vjp=vjp)(x, weight, bias, eps)


def _of_one_weight(x: Any, weight: Any, bias: Any, axes: Ints, along: Ints, eps: Any) -> tuple[Any, Any, Any]:
    """``normalised`` where each mean has one weight and one bias: they and the scale are one factor, as in PyTorch."""
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    count = math.prod([x.shape[axis] for axis in axes])

    def factor(scale: Any, weight: Any) -> Any:
        return scale if weight is None else lax.mul(scale, lax.reshape(weight, shape))

    def forward(x: Any, weight: Any, bias: Any, eps: Any) -> tuple[Any, Any, Any]:
        centred, mean, variance = _centred(x, axes)
        scaled = lax.mul(centred, spread(factor(_scale(variance, eps), weight), x))
        return affine(scaled, None, bias, along), mean, variance

    def vjp(cts: Any, outs: Any, x: Any, weight: Any, bias: Any, eps: Any) -> tuple[Any, ...]:
        ct, (centred, _, variance) = cts[0], _centred(x, axes)
        scale = _scale(variance, eps)
        total, product = _sum(ct, axes), _sum(lax.mul(ct, centred), axes)
        slope, size = factor(scale, weight), number_like(count, scale)
        along_centred = lax.div(lax.mul(lax.mul(slope, lax.square(scale)), product), size)
        moved = lax.sub(lax.mul(ct, spread(slope, x)), lax.mul(centred, spread(along_centred, x)))
        return (
            lax.sub(moved, spread(lax.div(lax.mul(slope, total), size), x)),
            None if weight is None else lax.reshape(lax.mul(scale, product), weight.shape),
            None if bias is None else lax.reshape(total, bias.shape),
            None,
        )

    return define_rule(forward, vjp=vjp)(x, weight, bias, eps)


def _centred(x: Any, axes: Ints) -> tuple[Any, Any, Any]:
    """The elements less their mean over some axes, the mean, and the variance; those axes stay with size 1."""
    mean = _mean(x, axes)
    centred = lax.sub(x, spread(mean, x))
    return centred, mean, _mean(lax.square(centred), axes)


def _scale(variance: Any, eps: Any) -> Any:
    """Reciprocal standard deviations."""
    return lax.rsqrt(lax.add(variance, number_like(eps, variance)))


def _sum(x: Any, axes: Ints) -> Any:
    """The sum over some axes, which stay with size 1."""
    return lax.reshape(lax.reduce_sum(x, axes), [1 if axis in axes else n for axis, n in enumerate(x.shape)])


def _mean(x: Any, axes: Ints) -> Any:
    """The mean over some axes, which stay with size 1."""
    total = _sum(x, axes)
    return lax.div(total, number_like(math.prod([x.shape[axis] for axis in axes]), total))


def spread(value: Any, x: Any) -> Any:
    """An array broadcast along its axes of size 1 to the shape of another."""
    return lax.broadcast_in_dim(value, x.shape, tuple(range(x.ndim)))


def affine(x: Any, weight: Any, bias: Any, axes: Ints) -> Any:
    """``x * weight + bias``, whose parameters lie along some axes."""
    shape = [x.shape[axis] for axis in axes]
    weight, bias = (
        None if parameter is None else lax.broadcast_in_dim(lax.reshape(parameter, shape), x.shape, axes)
        for parameter in (weight, bias)
    )
    x = x if weight is None else lax.mul(x, weight)
    return x if bias is None else lax.add(x, bias)
