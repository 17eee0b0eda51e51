"""``torch.utils``: checkpointing, data sets, exchange of arrays, hooks' handles."""

from fgrad.torch.stand_ins import submodules
from fgrad.torch.utils import _pytree as _pytree, checkpoint, dlpack, hooks

#: what no other module needs is imported when it is first asked for
__getattr__ = submodules(__name__, frozenset(("data",)))

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
