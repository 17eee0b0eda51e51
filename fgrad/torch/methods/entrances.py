"""How methods, operators and attributes of tensors are entered for ``__torch_function__``: see NOTE [Overriding].

This is done all at once, when the last method is there, so that none can be forgotten.  What PyTorch hands over for a
method is noted on it where it is defined (``fgrad.torch.ops.table.answers.Dispatch``).
"""

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import ALL, Rule, overrides
from fgrad.mutable.context.torch_function.wrap import Attribute, operator, overridable, raw
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.answers import dispatch_of
from fgrad.torch.ops.table.signature import behind_decorators

#: attributes of the class that are no call of the user's on a tensor, or ask by the calls that they make
CLOSED = frozenset(
    (
        "__new__",
        "__init__",
        "__init_subclass__",
        "__hash__",
        "__iter__",
        "__delattr__",
        "__torch_function__",
        "as_subclass",
    )
)
#: PyTorch's attributes that begin with an underscore; the others of the class are fgrad's own
_PRIVATE = frozenset(("_base", "_cdata", "_version", "_is_view", "_conj", "_neg_view"))


def enter_methods() -> None:
    """Enter what tensors have so far."""
    for name, value in list(vars(Tensor).items()):
        if name in CLOSED or (name.startswith("_") and not name.startswith("__") and name not in _PRIVATE):
            continue
        if isinstance(value, property):
            setattr(Tensor, name, Attribute.of(name, value))
        elif isinstance(value, FunctionType):
            setattr(Tensor, name, _entered(name, raw(value)))
    setattr(Tensor, "__rtruediv__", getattr(Tensor, "__rdiv__"))  # noqa: B009, B010  (one object, as in PyTorch)


def entered_method(name: str, function: Callable[..., Any]) -> Any:
    """A method that comes after these, as users call it."""
    return _entered(name, raw(function))


def _entered(name: str, function: Callable[..., Any]) -> Any:
    said, autocast = dispatch_of(function)
    full, rule = f"torch.Tensor.{said.name or name}", said.rule or Rule.PARSED
    if said.operator:
        return operator(function, full, rule, _given(name, said.called), autocast)
    if rule is Rule.PARSED and _takes_itself_alone(behind_decorators(function).__code__):
        rule = Rule.OWN
    called = (lambda: getattr(Tensor, said.called)) if said.called else None
    return overridable(function, full, rule, called, said.like, autocast)


def _takes_itself_alone(code: CodeType) -> bool:
    more = code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return code.co_argcount == 1 and not more


def _given(name: str, called: str) -> Callable[[Any], Any]:
    """What is handed over for an operator, from its left operand; None for the operator itself."""
    if not called:
        return lambda self: None
    if name == "__eq__":
        # PyTorch looks at the left operand first, and hands over the operator if that one's class is asked
        return lambda self: (
            None if modes.handlers or (modes.overriding == ALL and overrides(self)) else getattr(Tensor, called)
        )
    return lambda self: getattr(Tensor, called)
