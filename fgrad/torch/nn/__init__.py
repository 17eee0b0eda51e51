"""``torch.nn``: modules, the layers and losses made of them, parameters and their initial values."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
    from fgrad.torch.layers import *
    from fgrad.torch.nn import (
        attention as attention,
        clip as clip,
        common_types as common_types,
        functional as functional,
        grad as grad,
        init as init,
        modules as modules,
        one_dnn as one_dnn,
        packing as packing,
        parallel as parallel,
        parameter as parameter,
        recurrence as recurrence,
        recurrent_functions as recurrent_functions,
        reduction as reduction,
        utils as utils,
        vectors as vectors,
    )
    from fgrad.torch.nn.parallel import DataParallel as DataParallel
    from fgrad.torch.nn.parameter import (
        Buffer as Buffer,
        Parameter as Parameter,
        UninitializedBuffer as UninitializedBuffer,
        UninitializedParameter as UninitializedParameter,
    )
else:
    from fgrad.torch.layers import LAYERS as _LAYERS

    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "attention clip common_types functional grad init modules one_dnn packing parallel parameter "
            "recurrence recurrent_functions reduction utils vectors",
            **{f"{__name__}.modules.{file}": names for file, names in _LAYERS.items()},
            f"{__name__}.parallel": "DataParallel",
            f"{__name__}.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
        },
    )
