"""``torch.nn.utils``: clipping gradients, parameters as vectors, parametrizations, sequences of different lengths,
fusing layers."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
    from fgrad.torch.nn.clip import (
        clip_grad_norm as clip_grad_norm,
        clip_grad_norm_ as clip_grad_norm_,
        clip_grad_value_ as clip_grad_value_,
        clip_grads_with_norm_ as clip_grads_with_norm_,
        get_total_norm as get_total_norm,
    )
    from fgrad.torch.nn.utils import (
        fusion as fusion,
        init as init,
        memory_format as memory_format,
        orthogonal as orthogonal,
        parametrizations as parametrizations,
        parametrize as parametrize,
        prune as prune,
        rnn as rnn,
        stateless as stateless,
    )
    from fgrad.torch.nn.utils.fusion import (
        fuse_conv_bn_eval as fuse_conv_bn_eval,
        fuse_conv_bn_weights as fuse_conv_bn_weights,
        fuse_linear_bn_eval as fuse_linear_bn_eval,
        fuse_linear_bn_weights as fuse_linear_bn_weights,
    )
    from fgrad.torch.nn.utils.init import skip_init as skip_init
    from fgrad.torch.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
    )
    from fgrad.torch.nn.utils.spectral_norm import (
        remove_spectral_norm as remove_spectral_norm,
        spectral_norm as spectral_norm,
    )
    from fgrad.torch.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm, weight_norm as weight_norm
    from fgrad.torch.nn.vectors import (
        parameters_to_vector as parameters_to_vector,
        vector_to_parameters as vector_to_parameters,
    )
else:
    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "fusion init memory_format orthogonal parametrizations parametrize prune rnn stateless",
            "fgrad.torch.nn.clip": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ "
            "get_total_norm",
            f"{__name__}.fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
            f"{__name__}.init": "skip_init",
            f"{__name__}.memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
            f"{__name__}.spectral_norm": "remove_spectral_norm spectral_norm",
            f"{__name__}.weight_norm": "remove_weight_norm weight_norm",
            "fgrad.torch.nn.vectors": "parameters_to_vector vector_to_parameters",
        },
    )
