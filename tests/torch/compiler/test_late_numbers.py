"""Numbers that a compiled step reads from its tensors, which only the program knows: NOTE [Late numbers]."""

import contextvars
import decimal
import functools
import io
import json
import math
import queue
import statistics
from collections import namedtuple

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.errors import CaptureError

Metrics = namedtuple("Metrics", "loss accuracy")


class Meter:
    """The average of some numbers, as training scripts have it."""

    def __init__(self):
        self.value, self.total, self.count, self.average = 0.0, 0.0, 0, 0.0

    def update(self, value, count):
        self.value = value
        self.total += value * count
        self.count += count
        self.average = self.total / self.count


def trainer(read):
    """A step that reads its loss, and what it leaves."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    meter = Meter()

    def step(x, y):
        optimizer.zero_grad()
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        loss.backward()
        seen = read(loss, output, y, meter)
        optimizer.step()
        return seen

    def state():
        numbers = [p.grad for p in model.parameters()] + [s["momentum_buffer"] for s in optimizer.state.values()]
        return [*model.parameters(), *numbers], [p._version for p in model.parameters()], vars(meter)

    return step, state


def correct(output, y):
    return (output.argmax(1) == y).sum()


def noted(loss, output, y, meter):
    meter.update(loss.item(), len(y))


def summed(loss, output, y, meter):
    meter.total += 2 * loss.item() - 1
    meter.count += correct(output, y).item()


READS = {
    "returned": lambda loss, *_: loss.item(),
    "in a dict": lambda loss, output, y, _: {"loss": loss.item(), "accuracy": correct(output, y).item() / len(y)},
    "in a named tuple": lambda loss, output, y, _: Metrics(loss.item(), 100.0 * correct(output, y).item()),
    "beside a tensor": lambda loss, *_: (loss.detach(), -loss.item(), abs(loss.item() - 1)),
    "perplexity": lambda loss, *_: math.exp(loss.item()),
    "a power": lambda loss, *_: loss.item() ** 2,
    "as an operand": lambda loss, output, *_: (output.detach() * loss.item()).sum().item(),
    "tested": lambda loss, *_: loss.item() if math.isfinite(loss.item()) and not math.isnan(loss.item()) else None,
    "rounded": lambda loss, *_: (round(loss.item(), 2), math.floor(loss.item() * 10)),
    "noted": noted,
    "summed": summed,
}


def run(read, way, calls=8):
    step, state = trainer(read)
    step = way(step)
    generator = torch.Generator().manual_seed(1)
    batches = [(torch.randn(5, 3, generator=generator), torch.randint(0, 2, (5,), generator=generator)) for _ in "123"]
    results = [step(*batches[k % 3]) for k in range(calls)]
    return (results, *state()), step


@pytest.mark.parametrize("name", READS)
def test_a_step_that_reads_numbers_is_one_program_and_leaves_what_it_leaves_uncompiled(name):
    (expected, *after), _ = run(READS[name], lambda step: step)
    (found, *now), step = run(READS[name], torch.compile)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(now, after, rtol=1e-5, atol=1e-5)
    assert [*map(type, torch.utils._pytree.tree_leaves(found))] == [
        *map(type, torch.utils._pytree.tree_leaves(expected))
    ]
    (latest, *_) = next(iter(step._compiled.programs.values()))
    assert latest.refused is None and latest.results


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_a_number_is_the_one_that_item_gives(dtype):
    compiled = torch.compile(lambda x: x.sum().item(), fullgraph=True)
    for k in range(3):
        x = torch.tensor([1.3 + k, 2]).to(dtype)
        assert compiled(x) == x.sum().item() and type(compiled(x)) is type(x.sum().item())


def test_an_element_of_an_input_and_of_a_parameter_that_is_overwritten():
    w = torch.tensor([1.0, 2.0])

    @torch.compile(fullgraph=True)
    def step(x):
        before = w[0].item()
        w.mul_(x)
        return before, x.item(), w[0].item()

    assert [step(torch.tensor(3.0)) for _ in range(4)] == [(1, 3, 3), (3, 3, 9), (9, 3, 27), (27, 3, 81)]


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (lambda x: math.log(x.item()), (1.0, 2.0, 0.0, 4.0)),
        (lambda x: 1 / x.item(), (1.0, 2.0, 0.0, 4.0)),
        (lambda x: 10.0 ** x.item(), (1.0, 2.0, 1e5, 4.0)),
        (lambda x: x.item() ** 0.5, (1.0, 2.0, -4.0, 4.0)),
        (lambda x: "lost" if math.isnan(x.item()) else x.item(), (1.0, 2.0, math.nan, 4.0)),
        (lambda x: round(x.item()), (1.0, 2.0, math.inf, 4.0)),
    ],
    ids=["a logarithm", "a quotient", "an overflow", "a complex root", "not a number", "an infinity"],
)
def test_what_no_program_can_compute_comes_as_uncompiled_and_takes_effect_once(read, values):
    def run(way):
        count, seen = torch.zeros(1), []

        @way
        def step(x):
            count.add_(1)
            return read(x * 1)

        for value in values:
            try:
                seen.append(step(torch.tensor(value)))
            except (ArithmeticError, ValueError) as error:
                seen.append(repr(error))
        return seen, count.item()

    assert run(torch.compile) == run(lambda step: step)


def test_where_the_value_is_needed_all_numbers_get_theirs():
    total, doubled = [0.0], [0.0]
    w = torch.ones(2)

    def step(x):
        loss = (w * x).sum()
        total[0] += loss.item()
        twice = 2 * loss.item()
        doubled[0] = twice
        w.add_(1)
        return "large" if twice > 10 else twice

    found = []
    for way in (torch.compile, lambda step: step):
        total[0] = doubled[0] = 0.0
        w.fill_(1)
        call = way(step)
        found.append([(call(torch.ones(2)), *total, *doubled, w.tolist()) for _ in range(5)])
    assert found[0] == found[1]
    assert [type(x) for x in (*total, *doubled)] == [float, float]


def test_an_error_after_a_break_leaves_plain_numbers():
    class Count:
        n = 0

    held = Count()
    held.n = 0

    @torch.compile
    def step(x):
        held.n += 1
        held.last = x.sum().item()
        if held.n > 3 and x.sum() > 0:
            held.n += 1
            raise RuntimeError("as uncompiled")
        return x + held.n

    for _ in range(3):
        step(torch.ones(2))
    for n in (5, 7):
        with pytest.raises(RuntimeError, match="as uncompiled"):
            step(torch.ones(2))
        assert (type(held.n), held.n, type(held.last), held.last) == (int, n, float, 2)


def test_a_full_graph_that_needs_the_value_names_the_line_that_needs_it():
    def step(x):
        total = x.sum().item()
        return x if total > 1 else -x

    with pytest.raises(CaptureError, match=r"is needed at .*test_late_numbers.py:\d+"):
        torch.compile(step, fullgraph=True)(torch.ones(2))


def test_explain_names_the_numbers():
    found = torch.compiler.explain(lambda x: {"total": (x * 2).sum().item()})(torch.ones(2))
    assert found.graph_count == 1 and not found.breaks and any("item" in name for name in found.outputs)


def nested(kept, value):
    kept["a"] = {"b": [(value, frozenset((value,)))], (value, 1): Metrics(value, 2)}


def key(kept, value):
    kept["a"] = {value: {value}}


def opaque(kept, value):
    kept["a"] = functools.partial(max, value, key=value), ValueError(value, [value]), np.array([value], object)
    kept.setdefault("b", queue.SimpleQueue()).put((value,))
    kept.setdefault("c", contextvars.ContextVar("c")).set(value)


def classes_of(value):
    """A value's structure with the classes of its numbers, which ``type`` tells apart."""
    match value:
        case dict():
            return [(classes_of(k), classes_of(v)) for k, v in value.items()]
        case tuple() | list() | set() | frozenset() | np.ndarray():
            return [classes_of(x) for x in value]
        case functools.partial() | ValueError():
            return classes_of([*value.args, getattr(value, "keywords", None)])
        case queue.SimpleQueue():
            return classes_of([value.get() for _ in range(value.qsize())])
        case contextvars.ContextVar():
            return classes_of(value.get())
        case _:
            return type(value), value


@pytest.mark.parametrize("keep", [nested, key, opaque])
@pytest.mark.parametrize("late", [False, True])
def test_no_symbolic_number_is_left_behind(keep, late):
    w, held = torch.ones(2), {"steps": 0.0}

    def function(kept, x):
        held["steps"] += 1
        loss = (w * x).sum()
        keep(kept, loss.item() if late else held["steps"])
        return [(loss.item(), held["steps"])]

    seen = []
    for way in (torch.compile, lambda function: function):
        held["steps"], kept = 0.0, {}
        step = way(functools.partial(function, kept))
        seen.append([classes_of([step(torch.full((2,), float(i))), kept]) for i in range(4)])
    assert seen[0] == seen[1]


def test_a_scheduler_leaves_plain_numbers_in_a_tuple():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adamax([parameter], lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=20)

    @torch.compile
    def step(x):
        loss = (parameter * x).sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    for _ in range(4):
        step(torch.ones(2))
        assert [type(beta) for beta in optimizer.param_groups[0]["betas"]] == [float, float]


@pytest.mark.parametrize("use", [json.dumps, decimal.Decimal, lambda x: statistics.mean([x, 1.0])])
def test_c_code_and_others_that_ask_for_the_class_of_a_number(use):
    w, printed = torch.ones(2), io.StringIO()

    def function(x):
        loss = (w * x).sum()
        value = loss.item()
        w.add_(1)
        print(value, file=printed)
        return use(value)

    def seen(function):
        w.fill_(1)
        return [(function(torch.full((2,), float(i))), w.tolist()) for i in range(4)]

    assert seen(torch.compile(function)) == seen(function)


def test_an_error_of_the_function_after_a_number_was_needed_is_raised_once():
    w, seen = torch.ones(2), []

    @torch.compile
    def function(x):
        value = (w * x).sum().item()
        w.add_(1)
        seen.append(f"{value}")
        raise ValueError(value)

    for i in range(3):
        with pytest.raises(ValueError, match=str(2.0 + 2 * i)):
            function(torch.ones(2))
    assert seen == ["2.0", "4.0", "6.0"] and w.tolist() == [4.0, 4.0]
