"""An optimiser that works on other parameters for a while, against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.optim.table import Case, array, give_gradients, parameters, run
from tests.torch.oracle import outcome


def test_the_parameters_that_are_lent_are_updated_and_the_own_ones_are_not():
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ft, torch):
        own, optimizer = run(lib, Case("Adam", {"lr": 0.1}), steps=2)
        before, state = [array(param).copy() for param in own], optimizer.state
        lent, other = parameters(lib), run(lib, Case("Adam", {"lr": 0.5}), steps=1)[1]
        give_gradients(lib, lent, 7)
        names = {str(i): param for i, param in enumerate(lent)}
        with lib.optim.swap_in_optimizer_params_and_state(optimizer, names, other.state_dict()):
            optimizer.step()
            assert optimizer.param_groups[0]["lr"] == 0.5
        assert optimizer.param_groups[0]["lr"] == 0.1
        assert optimizer.state is state
        for param, value in zip(own, before, strict=True):
            np.testing.assert_array_equal(array(param), value)
        results.append([array(param) for param in lent])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def with_state(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {**state, **changes}


def with_group(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {**state, "param_groups": [{**state["param_groups"][0], **changes}]}


BAD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no dictionary": lambda state: 3,
    "no state": with_state(state=None),
    "a state that is none": with_state(state={0: 3}),
    "a parameter too many": with_state(state={9: {}}),
    "no groups": with_state(param_groups=None),
    "too few groups": with_state(param_groups=[]),
    "a group that is none": with_state(param_groups=[3]),
    "numbers that are none": with_group(params=["a"]),
    "too few numbers": with_group(params=[0]),
    "another option": with_group(more=1),
}


def attempt(lib: Any, change: Callable[[dict[str, Any]], Any], count: int = 3, steps: int = 1) -> None:
    params, optimizer = run(lib, Case("SGD", {"momentum": 0.5}), steps=steps)
    names = {str(i): param for i, param in enumerate(params[:count])}
    with lib.optim.swap_in_optimizer_params_and_state(optimizer, names, change(optimizer.state_dict())):
        pass


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_refused(change: Callable[[dict[str, Any]], Any]):
    torch = pytest.importorskip("torch")
    own, theirs = [outcome(attempt, lib, change) for lib in (ft, torch)]
    assert own == theirs
    assert own.raised is RuntimeError


def test_refused_for_want_of_state_or_parameters():
    torch = pytest.importorskip("torch")
    for options in ({"steps": 0}, {"count": 2}):
        own, theirs = [outcome(attempt, lib, dict, **options) for lib in (ft, torch)]
        assert own == theirs
        assert own.raised is RuntimeError
