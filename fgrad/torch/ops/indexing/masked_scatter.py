"""``masked_scatter``: the values of a tensor, in order, where a mask is true."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Geometry, element_positions, is_contiguous
from fgrad.mutable.operation.overlap import KEPT, check_repeated
from fgrad.mutable.types.dtypes import bool_
from fgrad.mutable.values.evaluation import Routine, concrete, is_abstract, recorded
from fgrad.seam import Graph
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed


@lru_cache(KEPT)
def _in_sequence(graph: Graph, geometries: tuple[Geometry | None, ...]) -> Routine:
    """The kernel for a source in the written memory: it reads a value that it has written before, as PyTorch's does.

    Only a contiguous source is read there; PyTorch copies any other beforehand.
    """
    written, source = geometries[0], geometries[-1]
    assert written is not None
    if source is None or 0 in (*written.sizes, *source.sizes) or not is_contiguous(source.sizes, source.strides):
        return Routine(graph)
    count = math.prod(written.sizes)
    at = element_positions(written.sizes, written.strides, written.offset).reshape(-1)
    by_place = np.argsort(at)
    read = source.offset + np.arange(math.prod(source.sizes))
    found = by_place[np.minimum(np.searchsorted(at, read, sorter=by_place), count - 1)]
    #: for each element of the source the element of the tensor in its place, or the count of elements
    element = np.where(at[found] == read, found, count)

    def function(input: Any, mask: Any, values: Any) -> list[Any]:
        mask = lax.reshape(jnp.broadcast_to(mask, input.shape), (count,))
        order = jnp.clip(jnp.cumsum(mask) - 1, 0, len(read) - 1)
        place = jnp.arange(count)
        there = jnp.asarray(element)[order]
        before = mask & (there < place) & mask[jnp.minimum(there, count - 1)]
        # an element has the value of the one that it reads, and so on: twice as far in each round
        first = jnp.where(before, there, place)
        for _ in range(count.bit_length()):
            first = first[first]
        new = lax.reshape(values, (len(read),))[order[first]]
        return [lax.reshape(choose(mask, new, lax.reshape(input, (count,))), input.shape)]

    return Routine(recorded(function, graph.in_types))


@overload(
    "masked_scatter", "MaskedScatterBackward0", always_saved=("mask",), overlap=check_repeated, sequence=_in_sequence
)
def _masked_scatter(input: Array, mask: Fixed, source: Array) -> Any:
    check_broadcast(mask, input)
    input, mask = jnp.broadcast_arrays(input, mask)
    if not source.size or not mask.size:
        return input
    order = jnp.cumsum(lax.reshape(mask, (mask.size,))) - 1
    values = jnp.take(lax.reshape(source, (source.size,)), order, mode="clip")
    return choose(mask, lax.reshape(values, mask.shape), input)


@overloaded(inplace=True, out=NOT_TAKEN)
def masked_scatter(input: Array, mask: Fixed, source: Array) -> Choice:
    """A copy with the values of ``source``, in order, where a mask is true.

    Source: `torch.Tensor.masked_scatter_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_scatter_.html>`_.
    """
    if input._type.dtype is not source._type.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{input._type.dtype.scalar_name} and {source._type.dtype.scalar_name}"
        )
    check_broadcast(mask._type, input._type)
    if mask._type.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask._type.dtype.scalar_name}"
        )
    if not is_abstract(mask._value()):
        shape = np.broadcast_shapes(mask._type.shape, input._type.shape)
        if np.broadcast_to(concrete(mask._value()), shape).sum() > source._type.numel:
            raise RuntimeError("Number of elements of source < number of ones in mask")
    return _masked_scatter, input, mask, source
