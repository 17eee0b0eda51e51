"""Added axes and broadcasting: ``atleast_2d``, ``broadcast_tensors``, ``meshgrid``."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.table.broadcasting import check_broadcast
from fgrad.torch.ops.table.dispatch import CLOSED, IN_PYTHON, in_python
from fgrad.torch.ops.table.table import composite
from fgrad.torch.ops.views.views import expand, reshape, unsqueeze, view_sizes


def check_tensors(tensors: Sequence[Any]) -> None:
    """Raise PyTorch's error for an element of a sequence that is not a tensor."""
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type_name(x)}")


def _map_tensors(promote: Callable[[Tensor], Tensor], tensors: tuple[Any, ...], as_tuple: bool) -> Any:
    """The result for a single tensor; a tuple of results for several tensors or a sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        check_tensors(tensors[0])
        return tuple(map(promote, tensors[0]))
    check_tensors(tensors)
    results = tuple(map(promote, tensors))
    return results[0] if len(results) == 1 and not as_tuple else results


def _to_1d(x: Tensor) -> Tensor:
    return x if x._type.shape else reshape(x, 1)


def _to_2d(x: Tensor) -> Tensor:
    rank = len(x._type.shape)
    return x if rank > 1 else unsqueeze(x, 0) if rank else reshape(x, 1, 1)


def _to_3d(x: Tensor) -> Tensor:
    rank = len(x._type.shape)
    if rank > 2:
        return x
    if not rank:
        return reshape(x, 1, 1, 1)
    return unsqueeze(x if rank == 2 else unsqueeze(x, 0), -1)


@composite(method=False, dispatch=in_python(lambda *tensors: None))
def atleast_1d(*tensors: Any, as_tuple: bool = False) -> Any:
    """Views with at least one axis.

    Source: `torch.atleast_1d <https://docs.pytorch.org/docs/stable/generated/torch.atleast_1d.html>`_.
    """
    return _map_tensors(_to_1d, tensors, as_tuple)


@composite(method=False, dispatch=in_python(lambda *tensors: None))
def atleast_2d(*tensors: Any, as_tuple: bool = False) -> Any:
    """Views with at least two axes; vectors are rows.

    Source: `torch.atleast_2d <https://docs.pytorch.org/docs/stable/generated/torch.atleast_2d.html>`_.
    """
    return _map_tensors(_to_2d, tensors, as_tuple)


@composite(method=False, dispatch=in_python(lambda *tensors: None))
def atleast_3d(*tensors: Any, as_tuple: bool = False) -> Any:
    """Views with at least three axes.

    Source: `torch.atleast_3d <https://docs.pytorch.org/docs/stable/generated/torch.atleast_3d.html>`_.
    """
    return _map_tensors(_to_3d, tensors, as_tuple)


@composite(method=False, dispatch=IN_PYTHON)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to one shape.

    Source: `torch.broadcast_tensors <https://docs.pytorch.org/docs/stable/generated/torch.broadcast_tensors.html>`_.
    """
    check_tensors(tensors)
    if not tensors:
        return ()
    check_broadcast(*[x._type for x in tensors])
    shape = np.broadcast_shapes(*[x._type.shape for x in tensors])
    return tuple([x if x._type.shape == shape else expand(x, shape) for x in tensors])


@composite(method=False, dispatch=CLOSED)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to.

    >>> import fgrad.torch as torch
    >>> torch.broadcast_shapes((3, 1), (1, 4))
    torch.Size([3, 4])

    Source: `torch.broadcast_shapes <https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html>`_.
    """
    for shape in shapes:
        if not isinstance(shape, int | tuple | list):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    tuples = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result = [1] * max(map(len, tuples), default=0)
    for i, shape in enumerate(tuples):
        for back in range(-1, -1 - len(shape), -1):
            if shape[back] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if shape[back] in (1, result[back]):
                continue
            if result[back] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[back]} at {back}! Mismatching argument at "
                    f"index {i} had {shape}; but expected shape should be broadcastable to {result}"
                )
            result[back] = shape[back]
    return Size(result)


def _grids(tensors: Sequence[Tensor]) -> list[Tensor]:
    shape = tuple([x._type.numel for x in tensors])
    return [
        expand(view_sizes(x, tuple([n if k == i else 1 for k, n in enumerate(shape)])), shape)
        for i, x in enumerate(tensors)
    ]


@composite(method=False, dispatch=IN_PYTHON)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid: each tensor expanded along the axes of the others.

    >>> import fgrad.torch as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))

    Source: `torch.meshgrid <https://docs.pytorch.org/docs/stable/generated/torch.meshgrid.html>`_.
    """
    vectors = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors)
    check_tensors(vectors)
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(x._type.dtype is not vectors[0]._type.dtype for x in vectors):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    for x in vectors:
        if len(x._type.shape) > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swapped = indexing == "xy" and len(vectors) > 1
    if swapped:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    grids = _grids(vectors)
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def check_vector(x: Tensor) -> None:
    """Raise PyTorch's error for a tensor that is not a vector."""
    if len(x._type.shape) != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._type.shape)}")


def ordered_mask(count: int, r: int, with_replacement: bool) -> np.ndarray:
    """A mask over all ``r``-tuples of numbers below ``count``: true for the increasing ones."""
    numbers = np.indices((count,) * r)
    mask = np.ones((count,) * r, bool)
    for a, b in itertools.pairwise(numbers):
        mask &= a <= b if with_replacement else a < b
    return mask
