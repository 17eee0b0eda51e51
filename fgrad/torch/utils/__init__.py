"""``torch.utils``: timers, checkpointing, data loading, DLPack, hook handles."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

#: imported at first use
__getattr__, __dir__ = submodules(
    __name__,
    {__name__: "_pytree benchmark checkpoint data dlpack hooks swapping", f"{__name__}.swapping": "swap_tensors"},
)

if TYPE_CHECKING:
    from fgrad.torch.utils import (
        _pytree as _pytree,
        benchmark as benchmark,
        checkpoint as checkpoint,
        data as data,
        dlpack as dlpack,
        hooks as hooks,
        swapping as swapping,
    )
    from fgrad.torch.utils.swapping import swap_tensors as swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors"]
