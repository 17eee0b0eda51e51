"""What a row says of its calls before the function runs: how ``__torch_function__`` is asked, and what autocast does.

PyTorch hands over the calls of functions written in C++ and in Python in different ways, and tells handlers so: see
NOTE [Overriding].  Methods that stand in no row say the same by ``as_method``.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import evolve, frozen

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.torch_function.wrap import overridable, raw

Function = TypeVar("Function", bound=Callable[..., Any])

#: what autocast does with a call, in PyTorch's names: run it in the lower precision, in float32 or in the widest type
#: of its arguments; a function from the call's arguments to whether it is float32 then
Autocast = Literal["lower_precision_fp", "fp32", "promote"] | Callable[..., bool]


@frozen(eq=False)
class Dispatch:
    """How calls of a function or method are handed to ``__torch_function__``.

    Attributes:
      rule: which of PyTorch's ways; None for a function that never asks.
      module: PyTorch's module of the function, by which errors name it; "" for what follows from its name in the table.
      name: its name there, if that is another.
      like: has the parameters of PyTorch's function, where ours are not quite these.
      listed: whether PyTorch counts it as overridable; not what takes tensors as numbers at most, or makes new ones.
      method: how calls of the method of the same name are, where that does not follow from the function.
      called: of a method or operator, the name of the method that is handed over.
      operator: whether it is an operator of two operands.
    """

    rule: Rule | None = Rule.PARSED
    module: str = ""
    name: str = ""
    like: Callable[..., Any] | None = None
    listed: bool = True
    method: "Dispatch | None" = None
    called: str = ""
    operator: bool = False


PARSED: Dispatch = Dispatch()
#: a function that never asks: no argument is a tensor, or it asks what something is, or it calls others that ask
CLOSED: Dispatch = Dispatch(None)
#: one that makes tensors out of anything: a tensor of a class is an element like others
FACTORY: Dispatch = Dispatch(Rule.FACTORY)
#: one that asks, and does not count as overridable
UNLISTED: Dispatch = Dispatch(listed=False)
#: a function of ``torch`` that PyTorch has written in Python
IN_PYTHON: Dispatch = Dispatch(Rule.WRITTEN, "torch.functional")
#: functions of ``torch.nn.functional``: in Python nearly always; in C++, as functions of ``torch`` too, or not
IN_FUNCTIONAL: Dispatch = Dispatch(Rule.WRITTEN, "torch.nn.functional")
OF_TORCH: Dispatch = Dispatch(module="torch")
OF_NN: Dispatch = Dispatch(module="torch.nn")
#: a method that PyTorch has written in Python, of which the tensor alone is asked
METHOD_IN_PYTHON: Dispatch = Dispatch(Rule.METHOD)

FUNCTIONAL = "nn.functional."


def in_python(like: Callable[..., Any], method: Callable[..., Any] | None = None) -> Dispatch:
    """``IN_PYTHON`` of a function, and of its method, whose parameters are not quite PyTorch's."""
    own = None if method is None else evolve(METHOD_IN_PYTHON, like=method)
    return evolve(IN_PYTHON, like=like, method=own)


def entered(
    called: str, function: Callable[..., Any], dispatch: Dispatch | None, autocast: Autocast | None
) -> Callable[..., Any]:
    """A public function of the table as users call it; ``called`` is its name there."""
    namespace, _, own = called.rpartition(".")
    functional = called.startswith(FUNCTIONAL)
    said = dispatch or (IN_FUNCTIONAL if functional else PARSED)
    if said.rule is None:
        return function
    if said.module or not namespace:
        name = f"{said.module or 'torch'}.{said.name or own}"
    else:
        name = f"torch.{namespace}.{namespace}_{own}"
    return overridable(function, name, said.rule, like=said.like, autocast=autocast)


def of_method(function: Dispatch | None) -> Dispatch:
    """How the calls of a method are handed over, from what is said of the function of the same name."""
    if function is None:
        return PARSED
    return function.method or (METHOD_IN_PYTHON if function.rule is Rule.WRITTEN else PARSED)


def as_method(dispatch: Dispatch, autocast: Autocast | None = None) -> Callable[[Function], Function]:
    """Note on a method of tensors how its calls are handed over, and what autocast does with them."""

    def note(function: Function) -> Function:
        setattr(raw(function), "dispatch", (dispatch, autocast))  # noqa: B010  (of functions no checker knows it)
        return function

    return note


def dispatch_of(method: Any) -> tuple[Dispatch, Autocast | None]:
    """What is noted on a method of tensors."""
    return getattr(method, "dispatch", (PARSED, None))
