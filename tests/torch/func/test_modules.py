"""Modules as functions of their state, against PyTorch."""

from typing import Any

import numpy as np
import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

BATCH = np.random.RandomState(0).randn(4, 3).astype("float32")


def called(t: Any, x: Any) -> Any:
    t.manual_seed(0)
    layer = t.nn.Linear(3, 2)
    state = {name: p.detach() * 2 for name, p in layer.named_parameters()}
    each = t.func.grad(lambda s, a: t.func.functional_call(layer, s, a).sum())
    return t.func.functional_call(layer, state, (x,)), each(state, x), t.func.vmap(each, in_dims=(None, 0))(state, x)


def ensemble(t: Any, x: Any) -> Any:
    t.manual_seed(0)
    layers = [t.nn.Linear(3, 2) for _ in range(4)]
    params, buffers = t.func.stack_module_state(layers)
    return params, buffers, t.func.vmap(lambda s, a: t.func.functional_call(layers[0], s, a))(params, x)


def buffers(t: Any, x: Any) -> Any:
    norm = t.nn.BatchNorm1d(3)
    state = dict(norm.state_dict())
    return t.func.functional_call(norm, state, x), state, norm.running_mean


@pytest.mark.parametrize("run", [called, ensemble, buffers])
def test_state(run: Any) -> None:
    agree(Case(run.__name__, run, (BATCH,)), torch)


@pytest.mark.parametrize(
    "run",
    [
        lambda t, x: t.func.functional_call(t.nn.Linear(3, 2), {"weight": 3}, x),
        lambda t, x: t.func.functional_call(t.nn.Linear(3, 2), [{"weight": 1}, {"weight": 2}], x),
        lambda t, x: t.func.functional_call(t.nn.Linear(3, 2), [1], x),
        lambda t, x: t.func.functional_call(t.nn.Linear(3, 2), 3, x),
        lambda t, x: t.func.functional_call(t.nn.Linear(3, 2), {"q": t.ones(1)}, x, strict=True),
        lambda t, x: t.func.stack_module_state([]),
        lambda t, x: t.func.stack_module_state([t.nn.Linear(3, 2), t.nn.Tanh()]),
        lambda t, x: t.func.stack_module_state([t.nn.Linear(3, 2), t.nn.Linear(3, 2).eval()]),
    ],
)
def test_errors(run: Any) -> None:
    agree(Case("", run, (BATCH,)), torch)


def tied(t: Any, x: Any) -> Any:
    model = t.nn.Sequential(t.nn.Linear(3, 3, bias=False), t.nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    one = t.func.functional_call(model, {"0.weight": t.eye(3) * 2}, x)
    apart = t.func.functional_call(model, {"0.weight": t.eye(3) * 2, "1.weight": t.eye(3)}, x, tie_weights=False)
    return one, apart, t.func.functional_call(model, {"0.weight": t.eye(3), "1.weight": t.eye(3)}, x)


def test_tied_weights() -> None:
    agree(Case("tied", tied, (BATCH,)), torch)
