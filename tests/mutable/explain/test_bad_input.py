"""Questions on what cannot be asked about: the error names the question, what it was given, and the way out."""

import jax.numpy as jnp
import pytest

import fgrad.torch as torch
from fgrad.torch import nn

QUESTIONS = {
    "nonfinite": torch.nonfinite,
    "residuals": torch.residuals,
    "draw": torch.draw,
    "graph_of": torch.graph_of,
    "hook_schedule": torch.hook_schedule,
    "views": torch.views,
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not NoneType"),
        ("loss", "not str"),
        (nn.Tanh(), "not Tanh. Way out: call the module, and ask about a loss"),
        (jnp.ones(3), "Way out: for functions of arrays the questions are in fgrad"),
        (len, "Way out: call it, and ask about its result"),
    ],
)
def test_no_tensor(name, value, said):
    with pytest.raises(TypeError, match=f"{name} takes a tensor, such as a loss, and .*{said}"):
        QUESTIONS[name](value)


def loss_of(w):
    return (w * w.tanh()).sum()


def test_freed_graphs():
    w = torch.ones(3, requires_grad=True)
    loss = loss_of(w)
    loss.backward()
    with pytest.raises(RuntimeError, match=r"nonfinite reads the values that were saved.*were freed by the"):
        torch.nonfinite(loss)
    assert not torch.residuals(loss)
    assert torch.hook_schedule(loss).entries
    assert "d loss / d w" in str(torch.draw(loss))


@pytest.mark.parametrize("name", ["draw", "graph_of", "hook_schedule"])
def test_without_a_history(name):
    with pytest.raises(RuntimeError, match=r"why_no_grad\(tensor\) says"):
        QUESTIONS[name](torch.ones(3))


def test_modules_and_functions():
    w = torch.ones(3, requires_grad=True)
    assert "no parameter to ask about" in str(torch.why_no_grad(loss_of(w), nn.Tanh()))
    with pytest.raises(TypeError, match="watch takes a module, and then paths in it, not NoneType"):
        torch.watch(None)
    with pytest.raises(TypeError, match="audit takes a function that runs the program, and its arguments; not int"):
        torch.audit(3)
