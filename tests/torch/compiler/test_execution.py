"""Arrays whose memory a compiled call takes over: who holds one goes on having it, whatever happens."""

import copy
import gc
import signal
import threading

import jax
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.jaxcore import current_trace, is_evaluating, set_trace
from fgrad.torch.compiler import execution
from tests.torch.compiler.test_compile import programs
from tests.torch.compiler.test_steady import X, begun, is_steady


def addresses(step):
    """Where the arrays are that a step has left."""
    (owner,) = [x.steady.owner for x in programs(step) if x.steady is not None and x.steady.owner is not None]
    return [x.unsafe_buffer_pointer() for x in owner.latest[0][0][0]]


def test_what_a_step_overwrites_stays_in_its_memory():
    found, _ = begun()
    before = addresses(found.step)
    for _ in range(3):
        found.step(torch.tensor(X))
    assert addresses(found.step) == before


def test_no_second_copy_of_the_parameters_is_made():
    w = torch.nn.Parameter(torch.ones(1 << 10, 3))

    def step():
        with torch.no_grad():
            w.mul_(0.5)

    compiled = torch.compile(step)
    for _ in range(3):
        compiled()
    gc.collect()
    seen = []
    for _ in range(3):
        compiled()
        seen.append(sum(not x.is_deleted() for x in jax.live_arrays() if x.shape == w.shape))
    assert seen == [1, 1, 1]


def clone(d):
    return d.w.clone()


def detach_and_clone(d):
    return d.w.detach().clone()


def numpy(d):
    return d.w.detach().numpy().copy()


def array(d):
    return np.asarray(d.w.detach())


def dlpack(d):
    return np.from_dlpack(d.w.detach())


def jax_array(d):
    return torch.utils.dlpack.to_dlpack(d.w.detach()) and jax.numpy.asarray(d.w.detach().numpy())


def value(d):
    return d.w._storage.array


def view_of_value(d):
    return np.asarray(d.w._storage.array)


def average(d):
    kept = torch.zeros(2)
    kept.copy_(d.w.detach())
    return kept


def state_dict(d):
    return copy.deepcopy(d.optimizer.state_dict())["state"][0]["momentum_buffer"]


def buffer(d):
    return d.optimizer.state[d.w]["momentum_buffer"].clone()


HOLDERS = [clone, detach_and_clone, numpy, value, view_of_value, average, state_dict, buffer, jax_array]


@pytest.mark.parametrize("hold", HOLDERS)
def test_who_holds_an_array_goes_on_having_it(hold):
    found, other = begun()
    held = hold(found)
    before = np.array(held.tolist())
    for _ in range(3):
        found.step(torch.tensor(X))
        other.step(torch.tensor(X))
        assert np.array_equal(np.array(held.tolist()), before)
    found.same_as(other)


@pytest.mark.parametrize("hold", [array, dlpack])
def test_who_shares_the_memory_of_a_tensor_sees_what_is_written(hold):
    found, other = begun()
    held = hold(found)
    for _ in range(3):
        found.step(torch.tensor(X))
        other.step(torch.tensor(X))
        np.testing.assert_allclose(held, other.w.tolist(), rtol=1e-5, atol=1e-7)


def test_an_address_stays():
    found, other = begun()
    address = found.w.data_ptr()
    for _ in range(3):
        found.step(torch.tensor(X))
        other.step(torch.tensor(X))
    assert found.w.data_ptr() == address
    found.same_as(other)


def test_a_batch_that_has_the_array_of_a_parameter():
    found, other = begun()
    for each in (found, other):
        for _ in range(3):
            each.step(each.w.detach().clone())
    found.same_as(other)


def test_two_parameters_that_have_one_array():
    found = [torch.zeros(2, requires_grad=True) for _ in range(4)]
    for one, two in (found[:2], found[2:]):
        with torch.no_grad():
            two.copy_(one)

    def step(one, two):
        with torch.no_grad():
            one.add_(1)
            two.mul_(2).add_(1)

    compiled = torch.compile(lambda: step(*found[:2]))
    for _ in range(4):
        compiled()
        step(*found[2:])
    assert [x.tolist() for x in found[:2]] == [x.tolist() for x in found[2:]]


def test_a_saved_value_is_there_for_its_backward():
    found, _ = begun()
    x = torch.ones(2, requires_grad=True)
    loss = (x * found.w.detach().clone()).sum()
    wanted = found.w.tolist()
    for _ in range(2):
        found.step(torch.tensor(X))
    loss.backward()
    assert x.grad.tolist() == wanted


def test_values_of_a_snapshot_are_there_for_backward():
    found, _ = begun()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        loss = found.w.square().sum()
        wanted = (2 * found.w.detach()).tolist()
        for _ in range(2):
            found.step(torch.tensor(X))
        found.w.grad = None
        loss.backward()
    assert found.w.grad.tolist() == wanted


def test_constants_of_another_program():
    w = torch.ones(2)
    step = torch.compile(lambda: w.mul_(2).sum())
    for _ in range(3):
        step()
    frozen = w.clone()
    scaled = torch.compile(lambda x: x * frozen)
    for k in range(4):
        assert scaled(torch.ones(2)).tolist() == [8.0, 8.0], k
        step()


def test_a_program_that_looks_for_nans_leaves_what_it_was_given(monkeypatch):
    found, other = begun()
    with jax.debug_nans(True):
        for each in (found, other):
            each.step(torch.tensor(X))
        before = found.state()
        with pytest.raises(FloatingPointError):
            found.step(torch.full((2,), float("nan")))
    assert found.state() == before
    found.same_as(other)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a callback of JAX's when memory is freed
def test_signals_at_any_time_leave_a_step_made_or_not():
    def interrupt(*_):
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for start in range(3):
            w, twice = torch.zeros(1 << 12), torch.zeros(1 << 12)
            step = torch.compile(lambda w=w, twice=twice: twice.copy_(2 * w.add_(1)).sum())
            for _ in range(3 * start):
                step()
            for k in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + 7 * k % 60))
                    for _ in range(4):
                        step()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    pass
                except RecursionError as error:
                    # a signal inside JAX's cache of functions leaves an entry that JAX takes for its own caller:
                    # nothing runs until it is gone, not even the function as it was written
                    assert "Recursively calling" in str(error)
                    jax.clear_caches()
                    break
                count = w._version
                assert (w == count).all() and (twice == 2 * count).all() and twice._version == count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def test_an_interrupt_while_jax_traces_leaves_no_trace_behind(monkeypatch):
    def interrupted(self, written, replaced, others):
        left: list = []
        jax.make_jaxpr(lambda: left.append(current_trace()))()
        set_trace(left[0]).__enter__()  # as JAX's own context leaves it, if a signal arrives as it exits
        raise KeyboardInterrupt

    step = torch.compile(lambda x: (x * x).sum())
    with monkeypatch.context() as patched:
        patched.setattr(execution._Compiled, "_need", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(torch.ones(3))
    assert is_evaluating(current_trace())
    assert step(torch.ones(3)).item() == 3


def test_an_interrupt_in_the_first_call_waits_for_it(monkeypatch):
    join, count = threading.Thread.join, iter(range(10))

    def interrupted(self, timeout=None):
        if self.name == "fgrad runs" and next(count) == 0:
            raise KeyboardInterrupt
        join(self, timeout)

    w = torch.zeros(2)
    step = torch.compile(lambda: w.add_(1).sum())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert w.tolist() == [1, 1] and w._version == 1
    step()
    assert w.tolist() == [2, 2] and w._version == 2 and is_steady(step)


@pytest.mark.parametrize("calls", [0, 4])
def test_a_program_that_needs_more_memory_than_there_is_changes_nothing(monkeypatch, calls):
    w = torch.zeros(64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sort(1).values.square().mean() + w.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(4):
        step(torch.ones(2, 64))
    for _ in range(calls):
        step(torch.ones(1 << 10, 64))

    before = w.tolist(), optimizer.state[w]["momentum_buffer"].tolist(), w._version
    monkeypatch.setattr(execution, "_SMALL", 1 << 16)
    monkeypatch.setattr(execution, "room", lambda accelerator: 1 << 16)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory: you tried to allocate"):
            step(torch.ones(1 << 10, 64))
        assert (w.tolist(), optimizer.state[w]["momentum_buffer"].tolist(), w._version) == before
    step(torch.ones(2, 64))
    assert w._version == before[2] + 1
    monkeypatch.undo()
    step(torch.ones(1 << 10, 64))
    assert w._version == before[2] + 2


def test_data_of_an_array_that_was_taken_out_of_a_tensor_is_deleted():
    found, other = begun()
    data = found.w._storage.array.addressable_data(0)
    for each in (found, other):
        each.step(torch.tensor(X))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(data)
    found.same_as(other)


@pytest.mark.parametrize(
    "setting",
    [
        lambda: jax.default_matmul_precision("highest"),
        lambda: jax.enable_x64(True),
        lambda: jax.debug_nans(True),
        jax.disable_jit,
    ],
)
def test_settings_of_jax_that_change_between_calls(setting):
    found, other = begun()
    for _ in range(2):
        with setting():
            for each in (found, other, found, other):
                each.step(torch.tensor(X))
        for each in (found, other, found, other):
            each.step(torch.tensor(X))
    found.same_as(other)


def test_a_program_whose_gradients_are_read_after_each_step_donates_nothing():
    found, other = begun()
    for _ in range(40):
        for each in (found, other):
            each.step(torch.tensor(X))
        assert found.w.grad.tolist() == pytest.approx(other.w.grad.tolist(), rel=1e-5)
    assert not is_steady(found.step)
    found.same_as(other)
