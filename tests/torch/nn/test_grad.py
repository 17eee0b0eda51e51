"""``torch.nn.grad`` against PyTorch's, and against the gradients of the convolutions."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch

SETTINGS = [{}, {"stride": 2}, {"padding": 1, "dilation": 2}, {"groups": 2}]


def gradients(torch: Any, dims: int, settings: dict[str, Any]) -> list[Any]:
    """Both gradients, their nodes and gradients of theirs."""
    rng = np.random.default_rng(dims)

    def drawn(*shape: int) -> Any:
        return torch.tensor(rng.standard_normal(shape), requires_grad=True)

    x, weight = drawn(1, 2, *[6] * dims), drawn(4, 2 // settings.get("groups", 1), *[3] * dims)
    y = getattr(torch.nn.functional, f"conv{dims}d")(x, weight, **settings)
    grad = drawn(*y.shape)
    by_input = getattr(torch.nn.grad, f"conv{dims}d_input")(x.shape, weight, grad, **settings)
    by_weight = getattr(torch.nn.grad, f"conv{dims}d_weight")(x, weight.shape, grad, **settings)
    wanted = torch.autograd.grad(y, (x, weight), grad)
    for found, other in zip((by_input, by_weight), wanted, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), other.detach().numpy(), rtol=1e-6, atol=1e-9)
    second = torch.autograd.grad((by_input.sin().sum() + by_weight.sin().sum()), (x, weight, grad))
    nodes = [by_input.grad_fn.name(), by_weight.grad_fn.name()]
    return [nodes, *[each.detach().numpy() for each in (by_input, by_weight, *second)]]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_convolutions(dims: int, settings: dict[str, Any]):
    pytorch = pytest.importorskip("torch")
    (nodes, *found), (named, *wanted) = (gradients(lib, dims, settings) for lib in (fgrad.torch, pytorch))
    assert nodes == named
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


def test_nothing_is_recorded_for_constants():
    torch = fgrad.torch
    assert torch.nn.functional.grad is torch.nn.grad
    found = torch.nn.grad.conv1d_input((1, 1, 3), torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 1, 2))
    assert not found.requires_grad
    assert found.tolist() == [[[1.0, 3.0, 2.0]]]
