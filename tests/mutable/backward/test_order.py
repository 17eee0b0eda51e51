"""The order in which nodes run: the one made last first, and only when all that send to it have run."""

import pytest

import fgrad.torch as torch
from fgrad.mutable.backward.order import order

pytestmark = pytest.mark.fast


def names(*roots):
    return [node.name() for node in order([root.grad_fn for root in roots])]


def test_the_node_made_last_runs_first():
    x = torch.ones(2, requires_grad=True)
    early, late = x.sin(), x.exp()
    assert names(early + late) == ["AddBackward0", "ExpBackward0", "SinBackward0", "torch::autograd::AccumulateGrad"]
    assert names(late + early) == names(early + late)


def test_a_node_waits_for_all_that_send_to_it():
    x = torch.ones(2, requires_grad=True)
    shared = x.sin()
    first, second = shared.exp(), shared.cos()
    found = names(second, first)
    assert found == ["CosBackward0", "ExpBackward0", "SinBackward0", "torch::autograd::AccumulateGrad"]


def test_a_leaf_runs_as_soon_as_it_may():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = names(x.sin() + y)
    assert found == [
        "AddBackward0", "torch::autograd::AccumulateGrad", "SinBackward0", "torch::autograd::AccumulateGrad",
    ]  # fmt: skip
