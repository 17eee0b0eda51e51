"""Products of arrays: ``dot_general``, ``ragged_dot_general`` and ``scaled_dot``.

All sum over contracted dimensions, so the transpose with respect to one factor is a product of the same
family: the cotangent with the other factor, contracted over what that factor kept.  With operands laid out as

    x: batch, kept_x, contract      y: batch, contract, kept_y      out: batch, kept_x, kept_y

the cotangents come out as ``x`` and ``y`` are laid out (``ct y^T`` and ``x^T ct``), with no transposition
left to do; in other layouts a permutation of dimensions remains.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from fgrad.jaxtypes import explicit_sharding
from fgrad.rules.kinds import Bilinear, General, define

Dims = tuple[int, ...]


def _kept(ndim: int, *taken: Sequence[int]) -> Dims:
    """The dimensions that are in none of ``taken``, in order."""
    used = {dim for dims in taken for dim in dims}
    return tuple(dim for dim in range(ndim) if dim not in used)


def _inverse(permutation: Sequence[int]) -> Dims:
    """``_inverse(p)[p[i]] == i``: the permutation that undoes ``lax.transpose(_, p)``."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _align(dims: Sequence[int], partners: Sequence[int]) -> Dims:
    """``dims`` in the order in which a product leaves them when their ``partners`` are sorted."""
    return tuple(dim for _, dim in sorted(zip(partners, dims, strict=True)))


def _range(start: int, dims: Sequence[int]) -> Dims:
    return tuple(range(start, start + len(dims)))


def with_dtype(ct: Any, like: Any) -> Any:
    """``ct`` in the dtype of ``like``: the transpose of the primitive's own promotion."""
    if ct.dtype == like.dtype:
        return ct
    if np.issubdtype(ct.dtype, np.complexfloating) and not np.issubdtype(like.dtype, np.complexfloating):
        ct = lax.real(ct)
    return lax.convert_element_type(ct, like.dtype)


def permuted_sharding(like: Any, axes: Sequence[int]) -> NamedSharding | None:
    """The explicit sharding of ``like`` with its dimensions permuted, ``None`` where the mesh has no explicit axis."""
    sharding = explicit_sharding(getattr(like, "aval", like))
    if sharding is None:
        return None
    spec = sharding.spec
    permuted = PartitionSpec(*(spec[axis] for axis in axes), unreduced=spec.unreduced, reduced=spec.reduced)
    return NamedSharding(sharding.mesh, permuted)


# -- dot_general ------------------------------------------------------------------------------------------------------


def _dot_lhs(ct, x, y, *, dimension_numbers, precision=None, preferred_element_type=None, **_):
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_kept, y_kept = _kept(x.ndim, x_contract, x_batch), _kept(y.ndim, y_contract, y_batch)
    ct_y = _range(len(x_batch) + len(x_kept), y_kept)
    axes = (*x_batch, *x_kept, *_align(x_contract, y_contract))
    out = lax.dot_general(
        ct,
        y,
        ((ct_y, y_kept), (_range(0, x_batch), tuple(y_batch))),
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=permuted_sharding(x, axes),
    )
    return with_dtype(lax.transpose(out, _inverse(axes)), x)


def _dot_rhs(ct, x, y, *, dimension_numbers, precision=None, preferred_element_type=None, **_):
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_kept, y_kept = _kept(x.ndim, x_contract, x_batch), _kept(y.ndim, y_contract, y_batch)
    ct_x = _range(len(x_batch), x_kept)
    axes = (*y_batch, *_align(y_contract, x_contract), *y_kept)
    out = lax.dot_general(
        x,
        ct,
        ((x_kept, ct_x), (tuple(x_batch), _range(0, x_batch))),
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=permuted_sharding(y, axes),
    )
    return with_dtype(lax.transpose(out, _inverse(axes)), y)


define("dot_general", Bilinear(_dot_lhs, _dot_rhs))


# -- ragged_dot_general -----------------------------------------------------------------------------------------------
#
# One dimension of the left factor is cut into groups of consecutive rows, of sizes known at run time only:
#
#     rows kept         x[b, m, k]  y[g, b, k, n]  ->  out[b, m, n]       each row meets its group's y
#     rows contracted   x[b, m, k]  y[b, k, n]     ->  out[g, b, m, n]    one sum per group
#     rows are batch    x[b, m, k]  y[b, k, n]     ->  out[b, m, n]       the groups make no difference
#
# The first two kinds are each other's transposes.  Group sizes may vary along the dimensions in front of the ragged
# one; since those are looked up by position, both factors are first laid out as drawn.


def _ragged_layout(x, y, numbers):
    """The permutations that lay ``x`` and ``y`` out as drawn, the sizes of their parts, and the ragged dimension."""
    (x_contract, y_contract), (x_batch, y_batch) = numbers.dot_dimension_numbers
    groups = tuple(numbers.rhs_group_dimensions)
    x_kept, y_kept = _kept(x.ndim, x_contract, x_batch), _kept(y.ndim, y_contract, y_batch, groups)
    x_axes = (*x_batch, *x_kept, *x_contract)
    y_axes = (*groups, *y_batch, *y_contract, *y_kept)
    ragged = x_axes.index(numbers.lhs_ragged_dimensions[0])
    return x_axes, y_axes, (len(x_batch), len(x_kept), len(x_contract), len(y_kept)), ragged


def _ragged_product(x, y, group_sizes, contract, batch, ragged, groups, **params):
    numbers = lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(contract, batch), lhs_ragged_dimensions=(ragged,), rhs_group_dimensions=groups
    )
    return lax.ragged_dot_general(x, y, group_sizes, numbers, **params)


def _ragged_lhs(ct, x, y, group_sizes, *, ragged_dot_dimension_numbers, precision, preferred_element_type, **_):
    x_axes, y_axes, (batch, x_kept, contract, y_kept), ragged = _ragged_layout(x, y, ragged_dot_dimension_numbers)
    params = {"precision": precision, "preferred_element_type": preferred_element_type}
    y = lax.transpose(y, y_axes)
    b = tuple(range(batch))
    rows = batch + x_kept
    if ragged >= rows:  # contracted in the product, so kept here: x^T = y ct^T, with a ct for each group of y's rows
        n = tuple(range(batch + contract, batch + contract + y_kept))
        ct_b = tuple(range(1, 1 + batch))
        ct_n = tuple(range(1 + rows, 1 + rows + y_kept))
        out = _ragged_product(y, ct, group_sizes, (n, ct_n), (b, ct_b), ragged - x_kept, (0,), **params)
        x_axes = (*x_axes[:batch], *x_axes[rows:], *x_axes[batch:rows])
    else:
        groups = (0,) if ragged >= batch else ()
        y_b = tuple(range(len(groups), len(groups) + batch))
        n = tuple(range(y.ndim - y_kept, y.ndim))
        out = _ragged_product(ct, y, group_sizes, (_range(rows, n), n), (b, y_b), ragged, groups, **params)
    return with_dtype(lax.transpose(out, _inverse(x_axes)), x)


def _ragged_rhs(ct, x, y, group_sizes, *, ragged_dot_dimension_numbers, precision, preferred_element_type, **_):
    x_axes, y_axes, (batch, x_kept, _contract, _y_kept), ragged = _ragged_layout(x, y, ragged_dot_dimension_numbers)
    params = {"precision": precision, "preferred_element_type": preferred_element_type}
    x = lax.transpose(x, x_axes)
    b = tuple(range(batch))
    m = tuple(range(batch, batch + x_kept))
    # Rows that the product contracted are kept here, and meet the ct of their group; kept ones are contracted.
    groups = (0,) if ragged >= batch + x_kept else ()
    ct_b, ct_m = _range(len(groups), b), _range(len(groups) + batch, m)
    out = _ragged_product(x, ct, group_sizes, (m, ct_m), (b, ct_b), ragged, groups, **params)
    return with_dtype(lax.transpose(out, _inverse(y_axes)), y)


def _ragged_vjp(ct, _out, x, y, group_sizes, **params):
    return _ragged_lhs(ct, x, y, group_sizes, **params), _ragged_rhs(ct, x, y, group_sizes, **params), None


define("ragged_dot_general", General(vjp=_ragged_vjp))


# -- scaled_dot: (x sx) (y sy), with one scale for each block along contracted dimensions, in bfloat16 ---------------
#
# A cotangent has the dtype of what it belongs to.  That of a scale in float8_e8m0fnu, which has neither sign nor zero,
# is of little use, and nothing is computed for it unless it is asked for.


def _blocks(scale, x):
    """The shape of ``x`` with each dimension cut into (number of blocks, size of a block)."""
    return [size for n, m in zip(scale.shape, x.shape, strict=True) for size in (n, m // n if n else 1)]


def _spread(scale, x):
    blocks = lax.broadcast_in_dim(scale, _blocks(scale, x), range(0, 2 * x.ndim, 2))
    return lax.reshape(blocks, x.shape)


def _scaled_dot_vjp(ct, _out, x, y, x_scale, y_scale, **params):
    bare = [lax.convert_element_type(v, "bfloat16") for v in (x, y)]
    scales = [
        _spread(lax.convert_element_type(s, "bfloat16"), v) for s, v in zip((x_scale, y_scale), (x, y), strict=True)
    ]
    scaled = [lax.mul(v, s) for v, s in zip(bare, scales, strict=True)]
    cts = _dot_lhs(ct, *scaled, **params), _dot_rhs(ct, *scaled, **params)

    def of_factor(ct, scale, x):
        return lax.convert_element_type(lax.mul(ct, scale), x.dtype)

    def of_scale(ct, bare, scale):
        parts = lax.reshape(lax.mul(ct, bare), _blocks(scale, bare))
        return lax.convert_element_type(lax.reduce_sum(parts, tuple(range(1, 2 * bare.ndim, 2))), scale.dtype)

    return (
        of_factor(cts[0], scales[0], x),
        of_factor(cts[1], scales[1], y),
        of_scale(cts[0], bare[0], x_scale),
        of_scale(cts[1], bare[1], y_scale),
    )


define("scaled_dot", General(vjp=_scaled_dot_vjp))
