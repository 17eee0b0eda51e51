"""``torch.nn.functional``: what layers compute, as functions."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred
from fgrad.torch.ops.families import FUNCTIONAL as _FUNCTIONAL

if TYPE_CHECKING:
    from fgrad.torch.nn import grad as grad
    from fgrad.torch.nn.functional.activation import (
        hardsigmoid as hardsigmoid,
        hardswish as hardswish,
        hardtanh as hardtanh,
        hardtanh_ as hardtanh_,
        relu as relu,
        relu6 as relu6,
        relu_ as relu_,
        sigmoid as sigmoid,
        softshrink as softshrink,
        softsign as softsign,
        tanh as tanh,
        tanhshrink as tanhshrink,
        threshold as threshold,
        threshold_ as threshold_,
    )
    from fgrad.torch.nn.functional.adaptive import (
        adaptive_avg_pool1d as adaptive_avg_pool1d,
        adaptive_avg_pool2d as adaptive_avg_pool2d,
        adaptive_avg_pool3d as adaptive_avg_pool3d,
        adaptive_max_pool1d as adaptive_max_pool1d,
        adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d as adaptive_max_pool2d,
        adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d as adaptive_max_pool3d,
        adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    )
    from fgrad.torch.nn.functional.attention import scaled_dot_product_attention as scaled_dot_product_attention
    from fgrad.torch.nn.functional.blocks import (
        fold as fold,
        max_unpool1d as max_unpool1d,
        max_unpool2d as max_unpool2d,
        max_unpool3d as max_unpool3d,
        unfold as unfold,
    )
    from fgrad.torch.nn.functional.classification import (
        binary_cross_entropy as binary_cross_entropy,
        binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
        cross_entropy as cross_entropy,
        kl_div as kl_div,
        linear_cross_entropy as linear_cross_entropy,
        nll_loss as nll_loss,
    )
    from fgrad.torch.nn.functional.convolution import (
        conv1d as conv1d,
        conv2d as conv2d,
        conv3d as conv3d,
        conv_tbc as conv_tbc,
        conv_transpose1d as conv_transpose1d,
        conv_transpose2d as conv_transpose2d,
        conv_transpose3d as conv_transpose3d,
    )
    from fgrad.torch.nn.functional.ctc import ctc_loss as ctc_loss
    from fgrad.torch.nn.functional.distance import (
        cosine_similarity as cosine_similarity,
        pairwise_distance as pairwise_distance,
        pdist as pdist,
    )
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
    from fgrad.torch.nn.functional.fractional import (
        fractional_max_pool2d as fractional_max_pool2d,
        fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
        fractional_max_pool3d as fractional_max_pool3d,
        fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
    )
    from fgrad.torch.nn.functional.leaky import (
        leaky_relu as leaky_relu,
        leaky_relu_ as leaky_relu_,
        rrelu as rrelu,
        rrelu_ as rrelu_,
    )
    from fgrad.torch.nn.functional.linear import bilinear as bilinear, linear as linear
    from fgrad.torch.nn.functional.margins import (
        cosine_embedding_loss as cosine_embedding_loss,
        hinge_embedding_loss as hinge_embedding_loss,
        margin_ranking_loss as margin_ranking_loss,
        multi_margin_loss as multi_margin_loss,
        multilabel_margin_loss as multilabel_margin_loss,
        multilabel_soft_margin_loss as multilabel_soft_margin_loss,
        soft_margin_loss as soft_margin_loss,
        triplet_margin_loss as triplet_margin_loss,
        triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
    )
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
    from fgrad.torch.nn.functional.regression import (
        gaussian_nll_loss as gaussian_nll_loss,
        huber_loss as huber_loss,
        l1_loss as l1_loss,
        mse_loss as mse_loss,
        poisson_nll_loss as poisson_nll_loss,
        smooth_l1_loss as smooth_l1_loss,
    )
    from fgrad.torch.nn.functional.resampling import (
        interpolate as interpolate,
        upsample as upsample,
        upsample_bilinear as upsample_bilinear,
        upsample_nearest as upsample_nearest,
    )
    from fgrad.torch.nn.functional.sampling import affine_grid as affine_grid, grid_sample as grid_sample
    from fgrad.torch.nn.functional.shuffling import (
        channel_shuffle as channel_shuffle,
        native_channel_shuffle as native_channel_shuffle,
        pixel_shuffle as pixel_shuffle,
        pixel_unshuffle as pixel_unshuffle,
    )
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
    from fgrad.torch.nn.functional.softmax import (
        gumbel_softmax as gumbel_softmax,
        log_softmax as log_softmax,
        softmax as softmax,
        softmin as softmin,
    )
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
