"""L-BFGS against PyTorch's, with and without line search."""

import importlib
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.optim.table import array, numbers

OPTIONS = [
    {"lr": 0.1, "max_iter": 5},
    {"lr": 1.0, "max_iter": 20, "history_size": 3},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2, "lr": 0.01},
    {"line_search_fn": "strong_wolfe", "max_eval": 3},
    {"lr": 100.0, "max_iter": 3, "line_search_fn": "strong_wolfe"},
]


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bowl(x: Any) -> Any:
    return ((x - 1) ** 2).sum() + ((x[1:] * x[:-1] - 1) ** 2).sum()


def minimized(lib: Any, loss: Any, options: dict[str, Any], steps: int) -> tuple[Any, Any, list[float]]:
    x = lib.tensor(numbers((4,), "float64", 3)).requires_grad_()
    unused = lib.ones(2, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS([x, unused], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    return x, optimizer, [optimizer.step(closure).item() for _ in range(steps)]


@pytest.mark.parametrize("loss", [bowl, rosenbrock])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps(loss: Any, options: dict[str, Any]):
    torch = pytest.importorskip("torch")
    if loss is rosenbrock and "line_search_fn" not in options:
        options = {**options, "lr": 1e-3}
    x, optimizer, losses = minimized(ft, loss, options, 3)
    y, reference, expected = minimized(torch, loss, options, 3)
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(array(x), array(y), rtol=1e-6, atol=1e-9)
    own, theirs = optimizer.state_dict()["state"], reference.state_dict()["state"]
    assert own.keys() == theirs.keys() == {0}
    assert list(own[0]) == list(theirs[0])
    for key in ("func_evals", "n_iter"):
        assert own[0][key] == theirs[0][key]
    np.testing.assert_allclose(array(own[0]["d"]), array(theirs[0]["d"]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(float(own[0]["t"]), float(theirs[0]["t"]), rtol=1e-6)
    assert len(own[0]["old_dirs"]) == len(theirs[0]["old_dirs"])


@pytest.mark.parametrize("step", [1e-3, 1.0, 50.0])
def test_the_line_search_that_libraries_import(step: float):
    found = []
    for lib in (ft, pytest.importorskip("torch")):
        search = importlib.import_module(f"{lib.__name__}.optim.lbfgs")
        x = lib.tensor([-1.5, 2.0], dtype=lib.float64)

        def evaluate(x: Any, t: Any, d: Any, lib: Any = lib) -> Any:
            y = (x + t * d).requires_grad_()
            loss = rosenbrock(y)
            return loss.item(), lib.autograd.grad(loss, y)[0]

        loss, grad = evaluate(x, 0.0, x)
        best = search._strong_wolfe(evaluate, x, step, -grad, loss, grad, -grad.dot(grad), max_ls=10)
        cubic = search._cubic_interpolate(0.0, 3.0, lib.tensor(-2.0), 1.0, 2.5, lib.tensor(1.0), bounds=(0.1, 0.4))
        found.append([best[0], *best[1].tolist(), float(best[2]), best[3], float(cubic)])
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_it_finds_the_minimum():
    x, _, losses = minimized(ft, rosenbrock, {"line_search_fn": "strong_wolfe", "max_iter": 100}, 2)
    np.testing.assert_allclose(array(x), 1, rtol=1e-4)
    assert losses[1] < 1e-8


def test_at_the_minimum_nothing_moves():
    w = ft.zeros(2, requires_grad=True)
    optimizer = ft.optim.LBFGS([w])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert optimizer.state_dict()["state"][0] == {"func_evals": 1, "n_iter": 0}


def test_complex_parameters():
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        z = lib.tensor(numbers((3,), "complex128", 5)).requires_grad_()
        optimizer = lib.optim.LBFGS([z], max_iter=5)

        def closure(z: Any = z, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((z - (1 + 2j)) * (z - (1 + 2j)).conj()).real.sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        results.append(array(z))
    np.testing.assert_allclose(*results, rtol=1e-8)


def test_state_goes_on_after_loading():
    x, optimizer, _ = minimized(ft, bowl, {"lr": 0.1, "max_iter": 3}, 2)
    other = ft.optim.LBFGS([x, ft.ones(2, dtype=ft.float64, requires_grad=True)])
    other.load_state_dict(optimizer.state_dict())
    assert other.state_dict()["state"][0]["n_iter"] == optimizer.state_dict()["state"][0]["n_iter"] > 1
    assert other.param_groups[0]["max_iter"] == 3


def test_refusals():
    w, v = ft.ones(1, requires_grad=True), ft.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match=r"LBFGS doesn't support per-parameter options \(parameter groups\)"):
        ft.optim.LBFGS([{"params": [w]}, {"params": [v]}])
    optimizer = ft.optim.LBFGS([w], line_search_fn="other")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)
    with pytest.raises(TypeError):
        optimizer.step()
