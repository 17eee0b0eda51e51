"""Large operations wait until somebody reads, and run together."""

import os
import threading
import weakref

import numpy as np
import pytest
from attrs import evolve

import fgrad
import fgrad.torch as torch
from fgrad.mutable.tensor.storage import DeferredStorage, held_value
from fgrad.mutable.values import deferral
from fgrad.run.policy import POLICIES, active

POLICY = POLICIES["default"]
MANY = int(POLICY.deferred_size)


def waiting(*tensors: torch.Tensor) -> list[bool]:
    return [getattr(held_value(x._storage), "backlog", None) is not None for x in tensors]


def test_what_is_large_waits_until_it_is_read():
    x = torch.ones(MANY)
    y = x * 2
    z = y + 1
    assert waiting(y, z) == [True, True]
    assert z[3].item() == 3.0
    assert waiting(y, z) == [False, False]
    np.testing.assert_array_equal(y.numpy(), np.full(MANY, 2, np.float32))


def test_what_is_small_runs_at_once():
    assert waiting(torch.ones(MANY - 1) * 2) == [False]


def test_small_operations_join_what_they_read():
    loss = (torch.ones(MANY) * 2).sum() / MANY
    assert waiting(loss) == [True]
    assert loss.item() == 2.0


def test_products_of_matrices_run_at_once_and_have_what_they_read_computed():
    x = torch.ones(200, 200) * 2
    y = x @ x
    assert waiting(x, y) == [False, False]
    assert y[0, 0].item() == 800.0


def test_shapes_and_types_are_checked_at_once():
    x = torch.ones(MANY) * 2
    with pytest.raises(RuntimeError, match="must match the size"):
        _ = x + torch.ones(MANY + 1)
    assert waiting(x) == [True]


def test_what_nobody_holds_is_not_computed():
    x = torch.ones(MANY)
    y = x * 2
    z = (y + 1).exp().log()
    del y
    seen = []
    run = deferral.Backlog._computed
    deferral.Backlog._computed = lambda self, live: seen.append(live) or run(self, live)  # type: ignore[method-assign]
    try:
        z.sum().item()
    finally:
        deferral.Backlog._computed = run  # type: ignore[method-assign]
    assert seen == [(3, 4)]  # z, and its sum


def test_an_operand_may_be_written_meanwhile():
    x = torch.ones(MANY)
    y = x * 2
    x.fill_(100)
    assert y[0].item() == 2.0
    y.add_(1)
    assert y[0].item() == 3.0


def test_views_of_what_waits():
    x = torch.arange(2.0 * MANY).view(2, MANY) * 2
    v = x.t()[5]
    assert (v + x[1, 0]).tolist() == [10 + 2.0 * MANY, 10 + 4.0 * MANY]


def test_backward_joins_forward():
    t = torch.full((MANY,), 0.5, requires_grad=True)
    y = (t.sin() * t).sum()
    y.backward()
    assert waiting(t.grad, y) == [True, True]
    backlog = t.grad._storage.waiting.backlog
    assert y._storage.waiting.backlog is backlog
    want = np.cos(0.5) * 0.5 + np.sin(0.5)
    np.testing.assert_allclose(t.grad.numpy(), np.full(MANY, want, np.float32), rtol=1e-6)


def test_a_backward_met_often_waits_as_one_operation():
    t = torch.rand(MANY, requires_grad=True)
    lengths = []
    for k in range(int(POLICY.backward_runs) + 3):
        t.grad = t.grad if k % 2 else None
        before = None if t.grad is None else t.grad.clone()
        y = (t.sin() * t.exp()).sum()
        y.backward()
        assert waiting(t.grad, y) == [True, True]
        lengths.append(len(t.grad._storage.waiting.backlog.entries))
        want = (t.cos() + t.sin()) * t.exp() + (0 if before is None else before)
        torch.testing.assert_close(t.grad, want.detach())
        assert t.grad._version == 1 + k % 2  # the first for the sum of two gradients
    assert lengths[-1] < lengths[1]


def test_gradients_add_up():
    t = torch.ones(MANY, requires_grad=True)
    for _ in range(2):
        (t * t * 3 + t).sum().backward()
    assert t.grad[7].item() == 14.0
    assert t.grad._version == 2


def test_saved_values_are_checked():
    t = torch.ones(MANY, requires_grad=True)
    y = t * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_structure_becomes_one_program():
    deferral._fusions.clear()
    with fgrad.policy("deferred"):
        for _ in range(3):
            x = torch.full((3,), 0.5) + 1
            assert (x.exp() * 2).tolist() == pytest.approx([2 * np.exp(1.5)] * 3)
    (fusion,) = deferral._fusions.values()
    assert fusion.routine is not None


def test_it_does_not_pile_up_without_end():
    x = torch.ones(MANY)
    for _ in range(POLICY.deferred_operations + 3):
        x = x + 1
    assert len(x._storage.waiting.backlog.entries) == 3
    assert x[0].item() == POLICY.deferred_operations + 4


def test_arrays_do_not_pile_up_without_end():
    with fgrad.policy(evolve(POLICY, deferred_bytes=4 * MANY)):
        x = torch.ones(MANY) * 2 + torch.ones(MANY)
        first = x._storage.waiting.backlog
        y = x * 3
        assert first.done and y._storage.waiting.backlog is not first


def test_an_operation_that_fails_names_its_line_and_leaves_the_others(monkeypatch):
    def refused(*_):
        raise MemoryError("no room")

    x = torch.ones(MANY)
    fine = x + 1
    bad = x.exp()  # the line
    after = bad + 1
    monkeypatch.setattr(deferral.Backlog, "_computed", refused)
    step = deferral.Backlog._step
    routine = bad._storage.waiting.backlog.entries[1][0]

    class Failing:
        graph = routine.graph

        def __call__(self, values):
            raise MemoryError("no room")

    entries = bad._storage.waiting.backlog.entries
    entries[1] = (Failing(), *entries[1][1:])
    assert fine[0].item() == 2.0
    for x in (after, bad, after):
        with pytest.raises(MemoryError, match="no room") as caught:
            x.numpy()
        assert "test_deferral.py" in caught.value.__notes__[0]
        assert (
            str(test_an_operation_that_fails_names_its_line_and_leaves_the_others.__code__.co_firstlineno + 6)
            in (caught.value.__notes__[0])
        )
    assert step is deferral.Backlog._step


def test_an_interrupt_leaves_values_readable(monkeypatch):
    x = torch.ones(MANY) * 2
    y = x + 1
    run = deferral.Backlog._computed

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(deferral.Backlog, "_computed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        y.numpy()
    assert waiting(x, y) == [True, True]
    monkeypatch.setattr(deferral.Backlog, "_computed", run)
    z = x * 5  # goes on another backlog, for which x is computed
    assert (y[0].item(), z[0].item()) == (3.0, 10.0)


def test_another_thread_reads():
    x = torch.ones(MANY) * 2
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append((x + 1)[0].item()))
    thread.start()
    thread.join()
    assert found == [3.0]
    assert (x + 1)[1].item() == 3.0


def test_the_reproducible_policy_waits_for_nothing():
    with fgrad.policy("reproducible"):
        assert active().deferred_size == float("inf")
        assert waiting(torch.ones(MANY) * 2) == [False]


def test_inference_mode_and_functions_of_torch_func_wait_for_nothing():
    x = torch.ones(MANY)
    with torch.inference_mode():
        assert waiting(x * 2) == [False]
    assert torch.func.grad(lambda t: (t * t).sum())(x)[0].item() == 2.0


def test_operands_are_let_go_of():
    """Once it has run, and where nobody holds a result any more."""
    x = torch.ones(MANY) * 2
    backlog = x._storage.waiting.backlog
    x.numpy()
    assert not backlog.inputs
    y = x + 1
    gone = weakref.ref(y._storage.waiting.backlog)
    del y
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_nothing_waits_in_a_forked_process():
    y = torch.ones(MANY) * 2 + 1
    child = os.fork()
    if not child:
        os._exit(waiting(y) != [False])
    assert os.waitpid(child, 0)[1] == 0
    assert waiting(y) == [False]


def test_the_storage_is_an_ordinary_one_afterwards():
    y = torch.ones(MANY) * 2
    assert y._storage.__class__ is DeferredStorage
    address = y.data_ptr()
    assert y._storage.__class__ is not DeferredStorage
    assert y.data_ptr() == address
