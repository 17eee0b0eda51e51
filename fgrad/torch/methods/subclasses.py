"""Classes of tensors: ``as_subclass``, ``_make_subclass``, and the handler that all classes of tensors inherit."""

from typing import Any

from fgrad.mutable.context.torch_function.protocol import DisableTorchFunctionSubclass
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.tensor import Tensor, alias, of_class
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.methods.autograd import _set_requires_grad, method
from fgrad.torch.ops.views.views import alias_of

_NO_TENSOR = (
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
    "inherits from Tensor."
)
_NO_DISPATCH = (
    "{} has a __torch_dispatch__, which is asked by PyTorch's dispatcher, and there is none here: a class would never "
    "be asked. Write a __torch_function__, which is given the same calls as the user makes them."
)


def disabled_torch_dispatch_impl(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What stands in a class for having no ``__torch_dispatch__``."""
    return NotImplemented


def checked_class(cls: Any) -> type:
    """A class that a tensor is to be of.

    Raises:
      TypeError: it is no class of tensors.
      NotImplementedError: it has a ``__torch_dispatch__``.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type_name(cls)})")
    if not issubclass(cls, Tensor):
        raise TypeError(_NO_TENSOR)
    dispatch = getattr(cls, "__torch_dispatch__", None)
    if dispatch is not None and dispatch is not disabled_torch_dispatch_impl:
        raise NotImplementedError(_NO_DISPATCH.format(cls.__name__))
    return cls


@method
def as_subclass(self: Tensor, cls: type) -> Any:
    """This tensor as one of a class of tensors: a view of the same elements, with the same history.

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
    made = cut(alias(data, cls=checked_class(cls)))
    if require_grad:
        _set_requires_grad(made, True)
    return made


def check_require_grad(require_grad: Any) -> None:
    """Refuse what is no truth value, as PyTorch's ``_make_subclass`` does, by which parameters are made, too.

    Raises:
      TypeError: it is none.
    """
    if not isinstance(require_grad, bool):
        raise TypeError(
            f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {type_name(require_grad)}"
        )


def _make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor without elements of its own, which only ``__torch_dispatch__`` could give: refused."""
    checked_class(cls)
    raise TypeError(f"{cls.__name__} must define __torch_dispatch__")


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run ``func`` with no class asked, and make the tensors that it gives of this class.

    A class of tensors overrides it to answer calls in its own way, and calls ``super().__torch_function__`` for the
    usual answer.

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
        found = func(*args, **(kwargs or {}))
        return found if func in nowrap_functions() else _converted(found, cls)


def nowrap_functions() -> frozenset[Any]:
    """What gives a tensor that stands somewhere, which has the class that it has."""
    return frozenset([getattr(Tensor, name).__get__ for name in ("_base", "grad")])


def _converted(found: Any, cls: type) -> Any:
    """The tensors in a result as ones of a class."""
    if cls is Tensor:
        return found
    if isinstance(found, Tensor) and not isinstance(found, cls):
        return as_subclass(found, cls)
    if isinstance(found, tuple | list):
        return type(found)([_converted(x, cls) for x in found])
    return found


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
