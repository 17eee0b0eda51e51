"""``torch.utils.hooks``: the handles of hooks."""

from fgrad.mutable.tensor.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
