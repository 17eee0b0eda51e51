"""What is saved for backward, as hooks that change it show: each value as often as PyTorch saves it."""

from typing import Any

import pytest

import fgrad.torch as torch

pytestmark = pytest.mark.fast

try:
    import torch as theirs
except ImportError:
    theirs = None


def doubled(library: Any) -> Any:
    """A block in which everything that is saved is doubled."""
    return library.autograd.graph.saved_tensors_hooks(lambda x: 2 * x, lambda x: x)


def kept(library: Any) -> Any:
    return library.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)


BLOCKS = {"neither": (kept, kept), "forward": (doubled, kept), "backward": (kept, doubled), "both": (doubled, doubled)}


def second(library: Any, function: Any, blocks: tuple[Any, Any]) -> list[float]:
    forward, backward = blocks
    a = library.tensor([0.7, 1.3, 0.4], requires_grad=True)
    with forward(library):
        s = function(a).sum()
    with backward(library):
        (g,) = library.autograd.grad(s, (a,), create_graph=True)
        g.sum().backward()
    return a.grad.tolist()


@pytest.mark.parametrize(("blocks", "factor"), list(zip(BLOCKS.values(), (1, 2, 4, 8), strict=True)), ids=BLOCKS)
def test_the_second_derivative_of_a_cube(blocks: tuple[Any, Any], factor: int):
    """PyTorch's gradient of a power is grad * (exponent * self ** (exponent - 1)): it saves grad and self."""
    found = second(torch, lambda a: a**3, blocks)
    assert found == pytest.approx([factor * 6 * a for a in (0.7, 1.3, 0.4)], rel=1e-5)


FUNCTIONS = {
    "mul": lambda a: a * a * a, "exp": lambda a: a.exp(), "sin": lambda a: a.sin(), "tanh": lambda a: a.tanh(),
    "sqrt": lambda a: a.sqrt(), "square": lambda a: a.square(), "log": lambda a: a.log(), "div": lambda a: 1 / a,
    "matmul": lambda a: a.reshape(1, -1) @ a.reshape(-1, 1), "softmax": lambda a: a.softmax(0) * a.detach(),
    "relu": lambda a: a.relu() * a, "rsqrt": lambda a: a.rsqrt(), "erf": lambda a: a.erf(),
}  # fmt: skip


@pytest.mark.skipif(theirs is None, reason="real torch is the oracle")
@pytest.mark.parametrize("blocks", list(BLOCKS.values()), ids=BLOCKS)
@pytest.mark.parametrize("function", list(FUNCTIONS.values()), ids=FUNCTIONS)
def test_second_derivatives(function: Any, blocks: tuple[Any, Any]):
    assert second(torch, function, blocks) == pytest.approx(second(theirs, function, blocks), rel=1e-4, abs=1e-5)
