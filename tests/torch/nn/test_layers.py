"""Every layer against PyTorch's, from the same seed: how it shows itself, its state, its output, the gradients."""

import warnings
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import fgrad.torch
from tests.torch.nn.samples import SAMPLES, Sample

pytorch = pytest.importorskip("torch")


#: of what its kernels do, PyTorch warns in the first call only
ONCE = ("Triggered internally", "Using padding='same' with even kernel lengths")


@frozen
class Outcome:
    """What one library makes of a sample."""

    shown: str
    shown_after: str
    state: dict[str, np.ndarray]
    output: np.ndarray
    grads: dict[str, np.ndarray | None]
    warned: list[tuple[type, str]]


def outcome(sample: Sample, torch: Any) -> Outcome:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        module = sample.make(torch)
        shown = repr(module)
        inputs = [torch.tensor(each.array(rng)) for each in sample.inputs]
        for tensor in inputs:
            tensor.requires_grad_(tensor.is_floating_point())
        output = sample.run(torch, module, inputs)
        if output.requires_grad:
            output.backward(torch.tensor(rng.normal(size=tuple(output.shape)).astype(np.float32)))
    grads = {f"input {i}": tensor.grad for i, tensor in enumerate(inputs)}
    grads |= {name: parameter.grad for name, parameter in module.named_parameters()}
    return Outcome(
        shown,
        repr(module),
        {name: tensor.numpy() for name, tensor in module.state_dict().items()},
        output.detach().numpy(),
        {name: None if grad is None else grad.numpy() for name, grad in grads.items()},
        [(each.category, str(each.message)) for each in caught if not any(kind in str(each.message) for kind in ONCE)],
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.module}-{sample.call}")
def test_layer_is_pytorchs(sample: Sample):
    expected, got = outcome(sample, pytorch), outcome(sample, fgrad.torch)
    assert got.shown == expected.shown
    assert got.shown_after == expected.shown_after
    assert list(got.state) == list(expected.state)
    for name, value in expected.state.items():
        assert got.state[name].dtype == value.dtype, name
        np.testing.assert_allclose(got.state[name], value, sample.tolerance, sample.tolerance, err_msg=name)
    assert got.output.dtype == expected.output.dtype
    np.testing.assert_allclose(got.output, expected.output, sample.tolerance, sample.tolerance)
    assert list(got.grads) == list(expected.grads)
    for name, grad in expected.grads.items():
        assert (got.grads[name] is None) == (grad is None), name
        if grad is not None:
            np.testing.assert_allclose(got.grads[name], grad, 10 * sample.tolerance, sample.tolerance, err_msg=name)
    assert got.warned == expected.warned


def test_every_layer_has_a_sample():
    named = {name for sample in SAMPLES for name in fgrad.torch.nn.modules.__all__ if f"nn.{name}" in sample.module}
    # bases, deprecated names and containers, which have tests of their own
    others = {
        "Container", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "ParameterDict",
        "ParameterList", "RNNBase", "RNNCellBase",
    }  # fmt: skip
    assert set(fgrad.torch.nn.modules.__all__) - named == others


def test_the_names_are_pytorchs():
    assert set(fgrad.torch.nn.modules.__all__) == set(pytorch.nn.modules.__all__)


@pytest.mark.parametrize("shape", [(0, 5, 8), (5, 0, 8)])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("name", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_transformers_of_no_elements(name, batch_first, shape):
    def run(torch):
        layer = getattr(torch.nn, name)(8, 2, dim_feedforward=4, batch_first=batch_first)
        out = layer(*[torch.ones(shape)] * (1 if "Encoder" in name else 2))
        out.sum().backward()
        return tuple(out.shape), layer.self_attn.in_proj_weight.grad.abs().sum().item()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of weights without elements
        assert run(fgrad.torch) == run(pytorch)
