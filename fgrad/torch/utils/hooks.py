"""``torch.utils.hooks``: the handles of hooks."""

from fgrad.torch.core.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
