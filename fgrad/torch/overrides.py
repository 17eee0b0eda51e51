"""``torch.overrides``: queries about ``__torch_function__``, and the modes that see every call.

Source: `torch.overrides <https://docs.pytorch.org/docs/2.13/torch.overrides.html>`_.
"""

import contextlib
import functools
import inspect
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, Self

from fgrad.mutable.context.modes import ITSELF, Scope, modes
from fgrad.mutable.context.torch_function.protocol import (
    ALL,
    HANDLER,
    Rule,
    call_handlers,
    overloaded,
    overrides,
    watch,
)
from fgrad.mutable.context.torch_function.wrap import Attribute, BuiltIn, behind, raw
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import fft, linalg, random, special
from fgrad.torch._C import (
    _get_function_stack_at,
    _is_torch_function_mode_enabled,
    _len_torch_function_stack,
)
from fgrad.torch.methods.subclasses import nowrap_functions
from fgrad.torch.nn import functional, init
from fgrad.torch.ops.table.dispatch import dispatch_of
from fgrad.torch.ops.table.table import TABLE

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "resolve_name",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "wrap_torch_function",
    "enable_reentrant_dispatch",
]


# -- queries ---------------------------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a class of one of the arguments, or a mode, overrides calls.

    >>> import fgrad.torch as torch
    >>> class Mine(torch.Tensor): ...
    >>> torch.overrides.has_torch_function((torch.ones(2), Mine([1.])))
    True

    Source: `torch.overrides.has_torch_function
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.has_torch_function>`_.
    """
    if not isinstance(relevant_args, Iterable):
        raise TypeError("expected a sequence")
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function_variadic(relevant_arg)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """``has_torch_function`` of separate arguments."""
    if _is_torch_function_mode_enabled():
        return bool(relevant_args)
    return modes.overriding == ALL and any(overrides(x) for x in relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Dispatch ``public_api(*args, **kwargs)`` to the modes and the classes of ``relevant_args``.

    Raises:
      TypeError: all return ``NotImplemented``.

    >>> import fgrad.torch as torch
    >>> class Duck:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a duck"
    >>> def mine(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(mine, (x,), x)
    ...     return x + 1
    >>> mine(Duck())
    'mine of a duck'

    Source: `torch.overrides.handle_torch_function
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.handle_torch_function>`_.
    """
    arguments = overloaded(relevant_args, tensors=True) if modes.overriding == ALL else []
    name = f"{public_api.__module__}.{public_api.__name__}"
    override = getattr(public_api, "override", None)
    if override is not None:
        name = override.name
    return call_handlers((public_api, tuple(map(type, arguments)), args, kwargs), arguments, name, True)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function overridable; ``dispatcher`` returns the arguments whose classes are asked.

    >>> import fgrad.torch as torch
    >>> @torch.overrides.wrap_torch_function(lambda a: (a,))
    ... def twice(a):
    ...     return a + a
    >>> twice(torch.ones(2))
    tensor([2., 2.])

    Source: `torch.overrides.wrap_torch_function
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.wrap_torch_function>`_.
    """

    def inner(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or has a ``__torch_function__``.

    >>> import fgrad.torch as torch
    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like(6)
    (True, False)

    Source: `torch.overrides.is_tensor_like
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.is_tensor_like>`_.
    """
    return type(inp) is Tensor or hasattr(inp, HANDLER)


# -- modes -----------------------------------------------------------------------------------------------------------


class TorchFunctionMode(Scope):
    """A mode: inside its block, its ``__torch_function__`` gets every call, also of functions without tensors.

    Its own calls go to the mode around it, then to the classes of the arguments.

    >>> import fgrad.torch as torch
    >>> class Logged(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Logged():
    ...     x = torch.ones(2) * 2
    torch.ones
    torch.Tensor.mul

    Source: `torch.overrides.TorchFunctionMode
    <https://docs.pytorch.org/docs/2.13/notes/extending.html#extending-all-torch-api-with-modes>`_.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    as_value = ITSELF

    def values(self) -> dict[str, Any]:
        watch.enter()
        return {"handlers": (*modes.handlers, self), "handled": True}

    def end(self, before: dict[str, Any]) -> Callable[[], Any]:
        """It may be nested in itself: what ends the outer block is saved, and restored with the rest."""
        around = vars(self).get("close")
        both = map(dict.update, (vars(modes), vars(self)), (before, {"close": around}))
        return functools.partial(deque, both, 0)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`")
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode without effect."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _enable_torch_function(Scope):
    """Re-enables overriding by classes of arguments and by modes."""

    def values(self) -> dict[str, Any]:
        return {"overriding": ALL}


#: re-enables ``__torch_dispatch__``, which is never called here
enable_reentrant_dispatch = contextlib.nullcontext


def _get_current_function_mode() -> Any:
    stack = _get_current_function_mode_stack()
    return stack[-1] if stack else None


def _get_current_function_mode_stack() -> list[Any]:
    return [_get_function_stack_at(i) for i in range(_len_torch_function_stack())]


class _pop_mode_temporarily(Scope):
    """A context without the innermost mode, which it returns."""

    def values(self) -> dict[str, Any]:
        self.as_value = modes.handlers[-1]
        return {"handlers": modes.handlers[:-1]}


def redispatch_function(func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
    """Run a function without overrides, whatever its arguments are; nested calls dispatch normally."""
    return behind(func)(*args, **(kwargs or {}))


# -- what can be overridden ------------------------------------------------------------------------------------------


def _namespaces() -> list[tuple[str, Any, Iterable[str]]]:
    torch = sys.modules["fgrad.torch"]  # this module is part of it
    return [
        ("torch", torch, [name for name, entry in TABLE.items() if entry.function]),
        ("torch.nn.functional", functional, dir(functional)),
        ("torch.nn.init", init, dir(init)),
        ("torch.Tensor", Tensor, dir(Tensor)),
        ("torch.linalg", linalg, dir(linalg)),
        ("torch.fft", fft, dir(fft)),
        ("torch.special", special, dir(special)),
    ]


def _name_in_torch(name: str) -> str:
    """PyTorch's qualified name of a function: some are in ``torch.functional`` too."""
    dispatch = TABLE[name].dispatch
    inner = (
        dispatch is not None and dispatch.rule is Rule.WRITTEN and dispatch.module != "torch"
    ) or name in _IN_FUNCTIONAL
    return f"torch.functional.{name}" if inner else f"torch.{name}"


@functools.cache
def _overridable() -> tuple[dict[Any, list[Callable[..., Any]]], dict[Any, str], set[Any]]:
    """The overridable functions by namespace; the names of all; and those that are not overridable."""
    functions: dict[Any, list[Callable[..., Any]]] = defaultdict(list)
    called: dict[Any, str] = {}
    ignored: set[Any] = set()
    for prefix, namespace, members in _namespaces():
        for name in members:
            value = getattr(namespace, name)
            if isinstance(value, ModuleType | type) or (namespace is Tensor and getattr(object, name, None) is value):
                continue
            if isinstance(value, Attribute):
                called[value.__get__] = f"{prefix}.{name}.__get__"
                called[value.__set__] = f"{prefix}.{name}.__set__"
                functions[value].append(value.__get__)
                continue
            if not callable(value) or not (namespace is Tensor or _is_public(value)):
                continue
            called[value] = _name_in_torch(name) if prefix == "torch" else f"{prefix}.{name}"
            if namespace is not Tensor and (name.startswith("_") or name.endswith("_")):
                continue
            asks = raw(value) is not value and getattr(value, "override").rule is not Rule.FACTORY  # noqa: B009
            if not asks or not _is_listed(prefix, name, value):
                ignored.add(value)
            else:
                functions[namespace].append(value)
    return dict(functions), called, ignored


def _is_public(value: Any) -> bool:
    return isinstance(value, FunctionType | BuiltIn)


#: functions of ``torch.functional`` that are written in C++ or not overridable
_IN_FUNCTIONAL = ("istft", "broadcast_shapes")


def _is_listed(prefix: str, name: str, value: Any) -> bool:
    """Whether PyTorch lists an overridable function."""
    if prefix == "torch.Tensor":
        return dispatch_of(raw(value))[0].listed
    row = TABLE.get(f"{prefix}.{name}".removeprefix("torch."))
    return row is None or row.dispatch is None or row.dispatch.listed


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that ``__torch_function__`` can override, by namespace.

    >>> import fgrad.torch as torch
    >>> torch.Tensor.add in torch.overrides.get_overridable_functions()[torch.Tensor]
    True

    Source: `torch.overrides.get_overridable_functions
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.get_overridable_functions>`_.
    """
    return _overridable()[0]


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that cannot be overridden: mostly because they take no tensors.

    >>> import fgrad.torch as torch
    >>> torch.Tensor.as_subclass in torch.overrides.get_ignored_functions()
    True

    Source: `torch.overrides.get_ignored_functions
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.get_ignored_functions>`_.
    """
    return {*_overridable()[2], random.manual_seed, random.initial_seed, random.seed, has_torch_function}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The functions whose results the default ``Tensor.__torch_function__`` does not wrap.

    >>> import fgrad.torch as torch
    >>> torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
    True

    Source: `torch.overrides <https://docs.pytorch.org/docs/2.13/torch.overrides.html>`_.
    """
    return set(nowrap_functions())


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each overridable function one with the same parameters that returns -1.

    >>> import fgrad.torch as torch
    >>> torch.overrides.get_testing_overrides()[torch.add](1, 2)
    -1

    Source: `torch.overrides.get_testing_overrides
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.get_testing_overrides>`_.
    """
    return {func: _dummy(func) for functions in get_overridable_functions().values() for func in functions}


def _dummy(function: Callable[..., Any]) -> Callable[..., Any]:
    def dummy(*args: Any, **kwargs: Any) -> int:
        return -1

    dummy.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return dummy


def resolve_name(f: Any) -> str | None:
    """The qualified name of an overridable function.

    >>> import fgrad.torch as torch
    >>> torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(torch.Tensor.shape.__get__)
    ('torch.Tensor.add', 'torch.Tensor.shape.__get__')

    Source: `torch.overrides.resolve_name
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.resolve_name>`_.
    """
    return _overridable()[1].get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether ``func`` is a method of tensors, or the ``__get__`` of an attribute.

    >>> import fgrad.torch as torch
    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    True
    >>> torch.overrides.is_tensor_method_or_property(torch.add)
    False

    Source: `torch.overrides.is_tensor_method_or_property
    <https://docs.pytorch.org/docs/2.13/torch.overrides.html#torch.overrides.is_tensor_method_or_property>`_.
    """
    return func in get_overridable_functions()[Tensor] or func.__name__ == "__get__"
