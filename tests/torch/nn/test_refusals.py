"""What layers refuse, in PyTorch's words: one expression a case."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played

REFUSALS = """
nn.Linear()
nn.Linear(2, 2, 3, 4, 5, 6)
nn.Linear(3, 2)(torch.ones(2, 4))
nn.Bilinear(0, 1, 1)
nn.Conv2d(3, 4, 3, groups=0)
nn.Conv2d(3, 4, 3, groups=2)
nn.Conv2d(4, 3, 3, groups=2)
nn.Conv2d(1, 1, 3, padding='wrong')
nn.Conv2d(1, 1, 3, stride=2, padding='same')
nn.Conv2d(1, 1, 3, padding_mode='wrong')
nn.ConvTranspose2d(1, 1, 3, padding_mode='reflect')
nn.ConvTranspose2d(1, 1, 3, stride=2)(torch.ones(1, 1, 3, 3), output_size=(3, 3))
nn.ConvTranspose2d(1, 1, 3, stride=2)(torch.ones(1, 1, 3, 3), output_size=[1, 1, 3, 3])
nn.ConvTranspose2d(1, 1, 3, stride=2)(torch.ones(1, 1, 3, 3), output_size=(3,))
nn.ConvTranspose1d(1, 1, 3)(torch.ones(1, 3), output_size=(3, 3, 3))
nn.FractionalMaxPool2d(2)
nn.FractionalMaxPool2d(2, output_size=1, output_ratio=0.5)
nn.FractionalMaxPool2d(2, output_ratio=1.5)
nn.FractionalMaxPool3d(0, output_ratio=0.5)
nn.FractionalMaxPool3d((1, 0, 2), output_ratio=0.5)
nn.FractionalMaxPool3d(2, output_ratio=(0.5, 1.5, 0.5))
nn.BatchNorm1d(3)(torch.ones(3))
nn.BatchNorm2d(3)(torch.ones(3, 3))
nn.BatchNorm3d(3)(torch.ones(3, 3))
nn.SyncBatchNorm(3)(torch.ones(3))
nn.SyncBatchNorm(3)(torch.ones(3, 0))
nn.LazyBatchNorm2d()(torch.ones(3, 3))
nn.InstanceNorm1d(3)(torch.ones(3))
nn.InstanceNorm2d(3, affine=True)(torch.ones(2, 4, 2, 2))
nn.InstanceNorm2d(3)(torch.ones(2, 4, 2, 2))
nn.InstanceNorm2d(3, affine=True)(torch.ones(4, 2, 2))
nn.InstanceNorm3d(3)(torch.ones(2, 4))
nn.GroupNorm(2, 3)
nn.Dropout(1.5)
nn.Dropout2d(-0.1)
nn.Hardtanh(1.0, -1.0)
nn.Softmax2d()(torch.ones(2, 2))
nn.Softmax()(torch.ones(2, 2))
nn.Softmin()(torch.ones(2, 2))
nn.LogSoftmax()(torch.ones(2, 2))
nn.Embedding(3, 2, padding_idx=3)
nn.Embedding(3, 2, padding_idx=-4)
nn.Embedding(3, 2, _weight=torch.ones(2, 2))
nn.Embedding.from_pretrained(torch.ones(2))
nn.EmbeddingBag(3, 2, padding_idx=3)
nn.EmbeddingBag(3, 2, padding_idx=-4)
nn.EmbeddingBag(3, 2, _weight=torch.ones(2, 2))
nn.EmbeddingBag.from_pretrained(torch.ones(2))
nn.CircularPad2d(1)(torch.ones(2, 2))
nn.CircularPad1d(1)(torch.ones(2))
nn.Unflatten(0, 3)
nn.Unflatten(0, (3, 'a'))
nn.Unflatten(0, [1.5])
nn.HuberLoss(delta='a')
nn.MSELoss(reduction='wrong')(torch.ones(1), torch.ones(1))
nn.MultiMarginLoss(p=3)
nn.MultiMarginLoss(weight=torch.ones(2, 2))
nn.TripletMarginLoss(margin=0)
nn.TripletMarginWithDistanceLoss(margin=-1)
nn.LinearCrossEntropyLoss(3, 4, weight=torch.ones(3))
nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2)
nn.LinearCrossEntropyOptions(acc_policy='wrong')
nn.LinearCrossEntropyOptions(chunking_method='wrong')
nn.LinearCrossEntropyOptions(chunking_method='aspect_ratio:0')
nn.LinearCrossEntropyOptions(batch_chunk_size=0)
nn.LinearCrossEntropyOptions(acc_dtype=torch.int64)
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 1])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 2])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [0, 2])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [1.5])
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(torch.ones(2, 4), torch.tensor([1]))
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(torch.ones(1, 1, 4), torch.tensor([1]))
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(torch.ones(1, 4), torch.tensor(1))
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(torch.ones(1, 4), torch.tensor([[1]]))
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(torch.ones(1, 4), torch.tensor([7]))
nn.RNN(2, 3, nonlinearity='wrong')
nn.RNN(2, 3, proj_size=1)
nn.GRU(2, 3, proj_size=1)
nn.LSTM(2, 3, proj_size=3)
nn.LSTM(2, 3, proj_size=-1)
nn.LSTM(2, 3, dropout=2)
nn.LSTM(2, 3, dropout=True)
nn.LSTM(2, 3, dropout=0.5)
nn.LSTM(2, 3, bias=1)
nn.LSTM(2, 3, batch_first=1)
nn.LSTM(2.0, 3)
nn.LSTM(2, 3.0)
nn.LSTM(0, 3)
nn.LSTM(2, 0)
nn.LSTM(2, 3, num_layers=0)
nn.RNNBase('WRONG', 2, 3)
nn.RNN(2, 3)(torch.ones(2))
nn.GRU(2, 3)(torch.ones(2))
nn.LSTM(2, 3)(torch.ones(2))
nn.RNN(2, 3)(torch.ones(4, 5, 3))
nn.RNN(2, 3)(torch.ones(4, 5, 2, dtype=torch.float64))
nn.RNN(2, 3)(torch.ones(4, 5, 2), torch.ones(1, 4, 3))
nn.GRU(2, 3)(torch.ones(4, 5, 2), torch.ones(1, 4))
nn.GRU(2, 3)(torch.ones(4, 2), torch.ones(1, 4, 3))
nn.LSTM(2, 3)(torch.ones(4, 5, 2), (torch.ones(1, 5, 3), torch.ones(1, 4, 3)))
nn.LSTM(2, 3)(torch.ones(4, 5, 2), (torch.ones(1, 4, 3), torch.ones(1, 4, 3)))
nn.LSTM(2, 3)(torch.ones(4, 5, 2), (torch.ones(5, 3), torch.ones(5, 3)))
nn.LSTM(2, 3)(torch.ones(4, 2), (torch.ones(1, 5, 3), torch.ones(5, 3)))
nn.RNNCell(2, 3)(torch.ones(1, 1, 2))
nn.RNNCell(2, 3)(torch.ones(1, 2), torch.ones(1, 1, 3))
nn.RNNCell(2, 3, nonlinearity='wrong')(torch.ones(1, 2))
nn.GRUCell(2, 3)(torch.ones(1, 1, 2))
nn.LSTMCell(2, 3)(torch.ones(1, 1, 2))
nn.LSTMCell(2, 3)(torch.ones(1, 2), (torch.ones(1, 3), torch.ones(1, 1, 3)))
nn.MultiheadAttention(0, 1)
nn.MultiheadAttention(4, 3)
nn.TransformerEncoderLayer(4, 2, activation='wrong')
nn.Transformer(4, 2, 1, 1, 8)(torch.ones(3, 2, 4), torch.ones(3, 1, 4))
nn.Transformer(4, 2, 1, 1, 8, batch_first=True)(torch.ones(3, 2, 4), torch.ones(2, 2, 4))
nn.Transformer(4, 2, 1, 1, 8)(torch.ones(3, 2, 5), torch.ones(3, 2, 4))
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 8), 1).use_nested_tensor
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 8, batch_first=True), 1).use_nested_tensor
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, norm_first=True), 1).use_nested_tensor
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, bias=False), 1).use_nested_tensor
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation=abs), 1).use_nested_tensor
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation=nn.GELU()), 1).use_nested_tensor
nn.init.calculate_gain('wrong')
nn.init.calculate_gain('leaky_relu', True)
nn.init.calculate_gain('leaky_relu', 'a')
nn.init.xavier_uniform_(torch.ones(2))
nn.init.kaiming_normal_(torch.ones(2, 2), mode='wrong')
nn.init.kaiming_uniform_(torch.ones(2, 2), nonlinearity='wrong')
nn.init.kaiming_uniform_(torch.ones(0, 2))
nn.init.kaiming_normal_(torch.ones(0, 2))
nn.init.eye_(torch.ones(2))
nn.init.dirac_(torch.ones(2, 2))
nn.init.dirac_(torch.ones(3, 2, 2), groups=2)
nn.init.orthogonal_(torch.ones(2))
nn.init.sparse_(torch.ones(2), 0.5)
nn.init.trunc_normal_(torch.zeros(0), a=5.0, b=6.0)
nn.init.constant(torch.ones(1), 3)
nn.init.xavier_uniform(torch.zeros(0, 2))
""".strip().split("\n")


@pytest.mark.parametrize("expression", REFUSALS)
def test_refusal_is_pytorchs(expression: str):
    pytorch = pytest.importorskip("torch")

    def play(torch: Any, tell: Story) -> None:
        tell.attempt(eval, expression, {"nn": torch.nn, "torch": torch})

    assert_same(played(play, fgrad.torch), played(play, pytorch))


@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
def test_sparse_gradients_are_refused(layer: str):
    with pytest.raises(NotImplementedError, match="has dense tensors only"):
        getattr(fgrad.torch.nn, layer)(2, 2, sparse=True)


def test_a_parameter_without_a_shape_is_not_computed_with():
    layer = fgrad.torch.nn.LazyLinear(2)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        layer.weight + 1


def test_values_that_need_no_pytorch():
    torch = fgrad.torch
    layer = torch.nn.Linear(2, 1)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.constant_(layer.bias, 0.5)
    layer(torch.ones(3, 2)).sum().backward()
    np.testing.assert_array_equal(layer(torch.ones(1, 2)).detach().numpy(), [[2.5]])
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[3.0, 3.0]])
