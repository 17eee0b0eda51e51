"""The lines that a compiled call consists of: what they ask, what they leave, and when they are not used."""

import dis
import itertools

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.torch.compiler import codegen, steady
from fgrad.torch.compiler.codegen import FastGuards
from tests.torch.compiler.programs import classifier, close
from tests.torch.compiler.test_compile import programs


@pytest.fixture(autouse=True)
def never_steady(monkeypatch):
    """Each call reads its tensors one by one."""
    monkeypatch.setattr(steady, "FIRST_CALLS", 1 << 30)


def uses_generated_code(step, *args):
    """Whether a call of a compiled function would use its generated code."""
    called = [each for each in programs(step) if each.fast_guards is not None and each.fast_effects.run is not None]
    return any(each.fast_guards(list(args)) is not None for each in called)


def descent(w=None):
    w = torch.tensor([1.0, 2.0], requires_grad=True) if w is None else w
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()

    return w, step


def test_the_third_call_is_made_by_straight_lines():
    program = classifier()
    step = torch.compile(program.step)
    for _ in range(4):
        step(*program.batches[0])
    assert uses_generated_code(step, *program.batches[0])


def test_no_signal_is_handled_between_the_first_effect_and_the_last():
    program = classifier()
    step = torch.compile(program.step)
    for _ in range(4):
        step(*program.batches[0])
    (leaving,) = [each.fast_effects for each in programs(step) if each.calls >= 3]
    lines = list(dis.get_instructions(leaving.run))
    stores = [
        i for i, each in enumerate(lines) if each.argval in ("array", "value", "_grad") and "STORE" in each.opname
    ]
    made = [i for i, each in enumerate(lines) if each.opname.startswith("CALL")]
    first = next(i for i in stores if i > max([k for k in made if k < stores[-1]]))
    effects = leaving.effects
    wanted = len(effects.writes) + len(effects.counts) + len(effects.fields)
    assert len([i for i in stores if i >= first]) == wanted
    assert not any(each.opname.startswith(("CALL", "JUMP_BACKWARD")) for each in lines[first : stores[-1]])


@pytest.mark.parametrize("owner, name", [(FastGuards, "remember"), (codegen, "_effect_code"), (steady, "reader")])
def test_an_interrupt_before_the_first_run_leaves_a_program_that_works(monkeypatch, owner, name):
    def interrupted(*args):
        raise KeyboardInterrupt

    w, step = descent()
    compiled = torch.compile(step)
    compiled(torch.ones(2))  # makes the optimiser's state
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(2))
    other, plain = descent()
    for _ in range(4):
        compiled(torch.ones(2))
    for _ in range(5):
        plain(torch.ones(2))
    assert uses_generated_code(compiled, torch.ones(2))
    close(w.detach(), other.detach(), exact=False)


@pytest.mark.parametrize("others", [0, 1, 20])
def test_errors_name_every_write_of_compiled_calls_and_of_others(others):
    w, step = descent()
    compiled = torch.compile(step)
    x = torch.ones(2)
    loss = w.square().sum()
    for _ in range(4):
        compiled(x)
    with torch.no_grad():
        for _ in range(others):
            w.mul_(1)
    for _ in range(2):
        compiled(x)
    noted = w._counter.last_writes()
    assert [each.version for each in noted] == list(range(w._version - len(noted) + 1, w._version + 1))
    kinds = ["optimizer step"] * 4 + ["mul_"] * others + ["optimizer step"] * 2
    assert [each.operation for each in noted] == kinds[-16:]
    assert all(each.source is not None for each in noted)
    with pytest.raises(RuntimeError, match="(?s)modified by an inplace operation.*optimizer step"):
        loss.backward()


def test_two_functions_that_write_a_tensor_in_turns_are_told_apart():
    w = torch.zeros(2)
    add, multiply = torch.compile(lambda: w.add_(1).sum()), torch.compile(lambda: w.mul_(2).sum())
    for _ in range(4):
        add()
        multiply()
    assert [each.operation for each in w._counter.last_writes()] == ["add_", "mul_"] * 4
    add()
    add()
    assert [each.operation for each in w._counter.last_writes()][-4:] == ["add_", "mul_", "add_", "add_"]


def test_memory_that_numpy_looks_at_is_written_by_what_can_take_it_back():
    (w, step), (v, plain) = descent(), descent()
    compiled = torch.compile(step)
    x = torch.ones(2)
    for _ in range(4):
        compiled(x)
        plain(x)
    assert uses_generated_code(compiled, x)
    shown = w.detach().numpy()
    assert not uses_generated_code(compiled, x)
    compiled(x)
    plain(x)
    close(shown, v.detach().numpy(), exact=False)
    del shown
    for _ in range(2):
        compiled(x)
        plain(x)
    close(w.detach().numpy(), v.detach().numpy(), exact=False)


def test_a_table_with_a_method_of_its_own_is_asked_to_take_its_entries():
    calls = itertools.count()  # a count that no guard sees

    class Table(dict):
        def __setitem__(self, key, value):
            next(calls)
            super().__setitem__(key, value)

    table = Table(average=torch.zeros(2))

    def update(x):
        table["average"] = table["average"] * 0.5 + x
        return table["average"].sum()

    compiled = torch.compile(update)
    for _ in range(4):
        compiled(torch.ones(2))
    assert next(calls) >= 4 and table["average"].tolist() == [1.875, 1.875]
    assert not uses_generated_code(compiled, torch.ones(2))


def change_data(w, x):
    w.data = w.data.clone() * 2


def change_layout(w, x):
    w.data = torch.ones(2, 2).t()[0]


def freeze(w, x):
    w.requires_grad_(False)


def hook(w, x):
    w.register_hook(lambda g: g * 2)


def share(w, x):
    w.data = x


def enlarge(w, x):
    w.data.resize_(3)[2] = 1.0
    w.data.resize_(2)


@pytest.mark.parametrize("change", [change_data, change_layout, freeze, hook, share, enlarge])
def test_a_tensor_that_is_no_longer_as_it_was_is_seen(change):
    outcomes = []
    for compile in (torch.compile, lambda f: f):
        w, v = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
        x = torch.tensor([0.5, 0.25])

        def step(x, w=w, v=v):
            w.grad = v.grad = None
            (w * x * v).square().sum().backward()
            with torch.no_grad():
                for each in (w, v):
                    if each.grad is not None:
                        each -= 0.1 * each.grad
            return x.sum()

        step = compile(step)
        found = [step(x) for _ in range(4)]
        change(w, x)
        found += [step(x) for _ in range(3)]
        outcomes.append([each.tolist() for each in (*found, w, v, x)] + [w._version, v._version, x._version])
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_an_error_before_the_first_effect_leaves_everything_as_it_was(monkeypatch):
    w, step = descent()
    compiled = torch.compile(step)
    x = torch.ones(2)
    for _ in range(4):
        compiled(x)
    assert uses_generated_code(compiled, x)
    (leaving,) = [each.fast_effects for each in programs(compiled) if each.calls >= 3]
    before = w.tolist(), w.grad, w.grad.tolist(), w._version
    run = leaving.run
    monkeypatch.setattr(leaving, "run", lambda found, outs, *rest: run(found, outs[:-1], *rest))
    with pytest.raises(ValueError, match="not enough values"):
        compiled(x)
    assert (w.tolist(), w.grad, w.grad.tolist(), w._version) == before


def test_a_write_of_a_custom_operator_is_not_taken_for_one_of_the_compiled_function():
    @torch.library.custom_op("straight::twice", mutates_args={"x"})
    def twice(x: torch.Tensor) -> None:
        x.copy_(x * 2)

    w = torch.ones(2)
    add = torch.compile(lambda: w.add_(1).sum())
    for _ in range(4):
        add()
    twice(w)
    add()
    noted = w._counter.last_writes()
    assert [each.version for each in noted] == list(range(1, w._version + 1))
    assert "straight::twice" in [each.operation for each in noted[4:-1]] and noted[-1].operation == "add_"


def many_writes(w, x):
    for _ in range(18):
        w.add_(x)
    w.mul_(2)


def test_of_many_writes_in_one_call_the_last_ones_are_noted_with_their_versions():
    w, plain, x = torch.zeros(2), torch.zeros(2), torch.ones(2)
    step = torch.compile(lambda x: many_writes(w, x))
    for _ in range(4):
        step(x)
        many_writes(plain, x)
    noted, wanted = w._counter.last_writes(), plain._counter.last_writes()
    assert [(each.version, each.operation) for each in noted] == [(each.version, each.operation) for each in wanted]


def test_writes_that_nobody_remembers_are_not_taken_for_those_of_another_function():
    w, x = torch.zeros(2), torch.ones(2)
    add, many = torch.compile(lambda: w.add_(1).sum()), torch.compile(lambda x: many_writes(w, x))
    for _ in range(4):
        add()
    for _ in range(4):
        many(x)
    add()
    noted = w._counter.last_writes()
    assert [each.version for each in noted] == list(range(w._version - 15, w._version + 1))
    assert [each.operation for each in noted] == ["add_"] * 14 + ["mul_", "add_"]
    lines = {each.source for each in noted[:-2]}
    assert len(lines) == 1 and noted[-1].source not in lines


@pytest.mark.parametrize("requires_grad", [False, True])
def test_new_tensors_have_all_that_makers_of_tensors_give_them(requires_grad):
    x = torch.ones(2, requires_grad=requires_grad)
    f = torch.compile(lambda x: x * 2)
    written = [f(x) for _ in range(4)][-1]
    (program,) = programs(f)
    made = program.effects.new_tensors[0].make([], [written._storage.array] * 2, [])
    assert uses_generated_code(f, x)
    for one, other in (
        (written, made),
        (written._storage, made._storage),
        (written._counter, made._counter),
    ):
        assert type(one) is type(other)
        assert [hasattr(one, name) for name in slots_of(one)] == [hasattr(other, name) for name in slots_of(other)]
    assert set(fields_of(written)) - {"_node", "_output_nr"} == set(fields_of(made)) - {"_node", "_output_nr"}


def slots_of(x):
    return [name for cls in type(x).__mro__ for name in vars(cls).get("__slots__", ())]
