"""``torch.jit`` as with ``PYTORCH_JIT=0``, which turns TorchScript off: everything stays Python.

Source: PyTorch's ``torch/jit``, where ``_enabled`` decides.
"""

import builtins
import contextlib
import os
import typing
from collections.abc import Callable, Container, Iterator
from types import UnionType
from typing import Any, Final as Final, NoReturn, TypeVar, get_args, get_origin

from fgrad.mutable.context.warning import warn
from fgrad.torch.futures import Future as Future
from fgrad.torch.nn.modules.module import Module

T = TypeVar("T")

#: the package whose modules the table lists
__path__: list[str] = []


class Error(Exception):
    """An error of TorchScript."""


class ScriptWarning(Warning):
    """A warning of TorchScript."""


class TracerWarning(Warning):
    """A warning of tracing."""


class TracingCheckError(Exception):
    """A trace that differs from its function."""


class ScriptModule(Module):
    """A module of scripted methods, which here are Python's."""


class RecursiveScriptModule(ScriptModule):
    """A scripted module; there are none."""


class TracedModule(ScriptModule):
    """A traced module; there are none."""


TopLevelTracedModule = TracedModule


class ScriptFunction:
    """A scripted function; there are none."""

    def __init__(self) -> None:
        raise TypeError("ScriptFunction: No constructor defined!")


class CompilationUnit:
    """Functions of TorchScript, of which there are none.

    Raises:
      NotImplementedError: a source is given.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0):
        if lang is not None:
            raise _refused("CompilationUnit")


def is_scripting() -> bool:
    """Whether TorchScript runs this code: never."""
    return False


def is_tracing() -> bool:
    """Whether a call is being traced for TorchScript: never."""
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function that TorchScript leaves to Python; a decorator, with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: T) -> T:
    """Mark a function that TorchScript replaces by an error."""
    return fn


def export(fn: T) -> T:
    """Mark a method that TorchScript compiles in addition to ``forward``."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself; nothing is traced."""
    return fn


_script_if_tracing = script_if_tracing
_overload = _overload_method = export


def annotate(the_type: Any, the_value: T) -> T:
    """A value with its type for TorchScript."""
    return the_value


def Attribute(value: T, type: Any) -> T:
    """The value of an attribute with its type for TorchScript."""
    return value


def script(obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """The function, class or module itself.

    >>> import fgrad.torch as torch, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.jit.script(torch.sin) is torch.sin
    True
    """
    _deprecated("script")
    return obj


def script_method(fn: T) -> T:
    """The method itself."""
    _deprecated("script_method")
    return fn


def trace(func: T, *args: Any, **kwargs: Any) -> T:
    """The function or module itself; it is not called."""
    _deprecated("trace")
    return func


def trace_module(mod: T, *args: Any, **kwargs: Any) -> T:
    """The module itself; no method of it is called."""
    _deprecated("trace_method")
    return mod


def interface(obj: T) -> T:
    """The class itself."""
    _deprecated("interface", "Please use `torch.compile` instead.")
    return obj


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """The future of a call, which runs at once outside of TorchScript."""
    _deprecated("fork", "Please use `torch.compile` instead.")
    future: Future[T] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """The result of a call by `fork`."""
    _deprecated("wait", "Please use `torch.compile` instead.")
    return future.wait()


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> NoReturn:
    """Refuse: only scripted modules can be frozen.

    Raises:
      RuntimeError: the module is not a `ScriptModule`, or not in eval mode.
      NotImplementedError: it is a `ScriptModule`, which has nothing scripted.
    """
    _deprecated("freeze", "Please use `torch.compile` instead.")
    _check_scripted(mod, "Freezing")
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. "
            "Please call .eval() on your module before freezing."
        )
    raise _refused("freeze")


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> NoReturn:
    """Refuse: only scripted modules can be optimised.

    Raises:
      RuntimeError: the module is not a `ScriptModule`.
      NotImplementedError: it is a `ScriptModule`, which has nothing scripted.
    """
    _deprecated("optimize_for_inference", "Please use `torch.compile` instead.")
    _check_scripted(mod, "optimize_for_inference")
    raise _refused("optimize_for_inference")


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refuse: there is nothing in TorchScript's format to write.

    Raises:
      NotImplementedError: always; ``torch.save`` writes a module's ``state_dict``.
    """
    _deprecated("save", "Please switch to `torch.export`.")
    raise _refused("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> NoReturn:
    """Refuse: programs in TorchScript's format cannot be run.

    Raises:
      ValueError: the file does not exist.
      NotImplementedError: the file exists.
    """
    _deprecated("load", "Please switch to `torch.export`.")
    if builtins.isinstance(f, str | os.PathLike) and not os.path.isfile(f):
        reason = "is a directory" if os.path.isdir(f) else "does not exist"
        raise ValueError(f"The provided filename {os.fspath(f)} {reason}")
    raise _refused("load")


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The former fusion strategy; a new one has no effect."""
    _deprecated("set_fusion_strategy", "Please use `torch.compile` instead.")
    former = _fusion[:]
    _fusion[:] = strategy
    return former


_fusion = [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted; oneDNN fuses nothing here."""


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses operations: never."""
    return False


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A context for TorchScript's optimisations, without effect."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context for one of TorchScript's fusers, without effect."""
    yield


class strict_fusion(contextlib.AbstractContextManager[None]):
    """A context in which TorchScript raises where it cannot fuse, without effect."""

    def __init__(self) -> None:
        warn("Only works in script mode")

    def __exit__(self, *exc_info: Any) -> None:
        pass


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value has a type, including the elements of lists, tuples and dictionaries.

    Raises:
      RuntimeError: the type of a container does not give that of its elements.

    >>> isinstance([1, 2], list[int]), isinstance({"a": 1}, dict[str, str])
    (True, False)
    """
    if builtins.isinstance(target_type, Container) and not builtins.isinstance(target_type, type):
        if not builtins.isinstance(target_type, tuple):
            raise RuntimeError("The second argument to `torch.jit.isinstance` must be a type or a tuple of types")
        return any(isinstance(obj, each) for each in target_type)
    return _is(obj, target_type)


def _is(obj: Any, target_type: Any) -> bool:
    for name in ("List", "Tuple", "Dict", "Optional"):
        if target_type is getattr(typing, name):
            inner = {"Dict": "int, int"}.get(name, "int")
            raise RuntimeError(
                f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[{inner}]"
            )
    origin, inner = get_origin(target_type), get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if origin in (typing.Union, UnionType):
        return obj is None or any(_is(obj, each) for each in inner)
    if builtins.isinstance(obj, list | dict | tuple) and not obj:
        warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, "
            "List[int] would become list and therefore falsely return True for List[float] or List[str].",
        )
    if origin is list:
        return builtins.isinstance(obj, list) and all(_is(x, inner[0]) for x in obj)
    if origin is dict:
        return builtins.isinstance(obj, dict) and all(_is(k, inner[0]) and _is(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        same = builtins.isinstance(obj, tuple) and len(obj) == len(inner)
        return same and all(_is(x, each) for x, each in zip(obj, inner, strict=True))
    return False


def _deprecated(name: str, instead: str = "Please switch to `torch.compile` or `torch.export`.") -> None:
    # Like PyTorch's, it is attributed to this module and not to the caller, so Python hides it by default.
    warn(f"`torch.jit.{name}` is deprecated. {instead}", DeprecationWarning)


def _check_scripted(mod: Any, function: str) -> None:
    if not builtins.isinstance(mod, ScriptModule):
        raise RuntimeError(
            f"{function} expects a ScriptModule as input. "
            "Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, strict: bool = True) -> NoReturn:
    """Refused: there is no tracing."""
    raise _refused("_get_trace_graph")


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.jit.{name}: there is no TorchScript in fgrad. Use the function or module as it is, write its "
        "state_dict() by torch.save, or make one program of it with jax.jit(fgrad.torch.functionalize(f))."
    )
