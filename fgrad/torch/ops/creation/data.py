"""Tensors of data: nested lists, numbers, NumPy's and JAX's arrays, other tensors."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides, extent, is_dense, memory_order
from fgrad.mutable.tensor.exported import over
from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type, type_of
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.device_of_value import CPU
from fgrad.mutable.values.evaluation import as_jax, concrete
from fgrad.torch.ops.creation.copying import laid_out
from fgrad.torch.ops.creation.creation import asked, made, place
from fgrad.torch.ops.creation.sequences import elements, inferred, shape_of
from fgrad.torch.ops.table.dispatch import CLOSED, FACTORY
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import composite

_COPY_CONSTRUCTED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)
_UNSPECIFIED = (
    "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
    "requires_grad=False explicitly to get the old behavior and silence this warning."
)


def _check_range(values: np.ndarray, dtype: Dtype) -> None:
    """Raise PyTorch's error for Python numbers that an element type cannot hold."""
    if values.dtype.kind in "Ou" and values.dtype != dtype.numpy and dtype.numpy.kind in "iu":
        raise ValueError("Overflow when unpacking long long")
    if not values.size or dtype.numpy.kind not in "iu":
        return
    bounds = np.iinfo(dtype.numpy)
    if values.dtype.kind == "i" and dtype.itemsize < 8:
        fits = values.max() <= bounds.max and values.min() >= (bounds.min or -int(bounds.max))
    elif values.dtype.kind == "f":
        # what is cut off behind the point does not count, a not-a-number fits nowhere
        fits = bool(np.all((values < float(bounds.max) + 1) & (values > bounds.min - 1)))
    else:
        return
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


@composite(method=False, dispatch=FACTORY, out=NOT_TAKEN)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor of the elements of nested lists, a number, an array or another tensor; the data is copied.

    >>> import fgrad.torch as torch
    >>> torch.tensor([[1., 2.], [3., 4.]])
    tensor([[1., 2.],
            [3., 4.]])

    Source: `torch.tensor <https://docs.pytorch.org/docs/stable/generated/torch.tensor.html>`_.
    """
    if isinstance(data, Tensor):
        warn(_COPY_CONSTRUCTED.format("torch.tensor"), UserWarning)
    return made_of(data, dtype, device, requires_grad)


def made_of(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """``tensor`` of data that may be a tensor, which is copied."""
    wanted = None if dtype is None else dtypes.argument(dtype, "tensor")
    if isinstance(data, Tensor):
        found = data.detach().clone() if wanted is None else data.detach().to(wanted, copy=True)
        found._requires_grad = False
        return asked(found) if requires_grad else found
    if isinstance(data, jax.Array):
        found = new_tensor(data, type_of(data))
        found = found if wanted is None else found.to(wanted)
        return asked(found) if requires_grad else found
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(data)}'")
    if not isinstance(data, np.ndarray):
        shape = shape_of(data)
        element = inferred(data) if wanted is None else wanted
        values = elements(data, shape, element)
        _check_range(values, element)
        return made(values, element, device, requires_grad)
    own = dtypes.from_numpy(data.dtype)
    element = own if wanted is None else wanted
    strides = _strides_of(data)
    return laid_out(made(data, element, device, requires_grad), strides if is_dense(data.shape, strides) else None)


def _strides_of(array: np.ndarray) -> Ints:
    """The strides of an array in elements.

    Raises:
      ValueError: one is negative, or lies within an element.
    """
    if any(step % array.itemsize for step in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    if any(step < 0 for step in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
        )
    return tuple([step // array.itemsize for step in array.strides])


@composite(method=False, dispatch=FACTORY)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor as it is; anything else as ``tensor`` makes it."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.argument(dtype, "as_tensor").numpy == data.dtype):
        return sharing(data) if place(device) == CPU else made(data, dtypes.from_numpy(data.dtype), device)
    return made_of(data, dtype, device)


@composite(method=False, dispatch=FACTORY)
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None, requires_grad: bool | None = None
) -> Tensor:
    """``as_tensor`` with NumPy's name, which may cut off the history."""
    found = as_tensor(obj, dtype, device)
    if copy is False and isinstance(obj, np.generic):
        raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
    if copy is False and isinstance(obj, Sequence | complex | float | int):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    if copy is False and isinstance(obj, Tensor) and found is not obj:
        raise ValueError(
            f"can't alias tensor with dtype '{obj._type.dtype.scalar_name}' into dtype "
            f"'{found._type.dtype.scalar_name}'."
        )
    if copy and found is obj:
        found = found.clone()
    if requires_grad is None:
        if isinstance(obj, Tensor) and is_tracked(obj):
            warn(_UNSPECIFIED, UserWarning)
        return found
    return found.requires_grad_() if requires_grad else found.detach() if is_tracked(found) else found


@composite(method=False, dispatch=CLOSED)
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: what is written to one is seen in the other.

    An array that may not be written is copied.

    Source: `torch.from_numpy <https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html>`_.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type_name(ndarray)})")
    return sharing(ndarray)


def sharing(array: np.ndarray, witness: Any = None) -> Tensor:
    """A tensor that lies in its storage as an array lies in memory, in that memory if it may be written.

    A witness is an object that is kept: the memory's owner, if others may hold it in ways that nobody can count.
    """
    array = np.asarray(array)  # without the mask of a masked array, as in PyTorch
    dtype, shape = dtypes.from_numpy(array.dtype), array.shape
    strides = _strides_of(array)
    if not array.size:
        return laid_out(made(array, dtype, CPU), strides)
    found = new_tensor(None, tensor_type(dtype, shape))
    if is_dense(shape, strides):
        if not array.flags.writeable:
            return laid_out(made(array, dtype, CPU), strides)
        memory = array.transpose(memory_order(shape, strides)).reshape(-1)
        apart = None if strides == contiguous_strides(shape) else strides
        found._storage = over(memory.view(np.uint8), shape, dtype, apart, witness)
        return found
    memory = np.lib.stride_tricks.as_strided(array, (extent(shape, strides, 0),), (array.itemsize,))
    if not array.flags.writeable:
        memory = memory.copy()
    found._storage = over(memory.view(np.uint8), memory.shape, dtype, None, witness)
    found._geometry = Geometry(shape, strides, 0, dtype)
    return found


@composite(method=False, dispatch=CLOSED)
def from_jax(array: Any) -> Tensor:
    """A tensor of a JAX array's elements; no copy is made, since neither can change."""
    if not isinstance(array, jax.Array | np.ndarray | np.generic):
        raise TypeError(f"from_jax(): argument 'array' must be an array of JAX or NumPy, not {type_name(array)}")
    return new_tensor(array, type_of(array))


@composite(method=False, dispatch=CLOSED)
def to_jax(tensor: Any) -> Any:
    """The JAX array that a tensor holds now; a later write to the tensor does not change it."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_jax(): argument 'tensor' (position 1) must be Tensor, not {type_name(tensor)}")
    return as_jax(tensor._value())


@composite(function=False, name="new_tensor")
def new_tensor_of(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of data with this tensor's type."""
    if isinstance(data, Tensor):
        warn(_COPY_CONSTRUCTED.format("tensor.new_tensor"), UserWarning)
    return made_of(data, dtype or self._type.dtype, device, requires_grad)


def numbers_of(tensor: Tensor) -> np.ndarray:
    """The elements of a tensor that does not require grad, for use as data."""
    if is_tracked(tensor):
        tensor = tensor.detach()
    return concrete(tensor._value())
