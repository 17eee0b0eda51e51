"""The attributes ``_saved_*`` that are no tensors, as PyTorch 2.13 shows them."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as torch

pytestmark = pytest.mark.fast

F = torch.nn.functional

#: a result of two square matrices, and the numbers that its node shows
CASES: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any]]] = {
    "add": (lambda x, y: x + y, {"alpha": 1}),
    "add scaled": (lambda x, y: torch.add(x, y, alpha=2), {"alpha": 2}),
    "sub": (lambda x, y: x - y, {"alpha": 1}),
    "rsub": (lambda x, y: 1 - x, {"alpha": 1}),
    "pow": (lambda x, y: x**3, {"exponent": 3}),
    "addmm": (lambda x, y: torch.addmm(x, x, y), {"alpha": 1, "beta": 1, "mat1_sym_sizes": (2, 2)}),
    "addmm scaled": (lambda x, y: torch.addmm(x, x, y, beta=0.5, alpha=2), {"alpha": 2, "beta": 0.5}),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=3), {"value": 3}),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), {"weight": 0.3}),
    "clamp": (lambda x, y: x.clamp(0.0, 1.0), {"min": 0.0, "max": 1.0}),
    "clamp from below": (lambda x, y: x.clamp(min=0.5), {"min": 0.5, "max": None}),
    "hardtanh": (lambda x, y: F.hardtanh(x, -1, 2), {"min_val": -1, "max_val": 2}),
    "xlogy": (lambda x, y: torch.xlogy(x, 2.0), {"other": 2.0}),
    "conv1d": (lambda x, y: F.conv1d(x[None], y[:, :, None], x[0]), {"bias_sym_sizes_opt": (2,), "groups": 1}),
    "conv1d without bias": (lambda x, y: F.conv1d(x[None], y[:, :, None]), {"bias_sym_sizes_opt": (0,)}),
    "sum over an axis": (lambda x, y: x.sum(-1), {"dim": (18446744073709551615,), "keepdim": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str):
    work, expected = CASES[name]
    x, y = (torch.rand(2, 2, requires_grad=True) for _ in range(2))
    node = work(x, y).grad_fn
    assert {key: getattr(node, "_saved_" + key) for key in expected} == expected
    assert all(type(getattr(node, "_saved_" + key)) is type(value) for key, value in expected.items())
    assert {"_saved_" + key for key in expected if "sym" not in key and expected[key] is not None} <= set(dir(node))


def test_saved_tensors_are_made_by_nodes_alone():
    node = torch.rand(2, requires_grad=True).exp().grad_fn
    assert isinstance(node._raw_saved_result, torch.autograd.SavedTensor)
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        torch.autograd.SavedTensor()


def test_a_factor_is_a_tensor():
    node = (torch.rand(2, requires_grad=True) * 2.5).grad_fn
    assert isinstance(node._saved_other, torch.Tensor) and node._saved_other.item() == 2.5


def test_what_is_not_saved_is_no_attribute():
    node = torch.rand(2, requires_grad=True).exp().grad_fn
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute '_saved_alpha'"):
        node._saved_alpha  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'alpha'"):
        node.alpha  # noqa: B018
