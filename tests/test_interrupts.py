"""An interrupt or an error at a bad moment leaves nothing behind: see NOTE [Signals]."""

import contextlib
import random
import zlib

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.modes import modes
from tests import interrupts
from tests.interrupts import ERRING, PROGRAMS, faults, fresh, is_delicate, places, sampled, state, strike, told


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_interrupted_anywhere(program, warm):
    program(4)[0]()
    interrupts.probe()
    before = state()
    chance = random.Random(zlib.crc32(program.__name__.encode()))
    for place, times in sampled(program, warm, 8 if warm else 2, chance):
        run, check = fresh(program, warm)
        strike(run, place, times)
        assert not faults(check, before), told(place)


def test_interrupted_where_grad_mode_is_put_back():
    """The end of a block is reached by a call, and nothing of Python's comes before the mode is back."""
    before = state()
    found = [place for place in places(interrupts.unrecorded, True) if is_delicate(place)]
    assert found
    for place in found:
        run, check = fresh(interrupts.unrecorded, True)
        strike(run, place, 1)
        assert not faults(check, before), told(place)


def test_a_written_tensor_keeps_its_gradient():
    """Every place in the write of a view: written whole or not at all, the version and the history with it."""
    interrupts.written(4)[0]()
    before = state()
    for place in [place for place in places(interrupts.written, True) if place[0].co_filename.endswith("inplace.py")]:
        run, check = fresh(interrupts.written, True)
        strike(run, place, 1)
        assert not faults(check, before), told(place)


@pytest.mark.parametrize("program", ERRING, ids=lambda f: f.__name__)
def test_errors_in_what_the_user_gives(program):
    before = state()
    for at in range(1, 5):
        x = torch.ones(2, requires_grad=True)
        with contextlib.suppress(interrupts.Refused):
            program(x, interrupts.Fragile(at))
        assert not faults(interrupts.nothing, before)


def test_a_level_that_is_left_takes_its_tangents():
    x = torch.ones(2)
    with pytest.raises(interrupts.Refused), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        raise interrupts.Refused
    assert not dual._tangents and modes.duals == ()


def test_retained_gradients_of_a_later_output_follow_a_write():
    """Of an operation's second output: PyTorch writes the gradient of what the tensor is after the write."""
    x = torch.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
    _, mean = torch.var_mean(x, 0)
    mean.retain_grad()
    mean.mul_(2.0)
    (mean * mean).sum().backward()
    assert torch.allclose(mean.grad, 2 * mean)
