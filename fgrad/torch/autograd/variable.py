"""``Variable``: the former class of tensors with gradients; kept for old programs."""

from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.tensor import Tensor, alias
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.methods.autograd import NO_VOLATILE, ExecutionEngine


class _VariableMeta(type):
    """Every tensor is a variable."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """A tensor without history that shares the memory of another; ``isinstance`` holds for every tensor.

    Arguments:
      data: the tensor whose elements it has; an empty one if None.
      requires_grad: whether gradients are recorded for it.
      volatile: has no effect.

    Raises:
      TypeError: ``data`` is not a tensor.
      RuntimeError: integers cannot require gradients.

    >>> import fgrad.torch as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> x, isinstance(x, torch.autograd.Variable)
    (tensor([1., 1.], requires_grad=True), True)

    Source: `torch.autograd.Variable <https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated>`_.
    """

    _execution_engine = ExecutionEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile:
            warn(NO_VOLATILE, UserWarning)
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type_name(data)}")
        if requires_grad and not data._type.inexact:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        tensor = cut(alias(data))
        tensor._requires_grad = bool(requires_grad)
        return tensor
