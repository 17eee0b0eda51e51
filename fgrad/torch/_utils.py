"""The functions by which PyTorch's pickles rebuild tensors, under PyTorch's names, and flattening of tensors.

Source: `torch._utils <https://github.com/pytorch/pytorch/blob/main/torch/_utils.py>`_.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fgrad.mutable.tensor.tensor import FIELDS, Tensor, of_class
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch import ops
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.pickle_memory import look_at


def _get_available_device_type() -> None:
    """The kind of accelerator: none."""


def _element_size(dtype: Any) -> int:
    """The bytes of one element.

    Raises:
      RuntimeError: the argument is no dtype.
    """
    if not isinstance(dtype, Dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device.

    Raises:
      RuntimeError: there is none.
    """
    module = getattr(sys.modules["fgrad.torch"], device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor that views a storage."""
    return _bump_if_empty(look_at(storage, storage.dtype, storage_offset, size, stride))


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    return _rebuild_tensor_v3(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, storage.dtype, metadata
    )


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor that views a storage, which may have another dtype."""
    tensor = look_at(storage, dtype, storage_offset, size, stride, metadata)
    if requires_grad:
        _may_require_grad(tensor)
        tensor._requires_grad = True
    return _bump_if_empty(tensor)


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter."""
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(data: Any, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """A parameter with attributes."""
    return _set_obj_state(Parameter(data, bool(requires_grad)), state)


def _rebuild_from_type_v2(func: Callable[..., Any], new_type: type, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes."""
    tensor = func(*args)
    if type(tensor) is not new_type:
        tensor = of_class(tensor, new_type)
    if getattr(new_type, "__setstate__", None) is not getattr(Tensor, "__setstate__", None):
        tensor.__setstate__(state)
        return tensor
    return _set_obj_state(tensor, state)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """A tensor without elements."""
    return ops.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _set_obj_state(tensor: Any, state: Any) -> Any:
    """Set the attributes of a tensor.

    Raises:
      RuntimeError: the state is invalid, or sets the tensor's own attributes.
    """
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for each in (attributes, slots):
        if each is not None and not isinstance(each, dict):
            raise RuntimeError(f"Invalid serialized state: {state}")
        for name, value in (each or {}).items():
            if type(name) is not str or name in FIELDS:
                raise RuntimeError(f"Invalid serialized state: {name!r} is no attribute of the user's")
            setattr(tensor, name, value)
    return tensor


def _may_require_grad(tensor: Tensor) -> None:
    if not tensor._type.inexact:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")


def _bump_if_empty(tensor: Tensor) -> Tensor:
    """PyTorch sets the storage of an empty tensor, which counts as a write."""
    tensor._counter.bump("set_", None, "")
    return tensor


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of tensors, concatenated."""
    return ops.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of the parts of a flat tensor, in the shapes of given tensors."""
    sizes = [tensor.numel() for tensor in tensors]
    return tuple([part.view(like.shape) for part, like in zip(flat.split(sizes), tensors, strict=True)])


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in groups of one dtype, of limited size each."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [])
        if group and sum(x.nbytes for x in [*group, tensor]) > size_limit:
            yield group
            group = groups[tensor.type()] = []
        group.append(tensor)
    yield from groups.values()
