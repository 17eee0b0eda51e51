"""The casts of ``torch.autocast``, and the settings of each thread.

NOTE [Autocasting]
A call of a public function, method or operator goes through its entrance (see NOTE [Overriding]), which looks at one
flag.  Where a thread autocasts, floating-point arguments other than float64 are cast first as the function's row says
(``autocast``), and autocast is off inside it.  A function whose row says nothing runs as it is; the functions that it
calls are cast on their own.  ``out=`` and in-place calls are never cast.

The cast of a parameter is cached until the outermost context ends, so that a parameter used twice is cast once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

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


@frozen
class Settings:
    """The settings of a thread; a new record for each change, so that a block restores all in one piece."""

    dtypes: Mapping[str, Dtype] = DEVICES
    #: the device types whose tensors are cast, and their dtypes
    targets: Mapping[str, Dtype] = field(factory=dict)
    cache_enabled: bool = True
    #: how many contexts are open
    nesting: int = 0
    #: by the id of a parameter: the parameter and its cast
    cache: dict[int, tuple[Tensor, Tensor]] = field(factory=dict)

    def casting(self, device: str, enabled: bool, dtype: Dtype) -> "Settings":
        """The settings by which tensors of a device type are cast to a dtype, or not."""
        targets = {key: value for key, value in self.targets.items() if key != device}
        if enabled:
            targets[device] = dtype
        return evolve(self, dtypes={**self.dtypes, device: dtype}, targets=targets)

    def modes(self) -> dict[str, Any]:
        """The modes of a thread that has these settings."""
        if self.targets:
            watch.enter()
        return {"autocast": self, "casting": run if self.targets else None}


def settings() -> Settings:
    """The settings of this thread."""
    found: Settings | None = modes.autocast
    return Settings() if found is None else found


def run(autocast: Autocast, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function with its arguments cast as its row says."""
    targets = settings().targets
    if kwargs.get("out") is not None:
        return function(*args, **kwargs)
    if autocast == "promote":
        cast = _to_float if _widest((*args, *kwargs.values()), targets) is dtypes.float32 else _lower
    elif autocast == "lower_precision_fp":
        cast = _lower
    elif autocast == "fp32" or autocast(*args, **kwargs):
        cast = _to_float
    else:
        return function(*args, **kwargs)
    args = [_each(cast, x, targets) for x in args]
    kwargs = {key: _each(cast, x, targets) for key, x in kwargs.items()}
    try:
        modes.casting = _inside
        return function(*args, **kwargs)
    finally:
        modes.casting = run


def _inside(autocast: Autocast, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function within one whose arguments were cast: autocast is off there."""
    return function(*args, **kwargs)


def _each(cast: Callable[[Tensor, Dtype], Tensor], x: Any, targets: Mapping[str, Dtype]) -> Any:
    """An argument with its tensors cast."""
    if isinstance(x, Tensor):
        dtype = x._type.dtype
        if not dtype.is_floating_point or dtype is dtypes.float64:
            return x
        target = targets.get(x.device.type)
        return x if target is None else cast(x, target)
    if isinstance(x, list | tuple) and any(isinstance(each, Tensor) for each in x):
        return [_each(cast, each, targets) for each in x]
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
        and settings().cache_enabled
        and modes.grad
        and is_tracked(x)
        and not x._is_view()
        and target is not dtypes.float32
    )
    if not keep:
        return _converted(x, target)
    cache = settings().cache
    cached = cache.get(id(x))
    if cached is None:
        cached = cache[id(x)] = x, _converted(x, target)
    return cached[1]


def _widest(values: Sequence[Any], targets: Mapping[str, Dtype]) -> Dtype | None:
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
