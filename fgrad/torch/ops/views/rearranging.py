"""Repeating and rearranging: ``repeat``, ``tile``, ``roll``, ``flip``, ``rot90``, products and combinations."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import contiguous_strides
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.formats import contiguous_format
from fgrad.mutable.values.evaluation import concrete
from fgrad.mutable.write.copying import kept_strides
from fgrad.torch.ops.creation.copying import clone, laid_out
from fgrad.torch.ops.creation.making import sizes_of, tensor_beside
from fgrad.torch.ops.indexing.gathering import index_select, masked_select
from fgrad.torch.ops.table.dispatch import IN_PYTHON
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import Choice, no_match, overload, overloaded
from fgrad.torch.ops.table.table import Array, Dims, Ints, SymInt, composite, operation
from fgrad.torch.ops.views.joining import stack
from fgrad.torch.ops.views.reshaping import check_vector, meshgrid, ordered_mask
from fgrad.torch.ops.views.views import expand, flatten, unsqueeze, view_sizes, wrap_dim, wrap_dims

# -- repeating -------------------------------------------------------------------------------------------------------


@operation("RepeatBackward0", function=False, outputs=())
def repeat(input: Array, repeats: Ints) -> Any:
    """The tensor repeated along each axis.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])

    Source: `torch.Tensor.repeat <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.repeat.html>`_.
    """
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    lead = len(repeats) - input.ndim
    sizes_of(([n * m for n, m in zip(repeats, (1,) * lead + input.shape, strict=True)],), "repeat")
    return jnp.tile(input, repeats)


@composite()
def tile(input: Array, dims: Ints) -> Tensor:
    """The tensor repeated along its last axes.

    Source: `torch.tile <https://docs.pytorch.org/docs/stable/generated/torch.tile.html>`_.
    """
    return repeat(input, (1,) * (len(input._type.shape) - len(dims)) + dims)


def _interleaved_indices(repeats: Tensor) -> Tensor:
    """The indices 0, 1, ..., each repeated as often as ``repeats`` says."""
    if len(repeats._type.shape) != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats._type.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{repeats._type.dtype.scalar_name}'")
    counts = concrete(repeats._value())
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return tensor_beside(repeats, np.repeat(np.arange(len(counts)), counts), repeats._type.dtype)


_REPEAT_INTERLEAVE = (
    "Tensor input, Tensor repeats, int dim = None, *, int output_size = None",
    "Tensor repeats, *, int output_size = None",
    "Tensor input, int repeats, int dim = None, *, int output_size = None",
)


@composite(out=NOT_TAKEN)
def repeat_interleave(
    input: Any = None, repeats: Any = None, dim: int | None = None, *, output_size: SymInt | None = None
) -> Tensor:
    """Each element, or each slice along an axis, repeated in place.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 2]))
    tensor([1, 2, 2])

    Source: `torch.repeat_interleave
    <https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html>`_.
    """
    if repeats is None:
        input, repeats = None, input
    if repeats is None:
        raise TypeError(no_match("repeat_interleave", "", _REPEAT_INTERLEAVE))
    if input is None:
        return _interleaved_indices(repeats)
    source = flatten(input) if dim is None else input
    axis = wrap_dim(0 if dim is None else dim, len(source._type.shape))
    size = source._type.shape[axis] if source._type.shape else 1
    if isinstance(repeats, Tensor):
        if repeats._type.shape in ((), (1,)):
            repeats = expand(repeats if repeats._type.shape else unsqueeze(repeats, 0), size)
        elif repeats._type.shape != (size,):
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats._type.numel} "
                f"and input.size({axis}) = {size}"
            )
        return index_select(source, axis, _interleaved_indices(repeats))
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    widened = unsqueeze(source, axis + 1)
    shape = list(widened._type.shape)
    shape[axis + 1] = repeats
    copied = clone(expand(widened, shape), memory_format=contiguous_format)
    if 0 in shape:
        return view_sizes(copied, (*shape[:axis], size * repeats, *shape[axis + 2 :]))
    return flatten(copied, axis, axis + 1)


# -- moving ----------------------------------------------------------------------------------------------------------


@overload("roll", "RollBackward0")
def _roll(input: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if not dims:
        return lax.reshape(_rolled(lax.reshape(input, (input.size,)), shifts[0], 0), input.shape)
    if input.ndim:
        for shift, axis in zip(shifts, dims, strict=True):
            input = _rolled(input, shift, axis)
    return input


def _rolled(x: Any, shift: int, axis: int) -> Any:
    """Rolled by slices: ``jnp.roll`` is a function under ``jit`` whose cache is slow with many shifts."""
    size = x.shape[axis]
    last = shift % size if size else 0
    if not last:
        return x
    parts = [lax.slice_in_dim(x, size - last, size, axis=axis), lax.slice_in_dim(x, 0, size - last, axis=axis)]
    return lax.concatenate(parts, axis)


@overloaded(out=NOT_TAKEN)
def roll(input: Array, shifts: Dims, dims: Dims = ()) -> Choice:
    """Elements shifted circularly along axes; without axes, in the flattened tensor.

    >>> import fgrad.torch as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])

    Source: `torch.roll <https://docs.pytorch.org/docs/stable/generated/torch.roll.html>`_.
    """
    shifts, axes = (x if isinstance(x, tuple) else (x,) for x in (shifts, () if dims is None else dims))
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(axes) and (axes or len(shifts) > 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(axes)}")
    return _roll, input, shifts, tuple([wrap_dim(d, len(input._type.shape), False) for d in axes])


@operation("FlipBackward0", strides=elementwise, out=NOT_TAKEN)
def flip(input: Array, dims: Ints) -> Any:
    """The elements in reverse order along axes.

    >>> import fgrad.torch as torch
    >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [0])
    tensor([[3, 4],
            [1, 2]])

    Source: `torch.flip <https://docs.pytorch.org/docs/stable/generated/torch.flip.html>`_.
    """
    axes = wrap_dims(dims, input.ndim)
    return lax.rev(input, axes) if input.ndim else input


@composite()
def fliplr(input: Any) -> Tensor:
    """The columns in reverse order.

    Source: `torch.fliplr <https://docs.pytorch.org/docs/stable/generated/torch.fliplr.html>`_.
    """
    if len(input._type.shape) < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@composite()
def flipud(input: Any) -> Tensor:
    """The rows in reverse order.

    Source: `torch.flipud <https://docs.pytorch.org/docs/stable/generated/torch.flipud.html>`_.
    """
    if not input._type.shape:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@overload("rot90", "Rot90Backward0")
def _rot90(input: Array, k: int, dims: tuple[int, int]) -> Any:
    return jnp.rot90(input, k, dims)


@composite(out=NOT_TAKEN)
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """A rotation by ``k`` quarter turns, from the first of two axes towards the second.

    >>> import fgrad.torch as torch
    >>> torch.rot90(torch.tensor([[0, 1], [2, 3]]))
    tensor([[1, 3],
            [0, 2]])

    Source: `torch.rot90 <https://docs.pytorch.org/docs/stable/generated/torch.rot90.html>`_.
    """
    rank = len(input._type.shape)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    first, second = (wrap_dim(d, rank) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    rotated = _rot90(input, k % 4, (first, second))
    strides = list(kept_strides(input) or contiguous_strides(input._type.shape))
    if k % 2:
        strides[first], strides[second] = strides[second], strides[first]
    return laid_out(rotated, tuple(strides))


# -- products and combinations ---------------------------------------------------------------------------------------


@composite(method=False, dispatch=IN_PYTHON)
def cartesian_prod(*tensors: Any) -> Tensor:
    """The Cartesian product of vectors, a row for each tuple.

    Source: `torch.cartesian_prod <https://docs.pytorch.org/docs/stable/generated/torch.cartesian_prod.html>`_.
    """
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    for x in vectors:
        check_vector(x)
    if len(vectors) == 1:
        return vectors[0]
    return stack([flatten(grid) for grid in meshgrid(*vectors, indexing="ij")], 1)


@composite(method=False, out=NOT_TAKEN)
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, a row for each.

    >>> import fgrad.torch as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])

    Source: `torch.combinations <https://docs.pytorch.org/docs/stable/generated/torch.combinations.html>`_.
    """
    check_vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return tensor_beside(input, np.zeros(0), input._type.dtype)
    mask = tensor_beside(input, ordered_mask(input._type.numel, r, with_replacement), dtypes.bool_)
    return stack([masked_select(grid, mask) for grid in meshgrid(*[input] * r, indexing="ij")], 1)
