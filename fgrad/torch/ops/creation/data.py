"""Tensors from data: nested lists, numbers, NumPy and JAX arrays, other tensors."""

from typing import Any

import jax
import numpy as np

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides, extent, is_dense, memory_order
from fgrad.mutable.tensor.exported import over
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type, type_of
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.device_of_value import CPU, place_of
from fgrad.mutable.values.evaluation import as_jax, constant
from fgrad.mutable.write.copying import warn_of_imaginary
from fgrad.torch.ops.creation.copying import laid_out
from fgrad.torch.ops.creation.making import device_or_default, requiring_grad, tensor_from_array
from fgrad.torch.ops.creation.sequences import elements, inferred, shape_of
from fgrad.torch.ops.table.dispatch import CLOSED, FACTORY, UNLISTED_METHOD
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import composite
from fgrad.torch.storage import TypedStorage, UntypedStorage

_COPY_CONSTRUCTED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
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
        fits = bool(np.all((values <= float(bounds.max)) & (values >= float(bounds.min))))  # NaN fits no integer type
    else:
        return
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


@composite(method=False, dispatch=FACTORY, out=NOT_TAKEN)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor with a copy of the elements of nested lists, a number, an array or another tensor.

    >>> import fgrad.torch as torch
    >>> torch.tensor([[1., 2.], [3., 4.]])
    tensor([[1., 2.],
            [3., 4.]])

    Source: `torch.tensor <https://docs.pytorch.org/docs/stable/generated/torch.tensor.html>`_.
    """
    if isinstance(data, Tensor):
        warn(_COPY_CONSTRUCTED.format("torch.tensor"), UserWarning)
    return tensor_from_data(data, dtype, device, requires_grad)


def tensor_from_data(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """``tensor`` without the warning for data that is a tensor."""
    requested = None if dtype is None else dtypes.argument(dtype, "tensor")
    if isinstance(data, Tensor):
        result = data.detach().clone() if requested is None else data.detach().to(requested, copy=True)
        result._requires_grad = False
        return requiring_grad(result) if requires_grad else result
    if isinstance(data, UntypedStorage | TypedStorage):
        # bytes are read as elements where they lie
        element = requested or (data.dtype if isinstance(data, TypedStorage) else dtypes.int64)
        shared: Any = new_tensor(constant(np.zeros(0, element.numpy)), tensor_type(element, (0,)))
        result = shared.set_(data)
        return requiring_grad(result) if requires_grad else result
    if isinstance(data, jax.Array):
        result = new_tensor(data, type_of(data))
        result = result if requested is None else result.to(requested)
        return requiring_grad(result) if requires_grad else result
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(data)}'")
    if not isinstance(data, np.ndarray):
        shape = shape_of(data)
        element = inferred(data) if requested is None else requested
        values = elements(data, shape, element)
        if requested is None and element is dtypes.int64 and values.dtype.kind in "fu":
            raise ValueError("Overflow when unpacking long long")  # NumPy's type for integers of 2**63 and more
        _check_range(values, element)
        return tensor_from_array(values, element, device, requires_grad)
    array_type = dtypes.from_numpy(data.dtype)
    element = array_type if requested is None else requested
    warn_of_imaginary(array_type, element)
    strides = _strides_of(data)
    result = tensor_from_array(data, element, device, requires_grad)
    return laid_out(result, strides if is_dense(data.shape, strides) else None)


def _strides_of(array: np.ndarray) -> Ints:
    """The strides of an array in elements.

    Raises:
      ValueError: one is negative, or no multiple of the element size.
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
    """A tensor itself; from anything else, a new tensor that shares memory where it can."""
    if isinstance(data, Tensor):
        return data.to(device, dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.argument(dtype, "as_tensor").numpy == data.dtype):
        if device_or_default(device) == CPU:
            return sharing_memory(data)
        return tensor_from_array(data, dtypes.from_numpy(data.dtype), device)
    return tensor_from_data(data, dtype, device)


@composite(method=False, dispatch=CLOSED)
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: each sees what is written to the other.

    A read-only array is copied.

    Source: `torch.from_numpy <https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html>`_.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type_name(ndarray)})")
    return sharing_memory(ndarray)


def sharing_memory(array: np.ndarray, witness: Any = None) -> Tensor:
    """A tensor with the layout of a NumPy array, in the same memory unless that is read-only.

    ``witness`` is the memory's owner, kept alive if others may hold the memory without a reference to the array.
    """
    array = np.asarray(array)  # without the mask of a masked array, as in PyTorch
    dtype, shape = dtypes.from_numpy(array.dtype), array.shape
    strides = _strides_of(array)
    if not array.size:
        return laid_out(tensor_from_array(array, dtype, CPU), strides)
    shared = new_tensor(None, tensor_type(dtype, shape))
    if is_dense(shape, strides):
        if not array.flags.writeable:
            return laid_out(tensor_from_array(array, dtype, CPU), strides)
        memory = array.transpose(memory_order(shape, strides)).reshape(-1)
        permuted_strides = None if strides == contiguous_strides(shape) else strides
        shared._storage = over(memory.view(np.uint8), shape, dtype, permuted_strides, witness)
        return shared
    memory = np.lib.stride_tricks.as_strided(array, (extent(shape, strides, 0),), (array.itemsize,))
    if not array.flags.writeable:
        memory = memory.copy()
    shared._storage = over(memory.view(np.uint8), memory.shape, dtype, None, witness)
    shared._geometry = Geometry(shape, strides, 0, dtype)
    return shared


@composite(method=False, dispatch=CLOSED)
def from_jax(array: Any) -> Tensor:
    """A tensor with the elements of a JAX array, without a copy, since JAX arrays are immutable."""
    if not isinstance(array, jax.Array | np.ndarray | np.generic):
        raise TypeError(f"from_jax(): argument 'array' must be an array of JAX or NumPy, not {type_name(array)}")
    return new_tensor(array, type_of(array))


@composite(method=False, dispatch=CLOSED)
def to_jax(tensor: Any) -> Any:
    """The JAX array that a tensor holds now; a later write to the tensor does not change it."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_jax(): argument 'tensor' (position 1) must be Tensor, not {type_name(tensor)}")
    return as_jax(tensor._value())


@composite(function=False, name="new_tensor", dispatch=UNLISTED_METHOD)
def new_tensor_of(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor from data, by default of this tensor's type, and where this tensor is unless the data are a tensor."""
    if isinstance(data, Tensor):
        warn(_COPY_CONSTRUCTED.format("tensor.new_tensor"), UserWarning)
    elif device is None:
        device = place_of(self._storage.array)
    return tensor_from_data(data, dtype or self._type.dtype, device, requires_grad)
