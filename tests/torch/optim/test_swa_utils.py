"""Averaged weights against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.optim.table import array, numbers


def model_of(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
    for i, parameter in enumerate(model.parameters()):
        parameter.data = lib.tensor(numbers(tuple(parameter.shape), "float32", i))
    return model


AVERAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "mean": lambda utils: {},
    "mean by one": lambda utils: {"avg_fn": utils.get_swa_avg_fn()},
    "mean by many": lambda utils: {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
    "moving by one": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.9)},
    "moving by many": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
    "of one's own": lambda utils: {"avg_fn": lambda average, value, count: average + value * (count + 1)},
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name: str, use_buffers: bool):
    torch = pytest.importorskip("torch")
    # the mean of many refuses the integers among the buffers in PyTorch
    average = AVERAGES["mean" if name == "mean by many" and use_buffers else name]
    states = []
    for lib in (ft, torch):
        model = model_of(lib)
        averaged = lib.optim.swa_utils.AveragedModel(model, **average(lib.optim.swa_utils), use_buffers=use_buffers)
        for step in range(4):
            averaged.update_parameters(model)
            for i, parameter in enumerate(model.parameters()):
                parameter.data = lib.tensor(numbers(tuple(parameter.shape), "float32", 100 * step + i))
            model[1].running_mean.fill_(step)
        states.append(averaged.state_dict())
    assert list(states[0]) == list(states[1])
    for key, value in states[0].items():
        np.testing.assert_allclose(array(value), array(states[1][key]), rtol=1e-5, atol=1e-6, err_msg=key)


def test_the_averaged_model_is_a_model():
    model = model_of(ft).eval()
    averaged = ft.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    x = ft.ones(2, 2)
    np.testing.assert_array_equal(array(averaged(x)), array(model(x)))
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        ft.optim.swa_utils.AveragedModel(model, avg_fn=max, multi_avg_fn=max)
    with pytest.raises(ValueError, match="Invalid decay value 2 provided"):
        ft.optim.swa_utils.get_ema_avg_fn(2)


def test_update_bn():
    torch = pytest.importorskip("torch")
    statistics = []
    for lib in (ft, torch):
        model = model_of(lib).eval()
        batches = [lib.tensor(numbers((4, 2), "float32", i)) for i in range(3)]
        lib.optim.swa_utils.update_bn([batches[0], [batches[1], None], (batches[2],)], model)
        assert not model.training
        assert model[1].momentum == 0.1
        statistics.append((array(model[1].running_mean), array(model[1].running_var)))
    np.testing.assert_allclose(*statistics, rtol=1e-5, atol=1e-6)


def test_update_bn_without_any():
    ft.optim.swa_utils.update_bn([], ft.nn.Linear(1, 1))


@pytest.mark.parametrize(
    "options", [{}, {"anneal_epochs": 3, "anneal_strategy": "linear"}, {"anneal_epochs": 0}], ids=str
)
def test_schedule(options: dict[str, Any]):
    torch = pytest.importorskip("torch")
    seen: list[Any] = [[], []]
    for i, lib in enumerate((ft, torch)):
        optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=1.0)
        scheduler = lib.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, **options)
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            seen[i].append(scheduler.get_last_lr())
        state = scheduler.state_dict()
        seen[i].append(state)
        other = lib.optim.swa_utils.SWALR(lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=1.0), swa_lr=0.05)
        other.load_state_dict(state)
        other.optimizer.step()
        other.step()
        seen[i].append(other.get_last_lr())
    assert seen[0] == seen[1]


def test_refused_schedules():
    optimizer = ft.optim.SGD([ft.ones(1, requires_grad=True)], lr=1.0)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear', instead got no"):
        ft.optim.swa_utils.SWALR(optimizer, 0.1, anneal_strategy="no")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        ft.optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match=r"swa_lr must have the same length as optimizer\.param_groups"):
        ft.optim.swa_utils.SWALR(optimizer, [0.1, 0.2])
