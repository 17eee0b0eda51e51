"""Each optimiser under each option against PyTorch's, value by value."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.optim.table import CASES, Case, array, give_gradients, parameters, run

# The last element of the last parameter after 20 steps in float32, as PyTorch 2.13 has it.
RECORDED = {
    "SGD": 0.7649245858192444,
    "SGD-lr=0.1-momentum=0.9": -4.419682502746582,
    "SGD-lr=0.1-momentum=0.9-dampening=0.5-weight_decay=0.1": -1.5374486446380615,
    "SGD-lr=0.1-momentum=0.5-nesterov=True": -0.9557155966758728,
    "SGD-lr=1-maximize=True-weight_decay=0.01": 8.81026554107666,
    "Adam": 0.7685455679893494,
    "Adam-lr=0.1-weight_decay=0.1": 0.14585813879966736,
    "Adam-lr=0.1-amsgrad=True": 0.2477988600730896,
    "Adam-betas=(0.0, 0.5)-eps=0.001-maximize=True": 0.7808274030685425,
    "Adam-weight_decay=0.1-decoupled_weight_decay=True": 0.7670010924339294,
    "AdamW": 0.7683908939361572,
    "Adamax": 0.769383430480957,
    "NAdam": 0.76163250207901,
    "RAdam": 0.7753527164459229,
    "Adadelta": 0.7521772980690002,
    "Adagrad": 0.7523991465568542,
    "RMSprop": 0.553408145904541,
    "Rprop": 0.7611874938011169,
    "ASGD": 0.6849727034568787,
    "Adafactor": -0.27490296959877014,
}

TOLERANCE = {
    "float32": {"rtol": 2e-5, "atol": 2e-5},
    "complex64": {"rtol": 2e-5, "atol": 2e-5},
    "float64": {"rtol": 1e-9, "atol": 1e-9},
    "complex128": {"rtol": 1e-9, "atol": 1e-9},
}
COARSE = {"rtol": 0.05, "atol": 0.05}


def tolerance_of(case: Case, dtype: str) -> dict[str, float]:
    if case.coarse:
        return COARSE
    # these keep scalars of the state in single precision, whose rounding shows
    return TOLERANCE["float32" if case.name in ("ASGD", "NAdam") else dtype]


def same_state(own: Any, theirs: Any, **tolerance: float) -> None:
    own, theirs = own.state_dict(), theirs.state_dict()
    assert own["param_groups"] == theirs["param_groups"]
    assert own["state"].keys() == theirs["state"].keys()
    for i, state in own["state"].items():
        assert list(state) == list(theirs["state"][i])
        for key, value in state.items():
            other = theirs["state"][i][key]
            assert str(value.dtype) == str(other.dtype)
            assert value.requires_grad is other.requires_grad is False
            np.testing.assert_allclose(array(value), array(other), err_msg=key, **tolerance)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, dtype) for case in CASES for dtype in TOLERANCE if not (case.real_only and dtype.startswith("complex"))],
    ids=str,
)
def test_hundred_steps(case: Case, dtype: str):
    torch = pytest.importorskip("torch")
    tolerance = tolerance_of(case, dtype)
    (own, optimizer), (theirs, reference) = run(ft, case, dtype), run(torch, case, dtype)
    for mine, other in zip(own, theirs, strict=True):
        assert str(mine.dtype) == str(other.dtype)
        assert mine.is_leaf and mine.requires_grad
        np.testing.assert_allclose(array(mine), array(other), **tolerance)
    same_state(optimizer, reference, **tolerance)


# with foreach, PyTorch writes in another way
@pytest.mark.parametrize("case", [case for case in CASES if "foreach" not in case.options], ids=str)
def test_versions_of_parameters_and_state(case: Case):
    torch = pytest.importorskip("torch")

    def versions(lib: Any) -> Any:
        params, optimizer = run(lib, case, steps=3)
        states = [optimizer.state.get(p, {}) for p in params]
        tensors = [{key: x for key, x in state.items() if isinstance(x, lib.Tensor)} for state in states]
        return [p._version for p in params], [{key: x._version for key, x in each.items()} for each in tensors]

    assert versions(ft) == versions(torch)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) in RECORDED], ids=str)
def test_recorded_values(case: Case):
    params, _ = run(ft, case, steps=20)
    np.testing.assert_allclose(array(params[-1]).flat[-1], RECORDED[str(case)], rtol=2e-5)


def test_there_are_recorded_values_for_the_common_optimizers():
    assert {name.split("-")[0] for name in RECORDED} >= {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"}


@pytest.mark.parametrize("name", ["Muon", "Adafactor"])
def test_complex_parameters_are_refused(name: str):
    w = ft.ones(2, 2, dtype=ft.complex64, requires_grad=True)
    w.grad = ft.ones(2, 2, dtype=ft.complex64)
    with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
        getattr(ft.optim, name)([w]).step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "ASGD", "Adamax"])
def test_learning_rate_as_a_tensor(name: str):
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        rate = lib.tensor(0.1)
        params, optimizer = run(lib, Case(name, {"lr": rate, "weight_decay": 0.1}), steps=3)
        rate.fill_(0.2)
        give_gradients(lib, params, 3)
        optimizer.step()
        results.append(params)
        assert optimizer.param_groups[0]["lr"] is rate
    for own, other in zip(*results, strict=True):
        np.testing.assert_allclose(array(own), array(other), rtol=2e-5, atol=2e-6)


def test_learning_rate_with_an_axis():
    w = ft.ones(2, requires_grad=True)
    w.grad = ft.ones(2)
    ft.optim.SGD([w], lr=ft.tensor([0.5])).step()
    assert w.tolist() == [0.5, 0.5]


def test_decay_factors_as_tensors():
    torch = pytest.importorskip("torch")
    results = [
        run(lib, Case("Adam", {"lr": lib.tensor(0.1), "betas": (lib.tensor(0.9), lib.tensor(0.99))}), steps=20)[0]
        for lib in (ft, torch)
    ]
    for own, other in zip(*results, strict=True):
        np.testing.assert_allclose(array(own), array(other), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_parameter_that_gets_its_first_gradient_later(case: Case):
    """Step counts differ within the group from then on."""
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        params = parameters(lib, case.shapes)
        optimizer = getattr(lib.optim, case.name)(params, **case.options)
        for step in range(6):
            give_gradients(lib, params, step)
            if step < 3:
                params[1].grad = None
            optimizer.step()
        results.append((params, optimizer))
    (own, optimizer), (theirs, reference) = results
    tolerance = tolerance_of(case, "float32")
    for mine, other in zip(own, theirs, strict=True):
        np.testing.assert_allclose(array(mine), array(other), **tolerance)
    same_state(optimizer, reference, **tolerance)


def test_options_may_change_between_steps():
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        params, optimizer = run(lib, Case("Adam"), steps=2)
        optimizer.param_groups[0].update(lr=0.5, betas=(0.5, 0.6), weight_decay=0.2, maximize=True)
        give_gradients(lib, params, 2)
        optimizer.step()
        results.append(params)
    for own, other in zip(*results, strict=True):
        np.testing.assert_allclose(array(own), array(other), rtol=2e-5)


def test_groups_have_their_own_options():
    w, v = ft.ones(1, requires_grad=True), ft.ones(1, requires_grad=True)
    w.grad, v.grad = ft.ones(1), ft.ones(1)
    ft.optim.SGD([{"params": [w]}, {"params": [v], "lr": 0.25}], lr=0.5).step()
    assert (w.item(), v.item()) == (0.5, 0.75)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_half_precision(name: str, dtype: str):
    w = ft.ones(3, dtype=getattr(ft, dtype), requires_grad=True)
    optimizer = getattr(ft.optim, name)([w], lr=0.125)
    w.grad = ft.ones(3, dtype=getattr(ft, dtype))
    optimizer.step()
    assert w.dtype == getattr(ft, dtype)
    if name != "RMSprop":
        assert w.tolist() == [0.875] * 3


def test_parameters_that_share_memory_are_updated_one_after_the_other():
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        base = lib.ones(4)
        first, second = base[:3].detach().requires_grad_(), base[1:].detach().requires_grad_()
        first.grad, second.grad = lib.ones(3), lib.ones(3)
        optimizer = lib.optim.SGD([first, second], lr=0.25)
        optimizer.step()
        results.append(base.tolist())
    assert results[0] == results[1] == [0.75, 0.5, 0.5, 0.75]


@pytest.mark.parametrize("name", ["Adam", "Adamax", "NAdam", "RAdam", "Adadelta", "RMSprop", "Rprop", "ASGD"])
def test_capturable_is_for_accelerators(name: str):
    torch = pytest.importorskip("torch")
    texts = []
    for lib in (ft, torch):
        w = lib.ones(1, requires_grad=True)
        w.grad = lib.ones(1)
        with pytest.raises(AssertionError) as error:
            getattr(lib.optim, name)([w], capturable=True).step()
        texts.append(str(error.value))
        assert w.item() == 1
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_fused_steps_and_what_they_refuse(name: str):
    torch = pytest.importorskip("torch")
    own, theirs = [run(lib, Case(name, {"lr": 0.1}), steps=5, fused=True)[0] for lib in (ft, torch)]
    for mine, other in zip(own, theirs, strict=True):
        np.testing.assert_allclose(array(mine), array(other), rtol=2e-5)
    texts = []
    for lib in (ft, torch):
        w = lib.ones(1, dtype=lib.complex64, requires_grad=True)
        w.grad = lib.ones(1, dtype=lib.complex64)
        with pytest.raises(RuntimeError) as error:
            getattr(lib.optim, name)([w], fused=True).step()
        texts.append(str(error.value))
    assert texts[0] == texts[1]
