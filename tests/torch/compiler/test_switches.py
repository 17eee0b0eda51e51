"""Modes, defaults and settings that a call leaves set are set after each call."""

import pytest

import fgrad.torch as torch
from fgrad.torch.compiler.switches import Switches

LEFT = {
    "grad": lambda: torch.set_grad_enabled(False),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "device": lambda: torch.set_default_device("meta"),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "threads": lambda: torch.set_num_threads(3),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "a block": lambda: torch.no_grad().__enter__(),
}


@pytest.fixture(autouse=True)
def switches():
    before = Switches.now()
    yield before
    before.restore()
    assert Switches.now() == before


@pytest.mark.parametrize("name", LEFT)
def test_what_a_call_leaves_set_is_set_after_each_call(name, switches):
    def f(x):
        y = x * 2
        LEFT[name]()
        return y

    f(torch.ones(1))
    expected = Switches.now()
    compiled = torch.compile(f)
    for _ in range(4):
        switches.restore()
        assert compiled(torch.ones(1)).tolist() == [2]
        assert Switches.now() == expected


@pytest.mark.parametrize("name", LEFT)
def test_a_capture_leaves_nothing_set(name, switches):
    torch.capture(lambda x: (x * 2, LEFT[name]())[0])(torch.ones(1))
    assert Switches.now() == switches


def test_settings_are_guarded():
    def f(x):
        return x * torch.get_num_threads() + torch.are_deterministic_algorithms_enabled()

    compiled = torch.compile(f)
    for number in (1, 1, 1, 2, 2, 3):
        torch.set_num_threads(number)
        assert compiled(torch.ones(1)).item() == number
    torch.use_deterministic_algorithms(True)
    assert compiled(torch.ones(1)).item() == 4
