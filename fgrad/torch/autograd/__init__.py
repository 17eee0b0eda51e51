"""``torch.autograd``: backward and gradients, custom functions, modes, hooks, checks."""

from typing import TYPE_CHECKING

from fgrad.mutable.context.modes import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.torch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from fgrad.torch.autograd.backward import (
    _calculate_shape as _calculate_shape,
    _is_checkpoint_valid as _is_checkpoint_valid,
    backward,
    grad,
)
from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
    from fgrad.torch.autograd import forward_ad, function, functional, grad_mode, graph
    from fgrad.torch.autograd.function import Function
    from fgrad.torch.autograd.gradcheck import gradcheck, gradgradcheck
    from fgrad.torch.autograd.variable import Variable
else:
    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "_functions forward_ad function functional grad_mode graph",
            f"{__name__}.grad_mode": "_force_original_view_tracking _unsafe_preserve_version_counter",
            f"{__name__}.function": "Function",
            f"{__name__}.gradcheck": "gradcheck gradgradcheck",
            f"{__name__}.variable": "Variable",
        },
    )


def kineto_available() -> bool:
    """Whether there is PyTorch's profiler: there is none."""
    return False


__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
