"""``torch.utils``: checkpointing, data sets, exchange of arrays, hooks' handles."""

from fgrad.torch.utils import _pytree as _pytree, checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
