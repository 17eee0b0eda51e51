"""The manner that all questions share: what is asked about comes first, and the answer prints, shows in a notebook, has
fields, and is false where there is nothing to report."""

import attrs
import jax
import jax.numpy as jnp
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.graph.answer import Answer


def euler(rate, y):
    """An integrator that leaves the domain of its slope if the rate is large."""
    for _ in range(4):
        slope = -rate * jnp.sqrt(y)
        y = y + slope
    return y


def wrong(rate, y):
    for _ in range(4):
        slope = -rate * jnp.sqrt(y) * 0.5
        y = y + slope
    return y


def masked(rate, y):
    return jnp.where(rate > 5.0, rate, 1.0) * y


def straight(rate, y):
    return rate + y


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))


def tensors(bad=False):
    net = network()
    return net, net(torch.ones(2, 2)).mean() * (torch.inf if bad else 1.0)


def hooked():
    net, loss = tensors()
    net[0].weight.register_hook(lambda grad: grad)
    return torch.hook_schedule(loss)


def stranger():
    net, loss = tensors()
    return torch.why_no_grad(loss, network()[0].weight), torch.why_no_grad(loss, net[0].weight)


def audited(write):
    def program():
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        if write:
            y.data.mul_(2)
        y.sum().backward()
        return x.grad

    return torch.audit(program)


def unwatched():
    with torch.watch(network(), "0") as seen:
        pass
    return seen


def step(x):
    return torch.tanh(x).sum()


#: by question, an answer with something to report; and one without, where there can be one
ANSWERS = {
    "nonfinite": (lambda: fgrad.nonfinite(euler)(2.0, 1.0), lambda: fgrad.nonfinite(euler)(0.1, 1.0)),
    "why_zero": (lambda: fgrad.why_zero(masked)(1.0, 2.0), lambda: fgrad.why_zero(euler)(0.1, 1.0)),
    "residuals": (lambda: fgrad.residuals(euler)(0.1, 1.0), lambda: fgrad.residuals(straight)(0.1, 1.0)),
    "draw": (lambda: fgrad.draw(euler)(0.1, 1.0), None),
    "watch": (lambda: fgrad.watch(euler, "slope")(0.1, 1.0), None),
    "compare": (lambda: fgrad.compare(euler, wrong)(0.1, 1.0), lambda: fgrad.compare(euler, euler)(0.1, 1.0)),
    "compile_cost": (lambda: fgrad.compile_cost(euler)(0.1, 1.0), None),
    "diff": (
        lambda: fgrad.make_graph(euler)(0.1, 1.0).diff(fgrad.make_graph(wrong)(0.1, 1.0)),
        lambda: fgrad.make_graph(euler)(0.1, 1.0).diff(fgrad.make_graph(euler)(0.2, 3.0)),
    ),
    "outline": (
        lambda: fgrad.make_graph(euler)(0.1, 1.0).outline(),
        lambda: fgrad.make_graph(straight)(0.1, 1.0).outline(),
    ),
    "torch.nonfinite": (lambda: torch.nonfinite(tensors(bad=True)[1]), lambda: torch.nonfinite(tensors()[1])),
    "torch.why_no_grad": (lambda: stranger()[0], lambda: stranger()[1]),
    "torch.why_no_grad of a module": (
        lambda: torch.why_no_grad(tensors()[1], network()),
        lambda: torch.why_no_grad(*reversed(tensors())),
    ),
    "torch.residuals": (
        lambda: torch.residuals(tensors()[1]),
        lambda: torch.residuals((torch.ones(2, requires_grad=True) + 1).sum()),
    ),
    "torch.draw": (lambda: torch.draw(tensors()[1]), None),
    "torch.watch": (lambda: torch.watch(network(), "1")(torch.ones(2, 2)), unwatched),
    "torch.hook_schedule": (hooked, lambda: torch.hook_schedule(tensors()[1])),
    "torch.views": (lambda: torch.views(torch.zeros(2, 3).t()), lambda: torch.views(torch.zeros(2, 3))),
    "torch.audit": (lambda: audited(True), lambda: audited(False)),
    "torch.compiler.explain": (lambda: torch.compiler.explain(step)(torch.ones(2)), None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_manner_of_answers(name):
    full, empty = ANSWERS[name]
    answer = full()
    assert isinstance(answer, Answer)
    assert answer and str(answer) == repr(answer) == answer.text()
    assert "Traceback" not in str(answer) and " object at 0x" not in str(answer)
    shown = answer._repr_html_()
    assert shown.startswith("<") and "test_answers.py" in shown + "test_answers.py" * (name in WITHOUT_LINES)
    fields = [each.name for each in attrs.fields(type(answer)) if not each.name.startswith("_")]
    assert fields and all(hasattr(answer, field) for field in fields)
    if empty is not None:
        nothing = empty()
        assert type(nothing) is type(answer)
        assert not nothing and str(nothing) and nothing._repr_html_()


#: a structure, and not lines, is what these are about
WITHOUT_LINES = ("draw", "torch.draw", "torch.compiler.explain", "torch.why_no_grad", "torch.why_no_grad of a module")


@pytest.mark.parametrize("question", [fgrad.nonfinite, fgrad.why_zero, fgrad.residuals, fgrad.draw, fgrad.compile_cost])
def test_jitted_functions_and_keywords(question):
    def loss(params, x, *, scale):
        return jnp.sum(jnp.log(params["w"] * x)) * scale

    said = [
        str(question(fun)({"w": jnp.zeros(2)}, jnp.ones(2), scale=2.0))
        for fun in (loss, jax.jit(loss), fgrad.jit(loss))
    ]
    assert said[0] == said[1] == said[2]
