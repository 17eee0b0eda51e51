"""Errors of calls on their way to the user's code: which frames their tracebacks show."""

import traceback

import jax
import pytest

import fgrad.torch as torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x):
        return helper(self.linear, x)


def helper(layer, x):
    return layer(x)


def written():
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    y.sum().backward()


def mapped():
    torch.func.vmap(torch.func.grad(lambda a: a.item()))(torch.ones(3))


class Mine(torch.nn.Module):
    def forward(self, x):
        raise ValueError("mine")


PROGRAMS = {
    "in a function": (lambda: torch.ones(2) @ torch.ones(3), ["<lambda>"]),
    "in an operator": (lambda: torch.ones(2)[7], ["<lambda>"]),
    "in modules": (
        lambda: torch.nn.Sequential(torch.nn.Sequential(Block()))(torch.ones(5, 7)),
        ["<lambda>", "forward", "helper"],
    ),
    "of the user": (lambda: torch.nn.Sequential(Mine())(torch.ones(2)), ["<lambda>", "forward"]),
    "in backward": (written, ["written"]),
    "in transformations": (mapped, ["mapped", "<lambda>"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traceback_shows_the_frames_of_the_user(name):
    program, expected = PROGRAMS[name]
    with pytest.raises((RuntimeError, IndexError, ValueError)) as caught:
        program()
    shown = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert shown[1:] == expected


def test_all_frames_are_shown_where_jax_shows_its_own():
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises(RuntimeError) as caught:
            written()
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert "run_backward" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
