"""Of several errors at once, the one that PyTorch finds first; what threads share."""

import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor import tensor
from fgrad.mutable.tensor.tensor import accumulator
from tests.torch.both import Case, agree

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")


def stale(torch: Any) -> Any:
    """A view that may not be used, for its base was written."""
    base = torch.ones(2, 3, requires_grad=True).clone()
    part, _ = base.split(1)
    base.mul_(2)
    return part


CALLS = {
    "add": lambda torch, x: x + torch.ones(7),
    "a product of matrices": lambda torch, x: x @ torch.ones(7, 2),
    "cat": lambda torch, x: torch.cat([x, torch.ones(9)]),
    "stack": lambda torch, x: torch.stack([x, torch.ones(9)]),
    "sum": lambda torch, x: x.sum(9),
    "t": lambda torch, x: x[None].t(),
    "view": lambda torch, x: x.view(7),
    "reshape": lambda torch, x: x.reshape(7),
    "reshape with gaps": lambda torch, x: x[:, ::2].reshape(7),
    "as_strided": lambda torch, x: x.as_strided((20,), (1,)),
    "expand": lambda torch, x: x.expand(1),
    "split": lambda torch, x: x.split(1, 9),
    "index": lambda torch, x: x[[9]],
    "index_select": lambda torch, x: x.index_select(9, torch.tensor([0])),
    "read by a write": lambda torch, x: torch.ones(9).add_(x),
    "filled with": lambda torch, x: torch.ones(9).fill_(x),
    # functions that are made of others check their arguments before any history is asked for
    "narrow": lambda torch, x: x.narrow(0, 0, 9),
    "an integer": lambda torch, x: x[9],
    "movedim": lambda torch, x: x.movedim(9, 1),
    "chunk": lambda torch, x: x.chunk(2, 9),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_view_that_may_not_be_used_is_the_first_error(name: str):
    agree(Case(name, lambda torch: CALLS[name](torch, stale(torch)), longer=True), theirs)


def test_a_view_that_may_not_be_used_may_be_compared():
    agree(Case("gt", lambda torch: stale(torch) > 1), theirs)


@pytest.mark.parametrize("flag", [True, False])
def test_flag_of_a_view_that_may_not_be_used(flag: bool):
    agree(Case("requires_grad_", lambda torch: stale(torch).requires_grad_(flag).shape), theirs)
    agree(Case("requires_grad", lambda torch: setattr(stale(torch), "requires_grad", flag)), theirs)


def test_threads_that_ask_at_once_for_the_node_of_a_leaf_get_the_same(monkeypatch: pytest.MonkeyPatch):
    leaf = torch.zeros(2, requires_grad=True)
    found = []
    other = threading.Thread(target=lambda: found.append(accumulator(leaf)))

    def slow(node: Any) -> Any:
        """Another thread asks once the node is made, and gets its own."""
        if other.ident is None:
            other.start()
            other.join()
        return weakref.ref(node)

    monkeypatch.setattr(tensor, "weakref", SimpleNamespace(ref=slow))
    found.append(accumulator(leaf))
    assert len(found) == 2 and found[0] is found[1]
