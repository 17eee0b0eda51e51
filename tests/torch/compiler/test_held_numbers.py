"""Numbers outside of the arguments that change, during calls or between them: inputs and outputs of one program."""

import json
import math
from typing import Any

import pytest

import fgrad.torch as torch

SEEN = 0


class Slotted:
    """An object without a ``__dict__``."""

    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0


class Trainer:
    """A step, and every way to count its calls."""

    steps = 0

    def __init__(self):
        self.counts_of = [0, 0.5, torch.zeros(())]
        self.slotted = Slotted()
        self.w = torch.ones(2, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.w], lr=0.1, momentum=0.9)
        self.calls = 0
        self.weight = 1.0
        self.losses = []
        self.state = {"calls": 0, "sum": 0.0}

    def train(self, x, factor=1.0):
        self.optimizer.zero_grad()
        loss = (self.w * x).sum() * factor
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def counts(self, x):
        self.calls += 1
        return self.train(x)

    def uses_its_count(self, x):
        self.calls += 1
        return self.train(x, 1 / self.calls)

    def counts_in_a_dict(self, x):
        self.state["calls"] += len(x)
        self.state["sum"] += 0.5
        return self.train(x, self.state["sum"])

    def warms_up(self, x):
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, (self.calls + 1) / 4)
        self.calls += 1
        return self.train(x)

    def accumulates(self, x):
        loss = (self.w * x).sum()
        loss.backward()
        self.calls += 1
        if self.calls % 3 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def starts_again(self, x):
        self.calls = 0 if self.calls == 2 else self.calls + 1
        return self.train(x, self.calls + 1)

    def returns_its_count(self, x):
        self.calls += 1
        return self.train(x), self.calls, {"half": self.calls / 2}

    def counts_globally(self, x):
        global SEEN
        SEEN += 1
        return self.train(x)

    def counts_in_a_list(self, x):
        self.counts_of[0] += 1
        self.counts_of[1] *= 2
        loss = self.train(x, 1 / self.counts_of[0])
        self.counts_of[2] = 0.9 * self.counts_of[2] + 0.1 * loss
        return self.counts_of[2] * self.counts_of[1]

    def counts_in_slots(self, x):
        self.slotted.calls += 1
        return self.train(x, 1 / self.slotted.calls)

    def counts_in_a_class(self, x):
        Trainer.steps += 1
        return self.train(x, 1 / Trainer.steps)

    def follows_a_curve(self, x):
        self.calls += 1
        phase = math.pi * math.fmod(self.calls / 5, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(phase)) if math.isfinite(phase) else 0.1
        return self.train(x, math.pow(0.5, math.floor(self.calls / 4)))

    def needs_its_value(self, x):
        self.calls += 1
        return self.train(x, float(str(self.calls)))

    def grows_a_list(self, x):
        self.losses.append(self.train(x))
        return self.losses[-1]

    def is_interrupted(self, x):
        self.calls += 1
        before = self.calls
        loss = self.train(x)
        if self.calls % 4 == 0:
            self.state["logged"] = f"{before}: {loss.item():.3f}"
            self.state["last"] = [before]
        return loss

    def observed(self):
        momentum = self.optimizer.state[self.w].get("momentum_buffer")
        state = {k: json.dumps(v) for k, v in self.state.items()}
        versions = self.w._version, None if momentum is None else momentum.tolist()
        return (
            self.w.tolist(),
            self.calls,
            type(self.calls),
            state,
            versions,
            self.optimizer.param_groups[0]["lr"],
            [float(x) for x in self.counts_of],
            self.slotted.calls,
            Trainer.steps,
            len(self.losses),
            SEEN,
        )


def trained(trainer, step, monkeypatch, change=lambda trainer, i: None):
    monkeypatch.setitem(globals(), "SEEN", 0)
    monkeypatch.setattr(Trainer, "steps", 0)
    found = []
    for i in range(14):
        change(trainer, i)
        result = step(torch.full((2,), 1.0 + i))
        found.append((result, trainer.observed()))
    return found


def agree(one, two):
    if isinstance(one, torch.Tensor | float):
        return torch.allclose(torch.as_tensor(one), torch.as_tensor(two), rtol=1e-5)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(agree, one, two))
    return one == two


#: methods, and how many programs they take
METHODS = {
    Trainer.counts: 1,
    Trainer.uses_its_count: 1,
    Trainer.counts_in_a_dict: 1,
    Trainer.warms_up: 2,
    Trainer.accumulates: 5,
    Trainer.starts_again: 4,
    Trainer.returns_its_count: 1,
    Trainer.counts_globally: 1,
    Trainer.counts_in_a_list: 2,  # the first makes the optimiser's state
    Trainer.counts_in_slots: 1,
    Trainer.counts_in_a_class: 1,
    Trainer.follows_a_curve: 1,
    Trainer.needs_its_value: 1,
    Trainer.grows_a_list: 2,
    Trainer.is_interrupted: 6,  # what it logs is guarded
}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_a_number_that_each_call_changes_is_an_input(method, monkeypatch):
    trainer, other = Trainer(), Trainer()
    step = torch.compile(method.__get__(trainer))
    assert agree(trained(trainer, step, monkeypatch), trained(other, method.__get__(other), monkeypatch))
    assert step._compiled.recorded <= METHODS[method] and not step._compiled.given_up
    programs = [program for each in step._compiled.programs.values() for program in each]
    in_pieces = method in (Trainer.needs_its_value, Trainer.grows_a_list)
    assert any(program.refused is None for program in programs) is not in_pieces


def test_a_number_that_changes_between_calls_is_an_input(monkeypatch):
    def change(trainer, i):
        trainer.weight = 1 / (i + 1)

    def weighted(self, x):
        return self.train(x, self.weight)

    trainer, other = Trainer(), Trainer()
    step = torch.compile(weighted.__get__(trainer))
    expected = trained(other, weighted.__get__(other), monkeypatch, change)
    assert agree(trained(trainer, step, monkeypatch, change), expected)
    assert step._compiled.recorded <= 3


def test_a_count_in_a_variable():
    def counted(way) -> Any:
        n, w = 0, torch.ones(2)

        def step(x):
            nonlocal n
            n += 1
            w.add_(x, alpha=n)

        tried = way(step)
        return [(tried(torch.ones(2)), n, w.tolist()) for _ in range(6)], tried

    results, compiled = counted(torch.compile)
    assert results == counted(lambda f: f)[0] and compiled._compiled.recorded == 1


def test_an_equal_number_that_is_another_object_is_recorded_once_more():
    held = {"rate": 0.5}
    compiled = torch.compile(lambda x: x * held["rate"])
    for _ in range(5):
        held["rate"] = float("0.5")
        assert compiled(torch.ones(1)).item() == 0.5
    assert compiled._compiled.recorded == 2


def test_what_another_class_or_a_missing_attribute_does(monkeypatch):
    def change(trainer, i):
        trainer.calls = {5: 2.5, 9: True, 11: 3}.get(i, trainer.calls)
        if i == 7:
            trainer.weight = "none"

    trainer, other = Trainer(), Trainer()
    step = torch.compile(trainer.uses_its_count)
    expected = trained(other, other.uses_its_count, monkeypatch, change)
    assert agree(trained(trainer, step, monkeypatch, change), expected)


def test_an_error_of_the_function_leaves_the_count_as_uncompiled():
    def tried(way):
        trainer = Trainer()
        step: Any = way(trainer.counts)
        found: list[Any] = []
        for i in range(10):
            try:
                step(torch.ones(3 if i % 4 == 3 else 2))
            except RuntimeError as error:
                found.append(type(error))
            found.append(trainer.observed())
        return found, step

    found, step = tried(torch.compile)
    assert agree(found, tried(lambda f: f)[0]) and step._compiled.recorded <= 2


def test_a_step_that_counts_owns_its_parameters_from_call_to_call(monkeypatch):
    trainer = Trainer()
    step = torch.compile(trainer.counts)
    for _ in range(5):
        step(torch.ones(2))
    (program,) = [x for programs in step._compiled.programs.values() for x in programs]
    assert program.steady is not None and program.steady.owner is not None and trainer.calls == 5


def test_a_function_that_asks_for_classes_has_constants():
    n = {"calls": 0, "weight": 1.0}

    def step(x):
        return x * n["weight"] if type(n["weight"]) is float else x

    compiled = torch.compile(step)
    for weight in (1.0, 2.0, 3.0, 2.0):
        n["weight"] = weight
        assert compiled(torch.ones(())).item() == weight
    assert not any(program.refused for programs in compiled._compiled.programs.values() for program in programs)


def test_an_explanation_has_the_count_as_an_input():
    trainer = Trainer()
    trainer.train(torch.ones(2))
    found = torch.compiler.explain(trainer.uses_its_count)(torch.ones(2))
    assert found.graph_count == 1 and "self.calls" in "".join(found.inputs) and trainer.calls == 0


SCHEDULERS = {
    "StepLR": lambda t, o: t.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda t, o: t.MultiStepLR(o, [2, 7]),
    "ExponentialLR": lambda t, o: t.ExponentialLR(o, 0.9),
    "LambdaLR": lambda t, o: t.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "MultiplicativeLR": lambda t, o: t.MultiplicativeLR(o, lambda epoch: 0.9),
    "ConstantLR": lambda t, o: t.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda t, o: t.LinearLR(o, total_iters=4),
    "PolynomialLR": lambda t, o: t.PolynomialLR(o, 8, 2.0),
    "CosineAnnealingLR": lambda t, o: t.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda t, o: t.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda t, o: t.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "OneCycleLR": lambda t, o: t.OneCycleLR(o, 0.1, total_steps=20),
    "ChainedScheduler": lambda t, o: t.ChainedScheduler([t.LinearLR(o), t.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda t, o: t.SequentialLR(o, [t.LinearLR(o, total_iters=3), t.CosineAnnealingLR(o, 9)], [3]),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_step_with_its_scheduler_is_a_program(name):
    def trained_by(way):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        scheduler = SCHEDULERS[name](torch.optim.lr_scheduler, optimizer)
        kept, states = [], []

        @way
        def step(x):
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.detach()

        losses = []
        for i in range(12):
            losses.append(step(torch.full((2,), 1.0 + i % 3)))
            kept.append(scheduler.get_last_lr())
            states.append(scheduler.state_dict())
        return (torch.stack(losses), kept, [{**s, "_schedulers": None, "lr_lambdas": None} for s in states]), step

    expected, _ = trained_by(lambda f: f)
    found, step = trained_by(torch.compile)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1:] == expected[1:]
    programs = [program for each in step._compiled.programs.values() for program in each]
    assert all(program.refused is None for program in programs[:-1]) and not step._compiled.given_up
    assert len(programs) <= 6  # one for each piece of the schedule


def test_a_scheduler_that_sets_a_tuple_and_a_log_of_its_numbers_are_a_program():
    def trained_by(way):
        w, logged = torch.ones(2, requires_grad=True), {"loss": [], "lr": []}
        optimizer = torch.optim.AdamW([w], lr=0.1)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)

        @way
        def step(i, x):
            optimizer.zero_grad()
            loss = (w * x).square().sum() + i
            loss.backward()
            logged["loss"].append(loss.detach())
            logged["lr"].append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()

        betas = [step(i, torch.ones(2)) or optimizer.param_groups[0]["betas"] for i in range(12)]
        return (torch.stack(logged["loss"]), w.detach()), (betas, logged["lr"]), step

    expected, found = trained_by(lambda f: f), trained_by(torch.compile)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] == expected[1]
    assert found[2]._compiled.recorded <= 3 and not found[2]._compiled.given_up


def test_mathematics_is_as_it_was_after_an_error():
    functions = {name: getattr(math, name) for name in dir(math)}
    counter = {"calls": 1.0}

    def step(x):
        counter["calls"] += 1
        return x / math.sqrt(5.5 - counter["calls"])

    compiled = torch.compile(step)
    found = [compiled(torch.ones(())).item() for _ in range(4)]
    with pytest.raises(ValueError):
        compiled(torch.ones(()))
    torch.testing.assert_close(found, [1 / math.sqrt(5.5 - k) for k in range(2, 6)])
    assert functions == {name: getattr(math, name) for name in dir(math)}


def test_what_stands_beside_a_held_number_is_guarded():
    """In a list, an object with slots and a class; another size or class of number is another program, too."""

    class Slots:
        __slots__ = ("calls", "mode")

    class Holder:
        calls, mode = 0, "a"

    slots, items = Slots(), []

    def step(x):
        slots.calls += 1
        items[0] += 1
        Holder.calls += 1
        for mode, factor in ((slots.mode, 2.0), (items[1], 3.0), (Holder.mode, 5.0)):
            x = x if mode == "a" else x * factor
        items[2] = items[2] * 0.5 + 1
        return x * slots.calls * items[0] * Holder.calls * items[2]

    changes = {
        6: lambda: setattr(slots, "mode", "b"),
        8: lambda: items.__setitem__(1, "b"),
        10: lambda: setattr(Holder, "mode", "b"),
        12: lambda: setattr(slots, "calls", 100),
        13: lambda: items.__setitem__(0, 2.5),
        15: lambda: items.append(3),
        17: lambda: setattr(Holder, "calls", 7.5),
        19: lambda: items.__setitem__(2, torch.full((), 2.0)),
    }

    def results(function):
        slots.calls, slots.mode, Holder.calls, Holder.mode = 0, "a", 0, "a"
        items[:] = [0, "a", torch.ones(())]
        found = []
        for k in range(22):
            changes.get(k, lambda: None)()
            found.append((function(torch.ones(())).item(), slots.calls, items[0], Holder.calls, items[2].item()))
        return found

    compiled = torch.compile(step)
    assert agree(results(compiled), results(step))
    assert not compiled._compiled.given_up


def test_a_view_starts_at_a_number_of_pythons():
    data, state = torch.arange(8), {"i": 0}

    @torch.compile
    def f():
        state["i"] += 1
        return data[state["i"]]

    offsets = [f().storage_offset() for _ in range(5)]
    assert offsets == [1, 2, 3, 4, 5] and {type(x) for x in offsets} == {int}


def test_a_number_that_the_call_sets_is_set_whatever_it_was():
    state, cell, listed = {"x": 1}, 1, [1]

    @torch.compile
    def f(y):
        nonlocal cell
        state["x"] = cell = listed[0] = 42
        return y + 1

    for number in (1, 42, 42, 43, 42, 44, 42, 45):
        state["x"] = cell = listed[0] = number
        f(torch.ones(1))
        assert (state["x"], cell, listed[0]) == (42, 42, 42), number
