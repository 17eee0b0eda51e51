"""Dispatch of calls to ``__torch_function__``, of an argument's class or of a mode.

NOTE [Overriding]
Each public function, method and attribute of tensors is wrapped by ``overridable`` (``wrap.py``).  A call first looks
for a handler that overrides it: the thread's modes first, then the arguments whose classes have a
``__torch_function__``, subclasses before their superclasses and otherwise from left to right.  Handlers are passed the
very object that the user called (``func is torch.add``), so they can look it up in a dict.

Functions inside fgrad call each other through the same wrappers; nothing overrides these calls, since a handler runs
with its mode disabled, and the default handler with all classes disabled.

The arguments' classes nearly always show that none has a handler (``plain``).  Operators and attributes do not even
look at these: ``watch.on`` says whether there is any tensor class with a handler, or any mode.
"""

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from functools import cached_property
from types import NoneType
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.modes import Scope, modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import dtype
from fgrad.mutable.types.size import Size

HANDLER = "__torch_function__"

#: classes without a handler, those of nearly all arguments; ``Tensor`` and ``Parameter`` add themselves
plain: set[type] = {NoneType, bool, int, float, complex, str, slice, type(...), dtype, device, Size, np.ndarray}

_SEQUENCES = (list, tuple)

#: the values of ``modes.overriding``: which handlers are active
ALL, MODES, NONE = range(3)


class Watch:
    """Whether any handler could override a call on tensors."""

    __slots__ = ("on", "subclasses", "threads", "lock")

    def __init__(self) -> None:
        self.on = False
        #: whether there is a tensor class with a handler
        self.subclasses = False
        #: the threads in modes, and possibly some that have left them
        self.threads: set[int] = set()
        # reentrant: a signal handler may acquire it while it is held
        self.lock: AbstractContextManager[Any] = threading.RLock()

    def subclass(self) -> None:
        """Note that a tensor class with a handler was made."""
        self.subclasses: bool = True
        self.on = True

    def enter(self) -> None:
        """Note that this thread is about to enter a mode."""
        with self.lock:
            self.threads.add(threading.get_ident())
            self.on = True

    def within(self) -> bool:
        """Whether this thread may be in a mode; notes it when the thread has left all of them."""
        autocast = modes.autocast
        if modes.handled or modes.casting or (autocast is not None and autocast.nesting):
            return True  # in a block that switches autocast off, too: the one around it goes on afterwards
        thread = threading.get_ident()
        if thread in self.threads:
            with self.lock:
                self.threads.discard(thread)
                self.on: bool = self.subclasses or bool(self.threads)
        return False


watch: Watch = Watch()


def cast(override: "Override", function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function, with its arguments cast as ``torch.autocast`` prescribes."""
    casting = modes.casting
    if casting is None or override.autocast is None:
        return function(*args, **kwargs)
    return casting(override.autocast, function, args, kwargs)


class _Disabled:
    """The handler of classes without overrides: see ``torch._C._disabled_torch_function_impl``."""

    __slots__ = ()

    def __call__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:
        return "<built-in function _disabled_torch_function_impl>"


#: not a function, so that attribute access on a tensor does not bind it
disabled_torch_function_impl: _Disabled = _Disabled()


class _Level(Scope):
    """A context manager that sets which handlers are active in this thread."""

    who: int

    def values(self) -> dict[str, Any]:
        return {"overriding": max(modes.overriding, self.who)}


class DisableTorchFunctionSubclass(_Level):
    """Inside, handlers of argument classes are disabled; modes stay active.

    >>> import fgrad.torch as torch
    >>> class Mine(torch.Tensor): ...
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     Mine([1., 2.]) * 2
    tensor([2., 4.])

    Source: `Extending torch with a Tensor-like type
    <https://docs.pytorch.org/docs/2.13/notes/extending.html#subclassing-torch-tensor>`_.
    """

    who = MODES


class DisableTorchFunction(_Level):
    """Inside, handlers of argument classes and modes are both disabled.

    >>> import fgrad.torch as torch
    >>> class Mine(torch.Tensor): ...
    >>> with torch._C.DisableTorchFunction():
    ...     Mine([1., 2.]) * 2
    tensor([2., 4.])

    Source: `Extending torch <https://docs.pytorch.org/docs/2.13/notes/extending.html>`_.
    """

    who = NONE


def push_mode(mode: Any) -> None:
    """Enter a mode in this thread."""
    watch.enter()
    modes.pushed = (*modes.pushed, modes.handled)
    modes.handlers, modes.handled = (*modes.handlers, mode), True


def pop_mode() -> Any:
    """Leave the innermost mode of this thread."""
    mode = modes.handlers[-1]
    modes.handlers = modes.handlers[:-1]
    if modes.pushed:
        *others, modes.handled = modes.pushed
        modes.pushed = tuple(others)
    return mode


# -- which handlers override a call ----------------------------------------------------------------------------------


def overrides(value: Any) -> bool:
    """Whether the class of an argument has a handler."""
    kind = type(value)
    if kind in plain or kind is type:
        return False
    handler = getattr(kind, HANDLER, None)
    return handler is not None and handler is not disabled_torch_function_impl


def overloaded(values: Iterable[Any], tensors: bool = False) -> list[Any]:
    """One argument of each class with a handler, in the order in which they are called.

    With ``tensors``, plain tensors count too, as for PyTorch's functions written in Python.
    """
    overriders: list[Any] = []
    for value in values:
        kind = type(value)
        if not (overrides(value) or (tensors and kind in plain and _has_handler(kind))):
            continue
        if any(type(x) is kind for x in overriders):
            continue
        # subclasses before their superclasses
        index = next((i for i, x in enumerate(overriders) if issubclass(kind, type(x))), len(overriders))
        overriders.insert(index, value)
    return overriders


def _has_handler(kind: type) -> bool:
    return getattr(kind, HANDLER, disabled_torch_function_impl) is not disabled_torch_function_impl


def _spread(values: Iterable[Any]) -> Iterable[Any]:
    """The arguments, with the elements of lists and tuples among them."""
    for value in values:
        if value.__class__ in _SEQUENCES:
            yield from value
        else:
            yield value


def has_override(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a class of an argument has a handler."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if value.__class__ in plain:
            continue
        if value.__class__ in _SEQUENCES:
            for x in value:
                if x.__class__ not in plain and overrides(x):
                    return True
        elif overrides(value):
            return True
    return False


def is_overridden(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a class of an argument, or a mode, overrides a call."""
    if not watch.within():
        return has_override(args, kwargs) and modes.overriding == ALL
    who = modes.overriding
    return who != NONE and (bool(modes.handlers) or (who == ALL and has_override(args, kwargs)))


# -- dispatch --------------------------------------------------------------------------------------------------------


class Rule(Enum):
    """How PyTorch dispatches a function's calls."""

    #: a function written in C++: arguments as passed, and the argument classes with a handler
    PARSED = 1
    #: a method in C++ without arguments, or an attribute: the tensor's own class, whatever it is
    OWN = 2
    #: a function written in Python: defaults filled in, classes of all arguments that are tensors
    WRITTEN = 3
    #: a method written in Python, where only the tensor's class counts
    METHOD = 4
    #: as ``WRITTEN`` with all arguments by name: those of ``torch.nn.init``
    NAMED = 5
    #: modes only
    FACTORY = 6


#: the rules of functions that PyTorch has in Python
IN_PYTHON = frozenset((Rule.WRITTEN, Rule.METHOD, Rule.NAMED))


@frozen(eq=False)
class Override:
    """How calls of one function are dispatched."""

    #: its name in error messages
    name: str
    rule: Rule = Rule.PARSED
    #: for functions that PyTorch has in Python, the function whose signature decides how arguments are passed
    like: Callable[..., Any] | None = None
    #: what ``torch.autocast`` does with the arguments, by its name of the policy; None for nothing
    autocast: Any = None

    @cached_property
    def signature(self) -> inspect.Signature | None:
        return None if self.like is None else inspect.signature(self.like)

    def dispatch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a mode or of an argument class that overrides the call.

        Raises:
          TypeError: all handlers returned ``NotImplemented``.
        """
        in_python = self.signature is not None
        if self.signature is not None:
            args, kwargs = _filled(self.signature, args, kwargs, self.rule is Rule.NAMED)
        overriders: list[Any] = []
        if modes.overriding == ALL and self.rule is not Rule.FACTORY:
            overriders = list(args[:1])
            if self.rule not in (Rule.OWN, Rule.METHOD):
                overriders = overloaded(_spread((*args, *kwargs.values())), tensors=in_python)
        call = (function, tuple(map(type, overriders)), args, kwargs)
        return call_handlers(call if kwargs or in_python else call[:3], overriders, self.name, in_python)


def call_handlers(call: tuple[Any, ...], overriders: Sequence[Any], name: str, in_python: bool) -> Any:
    """Pass a call (function, types, arguments) to the innermost mode, then to the arguments' handlers."""
    mode = modes.handlers[-1] if modes.handlers else None
    if mode is not None:
        result = _call_mode(mode, call)
        if result is not NotImplemented:
            return result
    for each in overriders:
        handler = getattr(each, HANDLER)
        if handler is not disabled_torch_function_impl and getattr(handler, "__self__", None) is each:
            # the two of PyTorch differ by a backtick
            kind = DeprecationWarning if in_python else UserWarning
            warn(_PLAIN_METHOD.format("" if in_python else "`"), kind)
        result = handler(*call)
        if result is not NotImplemented:
            return result
    raise TypeError(_not_implemented(name, overriders, mode, in_python))


def _call_mode(mode: Any, call: tuple[Any, ...]) -> Any:
    handler = getattr(mode, HANDLER)
    if isinstance(getattr(handler, "__self__", None), type):
        raise RuntimeError(
            "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a plain method"
        )
    stack = modes.handlers
    try:
        modes.handlers = stack[:-1]  # calls made by the mode go to the mode around it
        return handler(*call)
    finally:
        modes.handlers = stack


_PLAIN_METHOD = (
    "Defining your `__torch_function__{} as a plain method is deprecated and will be an error in future, please define "
    "it as a classmethod."
)


def _not_implemented(name: str, overriders: Sequence[Any], mode: Any, in_python: bool) -> str:
    """PyTorch's error for a call that no handler implements."""
    if in_python:
        text = (
            f"no implementation found for '{name}' on types that implement {HANDLER}: {[type(x) for x in overriders]}"
        )
        return text if mode is None else f"{text} nor in mode {mode}"
    text = f"Multiple dispatch failed for '{name}'; all {HANDLER} handlers returned NotImplemented:\n\n"
    if mode is not None:
        text += f"  - mode object {mode}\n"
    for each in overriders:
        text += f"  - tensor subclass {type(each)}\n"
    return text + "\nFor more information, try re-running with TORCH_LOGS=not_implemented"


def _filled(
    signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any], named: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as PyTorch's Python functions pass them on: those with a default by keyword, the others by position."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    names: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            names.update(value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY and not named:
            positional.append(value)
        else:
            names[key] = value
    return tuple(positional), names
