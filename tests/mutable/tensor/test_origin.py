"""Where tensors without history came from."""

import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor.origin import LONGEST, NEAREST, origin_of

pytestmark = pytest.mark.fast


class Leaf:
    """What can be referred to weakly."""


def test_an_origin_knows_the_leaf_and_does_not_hold_it():
    leaf = Leaf()
    origin = origin_of("detach", None, "detach", [leaf], [])
    assert origin.before[0]() is leaf and origin.length == 1
    del leaf
    assert origin.before[0]() is None


def test_chains_are_cut_at_a_length():
    origin = origin_of("detach", None, "detach", [], [])
    for _ in range(LONGEST - 1):
        origin = origin_of("add", None, None, [], [origin])
    assert origin.length == LONGEST
    after = origin_of("add", None, None, [], [origin])
    assert after.length == 1 and after.parents == ()


def test_the_nearest_nodes_are_remembered_and_no_more():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    seen = [each() for each in origin_of("no_grad", None, "no_grad", [y.grad_fn], []).before]
    assert seen == [y.grad_fn, x]
    for _ in range(2 * NEAREST):
        y = y * 2
    assert len(origin_of("no_grad", None, "no_grad", [y.grad_fn], []).before) == NEAREST


def test_operations_note_origins_and_hand_them_on():
    x = torch.ones(2, requires_grad=True)
    cut = x.detach()
    assert cut._origin is not None and cut._origin.reason == "detach"
    result = cut + 1
    assert result._origin is not None
    assert result._origin.parents == (cut._origin,) and result._origin.reason is None
    assert (torch.ones(2) + 1)._origin is None
