"""Copies of tensors on other devices: see NOTE [A value knows its place]."""

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


def moved(tensor: Tensor, where: Device, dtype: Dtype, strides: Ints | None = None) -> Tensor:
    """A copy on another device, of elements of a type.

    Raises:
      NotImplementedError: the tensor is on the device ``meta`` and has no elements.
    """
    with no_grad():
        copy = converted(tensor, dtype, strides)
    made = new_tensor(placed(copy._storage.array, where), copy._type, copy._storage.strides)
    if modes.grad and is_tracked(tensor) and copy._type.inexact:
        made._grad_fn = _NODE(tensor, made._type)
    for level in range(modes.dual_level + 1):
        carry(tensor, made, level, lambda tangent: moved(tangent, where, dtype, strides))
    return made


class _MovedNode(Node):
    """The node of such a copy: the gradient goes back to the device of the tensor, as its type."""

    __slots__ = ("dtype", "place")

    def __init__(self, tensor: Tensor, type: TensorType):
        super().__init__([gradient_edge(tensor)], (type,), here(3))
        self.dtype = tensor._type.dtype
        self.place: Device = tensor.device  # type: ignore[attr-defined]

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        grad: Any = grads[0]
        if grad is None or grad.device == self.place:
            return [grad if grad is None else converted(grad, self.dtype, None)]
        return [moved(grad, self.place, self.dtype)]


_NODE = named(_MovedNode, "ToCopyBackward0")
