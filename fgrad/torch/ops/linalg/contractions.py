"""Contractions: ``tensordot``, products of several matrices, and cross products."""

import math
from collections.abc import Sequence
from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.linalg.products import dot, mm
from fgrad.torch.ops.reductions.reductions import sum
from fgrad.torch.ops.table.dispatch import in_python
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.outputs import APART, CAST_ONTO_ITSELF, CONTRACTED, MULTIPLIED
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.signature import checked_ints
from fgrad.torch.ops.table.table import Array, composite, write_outputs
from fgrad.torch.ops.views.axes import permute
from fgrad.torch.ops.views.views import _unsafe_view as unsafe_view, reshape, unsqueeze, view_sizes, wrap_dim
from fgrad.torch.random.scalars import scalar_name

# -- pairs of tensors ------------------------------------------------------------------------------------------------


def _axes(axes: Any, name: str, position: int) -> list[int]:
    if not isinstance(axes, tuple | list):
        raise TypeError(
            f"tensordot(): argument '{name}' (position {position}) must be tuple of ints, not {type_name(axes)}"
        )
    return [*checked_ints(axes, "tensordot", name, position)]


@composite(method=False, dispatch=in_python(lambda a, b, dims=2, out=None: None), out=CONTRACTED)
def tensordot(a: Array, b: Array, dims: Any = 2) -> Tensor:
    """The sums of products of two tensors over several axes of each.

    Arguments:
      a, b: the tensors.
      dims: how many last axes of ``a`` are contracted with the first ones of ``b``; or the axes of each.

    Source: `torch.tensordot <https://docs.pytorch.org/docs/stable/generated/torch.tensordot.html>`_.
    """
    shape_a, shape_b = a._type.shape, b._type.shape
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims._type.numel > 1 else int(dims.item())
    if not isinstance(dims, int | tuple | list):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(len(shape_a), len(shape_b)):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims} and ndim_a={len(shape_a)} "
                f"and ndim_b={len(shape_b)}"
            )
        axes_a, axes_b = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = dims
        axes_a = _axes(first, "dims_self", 3)
        axes_b = _axes(second, "dims_other", 4)
    if len(axes_a) != len(axes_b):
        raise RuntimeError("both dimension lists should have same length")
    for i, j in zip(axes_a, axes_b, strict=True):
        # an axis contracted with one of size 1 is summed before the product
        if shape_b[j] == 1:
            a = sum(a, i, True, dtype=a._type.dtype)
        elif shape_a[i] == 1:
            b = sum(b, j, True, dtype=b._type.dtype)
        elif shape_a[i] != shape_b[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {shape_a[i]} in dim {i} and second has size "
                f"{shape_b[j]} in dim {j}"
            )
    shape_a, shape_b = a._type.shape, b._type.shape
    axes_a = [wrap_dim(d, len(shape_a)) for d in axes_a]
    axes_b = [wrap_dim(d, len(shape_b)) for d in axes_b]
    free_a = [i for i in range(len(shape_a)) if i not in axes_a]
    free_b = [i for i in range(len(shape_b)) if i not in axes_b]
    sizes = (*(shape_a[i] for i in free_a), *(shape_b[i] for i in free_b))
    contracted = math.prod([shape_a[i] for i in axes_a])
    rows, columns = math.prod([shape_a[i] for i in free_a]), math.prod([shape_b[i] for i in free_b])
    left, right = permute(a, (*free_a, *axes_a)), permute(b, (*axes_b, *free_b))
    if rows == columns == 1:
        return view_sizes(dot(reshape(left, (contracted,)), reshape(right, (contracted,))), sizes)
    return reshape(mm(reshape(left, (rows, contracted)), reshape(right, (contracted, columns))), sizes)


@composite(out=CONTRACTED)
def inner(input: Array, other: Array) -> Tensor:
    """Sums of products along the last axes of two tensors.

    Source: `torch.inner <https://docs.pytorch.org/docs/stable/generated/torch.inner.html>`_.
    """
    a, b = input._type.shape, other._type.shape
    if not a or not b:
        return input * other
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(a)} and {list(b)}"
        )
    return tensordot(input, other, ([-1], [-1]))


@composite(out=CAST_ONTO_ITSELF)
def kron(input: Array, other: Array) -> Tensor:
    """The Kronecker product.

    Source: `torch.kron <https://docs.pytorch.org/docs/stable/generated/torch.kron.html>`_.
    """
    a, b = input._type.shape, other._type.shape
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    left = unsafe_view(input.contiguous(), tuple([n for size in a for n in (size, 1)]))
    right = unsafe_view(other.contiguous(), tuple([n for size in b for n in (1, size)]))
    # the product of matrices with one column may lie transposed
    return unsafe_view((left * right).contiguous(), tuple([m * n for m, n in zip(a, b, strict=True)]))


# -- several matrices ------------------------------------------------------------------------------------------------


def _best_splits(sizes: Sequence[int]) -> list[list[int]]:
    """By first and last matrix of a subchain, where to split it so that multiplications are fewest."""
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    splits = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i][j] = min(costs)
            splits[i][j] = i + costs.index(cost[i][j])
    return splits


def chain_product(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the cheapest order; the first and the last may be vectors."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    ranks = [len(x._type.shape) for x in tensors]
    matrices = list(tensors)
    for end in (0, len(tensors) - 1):
        if ranks[end] not in (1, 2):
            which = "the first" if end == 0 else "the last"
            raise RuntimeError(f"multi_dot(): {which} tensor must be 1D or 2D but got {ranks[end]}D")
    for i in range(1, len(tensors) - 1):
        if ranks[i] != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {ranks[i]}D")
    if ranks[0] == 1:
        matrices[0] = unsqueeze(matrices[0], 0)
    if ranks[-1] == 1:
        matrices[-1] = unsqueeze(matrices[-1], -1)
    for i in range(len(tensors) - 1):
        if matrices[i]._type.shape[1] != matrices[i + 1]._type.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i]._type.shape)} and "
                f"{list(tensors[i + 1]._type.shape)} cannot be multiplied"
            )
    parts = _best_splits([matrices[0]._type.shape[0], *[x._type.shape[1] for x in matrices]])

    def multiplied(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else mm(multiplied(i, parts[i][j]), multiplied(parts[i][j] + 1, j))

    product = multiplied(0, len(matrices) - 1)
    rows, columns = product._type.shape
    return view_sizes(product, (*([rows] if ranks[0] == 2 else []), *([columns] if ranks[-1] == 2 else [])))


@composite(method=False, dispatch=in_python(lambda *tensors: None), out=MULTIPLIED)
def chain_matmul(*matrices: Any, out: Any = None) -> Tensor:
    """The product of several matrices; PyTorch recommends ``linalg.multi_dot``.

    Source: `torch.chain_matmul <https://docs.pytorch.org/docs/stable/generated/torch.chain_matmul.html>`_.
    """
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters.",
        UserWarning,
    )
    product = matrices[0] if len(matrices) == 1 else chain_product(matrices)
    return product if out is None else write_outputs("chain_matmul", None, matrices, product, out)


# -- cross products --------------------------------------------------------------------------------------------------


@overload("linalg_cross", "LinalgCrossBackward0")
def _cross(input: Array, other: Array, dim: int) -> Any:
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = wrap_dim(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and {other.shape[axis]}"
        )
    if input.dtype != other.dtype:
        raise RuntimeError(f"expected scalar type {scalar_name(input.dtype)} but found {scalar_name(other.dtype)}")
    check_kinds("cross", "ifc", input, other)
    shape = jnp.broadcast_shapes(input.shape, other.shape)
    a, b = (jnp.broadcast_to(x, shape) for x in (input, other))

    def rotated(x: Any, first: int) -> Any:
        parts = [lax.slice_in_dim(x, (first + i) % 3, (first + i) % 3 + 1, axis=axis) for i in range(3)]
        return lax.concatenate(parts, axis)

    return rotated(a, 1) * rotated(b, 2) - rotated(a, 2) * rotated(b, 1)


def cross_product(input: Tensor, other: Tensor, dim: int) -> Tensor:
    """The cross products along an axis of size 3."""
    return _cross(input, other, dim)


@composite(out=APART)
def cross(input: Array, other: Array, dim: Any = None) -> Tensor:
    """The cross products along an axis of size 3, by default the first one of this size.

    Source: `torch.cross <https://docs.pytorch.org/docs/stable/generated/torch.cross.html>`_.
    """
    if dim is None:
        shape = input._type.shape
        dim = next((i for i, n in enumerate(shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly "
            "or simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of "
            "linalg.cross in a future release.",
            UserWarning,
        )
    return _cross(input, other, dim)
