"""What operations on matrices share: checks, layouts, and the error of singular ones."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints, contiguous_strides
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.table import RowOptions, composite


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or a factorisation does not converge.

    Source: PyTorch's ``torch.linalg.LinAlgError``.
    """


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


def linalg(
    name: str | None = None, **options: Unpack[RowOptions]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of tensors as one of ``torch.linalg``; ``options`` as in ``composite``."""
    return composite(method=False, function=False, name=name, namespace="linalg", **options)


def scalar_name(array: Any) -> str:
    """PyTorch's name of an array's element type."""
    return dtypes.from_numpy(array.dtype).scalar_name


def check_matrix(function: str, array: Any, name: str = "A") -> None:
    """Raise PyTorch's error for what has no two axes."""
    if array.ndim < 2:
        raise RuntimeError(f"{function}: The input tensor {name} must have at least 2 dimensions.")


def check_square(function: str, array: Any, name: str = "A") -> None:
    """Raise PyTorch's error for matrices that are not square."""
    check_matrix(function, array, name)
    rows, columns = array.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{function}: {name} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def check_inexact(function: str, array: Any, half: bool = False) -> None:
    """Raise PyTorch's error for element types that cannot be divided, or have too few bits."""
    if array.dtype.kind in "biu":
        raise RuntimeError(
            f"{function}: Expected a floating point or complex tensor as input. Got {scalar_name(array)}"
        )
    if not half and array.dtype.itemsize < 4:
        raise RuntimeError(f"{function}: Low precision dtypes not supported. Got {scalar_name(array)}")


def check_lapack(kernel: str, *arrays: Any) -> None:
    """Raise PyTorch's error for elements that LAPACK does not have; of 16 bits, arrays without elements are let by."""
    check_kinds(kernel, "fc", *arrays)
    for x in arrays:
        if x.size and x.dtype.itemsize < 4:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(x)}'")


def check_pair(function: str, a: Any, b: Any) -> None:
    """Raise PyTorch's error for matrices of different element types."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{function}: Expected A and B to have the same dtype, but found A of type {scalar_name(a)} and B of type "
            f"{scalar_name(b)} instead"
        )


def columns(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of matrices that lie column by column, as LAPACK leaves them."""
    if len(shape) < 2:
        return None
    inner = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    made = (*inner[:-2], inner[-1], inner[-2])
    return None if made == contiguous_strides(shape) else made


def matrix_columns(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``columns`` for outputs of the operand's rank; those of a lower rank are no matrices."""
    return columns(operands, shape) if len(shape) == len(operands[0]._type.shape) else None


def times(*matrices: Any) -> Any:
    """The product of matrices, to full precision."""
    return functools.reduce(lambda a, b: jnp.matmul(a, b, precision=lax.Precision.HIGHEST), matrices)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(transposed(x))


def conjugate(x: Any) -> Any:
    """The conjugate; of a cotangent it is what PyTorch calls the gradient."""
    return lax.conj(x) if x.dtype.kind == "c" else x


def transposed(x: Any) -> Any:
    """The transpose of the last two axes."""
    order = list(range(x.ndim))
    order[-2:] = reversed(order[-2:])
    return lax.transpose(x, order)


def first_failure(info: Tensor) -> tuple[str, int] | None:
    """Where in a batch a factorisation failed, as errors put it, and how; None if it did not."""
    value = info._value()
    if is_abstract(value):
        return None
    codes = concrete(value)
    if not codes.any():
        return None
    if not codes.ndim:
        return "", int(codes)
    at = int(np.flatnonzero(codes.reshape(-1))[0])
    return f"(Batch element {at}): ", int(codes.reshape(-1)[at])


def zero_pivot(x: Any) -> Any:
    """The number of the first zero on the diagonal of the LU factor, 0 if there is none."""
    factor = lax.linalg.lu(lax.stop_gradient(x))[0]
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    zero = lax.eq(diagonal, lax.full_like(diagonal, 0))
    if not zero.shape[-1]:
        return jnp.zeros(x.shape[:-2], np.int32)
    return jnp.where(jnp.any(zero, -1), jnp.argmax(zero, -1) + 1, 0).astype(np.int32)
