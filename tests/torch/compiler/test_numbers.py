"""Python numbers among the arguments: inputs of one program where they reach operations, and never stale."""

import copy
import gc
import io
import math
import operator

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.errors import CaptureError
from fgrad.mutable.types.symbolic import SymbolicNumber

DATA = torch.arange(80.0).reshape(20, 4) / 80
TENSORS = [torch.full((2,), float(i)) for i in range(3)]


def gradient_of_rows(i):
    w = DATA.clone().requires_grad_()
    ((w[i] ** 2).sum() + w[i : i + 2, 1].sum() * i).backward()
    return w.grad


def written_rows(i):
    v = torch.zeros(20, 4)
    row = v[i]
    row.add_(1)
    v[i : i + 2].mul_(3)
    v[i, 2] = 5.0
    return v + i


#: functions of a number that need one program for all of these numbers
INPUTS = {
    "a factor": lambda t: DATA * t,
    "arithmetic of Python": lambda t: DATA * (1 - 0.9**t) / (t + 1) + abs(-t) // 2 % 3,
    "an index": lambda i: DATA[i] * 2,
    "an index of a column": lambda i: DATA[2:, i % 4] + DATA[i, 1],
    "a batch": lambda i: DATA[i : i + 4].mean(0),
    "narrow and select": lambda i: DATA.narrow(0, i, 2) + DATA.select(0, i),
    "an index of what is made inside": lambda i: torch.eye(20)[i] + torch.arange(20.0)[i],
    "a gradient of rows": gradient_of_rows,
    "written rows": written_rows,
    "a comparison": lambda i: DATA * i if 0 <= i < 100 else DATA,
    "a class": lambda i: DATA * i if isinstance(i, int) and not isinstance(i, bool) else DATA,
    "an operation's option": lambda i: torch.add(DATA, DATA, alpha=i + 1),
}
#: functions of a number that depend on its value in other ways, and need programs for some or all of the values
VALUES = {
    "a power, of which some are products": lambda i: (DATA + 1) ** i,
    "a branch": lambda i: DATA + 1 if i > 3 else DATA - i,
    "every third": lambda i: DATA * 2 if i % 3 == 0 else DATA,
    "a shape": lambda i: torch.ones(i, 2),
    "a loop": lambda i: sum([DATA * k for k in range(i)]) + DATA,
    "a text": lambda i: (f"{i}", str(i), DATA * 1),
    "a key": lambda i: {1: DATA, 2: DATA * 2}.get(i, DATA * 3) + 1,
    "an element of a list": lambda i: TENSORS[i % 3] * 2,
    "a result": lambda i: (DATA + i, i + 1),
    "a function of Python's": lambda i: DATA * math.sin(i),
    "the builtin type": lambda i: DATA * 2 if type(i) is int else DATA,
    "an integer of Python's": lambda i: DATA + operator.index(i) + int(i) + float(i) + round(i, 1),
    "an attribute": lambda i: DATA * i.bit_length() + i.real,
    "a copy": lambda i: DATA * copy.deepcopy([i])[0],
    "a tensor of it": lambda i: torch.tensor(i) + torch.full((2,), i) + torch.tensor([i, 1]),
    "the last batches": lambda i: DATA[i + 8 : i + 16].sum(0),
    "a negative index": lambda i: DATA[i - 5],
    "a sorted list": lambda i: DATA * sorted([i, 3, 1])[0] + max(i, 2),
}


@pytest.mark.parametrize("numbers", [range(1, 12), [2, 5, 3, 9, 1, 4, 7, 2, 5, 8]], ids=["in order", "mixed"])
@pytest.mark.parametrize("name", INPUTS)
def test_a_number_that_reaches_an_operation_is_an_input(name, numbers):
    compiled = torch.compile(INPUTS[name])
    for i in numbers:
        assert torch.allclose(compiled(i), INPUTS[name](i)), i
    assert compiled._compiled.recorded == 2


@pytest.mark.parametrize("numbers", [range(1, 12), [2, 5, 3, 9, 0, 4, 7, 2, 5, 8]], ids=["in order", "mixed"])
@pytest.mark.parametrize("name", VALUES)
def test_no_value_is_stale(name, numbers):
    compiled = torch.compile(VALUES[name])
    for i in numbers:
        assert str(compiled(i)) == str(VALUES[name](i)), i


@pytest.mark.parametrize("name", ["a result", "the builtin type", "an attribute"])
def test_numbers_of_several_classes(name):
    compiled = torch.compile(VALUES[name] if name != "an attribute" else lambda i: DATA + i.real)
    function = compiled._torchdynamo_orig_callable
    for i in (1, 2, 3.5, True, 2, 1.0, 4, False, 2.5):
        assert str(compiled(i)) == str(function(i)), i


def mixed(lam):
    scale = 2 if 0.0 <= lam <= 1.0 else 1
    return lam * DATA + (1 - lam) * DATA.sin() * scale + DATA.clamp(max=lam) + np.float64(2.0) * lam + torch.lerp(
        DATA, -DATA, abs(lam)
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted({*INPUTS, *VALUES} - {"an attribute"}))
def test_integers_of_numpy(name):
    """An element of ``np.random.permutation`` is an input where it is an operand, an index or the start of a slice."""
    function = (INPUTS | VALUES)[name]
    compiled = torch.compile(function)
    for i in np.array([2, 5, 3, 9, 1, 4, 7, 2, 5, 8]):
        assert str(compiled(i)) == str(function(i)), i
    if name in INPUTS and name != "narrow and select":
        assert compiled._compiled.recorded == 2


#: functions of NumPy's double, by how many recordings of theirs serve all of its values
DOUBLES = {
    "mixed": (mixed, 2),
    "its type": (lambda t: (torch.tensor(t), torch.as_tensor(t), t, t * 2, t.item(), t.dtype), None),
    "its class": (lambda t: DATA * t if isinstance(t, np.floating) and isinstance(t, float) else DATA, 2),
    "NumPy": (lambda t: (DATA * np.sin(t), np.round(t, 1), np.array([t, 1.0])), None),
    "a branch": (lambda t: DATA * t if t > 0.5 else DATA - t, None),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_doubles_of_numpy(name):
    """What ``np.random.beta`` gives, as in mixup, is an input like a ``float``, and of its own type."""
    function, recorded = DOUBLES[name]
    compiled = torch.compile(function)
    for t in np.random.default_rng(0).random(10):
        (found, wanted) = ([x] if isinstance(x, torch.Tensor) else x for x in (compiled(t), function(t)))
        assert [type(x) for x in found] == [type(x) for x in wanted]
        for x, y in zip(found, wanted, strict=True):
            assert str(x) == str(y) if not isinstance(x, torch.Tensor) else x.dtype == y.dtype and torch.allclose(x, y)
    assert recorded in (None, compiled._compiled.recorded)


def test_zeros_with_a_sign_and_infinities():
    function = lambda t: DATA[:1, :1] * t + math.copysign(1, t)  # noqa: E731
    compiled = torch.compile(function)
    for t in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 0.0, -0.0):
        assert str(compiled(t)) == str(function(t)), t


def test_an_index_out_of_range_is_the_error_that_it_is():
    compiled = torch.compile(lambda i: DATA[i] * 2)
    for i in (0, 1, 2, 19, -20):
        assert compiled(i).tolist() == (DATA[i] * 2).tolist()
    for i in (20, -21):
        with pytest.raises(IndexError, match=f"index {i} is out of bounds"):
            compiled(i)


def test_a_step_over_indices_is_one_program_and_trains_as_uncompiled():
    def step_and_model():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(i, rate=1.0):
            optimizer.zero_grad()
            loss = (model(DATA[i : i + 4]) * rate).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, model

    (step, model), (wanted, other) = step_and_model(), step_and_model()
    compiled = torch.compile(step)
    for i in range(12):
        assert torch.allclose(compiled(i, rate=1 / (i + 1)), wanted(i, rate=1 / (i + 1)))
    assert torch.allclose(model.weight, other.weight)
    assert compiled._compiled.recorded == 2  # the first makes the velocities


def test_a_call_that_is_no_program_for_another_reason_leaves_the_number_an_input():
    def losses(compile):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.01, momentum=0.9)  # the first step makes the velocity

        @compile
        def step(i, x):
            loss = (w * x).square().sum()
            loss.backward()
            if (i + 1) % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
            if i % 10 == 7:
                print(loss, file=log)
            return loss.detach()

        log = io.StringIO()
        return [step(i, torch.ones(2)).item() for i in range(30)], log.getvalue(), step

    compiled, log, step = losses(torch.compile)
    uncompiled, log_uncompiled, _ = losses(lambda f: f)
    np.testing.assert_allclose(compiled, uncompiled, rtol=1e-6)
    assert len(log.splitlines()) == len(log_uncompiled.splitlines()) == 3
    assert not step._compiled.given_up


ERRORS = {
    "a division": (lambda n: 1 / n, 0.0),
    "a logarithm": (math.log, -1.0),
    "an exponential": (math.exp, 1e6),
    "a shift": (lambda n: 1 << int(n), -1.0),
    "a power": (lambda n: n**-1.0, 0.0),
    "a part": (lambda n: math.floor(n), math.inf),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_that_is_caught_is_that_of_its_number(name):
    function, bad = ERRORS[name]

    def step(x, n):
        try:
            return x * function(n)
        except (ArithmeticError, ValueError):
            return x * 100

    compiled = torch.compile(step)
    for n in (1.0, 2.0, 3.0, bad, 4.0, bad, 2.0):
        np.testing.assert_allclose(compiled(DATA, n).numpy(), step(DATA, n).numpy())


def test_what_ends_with_a_symbolic_number_is_not_kept():
    compiled, before = torch.compile(written_rows), symbolic_numbers()
    for i in range(4):
        compiled(i)
    assert symbolic_numbers() <= before


def symbolic_numbers():
    gc.collect()
    return {id(x) for x in gc.get_objects() if issubclass(type(x), SymbolicNumber)}


def test_explain_says_what_is_guarded_of_a_number():
    def step(x, i, *, rate):
        return x * i + rate if rate > 0.5 else x

    found = torch.compiler.explain(step)(DATA, 3, rate=0.75)
    assert found.inputs == ("args[0]", "args[1]", "rate")
    assert any(line.startswith("(rate > 0.5), for") and "step)" in line for line in found.guards)


def test_a_full_graph_with_numbers():
    def step(x, i):
        return x * i if x.sum() > i else x

    compiled = torch.compile(step, fullgraph=True)
    for i in range(3):
        with pytest.raises(CaptureError, match="is needed at"):
            compiled(DATA, i)
