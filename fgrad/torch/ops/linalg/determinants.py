"""Determinants and their logarithms."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.indexing.selection import where
from fgrad.torch.ops.linalg.matrices import (
    adjoint,
    check_inexact,
    check_lapack,
    check_square,
    column_major,
    conjugate,
    linalg,
    matmul_exact,
    transposed,
)
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite

# NOTE [Derivatives of determinants]
# The derivative is the matrix of cofactors. JAX's rule gives it for singular matrices, too, but not its own derivative
# there. With A = U diag(s) V^H, the part of det(A + D + E) that is linear in both D and E is, up to the phase
# det(U) det(V^H), that of det(diag(s) + M + N), where M = U^H D V and N = U^H E V. It is the sum over i < j of
# M_ii N_jj + M_jj N_ii - M_ij N_ji - M_ji N_ij, each times the product of the other singular values. If none of them is
# close to 0, the inverse gives the same, and derivatives of all orders even where some are equal.


def _determinant(x: Any) -> Any:
    """The determinant; see NOTE [Derivatives of determinants]."""
    return fgrad.define_rule(jnp.linalg.det, vjp=lambda ct, out, x: (ct[..., None, None] * _cofactors(x),))(x)


def _cofactors(x: Any) -> Any:
    def forward(x: Any) -> Any:
        value, pull_back = fgrad.vjp(jnp.linalg.det, x)
        return pull_back(jnp.ones_like(value))[0]

    return fgrad.define_rule(forward, vjp=lambda ct, out, x: (_change_of_cofactors(x, ct),))(x)


def _change_of_cofactors(x: Any, change: Any) -> Any:
    """The derivative of the cofactors in a direction; as a bilinear form it is symmetric, and so its own transpose."""
    s = jnp.linalg.svd(lax.stop_gradient(x), compute_uv=False)
    singular = (s[..., -1:] <= s[..., :1] * np.sqrt(np.finfo(x.dtype).eps))[..., None]
    size = x.shape[-1]
    regular = _change_if_regular(choose(singular, jnp.eye(size, dtype=x.dtype), x), change)
    # whose singular values are distinct
    other = jnp.diag(jnp.arange(1, size + 1).astype(x.dtype))
    return choose(singular, _change_by_singular_values(choose(singular, x, other), change), regular)


def _change_if_regular(x: Any, change: Any) -> Any:
    inverse = transposed(jnp.linalg.inv(x))
    trace = jnp.sum(inverse * change, (-2, -1), keepdims=True)
    turned = matmul_exact(inverse, transposed(change), inverse)
    return jnp.linalg.det(x)[..., None, None] * (trace * inverse - turned)


def _change_by_singular_values(x: Any, change: Any) -> Any:
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    m = matmul_exact(adjoint(u), change, adjoint(vh))
    eye = jnp.eye(x.shape[-1], dtype=bool)
    # of all singular values but the i-th, and of these all but the j-th
    rows = choose(eye, 1, s[..., None, :])
    ones = jnp.ones_like(rows[..., :1])
    before = jnp.concatenate([ones, jnp.cumprod(rows, -1)[..., :-1]], -1)
    after = jnp.concatenate([jnp.flip(jnp.cumprod(jnp.flip(rows, -1), -1), -1)[..., 1:], ones], -1)
    others = choose(eye, 0, before * after).astype(x.dtype)
    diagonal = jnp.sum(others * jnp.diagonal(m, axis1=-2, axis2=-1)[..., None, :], -1)
    inner = choose(eye, diagonal[..., None], -transposed(m) * others)
    sign = (jnp.linalg.det(u) * jnp.linalg.det(vh))[..., None, None]
    return sign * matmul_exact(conjugate(u), inner, conjugate(vh))


@overload(
    "linalg_det", "LinalgDetBackward0", saved=("A",), always_saved=("A", "result"), gradient_strides={"A": column_major}
)
def _linalg_det(input: Array) -> Any:
    check_square("linalg.det", input)
    check_inexact("linalg.det", input, half=True)
    check_lapack("lu_cpu", input)
    if not input.shape[-1]:
        return jnp.prod(jnp.diagonal(input, axis1=-2, axis2=-1), -1)
    return _determinant(input)


@linalg()
def det(A: Array) -> Tensor:
    """The determinant of matrices.

    Source: `torch.linalg.det <https://docs.pytorch.org/docs/stable/generated/torch.linalg.det.html>`_.
    """
    return _linalg_det(A)


@composite(name="det", out=NOT_TAKEN)
def _det(input: Array) -> Tensor:
    """``linalg.det`` by another name."""
    return det(input)


@overload(
    "linalg_slogdet", "LinalgSlogdetBackward0", saved=("A",), outputs=("sign", "logabsdet"), always_saved=("A", "sign"),
    gradient_strides={"A": column_major},
)  # fmt: skip
def _linalg_slogdet(input: Array) -> Any:
    check_square("linalg.slogdet", input)
    check_inexact("linalg.slogdet", input)
    return tuple(jnp.linalg.slogdet(input))


@linalg()
def slogdet(A: Array) -> Any:
    """The sign of the determinant and the logarithm of its absolute value.

    Source: `torch.linalg.slogdet <https://docs.pytorch.org/docs/stable/generated/torch.linalg.slogdet.html>`_.
    """
    return return_types.linalg_slogdet(apply(_linalg_slogdet.operation, (A,)))


@composite(name="slogdet")
def _slogdet(input: Array) -> Any:
    """``linalg.slogdet`` by another name."""
    return return_types.slogdet(slogdet(input))


@composite(out=NOT_TAKEN)
def logdet(input: Array) -> Tensor:
    """The logarithm of the determinant; NaN where it is negative.

    Source: `torch.logdet <https://docs.pytorch.org/docs/stable/generated/torch.logdet.html>`_.
    """
    check_inexact("logdet", input._type.array)
    sign, logarithm = slogdet(input)
    if input._type.dtype.is_complex:
        return sign.log() + logarithm
    return where(sign == -1.0, math.nan, logarithm)
