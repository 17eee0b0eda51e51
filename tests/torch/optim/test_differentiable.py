"""Steps that autograd sees: gradients through them against PyTorch's."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.optim.table import array, numbers

OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"weight_decay": 0.1},
    "AdamW": {"amsgrad": True},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {"betas": (0.5, 0.5)},
    "Adadelta": {},
    "Adagrad": {},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {},
    "ASGD": {},
}


#: in PyTorch, the second step of these overwrites what the first one's derivative needs
ONCE = {"Adamax", "RMSprop", "Rprop", "AdamW"}


def through_steps(lib: Any, name: str, dtype: str, steps: int) -> list[np.ndarray]:
    """Parameter after the steps, and the gradients of its squared sum by where it began and by its gradient."""
    start = lib.tensor(numbers((3,), dtype, 0)).requires_grad_()
    slope = lib.tensor(numbers((3,), dtype, 1)).requires_grad_()
    param = start.clone()
    optimizer = getattr(lib.optim, name)([param], lr=0.1, differentiable=True, **OPTIMIZERS[name])
    for step in range(steps):
        param.grad = slope * (step + 1.0)
        optimizer.step()
    param.square().sum().backward()
    gradients = [x.grad if x.grad is not None else lib.zeros_like(x) for x in (start, slope)]
    return [array(x) for x in (param, *gradients)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_through_steps(name: str, dtype: str):
    torch = pytest.importorskip("torch")
    own, theirs = [through_steps(lib, name, dtype, 1 if name in ONCE else 2) for lib in (ft, torch)]
    tolerance = 1e-4 if dtype == "float32" else 1e-6
    for mine, other in zip(own, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


# SGD does not follow its first velocity, as in PyTorch
@pytest.mark.parametrize("name", sorted(OPTIMIZERS.keys() - {"SGD"}))
def test_gradients_by_differences(name: str):
    """Through three steps with all of them, against small changes of the gradient that each step is given."""

    def last(slope: Any) -> Any:
        param = ft.tensor(numbers((3,), "float64", 0))
        optimizer = getattr(ft.optim, name)([param], lr=0.1, differentiable=True, **OPTIMIZERS[name])
        for step in range(3):
            param.grad = slope * (step + 1.0)
            optimizer.step()
        return param.square().sum()

    slope = ft.tensor(numbers((3,), "float64", 1)).requires_grad_()
    (gradient,) = ft.autograd.grad(last(slope), [slope], allow_unused=True, materialize_grads=True)
    for i in range(3):
        change = np.zeros(3)
        change[i] = 1e-6
        above, below = [last(slope.detach() + sign * ft.tensor(change)).item() for sign in (1, -1)]
        np.testing.assert_allclose(gradient[i].item(), (above - below) / 2e-6, rtol=1e-4, atol=1e-6)


def test_by_the_learning_rate():
    rate = ft.tensor(0.25, requires_grad=True)
    start = ft.ones(2, requires_grad=True)
    param = start.clone()
    optimizer = ft.optim.SGD([param], lr=rate, differentiable=True)
    param.grad = ft.tensor([1.0, 2.0])
    optimizer.step()
    param.sum().backward()
    assert rate.grad.item() == -3
    assert start.grad.tolist() == [1, 1]


def test_by_the_weight_decay():
    decay = ft.tensor(0.5, requires_grad=True)
    param = ft.ones(2, requires_grad=True).clone()
    optimizer = ft.optim.SGD([param], lr=0.5, weight_decay=decay, differentiable=True)
    param.grad = ft.zeros(2)
    optimizer.step()
    param.sum().backward()
    assert decay.grad.item() == -1


@pytest.mark.parametrize("lib_name", ["ft", "torch"])
def test_a_leaf_cannot_be_written_under_autograd(lib_name: str):
    lib = ft if lib_name == "ft" else pytest.importorskip("torch")
    w = lib.ones(2, requires_grad=True)
    w.grad = lib.ones(2)
    optimizer = lib.optim.SGD([w], differentiable=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        optimizer.step()


@pytest.mark.parametrize("lib_name", ["ft", "torch"])
def test_foreach_excludes_it(lib_name: str):
    lib = ft if lib_name == "ft" else pytest.importorskip("torch")
    w = lib.ones(2, requires_grad=True)
    w.grad = lib.ones(2)
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        lib.optim.Adam([w], differentiable=True, foreach=True).step()
