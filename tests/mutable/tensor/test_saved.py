"""What is saved for backward, as hooks that change it show: each value as often as PyTorch saves it."""

from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor.saved import save

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


def test_a_saved_tensor_is_a_handle_and_a_version():
    tensor = torch.ones(2)
    saved = save(tensor, "self")
    node = torch.ones(1, requires_grad=True).exp().grad_fn
    tensor.data.mul_(3)  # moves no counter that the handle knows
    assert saved.value(node).tolist() == [3.0, 3.0]
    tensor.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.value(node)


def test_a_saved_tensor_that_was_released_is_gone():
    saved = save(torch.ones(2), "self")
    saved.release()
    node = torch.ones(1, requires_grad=True).exp().grad_fn
    with pytest.raises(RuntimeError, match="a second time"):
        saved.value(node)


@pytest.mark.parametrize(
    "dtype, name",
    [(torch.bool, "CPUBoolType"), (torch.bfloat16, "CPUBFloat16Type"), (torch.cfloat, "CPUComplexFloatType")],
)
def test_the_name_of_a_type_in_the_error(dtype: Any, name: str):
    factor = torch.ones(2, dtype=dtype)
    y = torch.ones(2, requires_grad=True) * factor
    factor.zero_()
    with pytest.raises(RuntimeError, match=rf"inplace operation: \[{name} \[2\]\] is at version 1"):
        y.abs().sum().backward()


def with_unpacked(lib: Any, function: Any, x_shape: tuple[int, ...], saved: tuple[int, ...]) -> Any:
    """The gradient where the constant that was saved comes back in another shape."""
    x, y = lib.ones(x_shape, requires_grad=True), lib.ones(x_shape[::-1])
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: lib.full(saved, 3.0)):
        out = function(x, y)
    out.sum().backward()
    return x.grad.tolist()


@pytest.mark.skipif(theirs is None, reason="real torch is the oracle")
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 2), (2, 1)], ids=str)
def test_a_hook_whose_shape_stands_for_the_one_that_was_packed(shape: tuple[int, ...]):
    multiply = lambda x, y: x * y  # noqa: E731
    assert with_unpacked(torch, multiply, (2, 2), shape) == with_unpacked(theirs, multiply, (2, 2), shape)


@pytest.mark.skipif(theirs is None, reason="real torch is the oracle")
@pytest.mark.parametrize(
    "function, shape",
    [(lambda x, y: x * y, (3,)), (lambda x, y: x * y, (0, 3)), (lambda x, y: x @ y, (1, 2)), (lambda x, y: x @ y, ())],
)
def test_a_hook_that_gives_another_shape(function: Any, shape: tuple[int, ...]):
    with pytest.raises(RuntimeError):
        with_unpacked(theirs, function, (2, 2), shape)
    with pytest.raises(RuntimeError, match=r"unpack hook .* but what was packed has shape \[2, 2\]"):
        with_unpacked(torch, function, (2, 2), shape)


def test_what_was_written_and_detached_is_called_detached():
    x = torch.ones(2, requires_grad=True)
    y = x + 1
    z = y * y
    y.mul_(2).detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        z.sum().backward()
