"""Gradients for each example from one backward, against real torch."""

import importlib

import numpy as np
import pytest

import fgrad.torch

torch = pytest.importorskip("torch")


def network(t):
    class Layers(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = t.nn.Embedding(5, 4)
            self.conv = t.nn.Conv1d(4, 6, 3, padding=1, groups=2)
            self.groups = t.nn.GroupNorm(2, 6)
            self.each = t.nn.InstanceNorm1d(6, affine=True)
            self.norm = t.nn.LayerNorm(6)
            self.twice = t.nn.Linear(6, 6)

        def forward(self, x):
            x = self.each(self.groups(self.conv(self.embed(x).transpose(1, 2)))).transpose(1, 2)
            return self.twice(t.tanh(self.twice(self.norm(x))))

    return Layers


def calls(t):
    return importlib.import_module(f"{t.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads


@pytest.mark.parametrize("reduction", ("sum", "mean"))
def test_gradients_by_example(reduction):
    gradients = []
    for t in (torch, fgrad.torch):
        t.manual_seed(0)
        module = network(t)()
        module.norm.bias.requires_grad_(False)
        result = calls(t)(module, loss_reduction=reduction)(t.tensor([[1, 2, 3], [0, 4, 1]]))
        getattr(result.square(), reduction)().backward()
        assert all(p.grad is None for p in module.parameters()) and not hasattr(module.norm.bias, "grad_sample")
        gradients.append({n: p.grad_sample.numpy() for n, p in module.named_parameters() if p.requires_grad})
    theirs, ours = gradients
    for name, gradient in theirs.items():
        np.testing.assert_allclose(ours[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)


WRONG = (
    lambda t, call, linear: call(linear(2, 2), loss_reduction="max"),
    lambda t, call, linear: call(3),
    lambda t, call, linear: call(linear(2, 2), batch_size=0),
    lambda t, call, linear: call(linear(2, 2), batch_size="2"),
    lambda t, call, linear: call(linear(2, 2))(2.0),
    lambda t, call, linear: call(t.nn.Bilinear(2, 2, 1))(t.ones(3, 2), t.ones(3, 2)),
    lambda t, call, linear: call(t.nn.Bilinear(2, 2, 1))(t.ones(3, 2), t.ones(4, 2)),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_errors(wrong):
    texts = []
    for t in (torch, fgrad.torch):
        with pytest.raises(RuntimeError) as raised:
            wrong(t, calls(t), t.nn.Linear)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
