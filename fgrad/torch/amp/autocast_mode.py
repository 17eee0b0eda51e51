"""``torch.autocast``, and custom functions inside of it."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from attrs import evolve

from fgrad.mutable.context.modes import ITSELF, Scope
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch import cuda
from fgrad.torch.amp.casting import settings
from fgrad.torch.amp.settings import (
    get_autocast_dtype,
    is_autocast_available as is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)

_SUPPORTED = (dtypes.bfloat16, dtypes.float16)


class autocast(Scope):
    """A context, or decorator, in which each function runs in the dtype that suits it: see NOTE [Autocasting].

    Arguments:
      device_type: which tensors are cast: "cpu", "cuda" and so on.
      dtype: the lower precision, bfloat16 on the CPU if not given.
      enabled: whether the context has an effect.
      cache_enabled: whether casts of parameters are cached.

    >>> import fgrad.torch as torch
    >>> with torch.autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16

    Source: `torch.autocast <https://docs.pytorch.org/docs/2.13/amp.html#torch.autocast>`_.
    """

    as_value = ITSELF

    def __init__(
        self, device_type: str, dtype: Dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.fast_dtype: dtypes.dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self.device = device_type
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        problem = self._problem() if enabled else None
        if problem is not None:
            warn(problem)
        self._enabled = enabled and problem is None

    def _problem(self) -> str | None:
        """Why autocast is unavailable, if it is."""
        if self.device == "cuda":
            if cuda.is_available():
                return None
            return "CUDA is not available or torch_xla is imported. Disabling autocast."
        if self.fast_dtype in _SUPPORTED:
            return None
        name = self.device.upper()
        return (
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of {', '.join(map(str, _SUPPORTED))} currently."
        )

    def values(self) -> dict[str, Any]:
        current = settings()
        cache: dict[Any, Any] = current.cache if current.nesting else {}
        changed = current.casting(self.device, self._enabled, self.fast_dtype)
        changed = evolve(changed, cache_enabled=self._cache_enabled, nesting=current.nesting + 1, cache=cache)
        return changed.modes()

    def end(self, before: dict[str, Any]) -> Callable[[], Any]:
        current = before["autocast"]  # None if nothing has been set yet
        restored = current if current is None or current.nesting else evolve(current, cache={})
        return super().end(before | {"autocast": restored})

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )
        return autocast_decorator(self, func)


def present_autocast(device_type: str = "cpu") -> autocast:
    """A context with the current settings of autocast."""
    enabled = is_autocast_enabled(device_type)
    return autocast(device_type, get_autocast_dtype(device_type), enabled, is_autocast_cache_enabled())


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function to run within a context."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Dtype | None = None) -> Any:
    """Decorate the ``forward`` of a ``torch.autograd.Function`` for use under autocast.

    Arguments:
      fwd: the function.
      device_type: of the tensors.
      cast_inputs: a dtype to which floating-point arguments are cast, with autocast off in ``forward``; None to leave
        autocast as it is.

    Source: `torch.amp.custom_fwd <https://docs.pytorch.org/docs/2.13/amp.html#torch.amp.custom_fwd>`_.
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the ``backward`` of a ``torch.autograd.Function``: it runs under the autocast of its ``forward``.

    Source: `torch.amp.custom_bwd <https://docs.pytorch.org/docs/2.13/amp.html#torch.amp.custom_bwd>`_.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, device_type: str, dtype: Dtype) -> Any:
    """A value with its floating-point tensors other than float64 cast."""
    if isinstance(value, Tensor):
        tensor: Any = value
        floating = tensor.dtype.is_floating_point and tensor.dtype is not dtypes.float64
        return tensor.to(dtype) if floating and tensor.device.type == device_type else value
    if isinstance(value, str | bytes | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        items = (_cast(v, device_type, dtype) for v in value)
        return type(value)(items) if isinstance(value, list | tuple) else items  # type: ignore[call-arg]
    return value
