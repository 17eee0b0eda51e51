"""What optimisers accept as options, refused in PyTorch's words."""

from typing import Any

from fgrad.errors import shown
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


def check_options(**options: Any) -> None:
    """Refuse the first option that is out of its range: a learning rate, decay factors, or what may not be negative."""
    for name, value in options.items():
        if name == "lr":
            check_learning_rate(value)
        elif name == "betas":
            check_betas(value)
        else:
            check_not_negative(value, f"Invalid {'epsilon' if name == 'eps' else name} value: {{}}")


def check_betas(betas: Any) -> None:
    """Refuse decay factors outside ``[0, 1)``, and what is not two of them."""
    for i in range(2):
        try:
            valid = 0.0 <= betas[i] < 1.0
        except (TypeError, LookupError):
            raise TypeError(f"betas must be two numbers, got {shown(betas)}.") from None
        if not valid:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def check_implementation(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Refuse ``fused`` together with what PyTorch's fused kernels exclude."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
