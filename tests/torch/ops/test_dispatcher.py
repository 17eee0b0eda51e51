"""Operators called by their names in PyTorch's dispatcher, as PyTorch calls them."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.torch.ops.dispatcher import FUNCTIONAL
from tests.torch.both import Case, agree

theirs = pytest.importorskip("torch")

X, IMAGE = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3), np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
VOLUME = np.arange(128, dtype=np.float32).reshape(1, 2, 4, 4, 4)

#: positional arguments of each operator that runs a function of ``nn.functional``
CALLS: dict[str, Any] = {
    "adaptive_avg_pool2d": lambda f, t: f(t(IMAGE), [2, 2]),
    "avg_pool2d": lambda f, t: f(t(IMAGE), [2, 2], [1, 1], [1, 1], True, False, 3),
    "avg_pool3d": lambda f, t: f(t(VOLUME), [2, 2, 2], [1, 1, 1], [1, 1, 1], True, False, 3),
    "gelu": lambda f, t: f(t(X)),
    "glu": lambda f, t: f(t(IMAGE), 2),
    "hardshrink": lambda f, t: f(t(X), 0.7),
    "hardsigmoid": lambda f, t: f(t(X)),
    "hardswish": lambda f, t: f(t(X)),
    "hardtanh": lambda f, t: f(t(X), -0.5, 0.7),
    "leaky_relu": lambda f, t: f(t(X), 0.3),
    "linear": lambda f, t: f(t(X), t(X), t(X[:, 0])),
    "max_pool2d": lambda f, t: f(t(IMAGE), [2, 2], [1, 1], [1, 1], [1, 1], True),
    "mish": lambda f, t: f(t(X)),
    "one_hot": lambda f, t: f(t(np.array([0, 2])), 4),
    "pad": lambda f, t: f(t(X), [1, 0], "constant", 3.0),
    "scaled_dot_product_attention": lambda f, t: f(t(X[None]), t(X[None]), t(X[None]), None, 0.0, True),
    "silu": lambda f, t: f(t(X)),
    "softplus": lambda f, t: f(t(X), 2.0, 1.0),
    "softshrink": lambda f, t: f(t(X), 0.7),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONAL))
def test_positional_arguments(name):
    def run(torch: Any) -> Any:
        operator = getattr(torch.ops.aten, name)
        return CALLS[name](operator, torch.from_numpy)

    agree(Case(name, run), theirs)


@pytest.mark.parametrize("name", ["mse_loss", "elu", "nll_loss", "huber_loss", "binary_cross_entropy"])
def test_operators_with_other_arguments_are_names_alone(name):
    operator = getattr(torch.ops.aten, name).default
    with pytest.raises(NotImplementedError, match=f"aten.{name}.default"):
        operator(torch.ones(2), torch.ones(2), 2)
    with pytest.raises(AttributeError, match=name):
        getattr(torch._C._nn, name)


def test_equality_agrees_with_hashes():
    aten = torch.ops.aten
    equal = [aten.mm.default, aten.mm.out, torch.mm]
    assert all(aten.mm.default == each and hash(aten.mm.default) == hash(each) for each in equal)
    assert aten.mm.default != aten.mm and aten.mm.out != aten.mm and aten.mm.default != aten.bmm.default
    assert aten.mm.overloads() == ["default"]


V, B, M = np.array([1, 2, 3]), np.array([True, False, True]), np.ones((3, 3), np.float32)


@pytest.mark.parametrize(
    "case",
    [
        Case("numbers and integers", lambda torch, m, v: torch.addr(m, v, v, alpha=0.5), (M, V)),
        Case("a float factor", lambda torch, m, v: torch.addr(m.long(), v, v, beta=0.5), (M, V)),
        Case("of booleans", lambda torch, m, b: torch.addr(m.bool(), b, b, alpha=0.5), (M, B)),
        Case("half and single", lambda torch, m, v: torch.addr(m.half(), v.float(), v.float()), (M, V)),
        Case("complex", lambda torch, m, v: torch.addr(m.cfloat(), v.float(), v.float(), alpha=1j), (M, V)),
        Case("a complex factor", lambda torch, m, v: torch.addr(m, v, v, alpha=1j), (M, V)),
        Case("a boolean factor", lambda torch, m, v: torch.addr(m.long(), v, v, alpha=True), (M, V)),
        Case("written", lambda torch, m, v: m.long().addr_(v.float(), v), (M, V)),
    ],
    ids=str,
)
def test_the_types_of_addr(case):
    agree(case, theirs)
