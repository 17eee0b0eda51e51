"""``torch.autograd``: backward and gradients, functions with a derivative of their own, modes, hooks, checks."""

from fgrad.torch.autograd import forward_ad, function, functional, graph
from fgrad.torch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from fgrad.torch.autograd.backward import backward, grad
from fgrad.torch.autograd.function import Function
from fgrad.torch.autograd.gradcheck import gradcheck, gradgradcheck
from fgrad.torch.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from fgrad.torch.core.tensor import Tensor as Variable

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
