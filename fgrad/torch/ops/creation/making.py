"""What all functions that make tensors share: elements, device, shape, and checks of their arguments."""

from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types import devices, dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values import device_of_value as placing
from fgrad.mutable.values.capacity import check_room, storage_size
from fgrad.mutable.values.device_of_value import Absent
from fgrad.mutable.values.evaluation import constant, filled as of_number
from fgrad.mutable.write.copying import resized
from fgrad.torch.ops.creation.copying import fill_
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.signature import spread_ints


def tensor_from_array(array: np.ndarray, dtype: Dtype, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with the elements of a NumPy array."""
    tensor = new_tensor(constant(elements_of(array, dtype)), tensor_type(dtype, np.shape(array)))
    placed(tensor, device)
    return requiring_grad(tensor) if requires_grad else tensor


def tensor_beside(like: Tensor, array: np.ndarray, dtype: Dtype) -> Tensor:
    """A new tensor with the elements of a NumPy array, on the device of another tensor."""
    return to_device_of(like, tensor_from_array(array, dtype, placing.CPU))


def elements_of(value: Any, dtype: Dtype) -> np.ndarray:
    """A number or an array converted to an element type."""
    array = np.asarray(value)
    if array.dtype is dtype.numpy:
        return array
    if array.dtype.kind == "c" and not dtype.is_complex and dtype.numpy != np.bool_:
        array = np.real(array)
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


def wants_grad(requires_grad: bool | None, function: str) -> bool:
    """The ``requires_grad`` of a function that makes a tensor, which must be a bool or None."""
    if requires_grad.__class__ is bool or requires_grad is None:
        return bool(requires_grad)
    raise TypeError(f"{function}(): argument 'requires_grad' must be bool, not {type_name(requires_grad)}")


def requiring_grad(tensor: Tensor) -> Tensor:
    """A new tensor, now requiring grad.

    Raises:
      RuntimeError: its type is not differentiable.
    """
    if not tensor._type.inexact:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor._requires_grad = True
    return tensor


def placed(tensor: Tensor, device: Any) -> Tensor:
    """A new tensor, moved to a device."""
    target = device_or_default(device)
    if target.type != "cpu":
        tensor._storage.array = placing.placed(tensor._storage.array, target)
    return tensor


def device_or_default(device: Any) -> devices.device:
    """The device of a new tensor: the given one, else the default."""
    return devices.get_default_device() if device is None else devices.device(device)


def constant_tensor(
    shape: tuple[int, ...], value: Any, dtype: Dtype, target: devices.device, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with one value."""
    size = storage_size(shape, None, 0, dtype.itemsize)
    if target.type == "meta":
        array = Absent(shape, dtype.numpy)
    else:
        check_room(size)
        is_common = value.__class__ is int and 0 <= value <= 1  # small arrays of these are cached
        array = (
            of_number(shape, dtype.numpy, value) if is_common else constant(np.full(shape, elements_of(value, dtype)))
        )
        if target.type != "cpu":
            array = placing.placed(array, target)
    tensor = new_tensor(array, tensor_type(dtype, shape))
    return requiring_grad(tensor) if requires_grad else tensor


def sizes_of(arguments: tuple[Any, ...], function: str) -> tuple[int, ...]:
    """A shape given as integers or as a sequence."""
    sizes = spread_ints(arguments, function, "size", 1)
    if sizes and min(sizes) < 0:
        if function == "zeros":
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        bad = next(n for n in sizes if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {bad}: {list(sizes)}")
    return sizes


def resized_out(out: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A tensor given as ``out=`` to a factory, resized to a shape.

    Raises:
      RuntimeError: the given ``dtype`` is not the tensor's.
    """
    check_dtype_of(out, dtype)
    return resized(out, shape)


def check_dtype_of(out: Tensor, dtype: Any) -> None:
    """Raise PyTorch's error if a ``dtype`` is given that is not that of ``out``."""
    if dtype is not None and dtype is not out._type.dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter ({out._type.dtype.scalar_name})"
        )


def fill_number(function: str, value: Any) -> Any:
    """A fill value, which may be a 0-d tensor, as a number."""
    if isinstance(value, Tensor) and not value._type.shape and not is_tracked(value):
        return value.item()
    if value.__class__ is not float and not isinstance(value, bool | int | float | complex | np.number | np.bool_):
        raise TypeError(f"{function}(): argument 'fill_value' (position 2) must be Number, not {type_name(value)}")
    return value


def filled(
    shape: tuple[int, ...],
    value: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    out: Tensor | None = None,
    function: str = "full",
) -> Tensor:
    """A tensor filled with one value: a new one, or ``out``."""
    if out is not None:
        target = resized_out(out, shape, None if dtype is None else dtypes.argument(dtype, function))
        return requiring_grad(fill_(target, value)) if requires_grad else fill_(target, value)
    element_type = get_default_dtype() if dtype is None else dtypes.argument(dtype, function)
    check_number(value, element_type)
    return constant_tensor(shape, value, element_type, device_or_default(device), requires_grad)


def inferred_dtype(value: Any) -> Dtype:
    """The element type of a Python number."""
    if value.__class__ is float:
        return get_default_dtype()
    if isinstance(value, bool | np.bool_):
        return dtypes.bool_
    if isinstance(value, int | np.integer):
        return dtypes.int64
    return dtypes.default_complex_dtype() if isinstance(value, complex) else get_default_dtype()
