"""Linear systems, and tensors as linear maps."""

import math
from collections.abc import Sequence
from typing import Any

from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.linalg.inverses import inv
from fgrad.torch.ops.linalg.matrices import (
    LinAlgError,
    adjoint,
    check_inexact,
    check_lapack,
    check_matrix,
    check_pair,
    check_square,
    column_major,
    conjugate,
    first_failure,
    first_zero,
    is_vector,
    linalg,
    matmul_exact,
    transposed,
    zero_pivot,
)
from fgrad.torch.ops.table.broadcasting import sum_to
from fgrad.torch.ops.table.outputs import SCALAR_TYPE, safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.ops.views.axes import movedim
from fgrad.torch.ops.views.views import reshape
from fgrad.torch.random.scalars import scalar_name

# -- systems ---------------------------------------------------------------------------------------------------------


def _check_system(function: str, a: Any, b: Any, left: bool) -> None:
    rows = b.shape[-2] if left else b.shape[-1]
    if a.shape[-1] != rows:
        raise RuntimeError(
            f"{function}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


def _check_former_system(function: str, b: Any, a: Any) -> None:
    """Raise PyTorch's errors for ``A X = b`` in the functions older than ``torch.linalg``."""
    if b.dtype != a.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(b.dtype)} and A of type "
            f"{scalar_name(a.dtype)} instead."
        )
    rows, columns = a.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if b.shape[-2] != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for {function}: each A matrix is {rows} by {rows} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )


def _column_major_system(types: Sequence[Any], shape: Ints) -> Ints | None:
    """``column_major`` for right-hand sides that are matrices."""
    return column_major(types, shape) if len(shape) >= len(types[0].shape) else None


def _column_major_if_real(types: Sequence[Any], shape: Ints) -> Ints | None:
    return None if types[0].dtype.is_complex else column_major(types, shape)


def _column_major_solution(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``column_major`` for the solution; the other result is one number for each system."""
    a, b = (x._type for x in operands)
    systems = max(len(a.shape), len(b.shape)) - 2
    return column_major(operands, shape) if len(shape) > systems else None


def _solved(a: Any, b: Any, vector: bool, left: bool) -> Any:
    """The solution; as in PyTorch, its derivative reads the solution."""

    def as_columns(x: Any) -> Any:
        return x[..., None] if vector else x if left else transposed(x)

    def as_given(x: Any) -> Any:
        return x[..., 0] if vector else x if left else transposed(x)

    def forward(a: Any, b: Any) -> Any:
        a, b = (a if left else transposed(a)), as_columns(b)
        batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        return as_given(jnp.linalg.solve(a, b) if a.size and b.size else jnp.zeros_like(b))

    def pullback(ct: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
        gradient_b = _solved(transposed(a), ct, vector, left)
        outer = -matmul_exact(as_columns(gradient_b), transposed(as_columns(out)))
        return sum_to(outer if left else transposed(outer), a.shape), sum_to(gradient_b, b.shape)

    return fgrad.define_rule(forward, vjp=pullback)(a, b)


@overload(
    "linalg_solve_ex", "LinalgSolveExBackward0", saved=("A", "B"), outputs=("result", "info"),
    always_saved=("A", "result"), strides=_column_major_solution, gradient_strides={"B": _column_major_system},
)  # fmt: skip
def _linalg_solve_ex(input: Array, other: Array) -> Any:
    return _solve(input, other, True)


@overload(
    "linalg_solve_ex",
    "LinalgSolveExBackward0",
    saved=("A", "B"),
    outputs=("result", "info"),
    always_saved=("A", "result"),
)
def _linalg_solve_right(input: Array, other: Array) -> Any:
    return _solve(input, other, False)


def _solve(a: Any, b: Any, left: bool) -> Any:
    check_square("linalg.solve", a)
    check_inexact("linalg.solve", a, half=True)
    check_pair("linalg.solve", a, b)
    check_lapack("lu_cpu", a)
    vector = is_vector(a.shape, b.shape)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    right_side = b[..., None] if vector else b
    if right_side.ndim < 2:
        check_matrix("linalg.solve", b, "B")
    _check_system("linalg.solve", a, right_side, left)
    return _solved(a, b, vector, left), zero_pivot(a)


@linalg()
def solve_ex(A: Array, B: Array, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution of linear systems, and the position of a zero pivot, or 0.

    Source: `torch.linalg.solve_ex <https://docs.pytorch.org/docs/stable/generated/torch.linalg.solve_ex.html>`_.
    """
    solver = _linalg_solve_ex if left else _linalg_solve_right
    solution = return_types.linalg_solve_ex(apply(solver.operation, (A, B)))
    if check_errors:
        _check_solution(solution.info)
    return solution


def _check_solution(info: Tensor) -> None:
    failure = first_failure(info)
    if failure is not None:
        raise LinAlgError(f"torch.linalg.solve: {failure[0]}The solver failed because the input matrix is singular.")


@linalg(autocast="fp32")
def solve(A: Array, B: Array, *, left: bool = True) -> Tensor:
    """The solution of ``A X = B``, or of ``X A = B`` if not ``left``.

    Raises:
      LinAlgError: a matrix is singular.

    Source: `torch.linalg.solve <https://docs.pytorch.org/docs/stable/generated/torch.linalg.solve.html>`_.
    """
    return solve_ex(A, B, left=left, check_errors=True).result


def triangular(a: Any, b: Any, upper: bool, left: bool, unit: bool, transpose: bool = False) -> Any:
    """The solution for triangular matrices, with broadcast batch axes."""
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unit, transpose_a=transpose)


@overload(
    "linalg_solve_triangular", "LinalgSolveTriangularBackward0", always_saved=("self", "result"), strides=column_major,
    saved=("self", "B"), gradient_strides={"B": _column_major_if_real},
)  # fmt: skip
def _linalg_solve_triangular(input: Array, other: Array, upper: bool, left: bool, unitriangular: bool) -> Any:
    function = "linalg.solve_triangular"
    check_pair(function, input, other)
    check_square(function, input)
    check_matrix(function, other, "B")
    _check_system(function, input, other, left)
    check_lapack("triangular_solve_cpu", input)
    return triangular(input, other, upper, left, unitriangular)


@linalg(out=SCALAR_TYPE)
def solve_triangular(A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The solution of ``A X = B`` for triangular matrices, of which only one triangle is read.

    Source: `torch.linalg.solve_triangular
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.solve_triangular.html>`_.
    """
    return _linalg_solve_triangular(A, B, upper, left, unitriangular)


@overload(
    "triangular_solve", "TriangularSolveBackward0", saved=("self", "A"), outputs=("solution", "cloned_coefficient"),
    always_saved=("self", "A", "solution"), strides=column_major, gradient_strides={"self": column_major},
    absent="none",
)  # fmt: skip
def _triangular_solve(input: Array, A: Array, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    for array, name in ((input, "b"), (A, "A")):
        if array.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {array.ndim} "
                "dimensions instead"
            )
    _check_former_system("triangular_solve", input, A)
    check_lapack("triangular_solve_cpu", A)
    batch = jnp.broadcast_shapes(A.shape[:-2], input.shape[:-2])
    solution = triangular(A, input, upper, True, unitriangular, transpose)
    return solution, jnp.broadcast_to(A, (*batch, *A.shape[-2:]))


_TRIANGULAR_SOLVE = (
    "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
    "PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of "
    "the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
    "X = torch.linalg.solve_triangular(A, B)."
)


@composite(autocast="fp32")
def triangular_solve(
    b: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The solution of ``A X = b`` for a triangular matrix, and the matrix.

    Source: `torch.triangular_solve <https://docs.pytorch.org/docs/stable/generated/torch.triangular_solve.html>`_.
    """
    warn_once(_TRIANGULAR_SOLVE)
    return return_types.triangular_solve(apply(_triangular_solve.operation, (b, A), (upper, transpose, unitriangular)))


@overload(
    "cholesky_solve",
    "CholeskySolveBackward0",
    saved=("self", "input2"),
    always_saved=("self", "input2", "result"),
    strides=column_major,
    gradient_strides={"self": column_major},
)
def _cholesky_solve(input: Array, L: Array, upper: bool) -> Any:
    for array, name in ((input, "b"), (L, "u")):
        if array.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {array.ndim} dimensions instead")
    _check_former_system("cholesky_solve", input, L)
    check_lapack("cholesky_solve_cpu", L)

    def forward(b: Any, factor: Any) -> Any:
        lower = adjoint(factor) if upper else factor
        return triangular(adjoint(lower), triangular(lower, b, False, True, False), True, True, False)

    def pullback(ct: Any, out: Any, b: Any, factor: Any) -> tuple[Any, Any]:
        gradient_b = solved(conjugate(ct), factor)
        symmetric = matmul_exact(gradient_b, adjoint(out))
        symmetric = symmetric + adjoint(symmetric)
        gradient_factor = -matmul_exact(factor, symmetric) if upper else -matmul_exact(symmetric, factor)
        return conjugate(sum_to(gradient_b, b.shape)), conjugate(sum_to(gradient_factor, factor.shape))

    solved = fgrad.define_rule(forward, vjp=pullback)
    return solved(input, L)


@composite(autocast="fp32", out=safely_cast("cholesky_solve"))
def cholesky_solve(input: Array, input2: Array, upper: bool = False) -> Tensor:
    """The solution of a linear system from the Cholesky factor of its matrix.

    Source: `torch.cholesky_solve <https://docs.pytorch.org/docs/stable/generated/torch.cholesky_solve.html>`_.
    """
    return _cholesky_solve(input, input2, upper)


@overload("cholesky_inverse", "CholeskyInverseBackward0", always_saved=("self", "result"), strides=column_major)
def _cholesky_inverse(input: Array, upper: bool) -> Any:
    check_square("cholesky_inverse", input)
    check_lapack("cholesky_inverse_out_cpu", input)

    def forward(x: Any) -> Any:
        eye = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
        inverted = triangular(x, eye, upper, True, False)
        return matmul_exact(inverted, adjoint(inverted)) if upper else matmul_exact(adjoint(inverted), inverted)

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        g = conjugate(ct)
        symmetric = matmul_exact(out, g + adjoint(g), out)
        return (conjugate(-matmul_exact(x, symmetric) if upper else -matmul_exact(symmetric, x)),)

    return fgrad.define_rule(forward, vjp=pullback)(input)


@overload("first_zero", None)
def _first_zero(input: Array) -> Any:
    return first_zero(input)


@composite(autocast="fp32", out=safely_cast("cholesky_inverse"))
def cholesky_inverse(input: Array, upper: bool = False) -> Tensor:
    """The inverse of a matrix from its Cholesky factor.

    Raises:
      LinAlgError: a matrix is singular.

    Source: `torch.cholesky_inverse <https://docs.pytorch.org/docs/stable/generated/torch.cholesky_inverse.html>`_.
    """
    inverse = _cholesky_inverse(input, upper)
    failure = first_failure(apply(_first_zero.operation, (input.detach(),)))
    if failure is not None:
        raise LinAlgError(
            f"cholesky_inverse: {failure[0]}The diagonal element {failure[1]} is zero, the inversion could not be "
            "completed because the input matrix is singular."
        )
    return inverse


# -- tensors as linear maps ------------------------------------------------------------------------------------------


@linalg(autocast="fp32", out=safely_cast("tensorinv"))
def tensorinv(A: Array, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a map from its last axes to its first ``ind``.

    Source: `torch.linalg.tensorinv <https://docs.pytorch.org/docs/stable/generated/torch.linalg.tensorinv.html>`_.
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    shape = A._type.shape
    first, last = shape[:ind], shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    return reshape(inv(reshape(A, (math.prod(last), math.prod(first)))), (*last, *first))


@linalg(autocast="fp32", out=safely_cast("tensorsolve"))
def tensorsolve(A: Array, B: Array, dims: Any = None) -> Tensor:
    """The tensor whose product with ``A``, summed over the last axes of ``A``, is ``B``.

    Source: `torch.linalg.tensorsolve
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.tensorsolve.html>`_.
    """
    if dims is not None:
        rank = len(A._type.shape)
        axes = [d % rank for d in dims]
        A = movedim(A, tuple(axes), tuple(range(rank - len(axes), rank)))
    rank = len(B._type.shape)
    first, last = A._type.shape[:rank], A._type.shape[rank:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {math.prod(last)} != {math.prod(first)}"
        )
    size = math.prod(last)
    return reshape(solve(reshape(A, (size, size)), reshape(B, (size,))), last)
