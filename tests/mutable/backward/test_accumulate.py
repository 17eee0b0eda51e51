"""Gradients that are made to fit what they go to, and what happens to one at a leaf."""

import sys
import threading
from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.mutable.backward import accumulate
from fgrad.mutable.backward.accumulate import accumulate_grad, expands_to, layout, reduced
from fgrad.torch.autograd import forward_ad

pytestmark = pytest.mark.fast


def test_the_second_gradient_is_added_in_place():
    leaf = torch.zeros(2, requires_grad=True)
    with torch.no_grad():
        accumulate_grad(leaf, torch.ones(2))
        first = leaf.grad
        accumulate_grad(leaf, torch.ones(2))
    assert leaf.grad is first and first.tolist() == [2, 2] and first._version == 1


def test_a_gradient_with_a_tangent_is_added():
    """The gradients are x and x^2, and x has a tangent of 3: the sums have tangents of 3 and 3 + 6, as in PyTorch."""
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.ones(2)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        tangents = []
        for y in (leaf * x, leaf * x * x):
            y.sum().backward()
            tangent = forward_ad.unpack_dual(leaf.grad).tangent
            assert tangent is not None
            tangents.append(tangent.tolist())
    assert (tangents, leaf.grad.tolist()) == ([[3, 3], [9, 9]], [3, 3])


@pytest.mark.parametrize("recorded", [False, True])
def test_threads_add_to_a_leaf_one_after_the_other(recorded: bool, monkeypatch: pytest.MonkeyPatch):
    leaf = torch.zeros(2, requires_grad=True)
    leaf.grad = torch.ones(2)

    def add() -> None:
        with torch.set_grad_enabled(recorded):
            accumulate_grad(leaf, torch.ones(2))

    other = threading.Thread(target=add)
    apply = accumulate.apply

    def slow(*args: Any) -> Any:
        """Another thread begins between the sum and where it is written."""
        total = apply(*args)
        if other.ident is None:
            other.start()
            other.join(0.2)
        return total

    monkeypatch.setattr(accumulate, "apply", slow)
    add()
    other.join()
    assert leaf.grad.tolist() == [3, 3]


def test_a_sum_that_is_recorded_is_a_new_tensor():
    leaf = torch.zeros(2, requires_grad=True)
    leaf.grad = first = torch.ones(2)
    with torch.enable_grad():
        accumulate_grad(leaf, torch.ones(2, requires_grad=True) * 3)
    assert leaf.grad is not first and leaf.grad.requires_grad and first.tolist() == [1, 1]


def test_nothing_is_added_to_a_gradient_whose_elements_share_memory():
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        (leaf * torch.tensor([1.0, 10.0])).sum().backward()
    assert leaf.grad.tolist() == [1, 1]


def test_a_gradient_that_somebody_holds_is_copied():
    leaf = torch.ones(2, requires_grad=True)
    held = []
    leaf.register_hook(held.append)
    (leaf * 2).sum().backward()
    held[0].mul_(5)
    assert leaf.grad.tolist() == [2, 2]


def test_the_layout_is_the_leafs_if_it_leaves_no_gaps():
    assert layout(torch.zeros(2, 3).t(), (3, 2)) == (1, 3)
    assert layout(torch.zeros(2, 3)[:, 1:], (2, 2)) == (2, 1)
    assert layout(torch.zeros(1, 3).expand(2, 3), (2, 3)) == (3, 1)


def test_no_gradient_leaves_what_there_is():
    leaf = torch.zeros(2, requires_grad=True)
    accumulate_grad(leaf, None)
    assert leaf.grad is None


@pytest.mark.parametrize(
    ("shape", "desired", "does"),
    [((3,), (2, 3), True), ((1, 3), (2, 3), True), ((), (2,), True), ((2,), (2, 3), False), ((2, 3), (3,), False)],
)
def test_expands_to(shape, desired, does):
    assert expands_to(shape, desired) == does


def test_a_gradient_is_summed_over_broadcast_axes_and_cast():
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    leaf = torch.ones(1, 3, dtype=torch.float64)
    found = reduced(node, 0, torch.ones(2, 3), leaf._type)
    assert found.tolist() == [[2, 2, 2]] and found.dtype == torch.float64


def test_a_gradient_of_another_shape_is_refused():
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    with pytest.raises(RuntimeError, match=r"MulBackward0 returned an invalid gradient at index 1 - got \[2\]"):
        reduced(node, 1, torch.ones(2), torch.ones(3)._type)


def test_versions_of_gradients():
    """A gradient that is copied into an empty tensor, and a sum written in place, have been written (as in PyTorch)."""
    leaf = torch.ones(3, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad._version == 1
    leaf.grad, seed = None, torch.ones(3)
    leaf.backward(seed)
    assert leaf.grad is not seed and leaf.grad._version == 1
    hooked = torch.ones(3, requires_grad=True)
    hooked.register_hook(lambda grad: None)
    (hooked * 2).sum().backward()
    assert hooked.grad._version == 0
    layer = torch.nn.Linear(2, 3)
    layer(torch.ones(2, 2)).sum().backward()
    assert [p.grad._version for p in layer.parameters()] == [0, 0]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_leaf_that_got_another_shape_after_its_node_was_made(create_graph: bool):
    """The node, which lives as long as what was made of the leaf, still takes gradients of the shape of then."""
    leaf = torch.tensor(1.0, requires_grad=True)
    before = leaf.floor()
    leaf.data = torch.ones(1)
    leaf.sum().backward(create_graph=create_graph)
    assert before.requires_grad and leaf.grad.tolist() == 1 and leaf.grad.shape == ()


#: from a leaf of 2x3 to a result, and the axes that the result's gradient is permuted by
PASSING_ON = {
    "view": lambda torch, x: x.view(6),
    "identical view": lambda torch, x: x.view_as(x),
    "views of views": lambda torch, x: x.view(6).view(3, 2).view(2, 3),
    "permuted to and fro": lambda torch, x: x.t().t(),
    "permuted by nothing": lambda torch, x: x.permute(0, 1),
    "new axis": lambda torch, x: x.unsqueeze(0),
    "nothing to squeeze": lambda torch, x: x.squeeze(),
    "whole slice": lambda torch, x: x[:],
    "one chunk": lambda torch, x: x.chunk(1)[0],
    "itself": lambda torch, x: x + 0,
    "expanded to its own shape": lambda torch, x: x.expand(2, 3),
    "expanded by an axis": lambda torch, x: x.expand(1, 2, 3),
    "broadcast by an axis": lambda torch, x: x + torch.ones(1, 2, 3),
    "cat of one": lambda torch, x: torch.cat([x]),
    "cat": lambda torch, x: torch.cat([torch.zeros(2, 3), x]),
    "stack": lambda torch, x: torch.stack([x, 2 * x]),
    "sum of one": lambda torch, x: x.unsqueeze(0).sum(0),
    "mean of one": lambda torch, x: x.unsqueeze(0).mean(0),
}


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="whether others refer to a gradient is not known there")
@pytest.mark.parametrize("name", PASSING_ON)
def test_a_grad_that_shares_memory_with_a_gradient(name: str):
    """What is written to the gradient that backward was given is in ``.grad`` where PyTorch takes a view of it."""
    theirs = pytest.importorskip("torch")

    def run(torch: Any) -> Any:
        x = torch.ones(2, 3, requires_grad=True)
        result = PASSING_ON[name](torch, x)
        gradient = torch.ones(result.shape)
        result.backward(gradient)
        version = x.grad._version
        gradient.mul_(5)
        x.grad[0, 0] = 7
        return x.grad.tolist(), gradient.tolist(), version, x.grad._version, x.grad.storage_offset()

    assert run(torch) == run(theirs)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="whether others refer to a gradient is not known there")
def test_grads_that_share_memory_in_a_loop():
    """The gradients of what is joined are parts of one tensor, at each step; that of a view has its own memory."""
    theirs = pytest.importorskip("torch")

    def run(torch: Any) -> Any:
        x, y, w = (torch.ones(n, requires_grad=True) for n in (2, 3, 6))
        found = []
        for _ in range(12):
            for leaf in (x, y, w):
                leaf.grad = None
            (torch.cat([x, y]) * 2).sum().backward()
            (w.view(2, 3) * 2).sum().backward()
            x.grad.add_(1)
            found += [y.grad.storage_offset(), y.grad.untyped_storage().nbytes(), y.grad._version, w.grad._version]
            found += [x.grad.tolist(), y.grad.tolist()]
        return found

    assert run(torch) == run(theirs)


def test_a_grad_with_its_memory_for_itself_is_no_view():
    leaf = torch.ones(2, 3, requires_grad=True)
    (torch.ones(4, 3) @ leaf.t()).sum().backward()
    assert leaf.grad._geometry is None
