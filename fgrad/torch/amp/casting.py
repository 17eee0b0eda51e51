"""The casts of ``torch.autocast``, and the settings of each thread.

NOTE [Autocasting]
A call of a public function, method or operator goes through its entrance (see NOTE [Overriding]), which looks at one
flag.  Where a thread autocasts, floating-point arguments other than float64 are cast first as the function's row says
(``autocast``), and autocast is off inside it.  A function whose row says nothing runs as it is; the functions that it
calls are cast on their own.  ``out=`` and in-place calls are never cast.

The cast of a parameter is cached until the outermost context ends, so that a parameter used twice is cast once.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import watch
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.methods.conversion import to
from fgrad.torch.ops.table.dispatch import Autocast

#: the device types that support autocast, and their default dtypes
DEVICES = {
    **dict.fromkeys(("cpu", "maia", "xla", "hpu"), dtypes.bfloat16),
    **dict.fromkeys(("cuda", "mtia", "xpu", "ipu", "privateuseone", "mps"), dtypes.float16),
}


class Settings(threading.local):
    """The settings of a thread."""

    def __init__(self) -> None:
        self.dtypes: dict[str, dtypes.dtype] = dict(DEVICES)
        #: the device types whose tensors are cast, and their dtypes
        self.targets: dict[str, Dtype] = {}
        self.cache_enabled = True
        self.nesting = 0
        #: by the id of a parameter: the parameter and its cast
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}

    def set(self, device: str, enabled: bool, dtype: Dtype) -> None:
        """Set whether tensors of a device type are cast, and to which dtype."""
        if enabled:
            watch.enter()
        # a new dict, because calls save and restore the old one
        targets = {key: value for key, value in self.targets.items() if key != device}
        if enabled:
            targets[device] = dtype
        self.dtypes[device] = dtype
        self.targets, modes.casting = targets, run if targets else None


settings: Settings = Settings()


def run(autocast: Autocast, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function with its arguments cast as its row says."""
    targets = settings.targets
    if not targets or kwargs.get("out") is not None:
        return function(*args, **kwargs)
    if autocast == "promote":
        cast = _to_float if _widest((*args, *kwargs.values()), targets) is dtypes.float32 else _lower
    elif autocast == "lower_precision_fp":
        cast = _lower
    elif autocast == "fp32" or autocast(*args, **kwargs):
        cast = _to_float
    else:
        return function(*args, **kwargs)
    args = [_each(cast, x) for x in args]
    kwargs = {key: _each(cast, x) for key, x in kwargs.items()}
    try:
        settings.targets = {}
        return function(*args, **kwargs)
    finally:
        settings.targets = targets


def _each(cast: Callable[[Tensor, Dtype], Tensor], x: Any) -> Any:
    """An argument with its tensors cast."""
    if isinstance(x, Tensor):
        dtype = x._type.dtype
        if not dtype.is_floating_point or dtype is dtypes.float64:
            return x
        target = settings.targets.get(x.device.type)
        return x if target is None else cast(x, target)
    if isinstance(x, list | tuple) and any(isinstance(each, Tensor) for each in x):
        return [_each(cast, each) for each in x]
    return x


def _to_float(x: Tensor, target: Dtype) -> Tensor:
    return _lower(x, dtypes.float32) if target is dtypes.float32 else _converted(x, dtypes.float32)


def _converted(x: Tensor, dtype: Dtype) -> Tensor:
    return to(x, dtype)


def _lower(x: Tensor, target: Dtype) -> Tensor:
    """A tensor in the dtype of the context; casts of parameters are cached."""
    keep = (
        x._type.dtype is dtypes.float32
        and x._requires_grad
        and x._node is None
        and settings.cache_enabled
        and modes.grad
        and is_tracked(x)
        and not x._is_view()
        and target is not dtypes.float32
    )
    if not keep:
        return _converted(x, target)
    cached = settings.cache.get(id(x))
    if cached is None:
        cached = settings.cache[id(x)] = x, _converted(x, target)
    return cached[1]


def _widest(values: Sequence[Any], targets: dict[str, Dtype]) -> Dtype | None:
    """The widest dtype of the tensors and the context; None for the context's."""
    widest: Dtype | None = None
    for x in values:
        for each in x if isinstance(x, list | tuple) else (x,):
            if not isinstance(each, Tensor) or each.device.type not in targets:
                continue
            dtype = each._type.dtype
            if not dtype.is_floating_point or dtype is dtypes.float64:
                continue
            if dtype is dtypes.float32:
                widest = dtype
            elif widest is None and dtype is not targets[each.device.type]:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return widest
