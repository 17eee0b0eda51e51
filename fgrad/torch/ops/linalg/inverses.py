"""Inverses and pseudo-inverses."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import mismatch
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.indexing.selection import where
from fgrad.torch.ops.linalg.matrices import (
    LinAlgError,
    adjoint,
    check_converged,
    check_inexact,
    check_square,
    column_major,
    first_failure,
    linalg,
    matmul_exact,
    matrix_column_major,
    transposed,
    zero_pivot,
)
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kernels import check_constant
from fgrad.torch.ops.table.outputs import NOT_TAKEN, safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed, Float, composite
from fgrad.torch.random.scalars import scalar_name


def _inverse(x: Any) -> Any:
    def forward(x: Any) -> Any:
        return jnp.linalg.inv(x) if x.size else x

    return fgrad.define_rule(forward, vjp=lambda ct, out, x: (-matmul_exact(transposed(out), ct, transposed(out)),))(x)


@overload(
    "linalg_inv_ex", "LinalgInvExBackward0", saved=("A",), outputs=("inverse", "info"), always_saved=("inverse",),
    strides=matrix_column_major,
)  # fmt: skip
def _linalg_inv_ex(input: Array) -> Any:
    check_square("linalg.inv", input)
    check_inexact("linalg.inv", input)
    return _inverse(input), zero_pivot(input)


@linalg(autocast="fp32")
def inv_ex(A: Array, *, check_errors: bool = False) -> Any:
    """The inverse of matrices, and the position of a zero pivot, or 0.

    Source: `torch.linalg.inv_ex <https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv_ex.html>`_.
    """
    result = return_types.linalg_inv_ex(apply(_linalg_inv_ex.operation, (A,)))
    if check_errors:
        _check_inverse(result.info)
    return result


def _check_inverse(info: Tensor) -> None:
    failure = first_failure(info)
    if failure is not None:
        raise LinAlgError(
            f"linalg.inv: {failure[0]}The diagonal element {failure[1]} is zero, the inversion could not be completed "
            "because the input matrix is singular."
        )


@linalg(autocast="fp32")
def inv(A: Array) -> Tensor:
    """The inverse of matrices.

    Raises:
      LinAlgError: a matrix is singular.

    >>> import fgrad.torch as torch
    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])

    Source: `torch.linalg.inv <https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html>`_.
    """
    return inv_ex(A, check_errors=True).inverse


@composite(autocast="fp32")
def inverse(input: Array) -> Tensor:
    """``linalg.inv`` by another name."""
    return inv(input)


# -- pseudo-inverses -------------------------------------------------------------------------------------------------


def pseudo_inverse(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """The pseudo-inverse; singular values of at most ``max(atol, rtol * largest)`` count as zero.

    The tolerances are numbers, or arrays with one for each matrix of a batch.
    """
    number = np.finfo(x.dtype)
    absolute = _tolerance(0 if atol is None else atol, number.dtype)
    default = choose(absolute > 0, 0, number.eps * max(x.shape[-2:])).astype(number.dtype)
    relative = default if rtol is None else _tolerance(rtol, number.dtype)
    for tolerance in (absolute, relative):
        if (error := mismatch(tolerance.shape, x.shape[:-2])) is not None:
            raise error
    batch = np.broadcast_shapes(x.shape[:-2], absolute.shape, relative.shape)
    x = jnp.broadcast_to(x, (*batch, *x.shape[-2:]))

    def forward(x: Any, absolute: Any, relative: Any) -> Any:
        if not x.size:
            return jnp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
        if hermitian:
            s, u = lax.linalg.eigh(x, sort_eigenvalues=True, symmetrize_input=False)[::-1]
            vh, sizes = adjoint(u), lax.abs(s)
        else:
            u, s, vh = jnp.linalg.svd(x, full_matrices=False)
            sizes = s
        limit = jnp.maximum(absolute[..., None], relative[..., None] * jnp.max(sizes, -1, keepdims=True))
        scale = choose(sizes > limit, 1 / choose(sizes > limit, s, 1), 0)
        return matmul_exact(adjoint(vh) * scale[..., None, :].astype(x.dtype), adjoint(u))

    def pullback(ct: Any, out: Any, x: Any, absolute: Any, relative: Any) -> tuple[Any, None, None]:
        # by the formula of Golub and Pereyra; the cotangent is the conjugate of PyTorch's gradient
        ct_t = transposed(ct)
        outer = adjoint(out)
        if x.shape[-2] <= x.shape[-1]:
            k = matmul_exact(ct_t, out)
            ko = matmul_exact(k, outer)
            gradient = (
                -adjoint(matmul_exact(out, k))
                + ko
                - matmul_exact(x, out, ko)
                + matmul_exact(outer, out, ct_t - matmul_exact(k, x))
            )
        else:
            k = matmul_exact(out, ct_t)
            ok = matmul_exact(outer, k)
            gradient = (
                -adjoint(matmul_exact(k, out))
                + matmul_exact(ct_t - matmul_exact(x, k), out, outer)
                + ok
                - matmul_exact(ok, out, x)
            )
        return lax.conj(gradient) if x.dtype.kind == "c" else gradient, None, None

    return fgrad.define_rule(forward, vjp=pullback)(x, absolute, relative)


def _tolerance(x: Any, dtype: Any) -> Any:
    """A tolerance as an array, a number in the given type."""
    return jnp.asarray(x, dtype if getattr(x, "weak_type", True) else None)


@overload(
    "linalg_pinv", "LinalgPinvBackward0", always_saved=("self", "result"), gradient_strides={"self": column_major}
)
def _linalg_pinv(input: Array, atol: Float = None, rtol: Float = None, hermitian: bool = False) -> Any:
    _check_pinv(input, hermitian)
    return pseudo_inverse(input, atol, rtol, hermitian)


@overload(
    "linalg_pinv", "LinalgPinvBackward0", always_saved=("self", "result"), gradient_strides={"self": column_major}
)
def _linalg_pinv_of_tensors(input: Array, atol: Fixed, rtol: Fixed, hermitian: bool) -> Any:
    _check_pinv(input, hermitian)
    return pseudo_inverse(input, atol, rtol, hermitian)


def _check_pinv(input: Any, hermitian: bool) -> None:
    if input.ndim < 2 or input.dtype.kind not in "fc" or input.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.pinv({scalar_name(input.dtype)}{{{list(input.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        check_square("linalg.eigh", input)


@linalg(out=safely_cast("linalg.pinv"))
def pinv(A: Array, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudo-inverse of matrices.

    Arguments:
      A: the matrices.
      rcond: another name for ``rtol``.
      hermitian: whether the matrices are Hermitian.
      atol, rtol: singular values up to ``max(atol, rtol * largest)`` count as zero; tensors have a tolerance for each
        matrix.

    Source: `torch.linalg.pinv <https://docs.pytorch.org/docs/stable/generated/torch.linalg.pinv.html>`_.
    """
    relative = rcond if rtol is None else rtol
    if not isinstance(atol, Tensor) and not isinstance(relative, Tensor):
        return _converged(A, _linalg_pinv(A, atol, relative, hermitian), hermitian)
    for name, tolerance in (("atol", atol), ("rtol", relative)):
        if not isinstance(tolerance, Tensor | None):
            raise TypeError(f"linalg_pinv(): argument '{name}' must be Tensor, not {type(tolerance).__name__}")
        if tolerance is not None and tolerance._type.dtype.is_complex:
            raise RuntimeError(
                f"torch.linalg.pinv: {name} tensor of complex type is not supported. Got "
                f"{scalar_name(tolerance._type.dtype.numpy)}"
            )
    check_constant("linalg_pinv", atol=atol, rtol=relative)
    if atol is None:
        atol = relative.new_zeros(())
    if relative is None:
        default = np.finfo(A._type.dtype.numpy).eps * max(A._type.shape[-2:])
        relative = where(atol > 0, 0.0, default)
    return _converged(A, _linalg_pinv_of_tensors(A, atol, relative, hermitian), hermitian)


def _converged(matrices: Tensor, inverses: Tensor, hermitian: bool) -> Tensor:
    if not hermitian:
        check_converged("linalg.svd", matrices, inverses, "singular values")
    return inverses


@composite(autocast="fp32", out=NOT_TAKEN)
def pinverse(input: Array, rcond: float = 1e-15) -> Tensor:
    """``linalg.pinv`` with its old default.

    Source: `torch.pinverse <https://docs.pytorch.org/docs/stable/generated/torch.pinverse.html>`_.
    """
    return pinv(input, rcond)
