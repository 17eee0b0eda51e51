"""The Cholesky factorisation."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch import return_types
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.linalg.matrices import (
    LinAlgError,
    adjoint,
    check_inexact,
    check_lapack,
    check_square,
    column_major,
    conjugate,
    first_failure,
    linalg,
    matmul_exact,
    matrix_column_major,
)
from fgrad.torch.ops.linalg.solving import triangular
from fgrad.torch.ops.table.outputs import safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite


def _cholesky_factor(x: Any, upper: bool) -> Any:
    if not x.size:
        return x

    def forward(x: Any) -> Any:
        lower = adjoint(x) if upper else x
        factor = lax.linalg.cholesky(lower, symmetrize_input=False)
        return adjoint(factor) if upper else factor

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        g = conjugate(ct)
        factor, g = (adjoint(out), adjoint(g)) if upper else (out, g)
        phi = jnp.tril(matmul_exact(adjoint(factor), g))
        phi = (phi + adjoint(jnp.tril(phi, -1))) / 2
        left = triangular(adjoint(factor), phi, True, True, False)
        return (conjugate(triangular(factor, left, False, False, False)),)

    def pushforward(tangents: Any, out: Any, x: Any) -> Any:
        # not the transpose of the pull-back: as in PyTorch, the tangent is not made symmetric
        factor = adjoint(out) if upper else out
        phi = triangular(factor, tangents[0], False, True, False)
        phi = triangular(adjoint(factor), phi, True, False, False)
        tangent = matmul_exact(factor, (jnp.tril(phi) + jnp.tril(phi, -1)) / 2)
        return adjoint(tangent) if upper else tangent

    return fgrad.define_rule(forward, vjp=pullback, jvp=pushforward)(x)


@overload(
    "linalg_cholesky_ex", "LinalgCholeskyExBackward0", outputs=("L", "info"), strides=matrix_column_major,
    always_saved=("L",), gradient_strides={"self": column_major},
)  # fmt: skip
def _linalg_cholesky_ex(input: Array, upper: bool) -> Any:
    check_square("linalg.cholesky", input)
    check_inexact("linalg.cholesky", input, half=True)
    check_lapack("cholesky_cpu", input)
    factor = _cholesky_factor(input, upper)
    failed = jnp.any(~jnp.isfinite(lax.stop_gradient(factor)), (-2, -1))
    return factor, failed.astype(np.int32)


def _failing_minor(matrix: np.ndarray) -> tuple[int, np.ndarray]:
    """The order of the first leading minor that is not positive-definite, or 0, and the factor as far as it goes.

    Only the lower triangle is read.  As LAPACK leaves it, the factor ends with the pivot that is not positive; what
    follows are elements of the matrix.
    """
    factor = np.tril(matrix)
    rest = factor.copy()
    with np.errstate(all="ignore"):
        for k in range(len(factor)):
            pivot = rest[k, k].real
            factor[k, k] = pivot
            if not pivot > 0:
                return k + 1, factor
            factor[k, k] = np.sqrt(pivot)
            factor[k + 1 :, k] = rest[k + 1 :, k] / factor[k, k]
            rest[k + 1 :, k + 1 :] -= np.outer(factor[k + 1 :, k], factor[k + 1 :, k].conj())
    return 0, factor


def _failing_minors(input: Tensor, factor: Tensor, info: Tensor, upper: bool) -> Tensor:
    """LAPACK's codes for matrices that are not positive-definite, whose factors become those that it leaves.

    Trust-region methods read the part before the failing minor.
    """
    value = info._value()
    if is_abstract(value) or not concrete(value).any():
        return info
    codes = concrete(value).copy()
    matrices, factors = concrete(input.detach()._value()), concrete(factor.detach()._value()).copy()
    if upper:
        matrices = matrices.conj().swapaxes(-2, -1)
    for i in np.ndindex(codes.shape):
        if codes[i]:
            # where rounding decides, the factorisation may have failed where this one did not
            otherwise = len(matrices[i]) if np.isnan(factors[i]).any() else 0
            minor, partial = _failing_minor(matrices[i])
            codes[i] = minor or otherwise
            factors[i] = partial.conj().T if upper else partial
    factor._storage.array = tensor_beside(factor, factors, factor._type.dtype)._storage.array
    return tensor_beside(info, codes, dtypes.int32)


@linalg(autocast="fp32")
def cholesky_ex(A: Array, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and the order of the leading minor that is not positive-definite, or 0.

    Source: `torch.linalg.cholesky_ex
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.cholesky_ex.html>`_.
    """
    factor, info = apply(_linalg_cholesky_ex.operation, (A,), (upper,))
    info = _failing_minors(A, factor, info, upper)
    if check_errors:
        _check_definite("linalg.cholesky", info)
    return return_types.linalg_cholesky_ex((factor, info))


def _check_definite(function: str, info: Tensor) -> None:
    failure = first_failure(info)
    if failure is not None:
        raise LinAlgError(
            f"{function}: {failure[0]}The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {failure[1]} is not positive-definite)."
        )


@linalg(name="cholesky", autocast="fp32")
def linalg_cholesky(A: Array, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of symmetric positive-definite matrices.

    Raises:
      LinAlgError: a matrix is not positive-definite.

    Source: `torch.linalg.cholesky <https://docs.pytorch.org/docs/stable/generated/torch.linalg.cholesky.html>`_.
    """
    return cholesky_ex(A, upper=upper, check_errors=True).L


@overload(
    "cholesky", "CholeskyBackward0", outputs=("result",), always_saved=("result",), strides=column_major,
    gradient_strides={"self": column_major},
)  # fmt: skip
def _cholesky(input: Array, upper: bool) -> Any:
    check_square("cholesky", input)
    check_lapack("cholesky_cpu", input)
    return _cholesky_factor(input, upper)


_CHOLESKY = (
    "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
    "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, "
    "upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent "
    "results for all valid (symmetric positive definite) inputs."
)


@composite(autocast="fp32", out=safely_cast("cholesky"))
def cholesky(input: Array, upper: bool = False) -> Tensor:
    """The Cholesky factor; deprecated in favour of ``linalg.cholesky``.

    Source: `torch.cholesky <https://docs.pytorch.org/docs/stable/generated/torch.cholesky.html>`_.
    """
    warn_once(_CHOLESKY, UserWarning)
    factor = _cholesky(input, upper)
    failed = factor.detach().isfinite().logical_not().any(-1).any(-1).to(dtypes.int32)
    _check_definite("cholesky", _failing_minors(input, factor, failed, upper))
    return factor
