"""``torch.utils``: checkpointing, hooks' handles, data sets."""

from fgrad.torch.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
