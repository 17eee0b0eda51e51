"""The modes of autograd, per thread: whether operations are recorded, inference mode, anomaly mode.

NOTE [Signals]
A signal handler may run, and raise ``KeyboardInterrupt``, where a Python function begins, after a call and after each
iteration of a loop.  No mode may stay set then.  So what is set for a call is set inside the ``try`` whose
``finally`` first restores the earlier values, by plain assignments.  A block's ``__exit__`` that is written in Python
can be left before its first line; so that of ``Scope`` is not.  Other state is entered in one piece, when it is
complete.  In Python 3.13 a loop's jump back is outside the ``try`` around it if the loop's body ends with a condition,
so such a loop is in a function that the ``try`` calls.
"""

import functools
import inspect
import io
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from fgrad.mutable.context.warning import warn
from fgrad.mutable.types.type_names import type_name

F = TypeVar("F", bound=Callable[..., Any])


#: the fields that an operation looks at only if ``unusual.on``
_UNUSUAL = frozenset(("level", "interceptor", "dual_level", "inference", "capturing", "anomaly", "snapshot", "release"))


class Modes(threading.local):
    """The modes of each thread; a new thread starts with the defaults."""

    grad = True
    inference = False
    anomaly = False
    check_nan = True
    #: the node that the engine is running
    evaluating: Any = None
    #: the module that is being called, by weak reference, and the one that called it: None, or a pair of such
    module: Any = None
    #: the number of the innermost level of forward-mode differentiation that operations see, and all open levels
    dual_level = -1
    duals: tuple[Any, ...] = ()
    #: runs operations in place of their routine: (operation, plan, values, operands) to the outputs' values
    interceptor: Any = None
    #: the open levels of ``torch.func``, innermost last, and those of ``vmap`` alone
    transforms: tuple[Any, ...] = ()
    maps: tuple[Any, ...] = ()
    #: the running calls of ``grad`` and ``vjp``
    differentiating: tuple[Any, ...] = ()
    #: the number of the innermost level of ``torch.func`` or ``functionalize``; 0 for none
    level = 0
    #: the same for ``functionalize`` alone, and for the transformations that differentiate
    capture = 0
    derived = 0
    #: whether backward runs: its results are differentiated along with a functionalized function (NOTE [Cuts])
    differentiated = False
    #: the running capture; consulted inside a level only (NOTE [Capture])
    capturing: Any = None
    forward_grad = True
    #: (pack, unpack) pairs of saved_tensors_hooks, the innermost last
    saved_hooks: tuple[Any, ...] = ()
    #: the message of disable_saved_tensors_hooks
    saved_hooks_disabled: str | None = None
    #: whether saved values are kept as they were when saved (``fgrad.torch.inplace("snapshot")``)
    snapshot = False
    #: the block of allow_mutation_on_saved_tensors that is open
    mutable: Any = None
    multithreading = True
    #: what ``fgrad.torch.audit`` has found so far; None when none is running
    findings: Any = None
    #: which version of PyTorch is emulated where they differ: "2.13" or "1.x"
    release = "2.13"
    #: the modes of ``torch.overrides.TorchFunctionMode`` that are entered, the innermost last
    handlers: tuple[Any, ...] = ()
    #: whether one is entered, even if it is disabled for the moment
    handled = False
    #: under ``torch.autocast``, calls a function with its arguments cast as its row says
    casting: Callable[..., Any] | None = None
    #: the settings of ``torch.autocast``, once one was set
    autocast: Any = None
    #: the value of ``handled`` before each mode entered without a block
    pushed: tuple[bool, ...] = ()
    #: how many open blocks set fields that ``Unusual`` watches, even if they set the defaults
    unusual = 0
    #: which handlers may override calls (0: of argument classes and modes, 1: of modes, 2: none): NOTE [Overriding]
    overriding = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _UNUSUAL and value != getattr(Modes, name):
            unusual.enter()
        super().__setattr__(name, value)


modes: Modes = Modes()


class Unusual:
    """Whether any thread may be in a mode in which an operation does more than compute its result and make its node.

    Checking the thread's modes one by one would cost an operation more than multiplying two small matrices.
    """

    __slots__ = ("on", "threads", "lock")

    def __init__(self) -> None:
        self.on = False
        #: the threads in such modes, and possibly some that have left them
        self.threads: set[int] = set()
        # reentrant: a signal handler may acquire it while it is held
        self.lock: AbstractContextManager[Any] = threading.RLock()

    def enter(self) -> None:
        """This thread is about to set such a mode."""
        with self.lock:
            self.threads.add(threading.get_ident())
            self.on: bool = True

    def within(self) -> bool:
        """Whether this thread may be in one; notes it when the thread has left all of them."""
        if modes.unusual or modes.dual_level >= 0 or modes.snapshot or modes.anomaly or modes.inference or modes.level:
            return True
        if modes.saved_hooks or modes.interceptor is not None or modes.release != Modes.release:
            return True
        thread = threading.get_ident()
        if thread in self.threads:
            with self.lock:
                self.threads.discard(thread)
                self.on = bool(self.threads)
        return False


unusual: Unusual = Unusual()


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded for backward.

    >>> import fgrad.torch as torch
    >>> torch.is_grad_enabled()
    True
    """
    return modes.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return modes.inference


#: as ``as_value``: the context manager itself
ITSELF: Any = object()


class Scope(io.IOBase):
    """A ``with`` block that sets attributes of ``modes`` while it lasts: see NOTE [Signals].

    Its ``__exit__`` is that of Python's streams: it is written in C, and calls ``close``, which is a function in C too.
    Nothing else of a stream is used.
    """

    #: so that the stream's finaliser does not call ``close``
    closed = True  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    #: what ``with ... as`` binds
    as_value: Any = None

    def values(self) -> dict[str, Any]:
        """The values that the block sets; called on entry."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        current = vars(modes)
        values = self.values()
        if not _UNUSUAL.isdisjoint(values):
            unusual.enter()
            values["unusual"] = modes.unusual + 1
        self.close: Any = self.end({name: getattr(modes, name) for name in values})
        current |= values  # no call comes after this one
        return self if self.as_value is ITSELF else self.as_value

    def end(self, before: dict[str, Any]) -> Callable[[], Any]:
        """A C function that restores the earlier attributes of ``modes``."""
        return functools.partial(vars(modes).update, before)


class Mode(Scope):
    """A context manager that also decorates functions, generators and coroutines.

    A decorated generator or coroutine runs each of its steps in the mode, and restores the caller's mode in between
    (PyTorch: torch/utils/_contextlib.py).
    """

    def clone(self) -> "Mode":
        """A fresh context manager with the same settings, for another entry."""
        return type(self)()

    def __call__(self, function: F) -> F:
        clone = self.clone
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return cast(F, _generator(clone, function))
        if inspect.iscoroutinefunction(function):
            return cast(F, _coroutine(clone, function))

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with clone():
                return function(*args, **kwargs)

        return cast(F, wrapped)


class Switch(Mode):
    """A mode that is set by the call itself; used as a block, it restores the mode from before the call."""

    def set(self, **values: Any) -> None:
        """Set attributes of ``modes``."""
        self.before: dict[str, Any] = {name: getattr(modes, name) for name in values}
        for name, value in values.items():
            setattr(modes, name, value)

    def __enter__(self) -> None:
        unusual.enter()
        self.close: Any = self.end(self.before | {"unusual": modes.unusual})
        modes.unusual += 1


def _generator(clone: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with clone():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with clone():
                        response = generator.throw(error)
                else:
                    with clone():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapped


def _coroutine(clone: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        with clone():
            return await function(*args, **kwargs)

    return wrapped


class _Flag(Mode):
    """A mode that sets one attribute of ``modes`` while it lasts."""

    attribute: str
    value: Any

    def values(self) -> dict[str, Any]:
        return {self.attribute: self.value}


class recording(Mode):
    """Sets whether operations are recorded, for a block."""

    def __init__(self, enabled: bool):
        self.enabled = enabled

    def values(self) -> dict[str, Any]:
        return {"grad": self.enabled}

    def clone(self) -> "recording":
        return recording(self.enabled)


class no_grad(_Flag):
    """Operations inside are not recorded: their results do not require grad.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False

    Source: `torch.no_grad <https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html>`_.
    """

    attribute = "grad"
    value = False

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else super().__new__(cls)(function)


class enable_grad(_Flag):
    """Operations inside are recorded, also within ``no_grad``.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     (x * 2).requires_grad
    True

    Source: `torch.enable_grad <https://docs.pytorch.org/docs/stable/generated/torch.enable_grad.html>`_.
    """

    attribute = "grad"
    value = True

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else super().__new__(cls)(function)


def check_switch(function: str, enabled: object) -> None:
    """Require a bool: None would silently turn a mode off."""
    if not isinstance(enabled, bool):
        raise TypeError(f"{function}(): argument 'enabled' (position 1) must be bool, not {type_name(enabled)}")


class set_grad_enabled(Mode):
    """Sets whether operations are recorded: at once as a function, for a block as a context manager.

    >>> import fgrad.torch as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False

    Source: `torch.set_grad_enabled <https://docs.pytorch.org/docs/stable/generated/torch.set_grad_enabled.html>`_.
    """

    def __init__(self, mode: bool):
        check_switch("set_grad_enabled", mode)
        self.previous: bool = modes.grad
        self.close: Any = functools.partial(vars(modes).update, grad=self.previous)
        self.mode = mode
        modes.grad = mode

    def __call__(self, function: F) -> F:
        modes.grad = self.previous
        return super().__call__(function)

    def __enter__(self) -> None:
        modes.grad = self.mode

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    def clone(self) -> "set_grad_enabled":
        return set_grad_enabled(self.mode)


class inference_mode(Mode):
    """Tensors made inside can never take part in recorded operations, and have no version counter.

    >>> import fgrad.torch as torch
    >>> with torch.inference_mode():
    ...     torch.ones(2).is_inference()
    True

    Source: `torch.inference_mode
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html>`_.
    """

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else super().__new__(cls)._decorating(mode)

    def __init__(self, mode: bool = True):
        self.mode = mode

    def _decorating(self, function: Any) -> Any:
        self.mode: bool = True
        return self(function)

    def values(self) -> dict[str, Any]:
        return {"inference": self.mode, "grad": not self.mode, "forward_grad": not self.mode}

    def clone(self) -> "inference_mode":
        return inference_mode(self.mode)


def is_multithreading_enabled() -> bool:
    """The value set by ``set_multithreading_enabled``; backward runs on the calling thread in any case."""
    return modes.multithreading


class set_multithreading_enabled(Mode):
    """Accepted as in PyTorch; backward runs on the calling thread in any case."""

    def __init__(self, mode: bool):
        check_switch("set_multithreading_enabled", mode)
        self.close: Any = functools.partial(vars(modes).update, multithreading=modes.multithreading)
        self.mode = mode
        modes.multithreading = mode

    def __enter__(self) -> None:
        return None

    def clone(self) -> "set_multithreading_enabled":
        return set_multithreading_enabled(self.mode)
