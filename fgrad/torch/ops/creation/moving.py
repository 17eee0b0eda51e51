"""Copies of tensors on other devices: see NOTE [A value knows its device]."""

from collections.abc import Sequence
from typing import Any

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.node import Node, named
from fgrad.mutable.tensor.tensor import Tensor, gradient_edge, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.transforms.forward import carry
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.device_of_value import placed
from fgrad.torch.ops.creation.copying import converted


def moved(tensor: Tensor, device: Device, dtype: Dtype, strides: Ints | None = None) -> Tensor:
    """A copy on another device, with an element type.

    Raises:
      NotImplementedError: the tensor is on the device ``meta``, without elements to copy.
    """
    with no_grad():
        copy = converted(tensor, dtype, strides)
    result = new_tensor(placed(copy._storage.array, device), copy._type, copy._storage.strides)
    if modes.grad and is_tracked(tensor) and copy._type.inexact:
        result._node = _NODE(tensor, result._type)
    for level in range(modes.dual_level + 1):
        carry(tensor, result, level, lambda tangent: moved(tangent, device, dtype, strides))
    return result


class _MovedNode(Node):
    """The node of such a copy: the gradient returns to the tensor's device and element type."""

    __slots__ = ("device", "dtype")

    def __init__(self, tensor: Tensor, type: TensorType):
        super().__init__([gradient_edge(tensor)], (type,), here(3))
        self.dtype = tensor._type.dtype
        self.device: Device = tensor.device  # type: ignore[attr-defined]

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        grad: Any = grads[0]
        if grad is None or grad.device == self.device:
            return [grad if grad is None else converted(grad, self.dtype, None)]
        return [moved(grad, self.device, self.dtype)]


_NODE = named(_MovedNode, "ToCopyBackward0")
