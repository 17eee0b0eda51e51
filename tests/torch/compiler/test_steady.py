"""Compiled calls that own what they write: everything is as uncompiled, whatever happens in between."""

import copy
import pickle
import threading
import warnings
from collections import OrderedDict

import jax
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor import owned
from fgrad.mutable.tensor.changes import changes
from fgrad.torch.compiler import steady
from tests.torch.compiler.programs import classifier, close, same
from tests.torch.compiler.test_compile import programs


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Programs own what they write as soon as they can."""
    monkeypatch.setattr(steady, "FIRST_CALLS", 0)


def is_steady(step):
    """Whether the next call goes on from the last one."""
    return any(x.steady is not None and x.steady.owner is not None and x.steady.owner.open for x in programs(step))


class Descent:
    """A weight, a bias and what an optimiser keeps of them."""

    def __init__(self, compile=torch.compile):
        self.w = torch.tensor([1.0, 2.0], requires_grad=True)
        self.b = torch.tensor([0.5], requires_grad=True)
        self.optimizer = torch.optim.SGD([self.w, self.b], lr=0.1, momentum=0.9)

        def step(x):
            self.optimizer.zero_grad()
            loss = (self.w * x + self.b).square().sum()
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        self.plain = step
        self.step = compile(step)

    def state(self):
        tensors = [self.w, self.b, *[x["momentum_buffer"] for x in self.optimizer.state.values()]]
        gradients = [None if x.grad is None else (x.grad.tolist(), x.grad._version) for x in (self.w, self.b)]
        return [(x.tolist(), x._version, x.requires_grad) for x in tensors], gradients

    def same_as(self, other):
        (mine, gradients), (others, theirs) = self.state(), other.state()
        for one, two in (*zip(mine, others, strict=True), *zip(gradients, theirs, strict=True)):
            assert (one is None) == (two is None)
            if one is not None:
                assert one[1:] == two[1:]
                close(one[0], two[0], exact=False)


X = (0.5, -0.25)


def begun():
    """The same descent compiled, with steady calls, and uncompiled."""
    found = Descent(), Descent(lambda f: f)
    for each in found:
        for _ in range(5):
            each.step(torch.tensor(X))
    assert is_steady(found[0].step)
    return found


def test_steady_calls_leave_what_uncompiled_ones_leave():
    states = []
    for compile in (torch.compile, lambda f: f):
        program = classifier(lambda params: torch.optim.Adam(params, lr=0.1))
        step = compile(program.step)
        for batch in 2 * program.batches:
            step(*batch)
        assert step is program.step or is_steady(step)
        states.append(program.state())
    same(*states)


def write_a_view(d):
    with torch.no_grad():
        d.w[:1].mul_(2)


def write_data(d):
    d.w.data.add_(1)


def replace_data(d):
    d.w.data = torch.tensor([3.0, -1.0])


def write_by_numpy(d):
    shown = d.w.detach().numpy()
    shown[0] = 7


def keep_showing_to_numpy(d):
    d.shown = d.b.detach().numpy()
    d.step(torch.tensor(X))
    d.shown += 1


def ask_for_the_address(d):
    assert d.w.data_ptr()


def write_the_momentum(d):
    d.optimizer.state[d.w]["momentum_buffer"].zero_()


def replace_the_momentum(d):
    d.optimizer.state[d.w]["momentum_buffer"] = torch.ones(2)


def another_rate(d):
    d.optimizer.param_groups[0]["lr"] = 0.01


def an_eager_step(d):
    d.plain(torch.tensor(X))


def an_eager_backward(d):
    (d.w.square().sum() + d.b.sum()).backward()


def read_a_gradient(d):
    assert d.w.grad.shape == (2,)


def write_a_gradient(d):
    d.w.grad.zero_()


def take_a_gradient_away(d):
    d.w.grad = None


def freeze(d):
    d.b.requires_grad_(False)


def another_class(d):
    d.w.__class__ = type("Marked", (torch.Tensor,), {})


def mark(d):
    d.w.mark = 1


def hook(d):
    d.w.register_hook(lambda g: 2 * g)


def resize(d):
    d.w.data.resize_(3)[2] = 1.0
    d.w.data.resize_(2)


def load(d):
    d.optimizer.load_state_dict(copy.deepcopy(d.optimizer.state_dict()))


def read(d):
    assert d.w.detach().tolist() and (d.w + d.b).sum().item() and d.w._version


def raise_an_error(d):
    with pytest.raises(RuntimeError):
        d.step(torch.ones(3))


CHANGES = [
    *(write_a_view, write_data, replace_data, write_by_numpy, keep_showing_to_numpy, ask_for_the_address),
    *(write_the_momentum, replace_the_momentum, another_rate, an_eager_step, an_eager_backward),
    *(read_a_gradient, write_a_gradient, take_a_gradient_away, freeze, another_class, mark, hook),
    *(resize, load, read, raise_an_error),
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_happens_in_between_is_seen(change):
    found = begun()
    for each in found:
        change(each)
    found[0].same_as(found[1])
    for _ in range(3):
        for each in found:
            each.step(torch.tensor(X))
    found[0].same_as(found[1])
    if hasattr(found[0], "shown"):
        close(found[0].shown, found[1].shown, exact=False)


def take_a_gradient_over(d):
    d.w.grad = d.w.grad.clone()


def a_backward_that_is_recorded(d):
    before = changes.fields
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the reference cycle, once in a process
        d.w.square().sum().backward(create_graph=True)
    assert changes.fields is not before
    d.w.grad = None  # else there is a cycle


def hook_on_what_has_arrived(d):
    d.w.register_post_accumulate_grad_hook(lambda w: None)


def set_hooks(d):
    d.w._backward_hooks = OrderedDict()


def set_memory(d):
    with torch.no_grad():
        d.w.set_(torch.ones(2))


def detach(d):
    d.b.detach_()


def write_by_a_function(d):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    Doubled.apply(d.w * 1)


def another_geometry(d):
    d.w.data = torch.ones(4)[::2]


WRITES = [
    *(replace_data, an_eager_backward, take_a_gradient_away, take_a_gradient_over, freeze, hook, resize),
    *(a_backward_that_is_recorded, hook_on_what_has_arrived, set_hooks, set_memory, detach, another_geometry),
    write_by_a_function,
]


@pytest.mark.parametrize("change", WRITES)
def test_what_writes_a_field_says_so(change):
    found, _ = begun()
    found.step(torch.tensor(X))
    before = changes.fields
    change(found)
    assert changes.fields is not before


def test_a_steady_call_writes_no_field():
    found, _ = begun()
    found.step(torch.tensor(X))
    before = changes.fields, changes.attributes
    found.step(torch.tensor(X))
    assert before == (changes.fields, changes.attributes)


@pytest.mark.parametrize("change", [read, another_rate])
def test_what_only_reads_takes_nothing_from_the_program(change):
    found, _ = begun()
    change(found)
    for _ in range(2):
        found.step(torch.tensor(X))
    assert is_steady(found.step)


def test_a_gradient_that_is_kept_stays_as_it_was():
    found, _ = begun()
    kept = found.w.grad
    values = kept.tolist()
    assert not is_steady(found.step) and found.w.grad is kept
    for _ in range(4):
        found.step(torch.tensor(X))
    assert is_steady(found.step)
    assert kept.tolist() == values and found.w.grad is not kept and found.w.grad.tolist() != values


def test_a_gradient_is_the_same_whoever_asks():
    found, other = begun()
    found.step(torch.tensor(X))
    other.step(torch.tensor(X))
    with torch.inference_mode():
        inside = found.w.grad
    assert inside is found.w.grad and not inside.is_inference()
    assert torch.func.grad(lambda x: (x * found.b.grad.detach()).sum())(torch.ones(1)).tolist() == found.b.grad.tolist()
    found.same_as(other)


def test_copies_are_of_the_present_values():
    found, other = begun()
    for copied in (copy.deepcopy(found.w), pickle.loads(pickle.dumps(found.w))):
        close(copied.tolist(), other.w.tolist(), exact=False)
    found.step(torch.tensor(X))
    other.step(torch.tensor(X))
    copied = copy.deepcopy(found.w)
    close(copied.grad.tolist(), other.w.grad.tolist(), exact=False)
    found.step(torch.tensor(X))
    other.step(torch.tensor(X))
    found.same_as(other)


def test_two_functions_that_take_turns_on_the_same_tensors():
    found, other = begun()
    average = [torch.zeros(2), torch.zeros(2)]

    def fade(d, average):
        with torch.no_grad():
            d.w.mul_(0.9)
            average.lerp_(d.w, 0.5)

    faded = torch.compile(lambda: fade(found, average[0]))
    for _ in range(5):
        faded()
        fade(other, average[1])
        found.step(torch.tensor(X))
        other.step(torch.tensor(X))
    for _ in range(3):
        faded()
        fade(other, average[1])
    assert is_steady(faded)
    found.same_as(other)
    close(average[0].tolist(), average[1].tolist(), exact=False)


def test_saved_tensors_are_checked():
    found, _ = begun()
    loss = found.w.square().sum()
    found.step(torch.tensor(X))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_batch_that_is_a_parameter_is_no_other_tensor():
    found = begun()
    for each in found:
        each.step(each.w.detach())
        each.step(each.w.detach())
    found[0].same_as(found[1])


def test_a_write_while_the_program_runs_is_not_lost(monkeypatch):
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]
    run_into, threads = type(program.execution).run_into, []

    def computed(self, *args):
        threads.append(threading.Thread(target=lambda: found.b.grad.zero_()))
        threads[0].start()
        run_into(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(type(program.execution), "run_into", computed)
        found.step(torch.tensor(X))
    threads[0].join()
    other.step(torch.tensor(X))
    other.b.grad.zero_()
    assert not is_steady(found.step)
    found.same_as(other)


def test_a_handler_of_a_signal_that_writes_while_the_program_runs(monkeypatch):
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]
    run_into, seen = type(program.execution).run_into, []

    def computed(self, *args):
        seen.append(found.w.detach().tolist())
        with torch.no_grad():
            found.b.mul_(2)
        run_into(self, *args)
        seen.append(found.w.detach().tolist())

    before = found.w.tolist()
    with monkeypatch.context() as patched:
        patched.setattr(type(program.execution), "run_into", computed)
        found.step(torch.tensor(X))
    other.step(torch.tensor(X))
    assert seen == [before, before] and found.b._version == other.b._version + 1
    close(found.w.tolist(), other.w.tolist(), exact=False)
    close(found.b.tolist(), other.b.tolist(), exact=False)


def test_another_thread_sees_the_state_before_a_call_or_after_it():
    w, twice = torch.zeros(2), torch.zeros(2)
    step = torch.compile(lambda: twice.copy_(2 * w.add_(1)).sum())
    for _ in range(4):
        step()
    assert is_steady(step)
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            first, second, last = w[0].item(), twice[0].item(), w[0].item()
            seen.append(2 * first <= second + 1e-6 and second <= 2 * last + 1e-6)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(100):
        step()
    done.set()
    thread.join()
    assert all(seen) and w.tolist() == [104.0, 104.0] and w._version == 104


@pytest.mark.parametrize("cut", ["_leave", "_settle"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_release_that_is_cut_short_leaves_everything_as_it_was(monkeypatch, cut, after):
    found, other = begun()
    given_back, count = getattr(owned, cut), iter(range(100))

    def interrupted(*args):
        if next(count) == after:
            raise KeyboardInterrupt
        given_back(*args)

    with monkeypatch.context() as patched:
        patched.setattr(owned, cut, interrupted)
        with pytest.raises(KeyboardInterrupt):
            found.w.grad  # noqa: B018
    for _ in range(2):
        for each in (found, other):
            each.step(torch.tensor(X))
    found.same_as(other)


def test_a_call_that_fails_leaves_everything_as_it_was(monkeypatch):
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]

    def failing(self, *_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(program.execution), "run_into", failing)
        with pytest.raises(MemoryError):
            found.step(torch.tensor(X))
    found.same_as(other)


def test_what_is_owned_is_read_when_the_function_is_gone():
    found, other = begun()
    found.step = None
    found.same_as(other)
    assert np.isfinite(found.w.grad.tolist()).all()


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_in_a_table_that_was_empty_is_called(register):
    found, _ = begun()
    getattr(found.w, register)(lambda x: None).remove()
    for _ in range(5):
        found.step(torch.tensor(X))
    assert is_steady(found.step)
    called = []
    getattr(found.w, register)(lambda x: called.append(1))
    found.step(torch.tensor(X))
    assert called


def test_a_gradient_that_requires_grad_now_is_seen():
    w = torch.ones(2, requires_grad=True)
    w.grad = torch.zeros(2)

    @torch.compile
    def scale():
        with torch.no_grad():
            w.mul_(2 if w.grad.requires_grad else 1)

    for _ in range(4):
        scale()
    assert is_steady(scale)
    w.grad.requires_grad_()
    scale()
    assert w.tolist() == [2, 2]


def test_what_is_released_lives_as_long_as_its_tensors():
    w = torch.nn.Parameter(torch.ones(7, 11, 13))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        w.square().sum().backward()
        optimizer.step()

    def alive():
        return sum(x.shape == w.shape for x in jax.live_arrays())

    compiled = torch.compile(step)
    for _ in range(5):
        compiled()
    assert is_steady(compiled)
    counts = [alive()]
    w.grad = None
    counts.append(alive())
    with torch.no_grad():
        w.mul_(2)
    counts.append(alive())
    assert counts == [counts[0], counts[0] - 1, counts[0] - 2]


def test_a_read_while_another_thread_releases():
    w = torch.zeros(2)
    step = torch.compile(lambda: w.add_(1).sum())
    for _ in range(5):
        step()
    assert is_steady(step)

    class Released(owned.Owner):
        """An owner that everything is released from just before somebody reads an array."""

        __slots__ = ()

        def array(self, place):
            self.__class__ = owned.Owner
            self.release()
            return self.array(place)

    part = owned._array.__get__(w._storage)
    assert part.owner.latest[0][0][0]
    part.owner.__class__ = Released
    assert w.tolist() == [5, 5] and not is_steady(step)


@pytest.mark.parametrize("first", [True, False])
def test_stores_are_all_made_or_none_where_another_program_owns_a_storage(monkeypatch, first):
    mine, both = torch.zeros(2), torch.zeros(2)
    other = torch.compile(lambda: both.add_(1).sum())
    written = (both, mine) if first else (mine, both)
    step = torch.compile(lambda: sum(x.add_(1).sum() for x in written))
    for _ in range(3):
        step()
    for _ in range(5):
        other()
    (program,) = [x for x in programs(other) if x.steady is not None and x.steady.owner is not None]
    owner, release = program.steady.owner, owned.Owner.release

    def interrupted(self):
        if self is owner:
            raise KeyboardInterrupt
        release(self)

    with monkeypatch.context() as patched:
        patched.setattr(owned.Owner, "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert is_steady(other)
    assert (mine.tolist(), mine._version, both.tolist(), both._version) == ([3, 3], 3, [8, 8], 8)
    step()
    assert (mine.tolist(), mine._version, both.tolist(), both._version) == ([4, 4], 4, [9, 9], 9)


def test_gradients_that_nobody_reads_are_made_in_the_memory_of_the_last():
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]
    last = program.steady.owner.latest[0][0][1]
    for each in (found, other):
        each.step(torch.tensor(X))
    assert len(last) == 2 and all(array.is_deleted() for array in last)
    kept = found.w.grad, found.b.grad
    for each in (found, other):
        for _ in range(3):
            each.step(torch.tensor(X))
    assert is_steady(found.step)
    read = [x.tolist() for x in kept]
    found.same_as(other)
    assert read != [x.grad.tolist() for x in (found.w, found.b)]


def test_a_handler_of_a_signal_keeps_the_gradients_of_the_last_call(monkeypatch):
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]
    run_into, kept = type(program.execution).run_into, []

    def computed(self, *args):
        kept.append(found.w.grad)
        run_into(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(type(program.execution), "run_into", computed)
        found.step(torch.tensor(X))
    close(kept[0].tolist(), other.w.grad.tolist(), exact=False)


def test_a_call_goes_on_from_one_that_a_signal_ended_before_its_results_were_told_apart():
    found, other = begun()
    (program,) = [x for x in programs(found.step) if x.steady is not None and x.steady.owner is not None]
    latest = program.steady.owner.latest
    outs, calls = latest[0]
    latest.append(((*outs, ("what it returned",)), calls))
    for each in (found, other):
        each.step(torch.tensor(X))
    assert is_steady(found.step)
    found.same_as(other)
