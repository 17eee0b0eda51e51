"""Sums of a tensor and a product, each times a number: ``addmm`` and its kin."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.torch.ops.linalg.products import (
    check_batches,
    check_scalars,
    check_shapes,
    check_vector_dtype,
    unrounded_dot_general,
)
from fgrad.torch.ops.table.broadcasting import choose, without_factors
from fgrad.torch.ops.table.kinds import check_factor, check_kinds, kind
from fgrad.torch.ops.table.numbers import CPP_NAMES, check_computed, check_fits, check_number, is_one
from fgrad.torch.ops.table.outputs import CAST_ONTO_ITSELF, ONTO_ITSELF, Memory, exact
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Number
from fgrad.torch.random.scalars import cpp_name, scalar_name


def _expanded(input: Any, shape: tuple[int, ...]) -> Any:
    """The added tensor, broadcast to the shape of the product."""
    sizes = input.shape
    if len(sizes) > len(shape) or any(n not in (1, m) for n, m in zip(reversed(sizes), reversed(shape), strict=False)):
        axis = next((i for i in range(1, min(len(sizes), len(shape)) + 1) if sizes[-i] not in (1, shape[-i])), None)
        if axis is None:
            raise RuntimeError(
                f"expand(torch.{scalar_name(input.dtype)}Tensor{{{list(sizes)}}}, "
                f"size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or equal to the "
                f"number of dimensions in the tensor ({len(sizes)})"
            )
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[-axis]}) must match the existing size ({sizes[-axis]}) at "
            f"non-singleton dimension {len(shape) - axis}.  Target sizes: {list(shape)}.  Tensor sizes: {list(sizes)}"
        )
    return jnp.broadcast_to(input, shape)


def _times(x: Any, factor: Any) -> Any:
    """An array times a number, in the array's type."""
    return lax.mul(x, lax.convert_element_type(lax.broadcast(factor, x.shape), x.dtype))


def _scaled_sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """``beta * input + alpha * product``, without ``input`` if beta is 0, so that its NaNs do not count.

    A product with more bits is rounded only with the sum.
    """
    return _sum_with(input, _times(product, alpha), beta)


def _sum_with(input: Any, scaled: Any, beta: Any) -> Any:
    shape, dtype = scaled.shape, scaled.dtype
    bias = lax.convert_element_type(_expanded(input, shape), dtype)
    total = lax.add(_times(bias, beta), scaled)
    return lax.convert_element_type(choose(lax.eq(beta, lax.full_like(beta, 0)), scaled, total), input.dtype)


def _check_addmm(input: Any, mat1: Any, mat2: Any) -> None:
    for array, name in ((mat1, "mat1"), (mat2, "mat2")):
        if array.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {array.ndim}-D tensor")
    check_shapes(mat1, mat2)
    _check_dtypes(input, mat1, mat2)


def _check_dtypes(input: Any, mat1: Any, mat2: Any) -> None:
    for array, name in ((input, "self"), (mat1, "mat1")):
        if array.dtype != mat2.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {scalar_name(array.dtype)} and "
                f"{scalar_name(mat2.dtype)}"
            )
    check_kinds("addmm_impl_cpu_", "ifc", mat1)


@overload("addmm", "AddmmBackward0", constants=(("alpha", 1), ("beta", 1)), gradient_columns=("mat1", "mat2"))
def _addmm(input: Array, mat1: Array, mat2: Array) -> Any:
    _check_addmm(input, mat1, mat2)
    product = unrounded_dot_general(mat1, mat2, ((1,), (0,)))
    bias = lax.convert_element_type(_expanded(input, product.shape), product.dtype)
    return lax.convert_element_type(lax.add(bias, product), input.dtype)


#: the operation of linear layers
ADDMM = _addmm.operation


@overload("addmm", "AddmmBackward0", gradient_columns=("mat1", "mat2"))
def _addmm_scaled(input: Array, mat1: Array, mat2: Array, beta: Number, alpha: Number) -> Any:
    _check_addmm(input, mat1, mat2)
    return _scaled_sum(input, unrounded_dot_general(mat1, mat2, ((1,), (0,))), beta, alpha)


@overloaded(
    inplace=True,
    former=["beta, input, alpha, mat1, mat2", "beta, input, mat1, mat2"],
    autocast="lower_precision_fp",
    out=ONTO_ITSELF,
)
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Choice:
    """A tensor plus the product of two matrices: ``beta * input + alpha * (mat1 @ mat2)``.

    Source: `torch.addmm <https://docs.pytorch.org/docs/stable/generated/torch.addmm.html>`_.
    """
    # the case of linear layers: skip multiplying the product by one
    if is_one(beta) and is_one(alpha):
        return _addmm, input, mat1, mat2
    for factor in (beta, alpha):
        check_computed(factor, input)
    return _addmm_scaled, input, mat1, mat2, beta, alpha


@overload("addmv", "AddmvBackward0")
def _addmv(input: Array, mat: Array, vec: Array, beta: Number, alpha: Number) -> Any:
    if (mat.ndim, vec.ndim) != (2, 1) or input.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0] or (input.ndim and input.shape[0] not in (1, mat.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0] if input.ndim else 1}), mat ({mat.shape[0]}x{mat.shape[1]}), "
            f"vec ({vec.shape[0]})"
        )
    check_vector_dtype(input, mat, vec)
    return _scaled_sum(input, unrounded_dot_general(mat, vec, ((1,), (0,))), beta, alpha)


@overloaded(inplace=True, former=["beta, input, alpha, mat, vec", "beta, input, mat, vec"], out=ONTO_ITSELF)
def addmv(input: Array, mat: Array, vec: Array, *, beta: Number = 1, alpha: Number = 1) -> Choice:
    """A vector plus the product of a matrix and a vector.

    Source: `torch.addmv <https://docs.pytorch.org/docs/stable/generated/torch.addmv.html>`_.
    """
    for factor in (beta, alpha):
        check_number(factor, input._type.dtype)
    return _addmv, input, mat, vec, beta, alpha


@overload("addbmm", "AddbmmBackward0")
def _addbmm(input: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number) -> Any:
    for array, name in ((batch1, "batch1"), (batch2, "batch2")):
        if array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({batch1.shape[1]}x{batch1.shape[2]} and "
            f"{batch2.shape[1]}x{batch2.shape[2]})"
        )
    _check_dtypes(input, batch1, batch2)
    product = unrounded_dot_general(batch1, batch2, ((0, 2), (0, 1)))
    return _scaled_sum(input, product, beta, alpha)


@overloaded(
    inplace=True,
    former=["beta, input, alpha, batch1, batch2", "beta, input, batch1, batch2"],
    autocast="lower_precision_fp",
    out=exact("self and mat2 must have the same dtype, but got {got} and {want}", memory=Memory.SAME),
)
def addbmm(input: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Choice:
    """A matrix plus the sum of the products of two batches of matrices.

    Source: `torch.addbmm <https://docs.pytorch.org/docs/stable/generated/torch.addbmm.html>`_.
    """
    for factor in (beta, alpha):
        check_computed(factor, input)
    return _addbmm, input, batch1, batch2, beta, alpha


@overload("baddbmm", "BaddbmmBackward0")
def _baddbmm(input: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number) -> Any:
    if input.dtype != batch1.dtype:
        types = (f"{name}: {cpp_name(x.dtype)}" for x, name in ((batch1, "batch1"), (batch2, "batch2")))
        raise RuntimeError(f"Input dtypes must be the same, got: input {cpp_name(input.dtype)}, {', '.join(types)}")
    check_batches(batch1, batch2)
    check_scalars(batch1, batch2, "baddbmm")
    product = unrounded_dot_general(batch1, batch2, ((2,), (1,)), ((0,), (0,)))
    return _scaled_sum(input, product, beta, alpha)


@overloaded(
    inplace=True,
    former=["beta, input, alpha, batch1, batch2", "beta, input, batch1, batch2"],
    autocast="lower_precision_fp",
    out=ONTO_ITSELF,
)
def baddbmm(input: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1) -> Choice:
    """A batch of matrices plus the products of two others.

    Source: `torch.baddbmm <https://docs.pytorch.org/docs/stable/generated/torch.baddbmm.html>`_.
    """
    for factor in (beta, alpha):
        check_computed(factor, input)
    return _baddbmm, input, batch1, batch2, beta, alpha


@overload("addr", "AddrBackward0", promote=without_factors)
def _addr(input: Array, vec1: Array, vec2: Array, beta: Number, alpha: Number) -> Any:
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(
            f"addr: Expected 1-D argument {'vec1' if vec1.ndim != 1 else 'vec2'}, but got "
            f"{vec1.ndim if vec1.ndim != 1 else vec2.ndim}-D"
        )
    for name, factor in (("beta", beta), ("alpha", alpha)):
        check_factor(name, factor, input)
        if kind(factor) == "c" and kind(input) != "c":
            raise RuntimeError(f"value cannot be converted to type {CPP_NAMES[input.dtype.name]} without overflow")
    if input.dtype == np.bool_:
        factors = [lax.convert_element_type(x, bool) for x in (beta, alpha)]
        return (factors[0] & input) | (factors[1] & vec1[:, None] & vec2[None, :])
    # PyTorch scales the first vector, not the product: in half precision the results differ
    return _sum_with(input, _times(vec1[:, None], alpha) * vec2[None, :], beta)


@overloaded(inplace=True, former=["beta, input, alpha, vec1, vec2", "beta, input, vec1, vec2"], out=CAST_ONTO_ITSELF)
def addr(input: Array, vec1: Array, vec2: Array, *, beta: Number = 1, alpha: Number = 1) -> Choice:
    """A matrix plus the outer product of two vectors.

    Source: `torch.addr <https://docs.pytorch.org/docs/stable/generated/torch.addr.html>`_.
    """
    for factor in (beta, alpha):
        if not isinstance(factor, complex):  # for which there is another error
            check_fits(factor, input, vec1, vec2)
    return _addr, input, vec1, vec2, beta, alpha
