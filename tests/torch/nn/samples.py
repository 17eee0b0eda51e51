"""Modules and the inputs they are tried with: expressions over ``nn`` and ``torch``, read with either library."""

from typing import Any

import numpy as np
from attrs import field, frozen


@frozen
class Input:
    """A tensor's values, made anew for each library."""

    shape: tuple[int, ...]
    kind: str = "normal"
    high: int = 0

    def array(self, rng: np.random.Generator) -> np.ndarray:
        if self.kind == "normal":
            return rng.normal(size=self.shape).astype(np.float32)
        if self.kind == "unit":
            return rng.uniform(0.1, 0.9, self.shape).astype(np.float32)
        if self.kind == "sign":
            return rng.choice([-1.0, 1.0], self.shape).astype(np.float32)
        return rng.integers(0, self.high, self.shape)


def n(*shape: int) -> Input:
    return Input(shape)


def unit(*shape: int) -> Input:
    return Input(shape, "unit")


def sign(*shape: int) -> Input:
    return Input(shape, "sign")


def index(high: int, *shape: int) -> Input:
    return Input(shape, "index", high)


@frozen
class Sample:
    """A module and its inputs; ``call`` is how it is called with them, if not just with all."""

    module: str
    inputs: tuple[Input, ...]
    call: str = "module(*inputs)"
    training: bool = True
    #: how near the values must be
    tolerance: float = field(default=1e-5)

    def make(self, torch: Any) -> Any:
        module = eval(self.module, {"nn": torch.nn, "torch": torch})
        return module.train(self.training)

    def run(self, torch: Any, module: Any, inputs: list[Any]) -> Any:
        return eval(self.call, {"module": module, "inputs": inputs, "torch": torch})


def each(inputs: tuple[Input, ...], *modules: str, **options: Any) -> list[Sample]:
    return [Sample(module, inputs, **options) for module in modules]


SAMPLES: list[Sample] = [
    # linear
    *each((n(2, 3),), "nn.Identity(1, a=2)", "nn.Linear(3, 4)", "nn.Linear(3, 4, bias=False)"),
    Sample("nn.Linear(3, 2, dtype=torch.float64).float()", (n(3),)),
    *each((n(2, 3), n(2, 4)), "nn.Bilinear(3, 4, 2)", "nn.Bilinear(3, 4, 2, bias=False)"),
    *each((n(2, 3),), "nn.LazyLinear(4)", "nn.LazyLinear(4, bias=False)"),
    # convolutions
    *each(
        (n(2, 4, 7),),
        "nn.Conv1d(4, 6, 3)",
        "nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)",
        "nn.Conv1d(4, 6, 4, padding='same')",
        "nn.Conv1d(4, 6, 4, padding='valid', padding_mode='reflect')",
        "nn.Conv1d(4, 6, 3, padding=2, padding_mode='circular')",
        "nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=1)",
        "nn.LazyConv1d(6, 3)",
        "nn.LazyConvTranspose1d(6, 3)",
    ),
    *each(
        (n(2, 2, 5, 6),),
        "nn.Conv2d(2, 4, 3)",
        "nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))",
        "nn.Conv2d(2, 4, 3, padding='same', padding_mode='replicate')",
        "nn.ConvTranspose2d(2, 4, 3, stride=2)",
        "nn.LazyConv2d(4, 3, bias=False)",
        "nn.LazyConvTranspose2d(4, 3)",
    ),
    Sample("nn.Conv2d(2, 4, 3)", (n(2, 5, 6),)),
    Sample("nn.ConvTranspose2d(2, 4, 3, stride=2)", (n(2, 3, 3),), "module(inputs[0], output_size=(8, 7))"),
    *each(
        (n(1, 2, 3, 4, 4),),
        "nn.Conv3d(2, 2, (1, 2, 3))",
        "nn.ConvTranspose3d(2, 2, 2)",
        "nn.LazyConv3d(2, 2)",
        "nn.LazyConvTranspose3d(2, 2)",
    ),
    # pooling
    *each(
        (n(2, 3, 8),),
        "nn.MaxPool1d(2)",
        "nn.MaxPool1d(3, stride=2, padding=1, dilation=2, ceil_mode=True)",
        "nn.AvgPool1d(2)",
        "nn.AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)",
        "nn.LPPool1d(2, 3)",
        "nn.AdaptiveMaxPool1d(3)",
        "nn.AdaptiveAvgPool1d(3)",
    ),
    Sample("nn.MaxPool1d(2, return_indices=True)", (n(2, 3, 8),), "module(*inputs)[0]"),
    Sample("nn.MaxUnpool1d(2)", (n(1, 4),), "module(inputs[0], torch.tensor([[0, 2, 5, 7]]))"),
    Sample(
        "nn.MaxUnpool2d(2)", (n(1, 2, 2),), "module(inputs[0], torch.tensor([[[0, 3], [8, 15]]]), output_size=(4, 4))"
    ),
    Sample(
        "nn.MaxUnpool3d((1, 2, 2), stride=(1, 2, 2), padding=0)",
        (n(1, 1, 1, 2),),
        "module(inputs[0], torch.tensor([[[[0, 7]]]]))",
    ),
    *each(
        (n(2, 3, 6, 7),),
        "nn.MaxPool2d(2)",
        "nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0))",
        "nn.AvgPool2d(2)",
        "nn.AvgPool2d((3, 2), padding=1, divisor_override=2)",
        "nn.LPPool2d(3, (2, 3), stride=1)",
        "nn.AdaptiveMaxPool2d((3, None))",
        "nn.AdaptiveAvgPool2d(2)",
        "nn.FractionalMaxPool2d(2, output_size=(3, 3), _random_samples=torch.full((2, 3, 2), 0.5))",
        "nn.FractionalMaxPool2d((2, 3), output_ratio=0.5)",
    ),
    *each(
        (n(2, 2, 4, 4, 4),),
        "nn.MaxPool3d(2)",
        "nn.AvgPool3d(2, stride=1)",
        "nn.LPPool3d(2, 2)",
        "nn.AdaptiveMaxPool3d(2)",
        "nn.AdaptiveAvgPool3d((1, 2, None))",
        "nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 0.7))",
    ),
    # normalisation
    *each(
        (n(4, 3),),
        "nn.BatchNorm1d(3)",
        "nn.BatchNorm1d(3, eps=1e-3, momentum=None)",
        "nn.BatchNorm1d(3, affine=False)",
        "nn.BatchNorm1d(3, bias=False)",
        "nn.BatchNorm1d(3, track_running_stats=False)",
        "nn.SyncBatchNorm(3)",
        "nn.LazyBatchNorm1d()",
        "nn.LazyBatchNorm1d(affine=False, track_running_stats=False)",
        "nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))",
    ),
    *each((n(4, 3),), "nn.BatchNorm1d(3)", "nn.BatchNorm1d(3, track_running_stats=False)", training=False),
    *each((n(2, 3, 2, 2),), "nn.BatchNorm2d(3)", "nn.InstanceNorm2d(3)", "nn.LazyBatchNorm2d()"),
    *each((n(2, 3, 2, 2, 2),), "nn.BatchNorm3d(3)", "nn.InstanceNorm3d(3)", "nn.LazyBatchNorm3d()"),
    *each(
        (n(2, 3, 5),),
        "nn.InstanceNorm1d(3, affine=True, track_running_stats=True)",
        "nn.LazyInstanceNorm1d(affine=True)",
    ),
    *each((n(2, 3, 2, 2),), "nn.LazyInstanceNorm2d(affine=True, track_running_stats=True)"),
    *each((n(2, 3, 2, 2, 2),), "nn.LazyInstanceNorm3d()"),
    Sample("nn.InstanceNorm1d(3)", (n(3, 5),)),
    *each(
        (n(2, 4, 6),),
        "nn.LayerNorm(6)",
        "nn.LayerNorm((4, 6), eps=1e-3)",
        "nn.LayerNorm([6], bias=False)",
        "nn.LayerNorm(6, elementwise_affine=False)",
        "nn.GroupNorm(2, 4)",
        "nn.GroupNorm(2, 4, affine=False)",
        "nn.GroupNorm(2, 4, bias=False)",
        "nn.RMSNorm(6)",
        "nn.RMSNorm((4, 6), eps=1e-3, elementwise_affine=False)",
        "nn.LocalResponseNorm(3, k=2.0)",
    ),
    *each(
        (n(2, 7, 2, 3),),
        "nn.CrossMapLRN2d(3, alpha=0.5, k=2)",
        "nn.CrossMapLRN2d(4, alpha=1.0, beta=2.0)",
        "nn.CrossMapLRN2d(17, alpha=1.0)",
    ),
    # dropout
    *each(
        (n(3, 4, 5),),
        "nn.Dropout()",
        "nn.Dropout(0.25, inplace=False)",
        "nn.Dropout1d(0.5)",
        "nn.AlphaDropout(0.3)",
        "nn.FeatureAlphaDropout(0.3)",
    ),
    Sample("nn.Dropout(0.9)", (n(3, 4),), training=False),
    Sample("nn.Dropout2d(0.5)", (n(3, 4, 2, 2),)),
    Sample("nn.Dropout3d(0.5)", (n(3, 4, 2, 2, 2),)),
    # activations
    *each(
        (n(2, 4),),
        "nn.Threshold(0.1, 20)",
        "nn.ReLU()",
        "nn.RReLU(0.1, 0.3)",
        "nn.Hardtanh(-0.5, 0.5)",
        "nn.ReLU6()",
        "nn.Sigmoid()",
        "nn.Hardsigmoid()",
        "nn.Tanh()",
        "nn.SiLU()",
        "nn.Mish()",
        "nn.Hardswish()",
        "nn.ELU(0.5)",
        "nn.CELU(2.0)",
        "nn.SELU()",
        "nn.GLU()",
        "nn.GLU(0)",
        "nn.GELU()",
        "nn.GELU('tanh')",
        "nn.Hardshrink()",
        "nn.Softshrink(0.25)",
        "nn.LeakyReLU(0.2)",
        "nn.LogSigmoid()",
        "nn.Softplus(2.0, 1.0)",
        "nn.PReLU()",
        "nn.PReLU(4, init=0.1)",
        "nn.Softsign()",
        "nn.Tanhshrink()",
        "nn.Softmin(dim=1)",
        "nn.Softmax(dim=0)",
        "nn.LogSoftmax(dim=-1)",
    ),
    Sample("nn.Softmax2d()", (n(2, 3, 2, 2),)),
    # the input is not overwritten itself: it is a leaf
    *each(
        (n(2, 4),),
        "nn.Threshold(0.1, 20, inplace=True)",
        "nn.ReLU(inplace=True)",
        "nn.RReLU(inplace=True)",
        "nn.Hardtanh(inplace=True)",
        "nn.ReLU6(inplace=True)",
        "nn.SiLU(inplace=True)",
        "nn.ELU(inplace=True)",
        "nn.LeakyReLU(inplace=True)",
        "nn.Dropout(inplace=True)",
        call="module(inputs[0] * 1)",
    ),
    # embeddings
    *each(
        (),
        "nn.Embedding(5, 3)",
        "nn.Embedding(5, 3, padding_idx=-2)",
        "nn.Embedding(5, 3, max_norm=1.0, norm_type=1.0)",
        "nn.Embedding(5, 3, scale_grad_by_freq=True)",
        "nn.Embedding.from_pretrained(torch.ones(5, 2), freeze=False, padding_idx=0)",
        call="module(torch.tensor([[1, 2, 1], [3, 0, 1]]))",
    ),
    *each(
        (),
        "nn.EmbeddingBag(5, 3)",
        "nn.EmbeddingBag(5, 3, mode='sum', padding_idx=1)",
        "nn.EmbeddingBag(5, 3, mode='max')",
        "nn.EmbeddingBag(5, 3, max_norm=1.0, scale_grad_by_freq=True)",
        "nn.EmbeddingBag.from_pretrained(torch.ones(5, 2), freeze=False)",
        call="module(torch.tensor([[1, 2, 1], [3, 0, 1]]))",
    ),
    Sample(
        "nn.EmbeddingBag(5, 3, mode='sum', include_last_offset=True)",
        (n(4),),
        "module(torch.tensor([1, 2, 1, 3]), torch.tensor([0, 1, 4]), inputs[0])",
    ),
    # padding
    *each(
        (n(2, 3, 4),),
        "nn.CircularPad1d(2)",
        "nn.ConstantPad1d((1, 2), 3.5)",
        "nn.ReflectionPad1d((1, 2))",
        "nn.ReplicationPad1d(2)",
        "nn.ZeroPad1d(1)",
    ),
    *each(
        (n(2, 3, 4, 4),),
        "nn.CircularPad2d((1, 2, 0, 1))",
        "nn.ConstantPad2d(1, 2)",
        "nn.ReflectionPad2d(1)",
        "nn.ReplicationPad2d((0, 1, 2, 3))",
        "nn.ZeroPad2d((1, -1, 0, 2))",
    ),
    *each(
        (n(1, 2, 3, 3, 3),),
        "nn.CircularPad3d(1)",
        "nn.ConstantPad3d(1, 2.0)",
        "nn.ReflectionPad3d(1)",
        "nn.ReplicationPad3d(1)",
        "nn.ZeroPad3d(1)",
    ),
    # shapes
    *each((n(2, 3, 4),), "nn.Flatten()", "nn.Flatten(0, 1)", "nn.Unflatten(2, (2, 2))", "nn.Unflatten(-1, [4, 1])"),
    *each((n(1, 4, 4, 4),), "nn.PixelShuffle(2)", "nn.PixelUnshuffle(2)", "nn.ChannelShuffle(2)", "nn.Unfold((2, 3))"),
    Sample("nn.Fold((4, 5), (2, 2), dilation=1, padding=1, stride=2)", (n(1, 8, 9),)),
    *each(
        (n(1, 2, 3, 3),),
        "nn.Upsample(scale_factor=2)",
        "nn.Upsample(size=(5, 4), mode='bilinear')",
        "nn.Upsample(scale_factor=(2, 1.5), mode='bicubic', align_corners=True)",
        "nn.UpsamplingNearest2d(size=6)",
        "nn.UpsamplingBilinear2d(scale_factor=2)",
    ),
    # distances and losses
    *each((n(2, 3), n(2, 3)), "nn.PairwiseDistance(1.0, keepdim=True)", "nn.CosineSimilarity(dim=0)"),
    *each(
        (n(2, 3), n(2, 3)),
        "nn.L1Loss()",
        "nn.MSELoss(reduction='sum')",
        "nn.SmoothL1Loss(beta=0.5)",
        "nn.HuberLoss('none', delta=0.5)",
        "nn.KLDivLoss(reduction='batchmean', log_target=True)",
    ),
    *each(
        (n(2, 3), unit(2, 3)),
        "nn.PoissonNLLLoss()",
        "nn.PoissonNLLLoss(full=True, reduction='none')",
        "nn.KLDivLoss(reduction='sum')",
        "nn.BCEWithLogitsLoss()",
        "nn.BCEWithLogitsLoss(torch.ones(3) * 2, pos_weight=torch.ones(3) * 3, reduction='none')",
        "nn.MultiLabelSoftMarginLoss()",
        "nn.CrossEntropyLoss()",
    ),
    *each((unit(2, 3), unit(2, 3)), "nn.BCELoss()", "nn.BCELoss(torch.ones(3) * 2, reduction='sum')"),
    *each((n(2, 3), n(2, 3), unit(2, 3)), "nn.GaussianNLLLoss()", "nn.GaussianNLLLoss(full=True, reduction='none')"),
    *each(
        (n(4, 3), index(3, 4)),
        "nn.NLLLoss()",
        "nn.NLLLoss(torch.tensor([1.0, 2.0, 3.0]), reduction='none')",
        "nn.NLLLoss(ignore_index=1)",
        "nn.CrossEntropyLoss()",
        "nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1, reduction='sum')",
        "nn.MultiMarginLoss(p=2, margin=0.5)",
        "nn.LinearCrossEntropyLoss(3, 4)",
        "nn.LinearCrossEntropyLoss(3, 4, bias=True, label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))",
    ),
    Sample("nn.MultiLabelMarginLoss()", (n(4),), "module(inputs[0], torch.tensor([3, 0, -1, 1]))"),
    Sample("nn.SoftMarginLoss()", (n(2, 3), sign(2, 3)), "module(inputs[0], inputs[1].detach())"),
    *each((n(2, 3), sign(2, 3)), "nn.HingeEmbeddingLoss(margin=0.5)"),
    *each((n(2, 3), n(2, 3), sign(2)), "nn.CosineEmbeddingLoss(margin=0.1)"),
    *each((n(3), n(3), sign(3)), "nn.MarginRankingLoss(margin=0.1)"),
    *each(
        (n(2, 3), n(2, 3), n(2, 3)),
        "nn.TripletMarginLoss(p=1.0, swap=True)",
        "nn.TripletMarginWithDistanceLoss(margin=0.5)",
        "nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))",
    ),
    *each(
        (n(5, 2, 4),),
        "nn.CTCLoss()",
        "nn.CTCLoss(blank=1, reduction='none', zero_infinity=True)",
        call="module(inputs[0].log_softmax(2), torch.tensor([[2, 3], [3, 2]]), torch.tensor([5, 4]), "
        "torch.tensor([2, 1]))",
    ),
    Sample(
        "nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, head_bias=True)",
        (n(5, 8),),
        "module(inputs[0], torch.tensor([0, 4, 9, 2, 7])).output",
    ),
    # recurrent
    *each(
        (n(5, 2, 3),),
        "nn.RNN(3, 4)",
        "nn.RNN(3, 4, 2, 'relu', bias=False)",
        "nn.RNN(3, 4, nonlinearity='relu', bidirectional=True)",
        "nn.GRU(3, 4, num_layers=2, batch_first=True)",
        "nn.LSTM(3, 4, num_layers=2, bidirectional=True)",
        "nn.LSTM(3, 4, proj_size=2)",
        call="module(*inputs)[0]",
    ),
    *each((n(5, 3),), "nn.RNN(3, 4)", "nn.GRU(3, 4)", "nn.LSTM(3, 4, batch_first=True)", call="module(*inputs)[0]"),
    *each((n(5, 2, 3), n(1, 2, 4)), "nn.RNN(3, 4)", "nn.GRU(3, 4)", call="module(*inputs)[1]"),
    Sample("nn.LSTM(3, 4)", (n(5, 2, 3), n(1, 2, 4), n(1, 2, 4)), "module(inputs[0], inputs[1:])[1][1]"),
    *each((n(2, 3),), "nn.RNNCell(3, 4)", "nn.RNNCell(3, 4, bias=False, nonlinearity='relu')", "nn.GRUCell(3, 4)"),
    *each((n(3), n(4)), "nn.RNNCell(3, 4)", "nn.GRUCell(3, 4, bias=False)"),
    Sample("nn.LSTMCell(3, 4)", (n(2, 3),), "module(*inputs)[1]"),
    Sample("nn.LSTMCell(3, 4)", (n(3), n(4), n(4)), "module(inputs[0], inputs[1:])[0]"),
    # attention
    *each(
        (n(3, 2, 4),),
        "nn.MultiheadAttention(4, 2)",
        "nn.MultiheadAttention(4, 2, bias=False, add_bias_kv=True)",
        "nn.MultiheadAttention(4, 1, add_zero_attn=True, batch_first=True)",
        call="module(inputs[0], inputs[0], inputs[0])[0]",
        tolerance=1e-4,
    ),
    Sample("nn.MultiheadAttention(4, 2)", (n(3, 4),), "module(inputs[0], inputs[0], inputs[0])[1]"),
    Sample(
        "nn.MultiheadAttention(4, 2, kdim=3, vdim=5)",
        (n(3, 2, 4), n(6, 2, 3), n(6, 2, 5)),
        "module(*inputs, need_weights=False)[0]",
    ),
    Sample(
        "nn.MultiheadAttention(4, 2, batch_first=True)",
        (n(2, 3, 4),),
        "module(inputs[0], inputs[0], inputs[0], key_padding_mask=torch.tensor([[False, False, True]] * 2), "
        "attn_mask=torch.ones(3, 3).triu(1).bool(), average_attn_weights=False)[1]",
    ),
    *each(
        (n(3, 2, 4),),
        "nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)",
        "nn.TransformerEncoderLayer(4, 2, 8, 0.0, 'gelu', norm_first=True, bias=False)",
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2, norm=nn.LayerNorm(4))",
        tolerance=1e-4,
    ),
    Sample(
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2).requires_grad_(False)",
        (n(2, 3, 4),),
        "module(inputs[0].detach(), src_key_padding_mask=torch.tensor([[False, False, True], [False, True, True]]))",
        training=False,
        tolerance=1e-4,
    ),
    *each(
        (n(3, 2, 4), n(5, 2, 4)),
        "nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0)",
        "nn.TransformerDecoderLayer(4, 2, 8, 0.0, norm_first=True)",
        "nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2)",
        "nn.Transformer(4, 2, 1, 1, 8, dropout=0.0)",
        call="module(*inputs)",
        tolerance=1e-4,
    ),
    # containers
    *each(
        (n(2, 3),),
        "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))",
        "nn.Sequential()",
        "nn.Sequential(nn.Linear(3, 3)) * 2 + nn.Sequential(nn.Tanh())",
    ),
]
