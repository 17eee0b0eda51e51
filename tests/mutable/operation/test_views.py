"""Views: handles on the same storage, with a base and a place in the graph of backward."""

import pytest

import fgrad.torch as torch
from fgrad.mutable.operation.views import cut_from_base, view_of

pytestmark = pytest.mark.fast


def test_a_view_shares_storage_and_counter_with_its_base():
    base = torch.arange(6.0)
    view = view_of(base, base[1:4]._geometry_of())
    assert view._storage is base._storage and view._counter is base._counter
    assert view._view.base is base and view.tolist() == [1, 2, 3]


def test_a_view_of_a_view_has_the_first_base():
    base = torch.arange(6.0)
    inner = base[1:5]
    view = view_of(inner, inner[1:]._geometry_of())
    assert view._view.base is base and view.storage_offset() == 2


@pytest.mark.parametrize(
    ("block", "creation"),
    [(torch.no_grad, "no_grad"), (torch.inference_mode, "inference")],
    ids=["no_grad", "inference"],
)
def test_a_view_knows_in_which_mode_it_was_made(block, creation):
    base = torch.ones(3)
    with block():
        view = view_of(base, base._geometry_of())
    assert view._view.creation == creation
    assert view_of(view, view._geometry_of())._view.creation == creation


def test_a_view_that_is_let_go_shares_memory_and_nothing_else():
    base = torch.arange(3.0)
    view = cut_from_base(base[:2])
    view.mul_(10)
    assert base.tolist() == [0, 10, 2] and base._version == 0 and view._base is None
