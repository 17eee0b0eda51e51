"""Tensors of a given shape, filled with a constant or uninitialized."""

from typing import Any

import numpy as np

from fgrad.mutable.layout.geometry import contiguous_strides
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values import device_of_value as placing
from fgrad.mutable.values.capacity import check_storage, number_of_elements, storage_size
from fgrad.mutable.write.copying import kept_strides
from fgrad.torch.ops.creation.copying import format_strides, laid_out
from fgrad.torch.ops.creation.making import (
    check_dtype_of,
    constant_tensor,
    device_or_default,
    fill_number,
    filled,
    inferred_dtype,
    requiring_grad,
    resized_out,
    sizes_of,
    tensor_from_array,
    wants_grad,
)
from fgrad.torch.ops.table.dispatch import CLOSED, UNLISTED, UNLISTED_METHOD
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.signature import check_unexpected
from fgrad.torch.ops.table.table import SymInt, composite


def _factory(
    function: str,
    value: Any,
    size: tuple[Any, ...],
    named: dict[str, Any],
    dtype: Any,
    device: Any,
    requires_grad: bool,
    out: Tensor | None,
) -> Tensor:
    """``filled`` with a shape given as integers, as a sequence, or by name."""
    shape = _size_of(function, size, named)
    return filled(shape, value, dtype, device, wants_grad(requires_grad, function), out, function)


def _size_of(function: str, size: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    if "size" in named:
        size = (named.pop("size"),)
    check_unexpected(function, named)
    if not size:
        raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
    return sizes_of(size, function)


@composite(method=False, dispatch=UNLISTED)
def zeros(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    names: Any = None,
    **named: Any,
) -> Tensor:
    """A tensor of zeros.

    >>> import fgrad.torch as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])

    Source: `torch.zeros <https://docs.pytorch.org/docs/stable/generated/torch.zeros.html>`_.
    """
    return _factory("zeros", 0, size, named, dtype, device, requires_grad, out)


@composite(method=False, dispatch=UNLISTED)
def ones(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    names: Any = None,
    **named: Any,
) -> Tensor:
    """A tensor of ones.

    Source: `torch.ones <https://docs.pytorch.org/docs/stable/generated/torch.ones.html>`_.
    """
    return _factory("ones", 1, size, named, dtype, device, requires_grad, out)


@composite(method=False, dispatch=UNLISTED)
def empty(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
    names: Any = None,
    **named: Any,
) -> Tensor:
    """A tensor of uninitialized elements: here, zeros; with ``out=`` those that are in its memory.

    Source: `torch.empty <https://docs.pytorch.org/docs/stable/generated/torch.empty.html>`_.
    """
    if out is not None:
        return _empty_out(_size_of("empty", size, named), out, dtype, requires_grad, memory_format)
    tensor = _factory("empty", 0, size, named, dtype, device, requires_grad, None)
    return tensor if memory_format is None else laid_out(tensor, format_strides(tensor, memory_format))


def _empty_out(shape: tuple[int, ...], out: Tensor, dtype: Any, requires_grad: bool, memory_format: Any) -> Tensor:
    if memory_format is not None:
        raise RuntimeError("'memory_format' argument is incompatible with 'out' tensor argument")
    check_dtype_of(out, None if dtype is None else dtypes.argument(dtype, "empty"))
    out.resize_(shape)
    return requiring_grad(out) if wants_grad(requires_grad, "empty") else out


@composite(method=False, dispatch=UNLISTED)
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor whose axes are in a given order in memory, the slowest-varying first.

    Source: `torch.empty_permuted <https://docs.pytorch.org/docs/stable/generated/torch.empty_permuted.html>`_.
    """
    shape, order = sizes_of((size,), "empty_permuted"), tuple(physical_layout)
    if len(shape) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, axis in enumerate(order):
        if not 0 <= axis < len(order):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(order) - 1}, but got {axis} at index {i}). "
                " NB: negative dims not currently supported; file an issue if you want it."
            )
    if sorted(order) != list(range(len(order))):
        raise RuntimeError("Duplicate dim not allowed")
    inner = contiguous_strides(tuple([shape[i] for i in order]))
    strides = tuple([inner[order.index(i)] for i in range(len(order))])
    return laid_out(filled(shape, 0, dtype, device, requires_grad), strides)


@composite(method=False, dispatch=UNLISTED)
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of these sizes and strides with uninitialized elements: here, zeros."""
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    size = sizes_of((size,), "empty_strided")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    element_type = get_default_dtype() if dtype is None else dtypes.argument(dtype, "empty_strided")
    storage_size(size, tuple(stride), 0, element_type.itemsize)
    flat = filled((max(1, 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))),), 0, dtype, device, False)
    result = flat.as_strided(tuple(size), tuple(stride))
    result._view = None
    result._requires_grad = requires_grad
    return result


@composite(method=False, dispatch=UNLISTED)
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value, by default of the value's type."""
    if not isinstance(size, tuple | list):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type_name(size)}")
    value = fill_number("full", fill_value)
    element_type = dtype if dtype is not None or out is not None else inferred_dtype(value)
    return filled(sizes_of((size,), "full"), value, element_type, device, requires_grad, out)


def _like(
    function: str, input: Any, value: Any, dtype: Any, device: Any, requires_grad: bool, memory_format: Any
) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{function}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")
    element_type = input._type.dtype if dtype is None else dtypes.argument(dtype, function)
    value = fill_number(function, value)
    check_number(value, element_type)
    strides = kept_strides(input) if memory_format is None else format_strides(input, memory_format)
    target = placing.place_of(input._storage.array) if device is None else device_or_default(device)
    return laid_out(constant_tensor(input._type.shape, value, element_type, target, requires_grad), strides)


@composite(method=False, out=NOT_TAKEN)
def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of the shape and type of another tensor."""
    return _like("zeros_like", input, 0, dtype, device, requires_grad, memory_format)


@composite(method=False, out=NOT_TAKEN)
def ones_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones of the shape and type of another tensor."""
    return _like("ones_like", input, 1, dtype, device, requires_grad, memory_format)


@composite(method=False, out=NOT_TAKEN)
def empty_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of the shape and type of another, here of zeros."""
    return _like("empty_like", input, 0, dtype, device, requires_grad, memory_format)


@composite(method=False, out=NOT_TAKEN)
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of the shape and type of another, filled with one value."""
    return _like("full_like", input, fill_value, dtype, device, requires_grad, memory_format)


@composite(function=False, dispatch=UNLISTED_METHOD)
def new_zeros(
    self: Tensor,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Zeros of this tensor's type."""
    return _factory("new_zeros", 0, size, named, dtype or self._type.dtype, device or self.device, requires_grad, None)


@composite(function=False, dispatch=UNLISTED_METHOD)
def new_ones(
    self: Tensor,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Ones of this tensor's type."""
    return _factory("new_ones", 1, size, named, dtype or self._type.dtype, device or self.device, requires_grad, None)


@composite(function=False, dispatch=UNLISTED_METHOD)
def new_empty(
    self: Tensor,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """A tensor of this one's type, here of zeros."""
    return _factory("new_empty", 0, size, named, dtype or self._type.dtype, device or self.device, requires_grad, None)


@composite(function=False, dispatch=UNLISTED_METHOD)
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of this one's type, filled with one value."""
    shape, value = sizes_of((size,), "new_full"), fill_number("new_full", fill_value)
    return filled(shape, value, dtype or self._type.dtype, device or self.device, requires_grad)


@composite(function=False, dispatch=UNLISTED_METHOD)
def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of these sizes and strides and of this one's type, here of zeros."""
    return empty_strided(
        size, stride, dtype=dtype or self._type.dtype, device=device or self.device, requires_grad=requires_grad
    )


@composite(method=False, dispatch=UNLISTED)
def eye(
    n: SymInt,
    m: SymInt | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    for name, size in (("n", n), ("m", 0 if m is None else m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    element_type = get_default_dtype() if dtype is None else dtypes.argument(dtype, "eye")
    shape = (n, n if m is None else m)
    number_of_elements(shape)
    check_storage(shape, element_type.itemsize)
    if out is None:
        return tensor_from_array(np.eye(n, m), element_type, device, requires_grad)
    target = resized_out(out, shape, None if dtype is None else element_type)
    return target.copy_(tensor_from_array(np.eye(n, m), target._type.dtype))


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A number as a 0-d tensor of the default type."""
    return filled((), s, dtype, device, requires_grad)


@composite(method=False, dispatch=CLOSED)
def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)
