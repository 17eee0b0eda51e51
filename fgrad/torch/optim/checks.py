"""What optimisers accept as options, refused in PyTorch's words."""

from typing import Any

from fgrad.mutable.tensor.tensor import Tensor


def check_learning_rate(lr: float | Tensor, text: str = "Invalid learning rate: {}") -> None:
    """Refuse a tensor of several elements, and what is below zero."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_not_negative(lr, text)


def check_not_negative(value: Any, text: str) -> None:
    """Refuse a value below zero, and what is not a number; ``text`` has ``{}`` for the value."""
    if not value >= 0.0:
        raise ValueError(text.format(value))


def check_betas(betas: Any) -> None:
    """Refuse decay factors outside ``[0, 1)``."""
    for i, beta in enumerate(betas):
        if i < 2 and not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_implementation(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Refuse ``fused`` together with what PyTorch's fused kernels exclude."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
