"""The settings of ``torch.autocast`` as functions of ``torch``."""

from typing import Any

from attrs import evolve

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.amp.casting import DEVICES, Settings, settings


def is_autocast_available(device_type: str) -> bool:
    """Whether a device type supports autocast.

    >>> import fgrad.torch as torch
    >>> torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("meta")
    (True, False)

    Source: `torch.amp.is_autocast_available
    <https://docs.pytorch.org/docs/2.13/amp.html#torch.amp.autocast_mode.is_autocast_available>`_.
    """
    return device(device_type).type in DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type in this thread.

    >>> import fgrad.torch as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    return _known_type("is_autocast_enabled", device_type) in settings().targets


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Set whether autocast is on for a device type in this thread."""
    if enabled is None:
        device_type, enabled = "cuda", _typed("set_autocast_enabled", "enabled", 1, device_type, bool)
    kind = _known_type("set_autocast_enabled", device_type)
    on = _typed("set_autocast_enabled", "enabled", 2, enabled, bool)
    _set(settings().casting(kind, on, settings().dtypes[kind]))


def get_autocast_dtype(device_type: str) -> Dtype:
    """The autocast dtype of a device type.

    >>> import fgrad.torch as torch
    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    kind = device(_typed("get_autocast_dtype", "device_type", 1, device_type, str)).type
    if kind not in DEVICES:
        raise RuntimeError("unsupported scalarType")
    return settings().dtypes[kind]


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Set the autocast dtype of a device type."""
    kind = _known_type("set_autocast_dtype", device_type)
    dtype = _typed("set_autocast_dtype", "dtype", 2, dtype, Dtype)
    _set(settings().casting(kind, kind in settings().targets, dtype))


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are cached."""
    return settings().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are cached."""
    enabled = _typed("set_autocast_cache_enabled", "enabled", 1, enabled, bool)
    _set(evolve(settings(), cache_enabled=enabled))


def clear_autocast_cache() -> None:
    """Clear the cached casts of parameters, as at the end of the outermost context."""
    settings().cache.clear()


def autocast_increment_nesting() -> int:
    """Increment the number of contexts in this thread; returns it."""
    _set(evolve(settings(), nesting=settings().nesting + 1))
    return settings().nesting


def autocast_decrement_nesting() -> int:
    """Decrement the number of contexts in this thread; returns it."""
    _set(evolve(settings(), nesting=settings().nesting - 1))
    return settings().nesting


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled("cpu")``; deprecated."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled("cpu", enabled)``; deprecated."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Dtype:
    """``get_autocast_dtype("cpu")``; deprecated."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Dtype) -> None:
    """``set_autocast_dtype("cpu", dtype)``; deprecated."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Dtype:
    """``get_autocast_dtype("cuda")``; deprecated."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Dtype) -> None:
    """``set_autocast_dtype("cuda", dtype)``; deprecated."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


def _set(new: Settings) -> None:
    vars(modes).update(new.modes())


def _deprecated(old: str, new: str) -> None:
    warn(f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning)


def _typed(function: str, name: str, position: int, value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        wanted = "torch.dtype" if kind is Dtype else kind.__name__
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be {wanted}, not {type_name(value)}"
        )
    return value


def _known_type(function: str, device_type: Any) -> str:
    kind = device(_typed(function, "device_type", 1, device_type, str)).type
    if kind not in DEVICES:
        raise RuntimeError("unknown device type for autocast in get_autocast_dispatch_key_from_device_type")
    return kind
