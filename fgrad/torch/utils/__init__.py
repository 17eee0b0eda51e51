"""``torch.utils``: checkpointing, data loading, DLPack, hook handles."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

#: imported at first use
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
