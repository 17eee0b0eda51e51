"""The layers of ``torch.nn``, a file for each family."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
    from fgrad.torch.layers import *
    from fgrad.torch.nn.modules import (
        activation as activation,
        adaptive as adaptive,
        affine as affine,
        attention as attention,
        batchnorm as batchnorm,
        container as container,
        conv as conv,
        conversion as conversion,
        distance as distance,
        dropout as dropout,
        hooks as hooks,
        instancenorm as instancenorm,
        lazy as lazy,
        lazy_conv as lazy_conv,
        linear as linear,
        loss as loss,
        module as module,
        normalization as normalization,
        padding as padding,
        parameter_containers as parameter_containers,
        pooling as pooling,
        pooling_to_size as pooling_to_size,
        registration as registration,
        reshaping as reshaping,
        rnn as rnn,
        rnn_cell as rnn_cell,
        sizes as sizes,
        softmax as softmax,
        sparse as sparse,
        state as state,
        transformer as transformer,
        traversal as traversal,
        upsampling as upsampling,
        utils as utils,
    )
else:
    from fgrad.torch.layers import LAYERS as _LAYERS

    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "activation adaptive affine attention batchnorm container conv conversion distance "
            "dropout hooks instancenorm lazy lazy_conv linear loss module normalization padding "
            "parameter_containers pooling pooling_to_size registration reshaping rnn rnn_cell "
            "sizes softmax sparse state transformer traversal upsampling utils",
            **{f"{__name__}.{file}": names for file, names in _LAYERS.items()},
        },
    )
    __all__ = sorted(" ".join(_LAYERS.values()).split())
