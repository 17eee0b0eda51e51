"""The layers of ``torch.nn``: what each file of ``nn.modules`` exports, for programs and for checkers.

``torch.nn`` and ``torch.nn.modules`` take their names from here.  The list stands above both, so that neither waits for
the other's import: see NOTE [Imports in threads].
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgrad.torch.nn.modules.activation import *
    from fgrad.torch.nn.modules.adaptive import *
    from fgrad.torch.nn.modules.attention import *
    from fgrad.torch.nn.modules.batchnorm import *
    from fgrad.torch.nn.modules.container import *
    from fgrad.torch.nn.modules.conv import *
    from fgrad.torch.nn.modules.distance import *
    from fgrad.torch.nn.modules.dropout import *
    from fgrad.torch.nn.modules.instancenorm import *
    from fgrad.torch.nn.modules.lazy_conv import *
    from fgrad.torch.nn.modules.linear import *
    from fgrad.torch.nn.modules.loss.classification import *
    from fgrad.torch.nn.modules.loss.comparison import *
    from fgrad.torch.nn.modules.loss.linear import *
    from fgrad.torch.nn.modules.loss.regression import *
    from fgrad.torch.nn.modules.module import Module as Module
    from fgrad.torch.nn.modules.normalization import *
    from fgrad.torch.nn.modules.padding import *
    from fgrad.torch.nn.modules.parameter_containers import *
    from fgrad.torch.nn.modules.pooling import *
    from fgrad.torch.nn.modules.pooling_to_size import *
    from fgrad.torch.nn.modules.reshaping import *
    from fgrad.torch.nn.modules.rnn import *
    from fgrad.torch.nn.modules.rnn_cell import *
    from fgrad.torch.nn.modules.softmax import *
    from fgrad.torch.nn.modules.sparse import *
    from fgrad.torch.nn.modules.transformer import *
    from fgrad.torch.nn.modules.upsampling import *
else:
    LAYERS = {
        "activation": "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish "
        "PReLU ReLU ReLU6 RReLU Sigmoid SiLU Softplus Softshrink Softsign Tanh Tanhshrink Threshold",
        "adaptive": "AdaptiveLogSoftmaxWithLoss",
        "attention": "MultiheadAttention",
        "batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
        "SyncBatchNorm",
        "container": "Container ModuleDict ModuleList Sequential",
        "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "distance": "CosineSimilarity PairwiseDistance",
        "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
        "instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d",
        "lazy_conv": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d",
        "linear": "Bilinear Identity LazyLinear Linear",
        "loss.classification": "BCELoss BCEWithLogitsLoss CrossEntropyLoss KLDivLoss MultiLabelMarginLoss "
        "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d SoftMarginLoss",
        "loss.comparison": "CosineEmbeddingLoss CTCLoss HingeEmbeddingLoss MarginRankingLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss",
        "loss.linear": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
        "loss.regression": "GaussianNLLLoss HuberLoss L1Loss MSELoss PoissonNLLLoss SmoothL1Loss",
        "module": "Module",
        "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
        "padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d "
        "ZeroPad2d ZeroPad3d",
        "parameter_containers": "ParameterDict ParameterList",
        "pooling": "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
        "MaxUnpool2d MaxUnpool3d",
        "pooling_to_size": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
        "AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d",
        "reshaping": "ChannelShuffle Flatten Fold PixelShuffle PixelUnshuffle Unflatten Unfold",
        "rnn": "GRU LSTM RNN RNNBase",
        "rnn_cell": "GRUCell LSTMCell RNNCell RNNCellBase",
        "softmax": "LogSoftmax Softmax Softmax2d Softmin",
        "sparse": "Embedding EmbeddingBag",
        "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer",
        "upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    }
