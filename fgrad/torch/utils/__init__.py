"""``torch.utils``: checkpointing, data sets, exchange of arrays, hooks' handles."""

from fgrad.torch.stand_ins import submodules
from fgrad.torch.utils import _pytree as _pytree, checkpoint, data, dlpack, hooks

__getattr__ = submodules(__name__)

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
