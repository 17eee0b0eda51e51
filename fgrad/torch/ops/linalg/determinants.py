"""Determinants and their logarithms."""

import math
from typing import Any

from jax import numpy as jnp

from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.indexing.selection import where
from fgrad.torch.ops.linalg.matrices import (
    check_inexact,
    check_lapack,
    check_square,
    column_major,
    linalg,
)
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite


@overload(
    "linalg_det", "LinalgDetBackward0", saved=("A",), always_saved=("A", "result"), gradient_strides={"A": column_major}
)
def _linalg_det(input: Array) -> Any:
    check_square("linalg.det", input)
    check_inexact("linalg.det", input, half=True)
    check_lapack("lu_cpu", input)
    if not input.shape[-1]:
        return jnp.prod(jnp.diagonal(input, axis1=-2, axis2=-1), -1)
    return jnp.linalg.det(input)


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
