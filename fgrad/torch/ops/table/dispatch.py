"""What happens to a call before the function runs: dispatch to ``__torch_function__``, and autocast.

PyTorch dispatches functions written in C++ and in Python in different ways, which handlers can tell apart: see
NOTE [Overriding].  Methods that have no row are marked by ``as_method``.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from attrs import evolve, frozen

from fgrad.mutable.context.torch_function.protocol import IN_PYTHON as WRITTEN_IN_PYTHON, Rule
from fgrad.mutable.context.torch_function.wrap import built_in, overridable, raw

Function = TypeVar("Function", bound=Callable[..., Any])

#: what autocast does with a call, in PyTorch's names: run it in the lower precision, in float32 or in the widest type
#: of its arguments; or a function from the call's arguments to whether it runs in float32
Autocast = Literal["lower_precision_fp", "fp32", "promote"] | Callable[..., bool]


@frozen(eq=False)
class Dispatch:
    """How calls of a function or method are dispatched to ``__torch_function__``.

    Attributes:
      rule: which of PyTorch's ways; None for a function that is never dispatched.
      module: PyTorch's module of the function, for errors; "" if it follows from the name in the table.
      name: the name there, if it differs.
      like: a function with PyTorch's parameters, if ours differ.
      listed: whether PyTorch counts it as overridable; functions that make tensors, or take them only as numbers, are
        not.
      method: the dispatch of the method of this name, if it does not follow from the function's.
      called: for a method or operator, the name of the method that handlers are passed.
      operator: whether it is a binary operator.
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
#: a function that is never dispatched: it takes no tensors, inspects an object, or calls others that are dispatched
CLOSED: Dispatch = Dispatch(None)
#: one that makes tensors from any data: a tensor of a subclass is an element like others
FACTORY: Dispatch = Dispatch(Rule.FACTORY)
#: one that is dispatched, but does not count as overridable
UNLISTED: Dispatch = Dispatch(listed=False)
UNLISTED_METHOD: Dispatch = Dispatch(method=UNLISTED)
#: a function of ``torch`` that PyTorch has written in Python
IN_PYTHON: Dispatch = Dispatch(Rule.WRITTEN, "torch.functional")
#: functions of ``torch.nn.functional``: nearly all in Python, some in C++, in the module ``torch`` or ``torch.nn``
IN_FUNCTIONAL: Dispatch = Dispatch(Rule.WRITTEN, "torch.nn.functional")
OF_TORCH: Dispatch = Dispatch(module="torch")
OF_NN: Dispatch = Dispatch(module="torch.nn")
#: a method that PyTorch has written in Python: it is dispatched to the class of ``self`` alone
METHOD_IN_PYTHON: Dispatch = Dispatch(Rule.METHOD)

FUNCTIONAL = "nn.functional."


def in_python(like: Callable[..., Any], method: Callable[..., Any] | None = None) -> Dispatch:
    """``IN_PYTHON`` for a function, and its method, whose parameters differ from PyTorch's."""
    of_method = None if method is None else evolve(METHOD_IN_PYTHON, like=method)
    return evolve(IN_PYTHON, like=like, method=of_method)


def dispatched(
    called: str, function: Callable[..., Any], dispatch: Dispatch | None, autocast: Autocast | None
) -> Callable[..., Any]:
    """A public function of the table as users call it; ``called`` is its name there."""
    namespace, _, short_name = called.rpartition(".")
    dispatch = dispatch or (IN_FUNCTIONAL if called.startswith(FUNCTIONAL) else PARSED)
    if dispatch.rule is None:
        return function
    if dispatch.module or not namespace:
        name = f"{dispatch.module or 'torch'}.{dispatch.name or short_name}"
    else:
        name = f"torch.{namespace}.{namespace}_{short_name}"
    if dispatch.rule in WRITTEN_IN_PYTHON:
        return overridable(function, name, dispatch.rule, like=dispatch.like, autocast=autocast)
    home = f"fgrad.torch.{namespace}".rstrip(".")
    return built_in(function, name, home, short_name, dispatch.rule, dispatch.like, autocast)


def of_method(function: Dispatch | None) -> Dispatch:
    """How calls of a method are dispatched, given the dispatch of the function of the same name."""
    if function is None:
        return PARSED
    return function.method or (METHOD_IN_PYTHON if function.rule is Rule.WRITTEN else PARSED)


def as_method(dispatch: Dispatch, autocast: Autocast | None = None) -> Callable[[Function], Function]:
    """Note on a method of tensors how its calls are dispatched, and what autocast does with them."""

    def note(function: Function) -> Function:
        setattr(raw(function), "dispatch", (dispatch, autocast))  # noqa: B010  (of functions no checker knows it)
        return function

    return note


def dispatch_of(method: Any) -> tuple[Dispatch, Autocast | None]:
    """What is noted on a method of tensors."""
    return getattr(method, "dispatch", (PARSED, None))
