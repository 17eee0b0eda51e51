"""LU factors, and the systems that they solve."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.values.evaluation import elements
from fgrad.torch import return_types
from fgrad.torch.ops.linalg.matrices import (
    adjoint,
    check_inexact,
    check_lapack,
    check_matrix,
    check_square,
    column_major,
    conjugate,
    first_failure,
    linalg,
    matmul_exact,
    matrix_column_major,
    zero_pivot,
)
from fgrad.torch.ops.linalg.solving import triangular
from fgrad.torch.ops.table.dispatch import in_python
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed, composite

_LU = (
    "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
    "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
    "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
    "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
    "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
)


@overload(
    "linalg_lu_factor_ex", "LinalgLuFactorExBackward0", saved=("A",), outputs=("LU", "pivots", "info"),
    always_saved=("LU", "pivots"), strides=matrix_column_major,
)  # fmt: skip
def _linalg_lu_factor_ex(input: Array) -> Any:
    check_matrix("torch.lu_factor", input)
    check_lapack("lu_cpu", input)

    def forward(x: Any) -> Any:
        factor, pivots, _ = lax.linalg.lu(x)
        return factor, (pivots + 1).astype(np.int32)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        (ct, _), (factor, pivots) = cts, outs
        rank = min(x.shape[-2:])
        permutation = _permutation(pivots, x.shape[-2]).astype(x.dtype)
        return (_lu_pullback(permutation, *_triangles(factor), ct[..., :, :rank], ct[..., :rank, :]),)

    return *fgrad.define_rule(forward, vjp=pullback)(input), zero_pivot(input)


def _lu_pullback(permutation: Any, lower: Any, upper: Any, ct_lower: Any, ct_upper: Any) -> Any:
    """The cotangent of a matrix from those of its triangular factors."""
    rank = lower.shape[-1]
    gl, gu = conjugate(ct_lower), conjugate(ct_upper)
    l1, l2, gl1, gl2 = lower[..., :rank, :], lower[..., rank:, :], gl[..., :rank, :], gl[..., rank:, :]
    u1, u2, gu1, gu2 = upper[..., :rank], upper[..., rank:], gu[..., :rank], gu[..., rank:]
    below, above = matmul_exact(adjoint(l1), jnp.tril(gl1, -1)), matmul_exact(jnp.triu(gu1), adjoint(u1))
    below = below - matmul_exact(gu2, adjoint(u2))
    above = above - matmul_exact(adjoint(l2), gl2)
    phi = jnp.tril(below, -1) + jnp.triu(above)
    top = triangular(adjoint(l1), triangular(adjoint(u1), phi, False, False, False), True, True, True)
    right = triangular(adjoint(l1), gu2, True, True, True)
    bottom = triangular(adjoint(u1), gl2, False, False, False)
    gradient = (
        jnp.concatenate([jnp.concatenate([top, right], -1), bottom], -2)
        if bottom.shape[-2]
        else jnp.concatenate([top, right], -1)
    )
    return conjugate(matmul_exact(permutation, gradient))


def _check_pivot(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@linalg()
def lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """The LU factors in one matrix, the pivots, and the position of a zero on the diagonal, or 0.

    Source: `torch.linalg.lu_factor_ex
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_factor_ex.html>`_.
    """
    _check_pivot(pivot)
    factors = return_types.linalg_lu_factor_ex(apply(_linalg_lu_factor_ex.operation, (A,)))
    failure = first_failure(factors.info) if check_errors else None
    if failure is not None:
        raise RuntimeError(
            f"torch.linalg.lu_factor: {failure[0]}U[{failure[1]},{failure[1]}] is zero and using it on lu_solve would "
            "result in a division by zero. If you still want to perform the factorization, consider calling "
            "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    return factors


@linalg()
def lu_factor(A: Array, *, pivot: bool = True) -> Any:
    """The LU factors in one matrix, and the pivots.

    Source: `torch.linalg.lu_factor <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_factor.html>`_.
    """
    return return_types.linalg_lu_factor(lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])


@composite(function=False, autocast="fp32", dispatch=in_python(lambda A, pivot=True, get_infos=False, out=None: None))
def lu(self: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU factors in one matrix, and the pivots; as ``linalg.lu_factor_ex``, so also of a singular matrix.

    Source: `torch.lu <https://docs.pytorch.org/docs/stable/generated/torch.lu.html>`_.
    """
    factors = lu_factor_ex(self, pivot=pivot)
    return tuple(factors) if get_infos else tuple(factors[:2])


@composite(
    method=False, name="lu", autocast="fp32", dispatch=in_python(lambda A, pivot=True, get_infos=False, out=None: None)
)
def lu_function(A: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU factors in one matrix, and the pivots; deprecated in PyTorch.

    Source: `torch.lu <https://docs.pytorch.org/docs/2.13/generated/torch.lu.html>`_.
    """
    warn_once(_LU)
    return A.lu(pivot, get_infos)


def _permutation(pivots: Any, rows: int) -> Any:
    """The permutation matrix P of A = P L U."""
    order = lax.linalg.lu_pivots_to_permutation(pivots.astype(np.int32) - 1, rows)
    return jnp.swapaxes(jnp.arange(rows, dtype=np.int32) == order[..., None], -1, -2)


def _triangles(factor: Any) -> tuple[Any, Any]:
    rows, width = factor.shape[-2:]
    rank = min(rows, width)
    lower = jnp.tril(factor[..., :, :rank], -1) + jnp.eye(rows, rank, dtype=factor.dtype)
    return lower, jnp.triu(factor[..., :rank, :])


@overload(
    "linalg_lu",
    "LinalgLuBackward0",
    saved=("A",),
    outputs=("P", "L", "U"),
    always_saved=("P", "L", "U"),
    auxiliary=("P",),
)
def _linalg_lu(input: Array) -> Any:
    check_matrix("linalg.lu", input)
    check_lapack("lu_cpu", input)

    def forward(x: Any) -> Any:
        factor, pivots, _ = lax.linalg.lu(x)
        return _permutation(pivots + 1, x.shape[-2]).astype(x.dtype), *_triangles(factor)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        return (_lu_pullback(*outs, *cts[1:]),)

    return fgrad.define_rule(forward, vjp=pullback)(input)


@linalg(name="lu")
def linalg_lu(A: Array, *, pivot: bool = True) -> Any:
    """A permutation, a lower and an upper triangular matrix, whose product is the matrix.

    Source: `torch.linalg.lu <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu.html>`_.
    """
    _check_pivot(pivot)
    return return_types.linalg_lu(apply(_linalg_lu.operation, (A,)))


@overload("lu_unpack", "LuUnpackBackward0", saved=("LU_data", "LU_pivots"), outputs=("P", "L", "U"), auxiliary=("P",))
def _lu_unpack(input: Array, LU_pivots: Fixed, unpack_data: bool, unpack_pivots: bool) -> Any:
    empty = jnp.zeros((0,), input.dtype)
    permutation = _permutation(LU_pivots, input.shape[-2]).astype(input.dtype) if unpack_pivots else empty
    return (permutation, *(_triangles(input) if unpack_data else (empty, empty)))


def _check_range(pivots: Tensor, rows: int, below: str, above: str) -> None:
    """Raise an error for pivots that are no rows of a matrix, which a kernel would read all the same."""
    known = elements(pivots._value())
    if known is None:
        expect(lambda: (pivots >= 1) & (pivots <= rows))
    elif (known < 1).any():
        raise RuntimeError(below)
    elif (known > rows).any():
        raise RuntimeError(above)


_UNPACKED = (
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    "Did you properly pass the result of lu_factor?"
)


@composite(method=False)
def lu_unpack(LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The permutation and triangular matrices from the result of ``lu_factor``.

    Source: `torch.lu_unpack <https://docs.pytorch.org/docs/stable/generated/torch.lu_unpack.html>`_.
    """
    if LU_pivots._type.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    if unpack_pivots:
        _check_range(LU_pivots, LU_data._type.shape[-2], _UNPACKED, _UNPACKED)
    return return_types.lu_unpack(apply(_lu_unpack.operation, (LU_data, LU_pivots), (unpack_data, unpack_pivots)))


@overload(
    "linalg_lu_solve", "LinalgLuSolveBackward0", saved=("LU", "pivots", "B"), always_saved=("LU", "pivots", "result"),
    strides=column_major, gradient_strides={"B": column_major},
)  # fmt: skip
def _linalg_lu_solve(input: Array, pivots: Fixed, B: Array, adjoint_: bool) -> Any:
    check_square("torch.linalg.lu_solve", input)
    return _lu_solved(input, pivots, B, True, adjoint_)


@overload(
    "linalg_lu_solve", "LinalgLuSolveBackward0", saved=("LU", "pivots", "B"), always_saved=("LU", "pivots", "result")
)
def _linalg_lu_solve_right(input: Array, pivots: Fixed, B: Array, adjoint_: bool) -> Any:
    check_square("torch.linalg.lu_solve", input)
    return _lu_solved(input, pivots, B, False, adjoint_)


def _lu_solved(factor: Any, pivots: Any, b: Any, left: bool, adjoint_: bool) -> Any:
    """The solution from an LU factorisation; its derivative reads the solution."""
    check_inexact("torch.linalg.lu_solve", factor, half=True)
    check_lapack("linalg.lu_solve_cpu", factor)

    def solve(factor: Any, permutation: Any, b: Any, adjoint_: bool) -> Any:
        if adjoint_:
            inner = triangular(adjoint(factor), b, False, True, False)
            return matmul_exact(permutation, triangular(adjoint(factor), inner, True, True, True))
        inner = triangular(factor, matmul_exact(adjoint(permutation), b), False, True, True)
        return triangular(factor, inner, True, True, False)

    def forward(factor: Any, permutation: Any, b: Any) -> Any:
        if left:
            return solve(factor, permutation, b, adjoint_)
        return adjoint(solve(factor, permutation, adjoint(b), not adjoint_))

    def pullback(ct: Any, out: Any, factor: Any, permutation: Any, b: Any) -> tuple[Any, None, Any]:
        grad_out = conjugate(ct)
        x, grad_out, swapped = (out, grad_out, adjoint_) if left else (adjoint(out), adjoint(grad_out), not adjoint_)
        gradient_b = solve(factor, permutation, grad_out, not swapped)
        gradient_a = -matmul_exact(x, adjoint(gradient_b)) if swapped else -matmul_exact(gradient_b, adjoint(x))
        lower, upper = _triangles(factor)
        permuted = matmul_exact(adjoint(permutation), gradient_a)
        gradient_factor = jnp.tril(matmul_exact(permuted, adjoint(upper)), -1) + jnp.triu(
            matmul_exact(adjoint(lower), permuted)
        )
        return conjugate(gradient_factor), None, conjugate(gradient_b if left else adjoint(gradient_b))

    permutation = lax.stop_gradient(_permutation(pivots, factor.shape[-1]).astype(factor.dtype))
    return fgrad.define_rule(forward, vjp=pullback)(factor, permutation, b)


@linalg(name="lu_solve")
def linalg_lu_solve(LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of linear systems from the result of ``lu_factor``.

    Source: `torch.linalg.lu_solve <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_solve.html>`_.
    """
    sizes = LU._type.shape
    if pivots._type.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if len(sizes) >= 2 and sizes[-2] == sizes[-1]:
        if pivots._type.shape != sizes[:-1]:
            raise RuntimeError(
                "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                f"{list(pivots._type.shape)} instead"
            )
        begin, end = "Pivots given to lu_solve must all be", "Did you properly pass the result of lu_factor?"
        below, above = f"{begin} greater or equal to 1. {end}", f"{begin} smaller or equal to LU.size(-2). {end}"
        _check_range(pivots, sizes[-1], below, above)
    return (_linalg_lu_solve if left else _linalg_lu_solve_right)(LU, pivots, B, adjoint)


_LU_SOLVE = (
    "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
    "Note that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\n"
    "should be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)"
)


@composite(autocast="fp32")
def lu_solve(b: Array, LU_data: Array, LU_pivots: Array) -> Tensor:
    """``linalg.lu_solve`` with other names and order.

    Source: `torch.lu_solve <https://docs.pytorch.org/docs/stable/generated/torch.lu_solve.html>`_.
    """
    warn_once(_LU_SOLVE, UserWarning)
    return linalg_lu_solve(LU_data, LU_pivots, b)
