"""Norms, powers and exponentials of matrices, and the rest of ``torch.linalg``."""

import math
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, int64
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.creation.copying import converted
from fgrad.torch.ops.creation.creation import eye
from fgrad.torch.ops.linalg.contractions import chain_product, cross_product
from fgrad.torch.ops.linalg.decompositions import eigvalsh, svdvals
from fgrad.torch.ops.linalg.inverses import inv, inv_ex
from fgrad.torch.ops.linalg.matrices import check_inexact, check_square, linalg, transposed
from fgrad.torch.ops.linalg.products import matmul, vdot
from fgrad.torch.ops.reductions.cumulative import cumprod
from fgrad.torch.ops.reductions.extrema import amax, amin
from fgrad.torch.ops.reductions.norms import vector_norm as vector_norm_operation
from fgrad.torch.ops.reductions.reductions import sum
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import in_python
from fgrad.torch.ops.table.kinds import single
from fgrad.torch.ops.table.outputs import ANY, APART, MULTIPLIED, NORM, NOT_TAKEN, exact, safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, SymInt, composite, write_outputs
from fgrad.torch.ops.views.axes import permute
from fgrad.torch.ops.views.joining import cat
from fgrad.torch.ops.views.splitting import diagonal as diagonal_view
from fgrad.torch.ops.views.views import expand, squeeze, unsqueeze, wrap_dim

# -- norms -----------------------------------------------------------------------------------------------------------

Order = Any


@linalg()
def vector_norm(x: Array, ord: Order = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector, or over axes of a tensor.

    Arguments:
      x: the tensor.
      ord: the order: a number, or plus or minus infinity.
      dim: the axis or axes; all if None.
      keepdim: keep the axes, with size 1.
      dtype: convert the elements to this type first.

    Source: `torch.linalg.vector_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html>`_.
    """
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    return vector_norm_operation(x, ord, dim, keepdim, dtype=dtype)


@linalg(out=NORM)
def matrix_norm(
    A: Array, ord: Order = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: "fro", "nuc", or plus or minus 1, 2 or infinity.

    Source: `torch.linalg.matrix_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_norm.html>`_.
    """
    shape = A._type.shape
    if len(shape) < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if ord not in ("fro", "nuc") and (isinstance(ord, str) or abs(ord) not in (1, 2, math.inf)):
        text = ord if isinstance(ord, str) else f"{ord:g}"
        raise RuntimeError(f"linalg.matrix_norm: Order {text} not supported.")
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {', '.join(map(str, dims))}")
    rows, columns = (wrap_dim(d, len(shape)) for d in dims)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    if not A._type.inexact:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A._type.dtype.scalar_name}"
        )
    if ord == "fro":
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dtype is not None:
        A = converted(A, dtype, None)
    if ord == "nuc" or abs(ord) == 2:
        order = [*(i for i in range(len(shape)) if i not in (rows, columns)), rows, columns]
        values = svdvals(permute(A, tuple(order)))
        norms = sum(values, -1, keepdim) if ord == "nuc" else _extreme(values, ord, -1, keepdim)
        if keepdim:
            return permute(unsqueeze(norms, -1), tuple([order.index(i) for i in range(len(order))]))
        return norms
    first, second = (columns, rows) if abs(ord) == math.inf else (rows, columns)
    sums = vector_norm(A, 1, first, keepdim)
    if not keepdim and first < second:
        second -= 1
    return _extreme(sums, ord, second, keepdim)


def _extreme(norms: Tensor, ord: float, dim: int, keepdim: bool) -> Tensor:
    """The largest norm along an axis, 0 without a gradient if it is empty; the smallest for a negative order."""
    if ord < 0:
        return amin(norms, dim, keepdim)
    return amax(norms, dim, keepdim) if norms._type.shape[dim] else sum(norms.detach(), dim, keepdim)


@linalg(out=NORM)
def norm(A: Array, ord: Order = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector or a matrix, depending on the number of axes.

    Source: `torch.linalg.norm <https://docs.pytorch.org/docs/stable/generated/torch.linalg.norm.html>`_.
    """
    rank = len(A._type.shape)
    if dim is not None and not isinstance(dim, int) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and rank not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D.")
    if rank == 1 if dim is None else isinstance(dim, int) or len(dim) == 1:
        return vector_norm(A, ord, dim, keepdim, dtype=dtype)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)


@composite(name="norm", dispatch=in_python(lambda input, p="fro", dim=None, keepdim=False, out=None, dtype=None: None))
def _norm(input: Array, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of all elements or over axes; deprecated in favour of those in ``linalg``.

    Source: `torch.norm <https://docs.pytorch.org/docs/stable/generated/torch.norm.html>`_.
    """
    if not (p is None or isinstance(p, str | bool | int | float | complex | np.generic | Tensor)):
        raise TypeError(f"norm(): argument 'p' (position 2) must be Number or str, not {type_name(p)}")
    dims = (dim,) if isinstance(dim, int) else dim
    if p == "fro" and (dims is None or len(dims) <= 2):
        return vector_norm(input, 2, dims, keepdim, dtype=dtype)
    if isinstance(p, str):
        return matrix_norm(
            input, p, tuple(range(len(input._type.shape))) if dims is None else dims, keepdim, dtype=dtype
        )
    return vector_norm(input, 2 if p is None else p, dims, keepdim, dtype=dtype)


# -- condition and rank ----------------------------------------------------------------------------------------------


@linalg(autocast="fp32", out=safely_cast("linalg.cond"))
def cond(A: Array, p: Order = None) -> Tensor:
    """The condition number of matrices in a norm, by default the ratio of the extreme singular values.

    Source: `torch.linalg.cond <https://docs.pytorch.org/docs/stable/generated/torch.linalg.cond.html>`_.
    """
    shape = A._type.shape
    if len(shape) < 2:
        raise RuntimeError("linalg.cond: The input tensor A must have at least 2 dimensions.")
    if 0 in shape:
        return A.new_zeros(shape[:-2], dtype=A._type.dtype.to_real())
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values = svdvals(A)
        largest, least = values[..., :1], values[..., -1:]
        return squeeze(least / largest if p == -2 else largest / least, -1)
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            f"linalg.cond(ord={p}): A must be batches of square matrices, but they are "
            f"{shape[-2]} by {shape[-1]} matrices"
        )
    if p == "nuc":  # an inverse with infinities has no singular values
        values = svdvals(A)
        return sum(values, -1) * sum(values.reciprocal(), -1)
    if p == "nuc":  # the inverse of a singular matrix has no singular values
        values = svdvals(A)
        return sum(values, -1) * sum(values.reciprocal(), -1)
    inverse = inv_ex(A).inverse
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    return product.nan_to_num(math.inf, math.inf, -math.inf)


@linalg(autocast="fp32", out=ANY)
def matrix_rank(A: Array, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of singular values above ``max(atol, rtol * largest)``.

    Source: `torch.linalg.matrix_rank
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_rank.html>`_.
    """
    shape = A._type.shape
    if len(shape) < 2:
        raise RuntimeError("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    if not A._type.inexact or A._type.dtype.itemsize < 4:
        raise RuntimeError("This function doesn't handle types other than float and double")
    detached = A.detach()
    if 0 in shape[-2:]:
        return detached.new_zeros(shape[:-2], dtype=int64)
    magnitudes = eigvalsh(detached).abs() if hermitian else svdvals(detached)
    atol = tol if atol is None else atol
    if rtol is None:
        has_atol = atol is not None and bool(((atol > 0).any()) if isinstance(atol, Tensor) else atol > 0)
        rtol = 0.0 if has_atol or tol is not None else np.finfo(A._type.dtype.numpy).eps * max(shape[-2:])
    limit = amax(magnitudes, -1, True) * (unsqueeze(rtol, -1) if isinstance(rtol, Tensor) else rtol)
    if atol is not None:
        limit = limit.maximum(unsqueeze(atol, -1)) if isinstance(atol, Tensor) else limit.clamp(atol)
    return sum(magnitudes > limit, -1)


# -- powers and exponentials -----------------------------------------------------------------------------------------


@composite(name="matrix_power", out=safely_cast("matrix_power"))
def _matrix_power(input: Array, n: int) -> Tensor:
    """Square matrices multiplied with themselves.

    Source: `torch.matrix_power <https://docs.pytorch.org/docs/stable/generated/torch.matrix_power.html>`_.
    """
    shape = input._type.shape
    if len(shape) < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{shape[-2]} by {shape[-1]} matrices"
        )
    if n == 0:
        return input.clone().copy_(eye(shape[-1], dtype=input._type.dtype))
    base = inv(input) if n < 0 else input
    n = abs(n)
    if n == 1:
        return base if base is not input else input.clone()
    if n == 2:
        return matmul(base, base)
    if n == 3:
        return matmul(matmul(base, base), base)
    power, square = None, None
    while n:
        square = base if square is None else matmul(square, square)
        if n % 2:
            power = square if power is None else matmul(power, square)
        n //= 2
    assert power is not None
    return power


@linalg(out=safely_cast("matrix_power"))
def matrix_power(A: Array, n: int) -> Tensor:
    """Square matrices multiplied with themselves.

    Source: `torch.linalg.matrix_power
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_power.html>`_.
    """
    return _matrix_power(A, n)


#: JAX gives NaN for a matrix that needs more; its own 16 are too few for a norm of 4e5
_SQUARINGS = 32


def _exponential(x: Any) -> Any:
    """The exponential; its derivative is a block of the exponential of a block matrix, as in PyTorch."""

    def derivative(x: Any, tangent: Any) -> Any:
        n = x.shape[-1]
        # the derivative is linear in the tangent, and a large block would need more squarings
        largest = lax.stop_gradient(jnp.max(jnp.abs(tangent), (-2, -1), keepdims=True))
        scale = choose(largest > 0, largest, 1)
        tangent = tangent / scale
        upper = jnp.concatenate([x, tangent], -1)
        lower = jnp.concatenate([jnp.zeros_like(tangent), x], -1)
        return _exponential(jnp.concatenate([upper, lower], -2))[..., :n, n:] * scale

    return fgrad.define_rule(
        single(partial(jax.scipy.linalg.expm, max_squarings=_SQUARINGS)),
        vjp=lambda ct, out, x: (derivative(transposed(x), ct),),
        jvp=lambda tangents, out, x: derivative(x, tangents[0]),
    )(x)


@overload("linalg_matrix_exp", "LinalgMatrixExpBackward0")
def _linalg_matrix_exp(input: Array) -> Any:
    check_square("linalg.matrix_exp", input)
    check_inexact("linalg.matrix_exp", input, half=True)
    return _exponential(input) if input.size else input


@linalg(out=NOT_TAKEN)
def matrix_exp(A: Array) -> Tensor:
    """The exponential of square matrices.

    Source: `torch.linalg.matrix_exp <https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_exp.html>`_.
    """
    return _linalg_matrix_exp(A)


@composite(name="matrix_exp", out=NOT_TAKEN)
def _matrix_exp(input: Array) -> Tensor:
    """``linalg.matrix_exp`` by another name."""
    return _linalg_matrix_exp(input)


# -- products --------------------------------------------------------------------------------------------------------


@linalg(out=MULTIPLIED)
def multi_dot(tensors: Any, *, out: Any = None) -> Tensor:
    """The product of several matrices in the cheapest order.

    Source: `torch.linalg.multi_dot <https://docs.pytorch.org/docs/stable/generated/torch.linalg.multi_dot.html>`_.
    """
    product = chain_product(list(tensors))
    return product if out is None else write_outputs("linalg.multi_dot", None, tensors, product, out)


@linalg(name="matmul")
def linalg_matmul(input: Array, other: Array) -> Tensor:
    """``torch.matmul`` by another name."""
    return matmul(input, other)


@linalg(autocast="lower_precision_fp", out=exact("linalg.vecdot: Expected out of dtype{want} but found {got}"))
def vecdot(x: Array, y: Array, *, dim: int = -1) -> Tensor:
    """Inner products along an axis, the first operand conjugated.

    Source: `torch.linalg.vecdot <https://docs.pytorch.org/docs/stable/generated/torch.linalg.vecdot.html>`_.
    """
    if not x._type.inexact:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x._type.dtype.scalar_name}"
        )
    if len(x._type.shape) == 1 == len(y._type.shape):
        return vdot(x, y)
    return sum(x.conj() * y, dim)


@linalg(out=APART)
def cross(input: Array, other: Array, *, dim: int = -1) -> Tensor:
    """The cross products along an axis of size 3.

    Source: `torch.linalg.cross <https://docs.pytorch.org/docs/stable/generated/torch.linalg.cross.html>`_.
    """
    return cross_product(input, other, dim)


@linalg(out=NOT_TAKEN)
def diagonal(A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of matrices as a view.

    Source: `torch.linalg.diagonal <https://docs.pytorch.org/docs/stable/generated/torch.linalg.diagonal.html>`_.
    """
    return diagonal_view(A, offset, dim1, dim2)


@linalg(out=NOT_TAKEN)
def vander(x: Array, *, N: SymInt | None = None) -> Tensor:
    """The matrices of the powers of the elements along the last axis, starting with the 0th.

    Source: `torch.linalg.vander <https://docs.pytorch.org/docs/stable/generated/torch.linalg.vander.html>`_.
    """
    shape = x._type.shape
    if x._type.dtype.itemsize < 4 and (x._type.inexact or x._type.dtype is bool_):
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {x._type.dtype.scalar_name}"
        )
    if not shape:
        return vander(unsqueeze(x, 0), N=N)
    count = shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    column = unsqueeze(x, -1)
    repeated = cumprod(expand(column, (*shape, count - 1)), -1)
    return cat([column.detach().new_ones((*shape, 1)), repeated], -1)
