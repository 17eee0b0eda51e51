"""Shared parts of linear algebra: checks, memory layouts, small products, and ``LinAlgError``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints, contiguous_strides
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import elements
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.table import RowOptions, composite
from fgrad.torch.random.scalars import not_implemented, scalar_name


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or a factorisation does not converge.

    Source: PyTorch's ``torch.linalg.LinAlgError``.
    """


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


def linalg(
    name: str | None = None, **options: Unpack[RowOptions]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of tensors in ``torch.linalg``; ``options`` as in ``composite``."""
    return composite(method=False, function=False, name=name, namespace="linalg", **options)


def check_matrix(function: str, array: Any, name: str = "A") -> None:
    """Raise PyTorch's error for an array of fewer than two axes."""
    if array.ndim < 2:
        raise RuntimeError(f"{function}: The input tensor {name} must have at least 2 dimensions.")


def check_square(function: str, array: Any, name: str = "A") -> None:
    """Raise PyTorch's error for matrices that are not square."""
    check_matrix(function, array, name)
    rows, column_major = array.shape[-2:]
    if rows != column_major:
        raise RuntimeError(
            f"{function}: {name} must be batches of square matrices, but they are {rows} by {column_major} matrices"
        )


def check_inexact(function: str, array: Any, half: bool = False) -> None:
    """Raise PyTorch's error for integers, and unless ``half`` for 16-bit types."""
    if array.dtype.kind in "biu":
        raise RuntimeError(
            f"{function}: Expected a floating point or complex tensor as input. Got {scalar_name(array.dtype)}"
        )
    if not half and array.dtype.itemsize < 4:
        raise RuntimeError(f"{function}: Low precision dtypes not supported. Got {scalar_name(array.dtype)}")


def check_lapack(kernel: str, *arrays: Any) -> None:
    """Raise PyTorch's error for element types that LAPACK lacks; empty arrays of 16-bit types pass."""
    check_kinds(kernel, "fc", *arrays)
    for x in arrays:
        if x.size and x.dtype.itemsize < 4:
            raise not_implemented(kernel, x.dtype)


def check_pair(function: str, a: Any, b: Any) -> None:
    """Raise PyTorch's error for matrices of different element types."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{function}: Expected A and B to have the same dtype, but found A of type {scalar_name(a.dtype)} and B "
            f"of type {scalar_name(b.dtype)} instead"
        )


def is_vector(matrices: Ints, right_side: Ints) -> bool:
    """Whether the right sides of systems are vectors, by the shapes; if not, they are matrices."""
    return len(right_side) == 1 or tuple(right_side) == tuple(matrices[:-1])


def column_major(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of column-major matrices, as LAPACK returns them."""
    if len(shape) < 2:
        return None
    inner = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    strides = (*inner[:-2], inner[-1], inner[-2])
    return None if strides == contiguous_strides(shape) else strides


def matrix_column_major(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``column_major`` for outputs of the operand's rank; those of lower rank are not matrices."""
    return column_major(operands, shape) if len(shape) == len(operands[0]._type.shape) else None


def matmul_exact(*matrices: Any) -> Any:
    """The product of matrices, in full precision."""
    return functools.reduce(lambda a, b: jnp.matmul(a, b, precision=lax.Precision.HIGHEST), matrices)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(transposed(x))


def conjugate(x: Any) -> Any:
    """The conjugate; that of a cotangent is PyTorch's gradient."""
    return lax.conj(x) if x.dtype.kind == "c" else x


def transposed(x: Any) -> Any:
    """The transpose of the last two axes."""
    order = list(range(x.ndim))
    order[-2:] = reversed(order[-2:])
    return lax.transpose(x, order)


def first_failure(info: Tensor) -> tuple[str, int] | None:
    """The first failure in a batch of factorisations: its position for the error, and its code; None if none failed."""
    codes = elements(info._value())
    if codes is None:
        expect(lambda: info == 0)
    if codes is None or not codes.any():
        return None
    if not codes.ndim:
        return "", int(codes)
    i = int(np.flatnonzero(codes.reshape(-1))[0])
    return f"(Batch element {i}): ", int(codes.reshape(-1)[i])


def check_converged(function: str, matrices: Tensor, values: Tensor, what: str) -> None:
    """Raise PyTorch's error for matrices whose singular values or eigenvalues LAPACK did not find.

    Those, or what was computed from them (``values``), are NaN. PyTorch's are also for matrices with infinities, of
    which only eigenvalues raise.
    """
    found, given = elements(values._value()), elements(matrices._value())
    if found is None or given is None:
        expect(lambda: ~values.isnan())
    if found is None or given is None or not np.isnan(found).any():
        return
    failed = np.isnan(found).reshape(*matrices._type.shape[:-2], -1).any(-1)
    if what == "singular values":
        failed &= np.isnan(given).any((-2, -1)) | np.isfinite(given).all((-2, -1))
        if not failed.any():
            return
    i = int(np.flatnonzero(failed)[0])
    matrix = given.reshape(-1, *matrices._type.shape[-2:])[i]
    reason = (
        "contained non-finite values."
        if what == "singular values" and np.isnan(matrix).any()
        else f"is ill-conditioned or has too many repeated {what} (error code: {min(matrix.shape) - 1})."
    )
    which = f"(Batch element {i}): " if failed.ndim else ""
    raise LinAlgError(f"{function}: {which}The algorithm failed to converge because the input matrix {reason}")


def zero_pivot(x: Any) -> Any:
    """The position, from 1, of the first zero on the diagonal of the LU factor; 0 if there is none."""
    return first_zero(lax.linalg.lu(lax.stop_gradient(x))[0])


def first_zero(x: Any) -> Any:
    """The position, from 1, of the first zero on the diagonal; 0 if there is none."""
    diagonal = jnp.diagonal(x, axis1=-2, axis2=-1)
    zero = lax.eq(diagonal, lax.full_like(diagonal, 0))
    if not zero.shape[-1]:
        return jnp.zeros(x.shape[:-2], np.int32)
    return choose(jnp.any(zero, -1), jnp.argmax(zero, -1) + 1, 0).astype(np.int32)
