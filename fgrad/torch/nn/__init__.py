"""``torch.nn``: modules, the layers and losses made of them, parameters and their initial values."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
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
    from fgrad.torch.nn.modules import *  # noqa: F403  (those of its ``__all__``)
    from fgrad.torch.nn.parallel import DataParallel as DataParallel
    from fgrad.torch.nn.parameter import (
        Buffer as Buffer,
        Parameter as Parameter,
        UninitializedBuffer as UninitializedBuffer,
        UninitializedParameter as UninitializedParameter,
    )
else:
    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "attention clip common_types functional grad init modules one_dnn packing parallel parameter "
            "recurrence recurrent_functions reduction utils vectors",
            f"{__name__}.modules": "CELU ELU GELU GLU GRU LSTM RNN SELU AdaptiveAvgPool1d AdaptiveAvgPool2d "
            "AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
            "AlphaDropout AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d BCELoss BCEWithLogitsLoss "
            "Bilinear ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
            "ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
            "CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d CTCLoss Dropout Dropout1d Dropout2d "
            "Dropout3d Embedding EmbeddingBag FeatureAlphaDropout Flatten Fold FractionalMaxPool2d "
            "FractionalMaxPool3d GaussianNLLLoss GroupNorm GRUCell Hardshrink Hardsigmoid Hardswish Hardtanh "
            "HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss "
            "LayerNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
            "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d "
            "LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss LinearCrossEntropyOptions "
            "LocalResponseNorm LogSigmoid LogSoftmax LPPool1d LPPool2d LPPool3d LSTMCell MarginRankingLoss MaxPool1d "
            "MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList MSELoss "
            "MultiheadAttention MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d "
            "PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss PReLU "
            "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReLU ReLU6 ReplicationPad1d ReplicationPad2d "
            "ReplicationPad3d RMSNorm RNNBase RNNCell RNNCellBase RReLU Sequential Sigmoid SiLU SmoothL1Loss "
            "SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink "
            "Threshold Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
            "TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold Upsample "
            "UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d",
            f"{__name__}.parallel": "DataParallel",
            f"{__name__}.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
        },
    )
