"""``autograd.Function``: operations with a user-defined derivative."""

import functools
import inspect
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.torch.autograd.delayed_errors import once_differentiable as once_differentiable
from fgrad.torch.autograd.function_maps import apply_transformed
from fgrad.torch.autograd.function_node import FunctionCtx as FunctionCtx, FunctionNode as FunctionNode, Rules, call

BackwardCFunction = FunctionNode


class FunctionMeta(type):
    """Makes the class of a function's contexts."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]):
        super().__init__(name, bases, attrs)
        cls._backward_cls = type(
            name + "Backward", (FunctionNode,), {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        )


_signature = functools.lru_cache(inspect.signature)


class Function(Rules, metaclass=FunctionMeta):
    """An operation with a custom derivative: a subclass defines ``forward`` and ``backward``; ``apply`` calls it.

    >>> import fgrad.torch as torch
    >>> class Exp(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         result, = ctx.saved_tensors
    ...         return grad * result
    >>> x = torch.zeros(2, requires_grad=True)
    >>> Exp.apply(x)
    tensor([1., 1.], grad_fn=<ExpBackward>)

    Source: `Extending torch.autograd <https://docs.pytorch.org/docs/stable/notes/extending.html>`_.
    """

    _backward_cls: Any
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any):
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if cls.setup_context is not Rules.setup_context:
            # the context is set up from all arguments, including defaults
            bound = _signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return apply_transformed(cls, args, kwargs) if modes.transforms else call(cls, args, kwargs)


class InplaceFunction(Function):
    """A function that may write its input; kept for old programs."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for old programs; refused."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("NestedIOFunction is not supported; flatten the structure and use Function.")
