"""The layers of ``torch.nn``, a file for each family."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
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
    from fgrad.torch.nn.modules.activation import (
        CELU as CELU,
        ELU as ELU,
        GELU as GELU,
        GLU as GLU,
        SELU as SELU,
        Hardshrink as Hardshrink,
        Hardsigmoid as Hardsigmoid,
        Hardswish as Hardswish,
        Hardtanh as Hardtanh,
        LeakyReLU as LeakyReLU,
        LogSigmoid as LogSigmoid,
        Mish as Mish,
        PReLU as PReLU,
        ReLU as ReLU,
        ReLU6 as ReLU6,
        RReLU as RReLU,
        Sigmoid as Sigmoid,
        SiLU as SiLU,
        Softplus as Softplus,
        Softshrink as Softshrink,
        Softsign as Softsign,
        Tanh as Tanh,
        Tanhshrink as Tanhshrink,
        Threshold as Threshold,
    )
    from fgrad.torch.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from fgrad.torch.nn.modules.attention import MultiheadAttention as MultiheadAttention
    from fgrad.torch.nn.modules.batchnorm import (
        BatchNorm1d as BatchNorm1d,
        BatchNorm2d as BatchNorm2d,
        BatchNorm3d as BatchNorm3d,
        LazyBatchNorm1d as LazyBatchNorm1d,
        LazyBatchNorm2d as LazyBatchNorm2d,
        LazyBatchNorm3d as LazyBatchNorm3d,
        SyncBatchNorm as SyncBatchNorm,
    )
    from fgrad.torch.nn.modules.container import (
        Container as Container,
        ModuleDict as ModuleDict,
        ModuleList as ModuleList,
        Sequential as Sequential,
    )
    from fgrad.torch.nn.modules.conv import (
        Conv1d as Conv1d,
        Conv2d as Conv2d,
        Conv3d as Conv3d,
        ConvTranspose1d as ConvTranspose1d,
        ConvTranspose2d as ConvTranspose2d,
        ConvTranspose3d as ConvTranspose3d,
    )
    from fgrad.torch.nn.modules.distance import (
        CosineSimilarity as CosineSimilarity,
        PairwiseDistance as PairwiseDistance,
    )
    from fgrad.torch.nn.modules.dropout import (
        AlphaDropout as AlphaDropout,
        Dropout as Dropout,
        Dropout1d as Dropout1d,
        Dropout2d as Dropout2d,
        Dropout3d as Dropout3d,
        FeatureAlphaDropout as FeatureAlphaDropout,
    )
    from fgrad.torch.nn.modules.instancenorm import (
        InstanceNorm1d as InstanceNorm1d,
        InstanceNorm2d as InstanceNorm2d,
        InstanceNorm3d as InstanceNorm3d,
        LazyInstanceNorm1d as LazyInstanceNorm1d,
        LazyInstanceNorm2d as LazyInstanceNorm2d,
        LazyInstanceNorm3d as LazyInstanceNorm3d,
    )
    from fgrad.torch.nn.modules.lazy_conv import (
        LazyConv1d as LazyConv1d,
        LazyConv2d as LazyConv2d,
        LazyConv3d as LazyConv3d,
        LazyConvTranspose1d as LazyConvTranspose1d,
        LazyConvTranspose2d as LazyConvTranspose2d,
        LazyConvTranspose3d as LazyConvTranspose3d,
    )
    from fgrad.torch.nn.modules.linear import (
        Bilinear as Bilinear,
        Identity as Identity,
        LazyLinear as LazyLinear,
        Linear as Linear,
    )
    from fgrad.torch.nn.modules.loss import (
        BCELoss as BCELoss,
        BCEWithLogitsLoss as BCEWithLogitsLoss,
        CosineEmbeddingLoss as CosineEmbeddingLoss,
        CrossEntropyLoss as CrossEntropyLoss,
        CTCLoss as CTCLoss,
        GaussianNLLLoss as GaussianNLLLoss,
        HingeEmbeddingLoss as HingeEmbeddingLoss,
        HuberLoss as HuberLoss,
        KLDivLoss as KLDivLoss,
        L1Loss as L1Loss,
        LinearCrossEntropyLoss as LinearCrossEntropyLoss,
        LinearCrossEntropyOptions as LinearCrossEntropyOptions,
        MarginRankingLoss as MarginRankingLoss,
        MSELoss as MSELoss,
        MultiLabelMarginLoss as MultiLabelMarginLoss,
        MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss,
        MultiMarginLoss as MultiMarginLoss,
        NLLLoss as NLLLoss,
        NLLLoss2d as NLLLoss2d,
        PoissonNLLLoss as PoissonNLLLoss,
        SmoothL1Loss as SmoothL1Loss,
        SoftMarginLoss as SoftMarginLoss,
        TripletMarginLoss as TripletMarginLoss,
        TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
    )
    from fgrad.torch.nn.modules.module import Module as Module
    from fgrad.torch.nn.modules.normalization import (
        CrossMapLRN2d as CrossMapLRN2d,
        GroupNorm as GroupNorm,
        LayerNorm as LayerNorm,
        LocalResponseNorm as LocalResponseNorm,
        RMSNorm as RMSNorm,
    )
    from fgrad.torch.nn.modules.padding import (
        CircularPad1d as CircularPad1d,
        CircularPad2d as CircularPad2d,
        CircularPad3d as CircularPad3d,
        ConstantPad1d as ConstantPad1d,
        ConstantPad2d as ConstantPad2d,
        ConstantPad3d as ConstantPad3d,
        ReflectionPad1d as ReflectionPad1d,
        ReflectionPad2d as ReflectionPad2d,
        ReflectionPad3d as ReflectionPad3d,
        ReplicationPad1d as ReplicationPad1d,
        ReplicationPad2d as ReplicationPad2d,
        ReplicationPad3d as ReplicationPad3d,
        ZeroPad1d as ZeroPad1d,
        ZeroPad2d as ZeroPad2d,
        ZeroPad3d as ZeroPad3d,
    )
    from fgrad.torch.nn.modules.parameter_containers import (
        ParameterDict as ParameterDict,
        ParameterList as ParameterList,
    )
    from fgrad.torch.nn.modules.pooling import (
        AvgPool1d as AvgPool1d,
        AvgPool2d as AvgPool2d,
        AvgPool3d as AvgPool3d,
        LPPool1d as LPPool1d,
        LPPool2d as LPPool2d,
        LPPool3d as LPPool3d,
        MaxPool1d as MaxPool1d,
        MaxPool2d as MaxPool2d,
        MaxPool3d as MaxPool3d,
        MaxUnpool1d as MaxUnpool1d,
        MaxUnpool2d as MaxUnpool2d,
        MaxUnpool3d as MaxUnpool3d,
    )
    from fgrad.torch.nn.modules.pooling_to_size import (
        AdaptiveAvgPool1d as AdaptiveAvgPool1d,
        AdaptiveAvgPool2d as AdaptiveAvgPool2d,
        AdaptiveAvgPool3d as AdaptiveAvgPool3d,
        AdaptiveMaxPool1d as AdaptiveMaxPool1d,
        AdaptiveMaxPool2d as AdaptiveMaxPool2d,
        AdaptiveMaxPool3d as AdaptiveMaxPool3d,
        FractionalMaxPool2d as FractionalMaxPool2d,
        FractionalMaxPool3d as FractionalMaxPool3d,
    )
    from fgrad.torch.nn.modules.reshaping import (
        ChannelShuffle as ChannelShuffle,
        Flatten as Flatten,
        Fold as Fold,
        PixelShuffle as PixelShuffle,
        PixelUnshuffle as PixelUnshuffle,
        Unflatten as Unflatten,
        Unfold as Unfold,
    )
    from fgrad.torch.nn.modules.rnn import GRU as GRU, LSTM as LSTM, RNN as RNN, RNNBase as RNNBase
    from fgrad.torch.nn.modules.rnn_cell import (
        GRUCell as GRUCell,
        LSTMCell as LSTMCell,
        RNNCell as RNNCell,
        RNNCellBase as RNNCellBase,
    )
    from fgrad.torch.nn.modules.softmax import (
        LogSoftmax as LogSoftmax,
        Softmax as Softmax,
        Softmax2d as Softmax2d,
        Softmin as Softmin,
    )
    from fgrad.torch.nn.modules.sparse import Embedding as Embedding, EmbeddingBag as EmbeddingBag
    from fgrad.torch.nn.modules.transformer import (
        Transformer as Transformer,
        TransformerDecoder as TransformerDecoder,
        TransformerDecoderLayer as TransformerDecoderLayer,
        TransformerEncoder as TransformerEncoder,
        TransformerEncoderLayer as TransformerEncoderLayer,
    )
    from fgrad.torch.nn.modules.upsampling import (
        Upsample as Upsample,
        UpsamplingBilinear2d as UpsamplingBilinear2d,
        UpsamplingNearest2d as UpsamplingNearest2d,
    )
else:
    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "activation adaptive affine attention batchnorm container conv conversion distance dropout "
            "hooks instancenorm lazy lazy_conv linear loss module normalization padding parameter_containers pooling "
            "pooling_to_size registration reshaping rnn rnn_cell sizes softmax sparse state transformer traversal "
            "upsampling utils",
            f"{__name__}.activation": "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU "
            "LogSigmoid Mish PReLU ReLU ReLU6 RReLU Sigmoid SiLU Softplus Softshrink Softsign Tanh Tanhshrink "
            "Threshold",
            f"{__name__}.adaptive": "AdaptiveLogSoftmaxWithLoss",
            f"{__name__}.attention": "MultiheadAttention",
            f"{__name__}.batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d "
            "LazyBatchNorm3d SyncBatchNorm",
            f"{__name__}.container": "Container ModuleDict ModuleList Sequential",
            f"{__name__}.conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
            f"{__name__}.distance": "CosineSimilarity PairwiseDistance",
            f"{__name__}.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
            f"{__name__}.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d "
            "LazyInstanceNorm2d LazyInstanceNorm3d",
            f"{__name__}.lazy_conv": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
            "LazyConvTranspose3d",
            f"{__name__}.linear": "Bilinear Identity LazyLinear Linear",
            f"{__name__}.loss": "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss CTCLoss "
            "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss "
            "LinearCrossEntropyOptions MarginRankingLoss MSELoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
            "MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
            "TripletMarginWithDistanceLoss",
            f"{__name__}.module": "Module",
            f"{__name__}.normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
            f"{__name__}.padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
            "ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
            "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
            f"{__name__}.parameter_containers": "ParameterDict ParameterList",
            f"{__name__}.pooling": "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d "
            "MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d",
            f"{__name__}.pooling_to_size": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
            "AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d",
            f"{__name__}.reshaping": "ChannelShuffle Flatten Fold PixelShuffle PixelUnshuffle Unflatten Unfold",
            f"{__name__}.rnn": "GRU LSTM RNN RNNBase",
            f"{__name__}.rnn_cell": "GRUCell LSTMCell RNNCell RNNCellBase",
            f"{__name__}.softmax": "LogSoftmax Softmax Softmax2d Softmin",
            f"{__name__}.sparse": "Embedding EmbeddingBag",
            f"{__name__}.transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
            "TransformerEncoderLayer",
            f"{__name__}.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
        },
    )

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss",
    "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "CELU", "CTCLoss", "ChannelShuffle",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Container",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss",
    "CosineSimilarity", "CrossEntropyLoss", "CrossMapLRN2d", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU",
    "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "GELU", "GLU", "GRU", "GRUCell", "GaussianNLLLoss", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardswish",
    "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "KLDivLoss", "L1Loss", "LPPool1d", "LPPool2d", "LPPool3d", "LSTM", "LSTMCell", "LayerNorm", "LazyBatchNorm1d",
    "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LazyLinear", "LeakyReLU", "Linear", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "LocalResponseNorm",
    "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module", "ModuleDict", "ModuleList", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "MultiheadAttention", "NLLLoss", "NLLLoss2d", "PReLU",
    "PairwiseDistance", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss", "RMSNorm",
    "RNN", "RNNBase", "RNNCell", "RNNCellBase", "RReLU", "ReLU", "ReLU6", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "SELU", "Sequential", "SiLU",
    "Sigmoid", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
    "Softsign", "SyncBatchNorm", "Tanh", "Tanhshrink", "Threshold", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "Unflatten", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
