"""``torch.cpu.amp``: the former names of ``torch.amp`` for the CPU."""

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch import amp
from fgrad.torch.amp.grad_scaler import FormerGradScaler, warn_of_former


class autocast(amp.autocast):
    """``torch.amp.autocast("cpu", ...)``; deprecated."""

    def __init__(self, enabled: bool = True, dtype: Dtype = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        warn_of_former("cpu", "autocast(args...)", "autocast('cpu', args...)")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(FormerGradScaler):
    """``torch.amp.GradScaler("cpu", ...)``; deprecated."""

    kind = "cpu"
