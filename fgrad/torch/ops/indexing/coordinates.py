"""The elements that index tensors name, as coordinates, and how these are read, replaced, added to and multiplied.

``gather`` and ``scatter`` name one element for each of the index, ``index_select`` and ``index_add`` slices, ``take``
and ``put`` elements of the flattened array.  Here each becomes an index in NumPy's form, so that each access is written
only once.  Accesses are lax's: those of ``jax.numpy`` choose the type of the numbers by the size of the array, and are
recorded for each size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import lax, numpy as jnp

from fgrad.mutable.operation.capture import expect_within
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import elements
from fgrad.run.flat_indices import all_below
from fgrad.torch.ops.table.broadcasting import aligned, choose, spread

#: an index in NumPy's form
Coordinates = tuple[Any, ...]


def along(index: Any, dim: int) -> Coordinates:
    """The coordinates of ``gather``: along ``dim`` those in the index, along other axes the element's own."""
    return tuple([index if d == dim else lax.broadcasted_iota(index.dtype, index.shape, d) for d in range(index.ndim)])


def slices(index: Any, dim: int) -> Coordinates:
    """The coordinates of ``index_select``: slices along ``dim``."""
    return (*[slice(None)] * dim, index)


@frozen
class Place:
    """Where the elements at coordinates are, as lax takes it.

    Attributes:
      numbers: the coordinates along some axes, beside each other in the last.
      axes: those axes.
      kept: the axes of the result that are whole axes of the array.
      shape: the result's.
    """

    numbers: Any
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    shape: tuple[Any, ...]


def place_of(array: Any, coordinates: Coordinates) -> Place:
    """The place of coordinates, at least one of them an array, and none negative.

    As in NumPy, the axes of arrays that are not beside each other come first.
    """
    axes = tuple([i for i, x in enumerate(coordinates) if not isinstance(x, slice)])
    arrays = aligned(*[coordinates[i] for i in axes])
    shape, count = arrays[0].shape, arrays[0].ndim
    dtype = np.result_type(*[x.dtype for x in arrays])
    columns = [
        x[..., None].astype(dtype) if isinstance(x, np.ndarray) else lax.expand_dims(x.astype(dtype), (count,))
        for x in arrays
    ]
    numbers = columns[0] if len(columns) == 1 else lax.concatenate(columns, count)
    first = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    whole = [n for i, n in enumerate(array.shape) if i not in axes]
    kept = tuple([i for i in range(len(whole) + count) if not first <= i < first + count])
    return Place(numbers, axes, kept, (*whole[:first], *shape, *whole[first:]))


def read(array: Any, coordinates: Coordinates, mode: str = "promise_in_bounds") -> Any:
    """The elements at coordinates; ``mode`` says what those out of bounds read."""
    place = place_of(array, coordinates)
    where = lax.GatherDimensionNumbers(place.kept, place.axes, place.axes)
    sizes = tuple([1 if i in place.axes else n for i, n in enumerate(array.shape)])
    return lax.gather(array, place.numbers, where, sizes, mode=mode)


def scattered(
    scatter: Any, array: Any, coordinates: Coordinates, values: Any, unique_indices: bool = False,
    mode: str = "promise_in_bounds",
) -> Any:  # fmt: skip
    """The array with values written by ``scatter`` (``lax.scatter``, ``lax.scatter_add``) to elements."""
    place = place_of(array, coordinates)
    where = lax.ScatterDimensionNumbers(place.kept, place.axes, place.axes)
    values = spread(values, place.shape, array.dtype)
    return scatter(array, place.numbers, values, where, mode=mode, unique_indices=unique_indices)


def _in_every_row(array: Any, index: Any, dim: int) -> bool:
    """Whether an index has as many rows along ``dim`` as the array, so that rows need no coordinates."""
    return array.shape[:dim] == index.shape[:dim] and array.shape[dim + 1 :] == index.shape[dim + 1 :]


def read_along(array: Any, index: Any, dim: int) -> Any:
    """The elements at the coordinates of ``along``."""
    if _in_every_row(array, index, dim):
        return take_along(array, index, dim)
    return read(array, along(index, dim))


def take_along(array: Any, indices: Any, dim: int) -> Any:
    """``jnp.take_along_axis`` for indices within bounds, in arrays of equal sizes along the other axes.

    JAX traces a function of its own for each new shape.
    """
    if not array.ndim:
        return array
    if not array.size:
        return lax.reshape(array, indices.shape)
    rows = tuple([d for d in range(array.ndim) if d != dim])
    where = lax.GatherDimensionNumbers((), (dim,), (dim,), rows, rows)
    one = tuple([min(n, 1) for n in array.shape])
    return lax.gather(array, lax.reshape(indices, (*indices.shape, 1)), where, one, mode="promise_in_bounds")


def take_known(array: Any, indices: np.ndarray, axis: int) -> Any:
    """``jnp.take`` for indices whose numbers are known, without a function that JAX traces for each new shape."""
    axis %= array.ndim
    size = array.shape[axis]
    indices = np.where(indices < 0, indices + size, indices)
    if not size:
        return jnp.take(array, indices, axis)
    within = bool((indices >= 0).all() and (indices < size).all())
    return read(array, slices(indices, axis), "promise_in_bounds" if within else "fill")


def put_along(write: Callable[[Any, Coordinates, Any], Any], array: Any, index: Any, values: Any, dim: int) -> Any:
    """``write`` (``written``, ``added`` or ``multiplied``) at the coordinates of ``along``."""
    if not _in_every_row(array, index, dim):
        return write(array, along(index, dim), values)
    write_row = lambda row, indices, new: write(row, (indices,), new)  # noqa: E731
    for axis in range(array.ndim):
        if axis != dim:
            write_row = jax.vmap(write_row, axis, axis)
    return write_row(array, index, values)


def positions_in(mask: Any, count: int) -> Any:
    """The flat positions of the ``count`` true elements of a mask.

    Before the first one are those elements up to which none is true, before the second those up to which one is, and so
    on.  There is a graph for each ``count``, so nothing in it is a constant of the mask's size, which it would keep.
    """
    trues = jnp.cumsum(lax.reshape(mask, (mask.size,)).astype(bool), dtype=np.int64)
    return jnp.cumsum(scattered(lax.scatter_add, jnp.zeros(count, np.int64), (trues,), np.int64(1), mode="drop"))


def written(array: Any, coordinates: Coordinates, values: Any) -> Any:
    """The array with elements replaced.

    Of several values for one element the last one stays, but in the derivative, as in PyTorch's, each of them gets the
    element's gradient.
    """
    return scattered(lax.scatter, array, coordinates, values, unique_indices=True)


def added(array: Any, coordinates: Coordinates, values: Any) -> Any:
    """The array with values added to elements, which may be named repeatedly; the sum of booleans is their "or"."""
    if array.dtype == np.bool_:
        return added(array.astype(np.int32), coordinates, values.astype(np.int32)).astype(bool)
    return scattered(lax.scatter_add, array, coordinates, values)


def multiplied(array: Any, coordinates: Coordinates, values: Any) -> Any:
    """The array with elements multiplied by values; the product of booleans is their "and"."""
    return scattered(lax.scatter_min if array.dtype == np.bool_ else lax.scatter_mul, array, coordinates, values)


def with_axis(array: Any) -> Any:
    """An array with at least one axis."""
    return lax.reshape(array, (1,)) if array.ndim == 0 else array


def first_outside(index: Tensor, low: int, high: int) -> int | None:
    """The first element of an index outside ``[low, high)``; None if there is none, or the elements are unknown."""
    values = elements(index._value())
    if values is None:
        expect_within(index, low, high)
        return None
    if not values.size:
        return None
    if all_below(values, high) if not low else np.min(values) >= low and np.max(values) < high:
        return None
    return next(int(i) for i in np.ravel(values) if not low <= i < high)


def size_along(shape: Sequence[int], dim: int) -> int:
    """The size of an axis; a 0-d tensor has one of size 1."""
    return shape[dim] if shape else 1


def wrapped(index: Any, size: int) -> Any:
    """An index with its negative numbers wrapped around."""
    return choose(index < 0, index + size, index)
