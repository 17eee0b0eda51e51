"""The grad modes, under the name of PyTorch's module."""

from collections.abc import Iterable
from typing import Any

from fgrad.mutable.context.modes import (
    Mode,
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from fgrad.mutable.tensor.tensor import Tensor


class _force_original_view_tracking(Mode):
    """Accepted as in PyTorch; views of a written base are renewed by ``as_strided``."""

    def __init__(self, mode: bool):
        self.mode = mode

    def clone(self) -> "_force_original_view_tracking":
        return _force_original_view_tracking(self.mode)

    def values(self) -> dict[str, Any]:
        return {}


class _unsafe_preserve_version_counter(Mode):
    """Writes to the tensors in the block do not count."""

    def __init__(self, tensors: Tensor | Iterable[Tensor]):
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)

    def clone(self) -> "_unsafe_preserve_version_counter":
        return _unsafe_preserve_version_counter(self.tensors)

    def values(self) -> dict[str, Any]:
        return {}

    def end(self, before: dict[str, Any]) -> Any:
        versions = [(t._counter, t._counter.value) for t in self.tensors]

        def restore() -> None:
            for counter, value in versions:
                counter.value = value

        return restore


__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]
