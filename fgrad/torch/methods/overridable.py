"""Makes methods, operators and attributes of tensors overridable by ``__torch_function__``: see NOTE [Overriding].

All are wrapped together, after the last one is defined, so that none can be forgotten.  How a method is dispatched is
noted on it where it is defined (``fgrad.torch.ops.table.dispatch.Dispatch``).
"""

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import ALL, Rule, overrides
from fgrad.mutable.context.torch_function.wrap import Attribute, operator, overridable, raw
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.dispatch import dispatch_of
from fgrad.torch.ops.table.signature import behind_decorators

#: attributes of the class that no user calls on a tensor, or that only make calls which are dispatched themselves
CLOSED = frozenset(
    (
        "__new__",
        "__init__",
        "__init_subclass__",
        "__dict__",
        "__hash__",
        "__iter__",
        "__torch_function__",
        "as_subclass",
    )
)
#: PyTorch's attributes that begin with an underscore; the others of the class are fgrad's own
_PRIVATE = frozenset(("_base", "_cdata", "_version", "_is_view", "_conj", "_neg_view", "_grad_fn", "_backward_hooks"))


def enter_methods() -> None:
    """Wrap the methods and attributes that tensors have so far."""
    for name, value in list(vars(Tensor).items()):
        if name in CLOSED or (name.startswith("_") and not name.startswith("__") and name not in _PRIVATE):
            continue
        if isinstance(value, property):
            setattr(Tensor, name, Attribute.of(name, value))
        elif isinstance(value, FunctionType):
            setattr(Tensor, name, _entered(name, raw(value)))
    setattr(Tensor, "__rtruediv__", getattr(Tensor, "__rdiv__"))  # noqa: B009, B010  (one object, as in PyTorch)


def entered_method(name: str, function: Callable[..., Any]) -> Any:
    """A method defined later, as users call it."""
    return _entered(name, raw(function))


def _entered(name: str, function: Callable[..., Any]) -> Any:
    dispatch, autocast = dispatch_of(function)
    full, rule = f"torch.Tensor.{dispatch.name or name}", dispatch.rule or Rule.PARSED
    if dispatch.operator:
        return operator(function, full, rule, _given(name, dispatch.called), autocast)
    if rule is Rule.PARSED and _takes_itself_alone(behind_decorators(function).__code__):
        rule = Rule.OWN
    called = (lambda: getattr(Tensor, dispatch.called)) if dispatch.called else None
    return overridable(function, full, rule, called, dispatch.like, autocast)


def _takes_itself_alone(code: CodeType) -> bool:
    more = code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return code.co_argcount == 1 and not more


def _given(name: str, called: str) -> Callable[[Any], Any]:
    """From an operator's left operand to the method that handlers are given; None for the operator itself."""
    if not called:
        return lambda self: None
    if name == "__eq__":
        # PyTorch tries the left operand first, and gives its class the operator itself
        return lambda self: (
            None if modes.handlers or (modes.overriding == ALL and overrides(self)) else getattr(Tensor, called)
        )
    return lambda self: getattr(Tensor, called)
