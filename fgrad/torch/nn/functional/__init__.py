"""``torch.nn.functional``: what layers compute, as functions."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred
from fgrad.torch.ops.families import FUNCTIONAL as _FUNCTIONAL

if TYPE_CHECKING:
    from fgrad.torch.nn import grad as grad
    from fgrad.torch.nn.functional.activation import *
    from fgrad.torch.nn.functional.adaptive import *
    from fgrad.torch.nn.functional.attention import *
    from fgrad.torch.nn.functional.blocks import *
    from fgrad.torch.nn.functional.classification import *
    from fgrad.torch.nn.functional.convolution import (
        conv1d as conv1d,
        conv2d as conv2d,
        conv3d as conv3d,
        conv_tbc as conv_tbc,
        conv_transpose1d as conv_transpose1d,
        conv_transpose2d as conv_transpose2d,
        conv_transpose3d as conv_transpose3d,
    )
    from fgrad.torch.nn.functional.ctc import *
    from fgrad.torch.nn.functional.distance import *
    from fgrad.torch.nn.functional.dropout import (
        alpha_dropout as alpha_dropout,
        dropout as dropout,
        dropout1d as dropout1d,
        dropout2d as dropout2d,
        dropout3d as dropout3d,
        feature_alpha_dropout as feature_alpha_dropout,
    )
    from fgrad.torch.nn.functional.embedding import (
        embedding as embedding,
        embedding_bag as embedding_bag,
        one_hot as one_hot,
    )
    from fgrad.torch.nn.functional.fractional import *
    from fgrad.torch.nn.functional.leaky import *
    from fgrad.torch.nn.functional.linear import *
    from fgrad.torch.nn.functional.margins import *
    from fgrad.torch.nn.functional.multihead import (
        _canonical_mask as _canonical_mask,
        _none_or_dtype as _none_or_dtype,
        multi_head_attention_forward as multi_head_attention_forward,
    )
    from fgrad.torch.nn.functional.normalisation import (
        batch_norm as batch_norm,
        group_norm as group_norm,
        instance_norm as instance_norm,
        layer_norm as layer_norm,
        local_response_norm as local_response_norm,
        normalize as normalize,
        rms_norm as rms_norm,
    )
    from fgrad.torch.nn.functional.pooling import (
        avg_pool1d as avg_pool1d,
        avg_pool2d as avg_pool2d,
        avg_pool3d as avg_pool3d,
        lp_pool1d as lp_pool1d,
        lp_pool2d as lp_pool2d,
        lp_pool3d as lp_pool3d,
        max_pool1d as max_pool1d,
        max_pool1d_with_indices as max_pool1d_with_indices,
        max_pool2d as max_pool2d,
        max_pool2d_with_indices as max_pool2d_with_indices,
        max_pool3d as max_pool3d,
        max_pool3d_with_indices as max_pool3d_with_indices,
    )
    from fgrad.torch.nn.functional.regression import *
    from fgrad.torch.nn.functional.resampling import (
        interpolate as interpolate,
        upsample as upsample,
        upsample_bilinear as upsample_bilinear,
        upsample_nearest as upsample_nearest,
    )
    from fgrad.torch.nn.functional.sampling import affine_grid as affine_grid, grid_sample as grid_sample
    from fgrad.torch.nn.functional.shuffling import *
    from fgrad.torch.nn.functional.smooth import (
        celu as celu,
        celu_ as celu_,
        elu as elu,
        elu_ as elu_,
        gelu as gelu,
        glu as glu,
        logsigmoid as logsigmoid,
        mish as mish,
        selu as selu,
        selu_ as selu_,
        silu as silu,
        softplus as softplus,
    )
    from fgrad.torch.nn.functional.softmax import *
    from fgrad.torch.ops.elementwise.activations import hardshrink as hardshrink, prelu as prelu
    from fgrad.torch.ops.views.padding import pad as pad
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            **_FUNCTIONAL,
            "fgrad.torch.nn": "grad",
            f"{__name__}.multihead": "_canonical_mask _none_or_dtype multi_head_attention_forward",
        },
    )
