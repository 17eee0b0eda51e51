"""``torch.cuda.amp``: the former names of ``torch.amp`` for GPUs."""

from typing import Any

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch import amp
from fgrad.torch.amp.grad_scaler import FormerGradScaler, OptState as OptState, warn_of_former


class autocast(amp.autocast):
    """``torch.amp.autocast("cuda", ...)``; deprecated."""

    def __init__(self, enabled: bool = True, dtype: Dtype = dtypes.float16, cache_enabled: bool = True) -> None:
        warn_of_former("cuda", "autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(FormerGradScaler):
    """``torch.amp.GradScaler("cuda", ...)``; deprecated."""

    kind = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: Dtype | None = None) -> Any:
    """``torch.amp.custom_fwd(..., device_type="cuda")``; deprecated."""
    warn_of_former("cuda", "custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """``torch.amp.custom_bwd(..., device_type="cuda")``; deprecated."""
    warn_of_former("cuda", "custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
