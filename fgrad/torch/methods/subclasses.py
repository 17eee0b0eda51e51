"""Classes of tensors: ``as_subclass``, ``_make_subclass``, and the handler that all classes of tensors inherit."""

from typing import Any

from fgrad.mutable.context.torch_function.protocol import DisableTorchFunctionSubclass
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.tensor import Tensor, alias, of_class
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.methods.autograd import _set_requires_grad, method
from fgrad.torch.ops.views.views import alias_of

_NOT_A_TENSOR_CLASS = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
    "inherits from Tensor."
)
_NO_DISPATCH = (
    "{} has a __torch_dispatch__, which is asked by PyTorch's dispatcher, and there is none here: a class would never "
    "be asked. Write a __torch_function__, which is given the same calls as the user makes them."
)


def disabled_torch_dispatch_impl(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The ``__torch_dispatch__`` of a class that has none."""
    return NotImplemented


def checked_class(cls: Any) -> type:
    """The class, if tensors can be of it.

    Raises:
      TypeError: it is not a subclass of Tensor.
      NotImplementedError: it has a ``__torch_dispatch__``.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type_name(cls)})")
    if not issubclass(cls, Tensor):
        raise TypeError(_NOT_A_TENSOR_CLASS)
    dispatch = getattr(cls, "__torch_dispatch__", None)
    if dispatch is not None and dispatch is not disabled_torch_dispatch_impl:
        raise NotImplementedError(_NO_DISPATCH.format(cls.__name__))
    return cls


@method
def as_subclass(self: Tensor, cls: type) -> Any:
    """This tensor as an instance of a subclass: a view of the same elements, with the same history.

    >>> import fgrad.torch as torch
    >>> class Celsius(torch.Tensor): ...
    >>> (torch.tensor([20.]).as_subclass(Celsius) + 1)
    Celsius([21.])

    Source: `torch.Tensor.as_subclass
    <https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.as_subclass.html>`_.
    """
    return of_class(alias_of(self), checked_class(cls))


def _make_subclass(cls: Any, data: Any, require_grad: bool = False, **policies: Any) -> Any:
    """A tensor of a class with the elements of ``data`` and no history; it counts writes together with ``data``."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type_name(data)}")
    check_require_grad(require_grad)
    tensor = cut(alias(data, cls=checked_class(cls)))
    if require_grad:
        _set_requires_grad(tensor, True)
    return tensor


def check_require_grad(require_grad: Any) -> None:
    """Raise the error of PyTorch's ``_make_subclass``, which makes parameters too, for anything but a boolean.

    Raises:
      TypeError: it is not a boolean.
    """
    if not isinstance(require_grad, bool):
        raise TypeError(
            f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {type_name(require_grad)}"
        )


def _make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse to make a tensor without elements, which only a ``__torch_dispatch__`` could use."""
    checked_class(cls)
    raise TypeError(f"{cls.__name__} must define __torch_dispatch__")


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run ``func`` without further dispatch, and convert the tensors that it returns to this class.

    A subclass overrides it to handle calls in its own way, and calls ``super().__torch_function__`` for the default.

    >>> import fgrad.torch as torch
    >>> class Named(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return super().__torch_function__(func, types, args, kwargs)
    >>> y = Named([1.]) * 2 + torch.ones(1)
    mul
    add

    Source: `Extending torch <https://docs.pytorch.org/docs/2.13/notes/extending.html#extending-torch-python-api>`_.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in nowrap_functions() else _converted(result, cls)


def nowrap_functions() -> frozenset[Any]:
    """Attributes that return an existing tensor, which keeps its class."""
    return frozenset([getattr(Tensor, name).__get__ for name in ("_base", "grad")])


def _converted(result: Any, cls: type) -> Any:
    """A result with its tensors converted to a class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return as_subclass(result, cls)
    if isinstance(result, tuple | list):
        return type(result)([_converted(x, cls) for x in result])
    return result


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
