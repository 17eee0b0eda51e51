"""``torch.compile`` of whole steps: after each call everything is as it would be uncompiled."""

import copy
import gc
import os
import warnings
import weakref

import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.mutable.capture.snapshot import Snapshot
from fgrad.torch.compiler import compilation
from tests.torch.compiler.programs import classifier, close, of_tensor, same
from tests.torch.compiler.test_pure import OPTIMIZERS


def programs(step):
    return [each for held in step._compiled.programs.values() for each in held]


def is_compiled(step):
    return any(each.refused is None for each in programs(step))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_leaves_what_it_leaves_uncompiled(name):
    plain, compiled = classifier(OPTIMIZERS[name]), classifier(OPTIMIZERS[name])
    step = torch.compile(compiled.step)
    for k in range(6):
        stream = torch.get_rng_state()
        wanted = plain.step(*plain.batches[k % 4])
        expected = plain.state()
        torch.set_rng_state(stream)
        found = step(*compiled.batches[k % 4])
        same(compiled.state(), expected)
        close(found.numpy(), wanted.numpy(), exact=False)
        assert found.requires_grad == wanted.requires_grad and found._version == wanted._version
    assert is_compiled(step) and programs(step)[0].calls >= 3


def linear_step(**options):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step, torch.compile(step, **options)


def test_the_loss_that_is_returned_has_its_history_which_is_over():
    _, _, step, compiled = linear_step()
    x = torch.ones(2, 3)
    for _ in range(4):
        loss = compiled(x)
    assert loss.requires_grad and not loss.is_leaf and loss.grad_fn.name() == "MeanBackward0"
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_a_learning_rate_that_changes_compiles_nothing_new():
    model, optimizer, step, compiled = linear_step()
    twin, other, uncompiled, _ = linear_step()
    scheduler, second = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (optimizer, other)]
    x = torch.ones(2, 3)
    for _ in range(5):
        compiled(x)
        uncompiled(x)
        scheduler.step()
        second.step()
    close(model.weight.detach().numpy(), twin.weight.detach().numpy(), exact=False)
    assert compiled._compiled.recorded == 2  # without gradients, and with


def test_numbers_of_a_group_are_inputs_but_zero_is_another_rule():
    def made():
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.1)

        def step(x):
            optimizer.zero_grad()
            (w * x).square().sum().backward()
            optimizer.step()

        return w, optimizer.param_groups[0], step

    w, group, step = made()
    v, other, uncompiled = made()
    compiled = torch.compile(step)
    counts = []
    for change in (
        {},
        {},
        {"lr": 0.0},
        {"momentum": 0.5, "weight_decay": 0.2},
        {"weight_decay": 0.0},
        {"momentum": 0.0},
    ):
        for options in (group, other):
            options.update(change)
        for _ in range(2):
            compiled(torch.ones(2))
            uncompiled(torch.ones(2))
        close(w.detach().numpy(), v.detach().numpy(), exact=False)
        counts.append(compiled._compiled.recorded)
    assert counts == [2, 2, 2, 2, 3, 4]


def test_options_that_change_compile_nothing_new_unless_they_come_or_go():
    def training():
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.Adam([w], lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)

        def step():
            optimizer.zero_grad()
            w.square().sum().backward()
            optimizer.step()

        return w, optimizer.param_groups[0], step

    (w, group, step), (v, other, uncompiled) = training(), training()
    compiled = torch.compile(step)
    changes = [{}, {}, {"weight_decay": 0.2}, {"betas": (0.5, 0.6)}, {"eps": 1e-3}, {"weight_decay": 0.0}, {"lr": 0.0}]
    for change in changes:
        for each in (group, other):
            each.update(change)
        compiled()
        uncompiled()
        close(w.detach().numpy(), v.detach().numpy(), exact=False)
    assert compiled._compiled.recorded == 3  # without state, with it, without decay


def test_what_changes_from_outside_is_seen():
    model, optimizer, step, compiled = linear_step()
    twin, other, uncompiled, _ = linear_step()
    x = torch.ones(2, 3)

    def both(change=lambda model, optimizer: None):
        change(model, optimizer)
        change(twin, other)
        for _ in range(3):
            one, two = compiled(x), uncompiled(x)
            close(one.detach().numpy(), two.detach().numpy(), exact=False)
        close(model.weight.detach().numpy(), twin.weight.detach().numpy(), exact=False)

    both()
    both(lambda model, _: model.weight.data.mul_(2))
    both(lambda model, _: setattr(model.weight, "data", model.weight.data.clone() * 0.5))
    both(lambda model, _: model.bias.requires_grad_(False))
    both(lambda _, optimizer: optimizer.param_groups[0].update(weight_decay=0.1))


def test_types_shapes_and_modes_make_programs_of_their_own():
    compiled = torch.compile(lambda x: x * 2)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
    assert compiled(torch.ones(2, dtype=torch.int64)).dtype == torch.int64
    assert compiled(torch.ones(2, 2).t()).stride() == (1, 2)
    model = torch.nn.Dropout(0.5)
    drop = torch.compile(lambda x: model(x).sum())
    assert drop(torch.ones(8)).item() != 8 or drop(torch.ones(8)).item() != 8
    model.eval()
    assert [drop(torch.ones(8)).item() for _ in range(3)] == [8, 8, 8]


def test_tensors_that_share_memory_are_told_apart():
    def write(x, y):
        x.add_(1)
        return y.sum()

    compiled = torch.compile(write)
    for _ in range(3):
        a, b = torch.zeros(2), torch.zeros(2)
        assert compiled(a, b).item() == 0 and a.tolist() == [1, 1] and a._version == 1
    for _ in range(3):
        a = torch.zeros(2)
        assert compiled(a, a).item() == 2
    for _ in range(3):
        a = torch.zeros(2)
        assert compiled(a, a.view(2)).item() == 2


def test_what_no_guard_sees_is_checked(monkeypatch):
    monkeypatch.setenv("HIDDEN", "1")
    compiled = torch.compile(lambda x: x * float(os.environ["HIDDEN"]))
    assert compiled(torch.ones(1)).item() == 1
    monkeypatch.setattr(torch.compiler.config, "check_every", 3)
    assert compiled(torch.ones(1)).item() == 1
    monkeypatch.setenv("HIDDEN", "2")
    with pytest.warns(UserWarning, match="does something else.*test_compile.py"):
        assert compiled(torch.ones(1)).item() == 2


UNSEEN = {
    "a result": lambda model: lambda x: (x * 2, {"at": os.environ["HIDDEN"]}),
    "the structure of a result": lambda model: lambda x: [x * 2] * int(os.environ["HIDDEN"]),
    "what a list gets": lambda model: lambda x: model.log.append(os.environ["HIDDEN"]),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_a_call_returns_and_sets_is_checked(name, monkeypatch):
    model = torch.nn.Linear(1, 1)
    model.log = []
    compiled, seen = torch.compile(UNSEEN[name](model)), []
    monkeypatch.setattr(torch.compiler.config, "check_every", 1)
    with pytest.warns(UserWarning, match="does something else"):
        for text in "112":
            monkeypatch.setenv("HIDDEN", text)
            seen.append((repr(compiled(torch.ones(1))), *model.log))
    assert seen[0][:1] == seen[1][:1] and seen[1] != seen[2]
    monkeypatch.setenv("HIDDEN", "2")
    assert repr(UNSEEN[name](model)(torch.ones(1))) == seen[2][0]


def test_sizes_and_devices_are_arguments_and_results_by_value():
    def f(size, device):
        made = torch.ones(size, device=device)
        return made, made.shape, made.dtype, made.device, range(2)

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(3):
        made, *rest = compiled(torch.Size([2, 3]), torch.device("cpu"))
        assert rest == [torch.Size([2, 3]), torch.float32, torch.device("cpu"), range(2)] and made.shape == (2, 3)
    assert compiled._compiled.recorded == 1 and compiled(torch.Size([3]), torch.device("cpu"))[1] == (3,)


SCALE = 2.0


def test_globals_are_guarded(monkeypatch):
    compiled = torch.compile(lambda x: x * SCALE)
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [2, 2, 2]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert compiled(torch.ones(1)).item() == 3


def test_the_programs_of_a_function_are_none_of_its_state(monkeypatch):
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    # the function says "step" for the optimiser's, and the compiled one stands under that name
    compiled = torch.compile(step)
    monkeypatch.setitem(globals(), "step", compiled)
    for _ in range(5):
        compiled(torch.ones(2))
    assert compiled._compiled.recorded == 2


average = torch.zeros(1)


def test_a_tensor_that_the_call_replaces_is_read_where_it_is_held():
    class Holder:
        mean = None

    holder = Holder()
    holder.mean = torch.zeros(1)

    def step(x):
        global average
        holder.mean = 0.5 * holder.mean + x
        average = average - holder.mean
        return holder.mean * 1

    compiled = torch.compile(step, fullgraph=True)
    assert [compiled(torch.ones(1)).item() for _ in range(4)] == [1, 1.5, 1.75, 1.875]
    assert average.item() == -6.125 and compiled._compiled.recorded == 1
    holder.mean = torch.tensor([3.0])
    assert compiled(torch.ones(1)).item() == 2.5 and compiled._compiled.recorded == 1


def test_where_a_number_is_needed_it_runs_in_pieces():
    def branch(x):
        return x * 2 if x.sum() > 1 else x

    compiled = torch.compile(branch)
    assert compiled(torch.ones(2)).tolist() == [2, 2] and compiled(torch.zeros(2)).tolist() == [0, 0]
    with pytest.raises(fgrad.errors.CaptureError, match=r"test_compile.py:\d+"):
        torch.compile(branch, fullgraph=True)(torch.ones(2))


def test_an_error_is_that_of_the_function_and_changes_nothing():
    model, optimizer, step, compiled = linear_step()
    before = of_tensor(model.weight)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        compiled(torch.ones(2, 4))
    assert np.array_equal(of_tensor(model.weight)[0], before[0])
    for _ in range(3):
        compiled(torch.ones(2, 3))


def test_gradients_are_accumulated_over_calls():
    w, v = [torch.ones(2, requires_grad=True) for _ in range(2)]

    def accumulate(w, x):
        (w * x).sum().backward()

    compiled = torch.compile(lambda x: accumulate(w, x))
    for k in range(5):
        x = torch.full((2,), float(k))
        compiled(x)
        accumulate(v, x)
        assert w.grad.tolist() == v.grad.tolist() and w.grad._version == v.grad._version
    w.grad = None
    compiled(torch.ones(2))
    assert w.grad.tolist() == [1, 1]


def test_hooks_fire_at_each_call():
    model, _, step, compiled = linear_step()
    seen = []
    for _ in range(3):
        compiled(torch.ones(2, 3))
    model.register_forward_hook(lambda *_: seen.append(1))
    for _ in range(3):
        compiled(torch.ones(2, 3))
    assert len(seen) == 3
    handle = model.weight.register_hook(lambda grad: seen.append(grad.sum().item()))
    compiled(torch.ones(2, 3))
    assert len(seen) == 5
    handle.remove()


def test_draws_continue_the_stream_to_the_bit():
    def draw():
        return torch.rand(3) + torch.randn(3), torch.randint(0, 9, (2,)), torch.bernoulli(torch.full((4,), 0.5))

    compiled = torch.compile(draw)
    torch.manual_seed(1)
    wanted = [draw() for _ in range(4)]
    torch.manual_seed(1)
    for each in wanted:
        for a, b in zip(compiled(), each, strict=True):
            assert a.dtype == b.dtype and np.array_equal(a.numpy(), b.numpy())
    assert is_compiled(compiled)


def test_numbers_to_scale_and_shift_are_drawn_before_the_program_runs():
    """A reparametrised sample depends on the step's parameters; the numbers behind it do not."""
    mean, log_std = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)

    def draw():
        return torch.distributions.Normal(mean, log_std.exp()).rsample() + torch.normal(mean.detach(), 2.0)

    compiled = torch.compile(draw)
    torch.manual_seed(1)
    wanted = [draw() for _ in range(4)]
    torch.manual_seed(1)
    for each in wanted:
        assert torch.allclose(compiled(), each)
    (program,) = programs(compiled)
    assert len(program.draws) == 2 and not program.generators


def test_an_interrupt_while_the_program_runs_changes_nothing(monkeypatch):
    program = classifier()
    step = torch.compile(program.step)
    for _ in range(4):
        step(*program.batches[0])
    before = program.state()

    def interrupted(*_):
        raise KeyboardInterrupt

    (first, *_) = [each for each in programs(step) if each.refused is None]
    monkeypatch.setattr(first.execution._donating, "function", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(*program.batches[0])
    same(program.state(), before, exact=True)


@pytest.mark.parametrize("kind", [torch.compile, torch.capture, torch.pure])
def test_an_interrupt_while_everything_is_put_back_leaves_nothing_of_the_recording(monkeypatch, kind):
    restore, interrupts = Snapshot.restore, iter([KeyboardInterrupt])

    def interrupted(snapshot):
        for error in interrupts:
            raise error
        restore(snapshot)

    program = classifier()
    program.step(*program.batches[0])
    before = program.state()
    monkeypatch.setattr(Snapshot, "restore", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kind(program.step)(*program.batches[0])
    same(program.state(), before, exact=True)


def test_what_always_changes_runs_in_pieces_with_a_warning():
    compiled = torch.compile(lambda x: (x * 2).sum(0))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert [compiled(torch.ones(k)).item() for k in range(12)] == [2 * k for k in range(12)]
    assert len([w for w in seen if "from now on it runs in pieces" in str(w.message)]) == 1


@pytest.mark.parametrize("decorated", [False, True])
def test_the_limit_of_programs_can_be_given(decorated):
    def of(x):
        return (x * 2).sum(0)

    given = {"recompile_limit": 2, "name": "of", "isolate_recompiles": True, "shapes_spec": None}
    compiled = torch.compile(**given)(of) if decorated else torch.compile(of, **given)
    with pytest.warns(UserWarning, match="has been recorded 2 times"):
        assert [compiled(torch.ones(k)).item() for k in range(1, 4)] == [2, 4, 6]
    with pytest.warns(UserWarning, match="has been recorded 0 times"):
        assert torch.compile(of, recompile_limit=0)(torch.ones(1)).item() == 2


def test_reset_forgets_all_programs():
    w, scale = torch.ones(2), [3]
    compiled = torch.compile(lambda x: w.mul_(x * scale[0]), recompile_limit=1)
    for _ in range(4):
        compiled(torch.ones(2))
    with pytest.warns(UserWarning, match="from now on it runs in pieces"):
        compiled(torch.ones(1))
    assert compiled._compiled.given_up
    torch.compiler.reset()
    assert not programs(compiled) and not compiled._compiled.given_up
    for _ in range(4):
        compiled(torch.ones(2))
    assert w.tolist() == [3.0**9] * 2 and is_compiled(compiled)


def test_explain_lists_what_a_call_consists_of():
    program = classifier()
    program.step(*program.batches[0])
    found = torch.compiler.explain(program.step)(*program.batches[0])
    assert found and found.graph_count == 1 and not found.breaks
    assert "model.0.weight" in found.inputs and "model.0.weight (written)" in found.outputs
    assert any("model.0.weight" in guard for guard in found.guards)
    assert "recording" in str(found)
    found = torch.compiler.explain(lambda x: float(x.sum()))(torch.ones(2))
    assert "test_compile.py" in found.breaks[0] and "Runs in pieces" in str(found)


def test_the_arguments_of_pytorch_are_taken():
    assert torch.compile(fullgraph=True, mode="max-autotune")(lambda x: x + 1)(torch.ones(1)).item() == 2

    def f(x):
        return x

    assert torch.compile(f, disable=True) is f
    assert torch.compile(torch.compiler.disable(f))(torch.ones(1)).item() == 1
    assert torch.compile(lambda x: x * 2 if torch.compiler.is_compiling() else x)(torch.ones(1)).item() == 2


def test_a_program_keeps_nothing_of_the_call_that_it_was_recorded_from():
    w = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x):
        (w * x).sum().backward()
        with torch.no_grad():
            w.sub_(w.grad)

    given = [torch.full((3,), float(k)) for k in range(4)]
    held = []
    for x in given:
        step(x)
        held += [weakref.ref(x), weakref.ref(w.grad)]
        w.grad = torch.zeros(3)
    assert is_compiled(step)
    del x, given
    gc.collect()
    assert not [each for each in held if each() is not None]


def test_what_is_compiled_is_copied_without_its_programs():
    module = torch.compile(torch.nn.Linear(3, 2))
    x = torch.ones(1, 3)
    expected = module(x)
    copied = copy.deepcopy(module)
    assert torch.equal(copied(x), expected)
    with torch.no_grad():
        copied.weight.zero_()
    assert torch.equal(module(x), expected) and torch.equal(copied(x)[0], copied.bias)


def test_no_tensor_without_elements_is_left_for_those_who_look_at_all():
    product = torch.compile(lambda x, y: (x * y).sum())
    for _ in range(3):
        product(torch.ones(3), torch.ones(3))
    assert all(hasattr(x, "_type") for x in gc.get_objects() if type(x) is torch.Tensor)


def test_a_search_over_many_models(monkeypatch):
    """Old programs make room if they have been called often; otherwise the function runs in pieces from then on."""
    monkeypatch.setattr(compilation, "WORTHWHILE", 3)
    step = torch.compile(lambda model, x: model(x).sum())
    x = torch.ones(2, 3)
    models = [torch.nn.Linear(3, 1) for _ in range(torch.compiler.config.recompile_limit + 3)]
    for model in models:
        for _ in range(3):
            assert torch.equal(step(model, x), model(x).sum())
    assert (step._compiled.given_up, step._compiled.recorded) == (False, torch.compiler.config.recompile_limit)
    assert {id(key[1][0].value) for key in step._compiled.programs} == {id(model) for model in models[3:]}
    step(models[0], x)  # this one's program is gone, and it takes the place of the next
    assert [step._compiled.given_up, step._compiled.recorded] == [False, torch.compiler.config.recompile_limit]
    for model in models[1:4]:
        step(model, x)
    assert not step._compiled.given_up
    with pytest.warns(UserWarning, match="has been recorded 8 times"):
        for model in [torch.nn.Linear(3, 1) for _ in range(torch.compiler.config.recompile_limit)]:
            assert torch.equal(step(model, x), model(x).sum())
    assert step._compiled.given_up


class Scaled(torch.nn.Module):
    """A module of the user's, with a number that changes and a list."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls, self.options = torch.nn.Linear(3, 1), 0, [2.0]

    def forward(self, x):
        self.calls += 1
        return self.inner(x) * self.options[0]


def test_models_and_optimizers_among_the_arguments_are_not_kept_alive():
    def step(model, optimizer, scheduler, x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    fast = torch.compile(step)
    for _ in range(2):
        model = Scaled()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(4):
            fast(model, optimizer, scheduler, torch.ones(2, 3))
        weight, bias = model.inner.weight, weakref.ref(model.inner.bias)
        value, gradient = weight.detach().clone(), weight.grad.clone()
        references = [weakref.ref(x) for x in (model, model.inner, optimizer, scheduler)]
        del model, optimizer, scheduler
        gc.collect()
        assert [each() for each in (*references, bias)] == [None] * 5
        assert not fast._compiled.programs
        assert torch.equal(weight, value)
        assert torch.equal(weight.grad, gradient)


def test_programs_of_models_that_are_gone_make_room(monkeypatch):
    monkeypatch.setattr(compilation, "WORTHWHILE", 3)
    fast = torch.compile(lambda model, x: model(x).sum())
    for _ in range(2 * torch.compiler.config.recompile_limit):
        model = torch.nn.Linear(3, 1)
        for _ in range(3):
            fast(model, torch.ones(2, 3))
    assert (fast._compiled.given_up, fast._compiled.recorded) == (False, 1)
