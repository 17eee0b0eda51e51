"""Tensors that a module keeps: ``Parameter`` is trained, ``Buffer`` is state, uninitialised ones wait for a shape."""

from typing import Any

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import disabled_torch_function_impl, plain, watch
from fgrad.mutable.operation.origins import note_origin
from fgrad.mutable.tensor.attributes import state_of
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.tensor import Tensor, alias, is_tracked
from fgrad.torch import ops
from fgrad.torch.methods.autograd import INFERENCE_LEAF
from fgrad.torch.methods.conversion import plain_classes
from fgrad.torch.methods.subclasses import check_require_grad


def _leaf(cls: Any, data: Tensor, requires_grad: bool) -> Any:
    """A tensor of class ``cls`` with the storage and the version counter of ``data``, and no history."""
    check_require_grad(requires_grad)
    if requires_grad and not data._type.inexact:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if requires_grad and data._inference and not modes.inference:
        raise RuntimeError(INFERENCE_LEAF)
    leaf: Any = cut(alias(data, cls=cls))
    leaf._requires_grad = requires_grad  # as inside of torch.func, where ``requires_grad_`` refuses
    if data._origin is not None or is_tracked(data):
        note_origin(cls.__name__, (data,), (leaf,), here(3), "leaf")
    return leaf


class _ParameterMeta(type(Tensor)):
    """Tensors of user-defined classes are parameters by a mark, because ``Parameter(x)`` keeps their class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A leaf tensor that a ``Module`` it is assigned to registers, and that optimisers train.

    Arguments:
      data: the tensor whose values (and storage) the parameter has; empty if left out.
      requires_grad: whether it is trained; ``no_grad`` does not change this.

    >>> import fgrad.torch as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)

    Source: `torch.nn.Parameter <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.Parameter.html>`_.
    """

    __torch_function__: Any = disabled_torch_function_impl

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return _leaf(cls, data, requires_grad)
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(tensor).__name__} was found instead. To use the "
                "type as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Parameter, (self.data, self.requires_grad), state_of(self) or None

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


plain_classes.append(Parameter)
plain.add(Parameter)


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a ``Module`` it is assigned to registers as state that is not trained.

    Arguments:
      data: the tensor; empty if left out.  The buffer keeps its class and storage.
      persistent: whether it is part of the module's ``state_dict``.

    >>> import fgrad.torch as torch
    >>> module = torch.nn.Module()
    >>> module.mean = torch.nn.Buffer(torch.zeros(2))
    >>> dict(module.state_dict())
    {'mean': tensor([0., 0.])}

    Source: `torch.nn.Buffer <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.Buffer.html>`_.
    """

    __torch_function__: Any = disabled_torch_function_impl

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


class UninitializedTensorMixin:
    """A parameter or buffer of a lazy module, whose shape is unknown."""

    cls_to_become: type[Any]

    def __init_subclass__(cls, **named: Any) -> None:
        """Such a class defers ``__torch_function__`` until there is an instance."""

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary tensor of ``shape`` with arbitrary values."""
        data = self.data
        new = ops.empty(shape, device=data.device if device is None else device, dtype=dtype or data.dtype)
        self.__class__ = self.cls_to_become
        self.data = new

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # attributes are read and set through the wrappers
        if getattr(func, "__name__", None) in _OF_THE_UNINITIALIZED or type(func).__name__ == "method-wrapper":
            return disabled_torch_function_impl(func, types, args, kwargs)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
        )

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)


#: the methods of a tensor without a shape
_OF_THE_UNINITIALIZED = frozenset(
    ("__hash__", "size", "copy_", "is_complex", "is_floating_point", "get_device", "to", "cuda", "cpu")
    + ("half", "float", "double", "char", "short", "int", "long")
)


def is_lazy(param: Any) -> bool:
    """Whether ``param`` is an uninitialised parameter or buffer.

    >>> import fgrad.torch as torch
    >>> torch.nn.parameter.is_lazy(torch.nn.LazyLinear(2).weight)
    True

    Source: `torch.nn.parameter.is_lazy
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.modules.lazy.LazyModuleMixin.html>`_.
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module before its first call: dtype and device are known, the shape is not.

    >>> import fgrad.torch as torch
    >>> torch.nn.UninitializedParameter()
    <UninitializedParameter>

    Source: `torch.nn.UninitializedParameter
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.UninitializedParameter.html>`_.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        watch.subclass()
        return _leaf(cls, ops.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module before its first call.

    >>> import fgrad.torch as torch
    >>> torch.nn.UninitializedBuffer()
    <UninitializedBuffer>

    Source: `torch.nn.UninitializedBuffer
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.parameter.UninitializedBuffer.html>`_.
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        watch.subclass()
        buffer = _leaf(cls, ops.empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
