"""Places in an array that index tensors name, in the form that reading, writing and adding there all take.

``gather`` and ``scatter`` name a place for each element of the index, ``index_select`` and ``index_add`` whole slices,
``take`` and ``put`` places of the flattened array.  Each is an index in NumPy's manner here, so that what is done at
the places is written once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.run.flat_indices import all_below

#: an index in NumPy's manner
Places = tuple[Any, ...]


def along(index: Any, dim: int) -> Places:
    """The places of ``gather``: each element's own coordinates, but along ``dim`` those that the index has."""
    return tuple([index if d == dim else lax.broadcasted_iota(index.dtype, index.shape, d) for d in range(index.ndim)])


def slices(index: Any, dim: int) -> Places:
    """The places of ``index_select``: whole slices along ``dim``."""
    return (*[slice(None)] * dim, index)


def read(array: Any, places: Places) -> Any:
    """The elements at places."""
    return array.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _in_every_row(array: Any, index: Any, dim: int) -> bool:
    """Whether an index names places in all rows of an array: then it takes no coordinates to tell the rows."""
    return array.shape[:dim] == index.shape[:dim] and array.shape[dim + 1 :] == index.shape[dim + 1 :]


def read_along(array: Any, index: Any, dim: int) -> Any:
    """The elements at the places of ``along``."""
    if _in_every_row(array, index, dim):
        return jnp.take_along_axis(array, index, dim, mode="promise_in_bounds")
    return read(array, along(index, dim))


def put_along(put: Callable[[Any, Places, Any], Any], array: Any, index: Any, values: Any, dim: int) -> Any:
    """``put``, which is ``written`` or one of its kin, at the places of ``along``."""
    if not _in_every_row(array, index, dim):
        return put(array, along(index, dim), values)
    each = lambda row, places, new: put(row, (places,), new)  # noqa: E731
    for axis in range(array.ndim):
        if axis != dim:
            each = jax.vmap(each, axis, axis)
    return each(array, index, values)


def written(array: Any, places: Places, values: Any) -> Any:
    """The array with elements replaced.

    Of several values for one place the last one stays, and each gets the place's gradient as if it had stayed, which
    is what PyTorch's derivatives say.
    """
    return array.at[places].set(values, mode="promise_in_bounds", wrap_negative_indices=False, unique_indices=True)


def added(array: Any, places: Places, values: Any) -> Any:
    """The array with values added to elements, as often as a place is named; the sum of truth values is their "or"."""
    if array.dtype == np.bool_:
        return added(array.astype(np.int32), places, values.astype(np.int32)).astype(bool)
    return array.at[places].add(values, mode="promise_in_bounds", wrap_negative_indices=False)


def multiplied(array: Any, places: Places, values: Any) -> Any:
    """The array with elements multiplied by values; the product of truth values is their "and"."""
    place = array.at[places]
    product = place.min if array.dtype == np.bool_ else place.multiply
    return product(values, mode="promise_in_bounds", wrap_negative_indices=False)


def with_axis(array: Any) -> Any:
    """An array with at least one axis."""
    return lax.reshape(array, (1,)) if array.ndim == 0 else array


def first_outside(index: Tensor, low: int, high: int) -> int | None:
    """The first element of an index that is not in ``[low, high)``; None if there is none, or elements are unknown."""
    if is_abstract(index._value()) or not index._type.numel:
        return None
    values = concrete(index._value())
    if all_below(values, high) if not low else np.min(values) >= low and np.max(values) < high:
        return None
    return next(int(i) for i in np.ravel(values) if not low <= i < high)


def size_along(shape: Sequence[int], dim: int) -> int:
    """The size of an axis; a tensor of no dimensions has one of size 1."""
    return shape[dim] if shape else 1


def wrapped(index: Any, size: int) -> Any:
    """An index with its negative numbers counted from the front."""
    return jnp.where(index < 0, index + size, index)
