"""``torch.utils``: checkpointing, data sets, exchange of arrays, hooks' handles."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

#: what no other module needs is imported when it is first asked for
__getattr__, __dir__ = submodules(__name__, {__name__: "_pytree checkpoint data dlpack hooks"})

if TYPE_CHECKING:
    from fgrad.torch.utils import (
        _pytree as _pytree,
        checkpoint as checkpoint,
        data as data,
        dlpack as dlpack,
        hooks as hooks,
    )

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
