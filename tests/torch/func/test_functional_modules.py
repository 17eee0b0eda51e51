"""``functorch``'s modules as functions: values, gradients, names and errors are PyTorch's."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


def functorch(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}._functorch.deprecated")


def model(lib: Any, seed: int = 0) -> Any:
    """One with a buffer and a weight under two names."""
    lib.manual_seed(seed)
    layers = [lib.nn.Linear(3, 3), lib.nn.Tanh(), lib.nn.Linear(3, 3), lib.nn.BatchNorm1d(3)]
    layers[2].weight = layers[0].weight
    return lib.nn.Sequential(*layers)


def without_buffers(lib: Any) -> Any:
    lib.manual_seed(0)
    net = model(lib)[:3]
    function, params = functorch(lib).make_functional(net)
    x = lib.randn(4, 3)

    def loss(params):
        return function(params, x).square().sum()

    grads = lib.func.grad(loss)(params)
    loss(params).backward()
    own = [p.grad for p in net.parameters()]
    names = [(name, p.device.type) for name, p in function.named_parameters()]
    return [g.tolist() for g in grads], [p.grad.tolist() for p in params], own, names, type(function).__name__


def with_buffers(lib: Any) -> Any:
    function, params, buffers = functorch(lib).make_functional_with_buffers(model(lib), disable_autograd_tracking=True)
    out = function(params, buffers, lib.arange(12.0).view(4, 3))
    requires = [x.requires_grad for x in (*params, out)]
    return out.tolist(), [b.tolist() for b in buffers], requires, function.param_names, function.buffer_names


def ensemble(lib: Any) -> Any:
    models = [model(lib, seed) for seed in range(3)]
    for m in models:
        m.eval()
    function, params, buffers = functorch(lib).combine_state_for_ensemble(models)
    out = lib.vmap(function, (0, 0, None))(params, buffers, lib.ones(2, 3))
    return out.tolist(), [(list(x.shape), x.requires_grad) for x in (*params, *buffers)]


def refused(call: Callable[[Any], Any]) -> Callable[[Any], str]:
    def play(lib: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            call(lib)
        return str(caught.value).splitlines()[0]

    return play


PLAYS = {
    "a module without buffers": without_buffers,
    "a module with buffers": with_buffers,
    "an ensemble": ensemble,
    "buffers": refused(lambda lib: functorch(lib).make_functional(model(lib))),
    "no models": refused(lambda lib: functorch(lib).combine_state_for_ensemble([])),
    "other classes": refused(lambda lib: functorch(lib).combine_state_for_ensemble([model(lib), lib.nn.Tanh()])),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_modules_are_functions_as_in_pytorch(play):
    compare(play(ours), play(theirs))


def compare(mine: Any, other: Any) -> None:
    """Equal, numbers up to rounding."""
    if isinstance(mine, list | tuple):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            compare(a, b)
    else:
        assert mine == (pytest.approx(other, rel=1e-4, abs=1e-5) if isinstance(other, float) else other)
