"""``torch.backends.cuda``: as without CUDA; settings are kept without effect."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from attrs import define


@define
class _Matmul:
    """Settings of reduced precision in products."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True


matmul: _Matmul = _Matmul()
#: the kernels that attention may use; ``torch.nn.attention.sdpa_kernel`` sets them too
kernels: dict[str, bool] = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "overrideable": True}


def is_built() -> bool:
    """Whether PyTorch was built with CUDA: never."""
    return False


def flash_sdp_enabled() -> bool:
    """Whether attention may use this kernel."""
    return kernels["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Let attention use this kernel; without effect on values here."""
    kernels["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use this kernel."""
    return kernels["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Let attention use this kernel; without effect on values here."""
    kernels["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Whether attention may use this kernel."""
    return kernels["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Let attention use this kernel; without effect on values here."""
    kernels["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use this kernel."""
    return kernels["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Let attention use this kernel; without effect on values here."""
    kernels["cudnn"] = enabled


def is_flash_attention_available() -> bool:
    """Whether PyTorch was built with this kernel: never."""
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[str, Any]]:
    """The former name of ``torch.nn.attention.sdpa_kernel``: a context in which attention uses only these kernels."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please "
        "see `torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=3,
    )
    before = dict(kernels)
    kernels.update(
        flash=enable_flash,
        mem_efficient=enable_mem_efficient,
        math=enable_math,
        cudnn=enable_cudnn,
        overrideable=False,
    )
    try:
        yield {}
    finally:
        kernels.update(before)
