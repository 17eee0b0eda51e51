"""``torch.utils.hooks``: the handles of hooks."""

from collections.abc import Callable
from typing import TypeVar

from fgrad.mutable.tensor.hooks import RemovableHandle

F = TypeVar("F", bound=Callable[..., object])


def unserializable_hook(f: F) -> F:
    """Mark a hook: no warning is given when a tensor that has it is pickled without it."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    return f


__all__ = ["RemovableHandle", "unserializable_hook"]
