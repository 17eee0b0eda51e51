"""``torch.utils``: checkpointing, data sets, exchange of arrays, hooks' handles."""

from fgrad.torch.utils import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
