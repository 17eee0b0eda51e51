"""What is made inside of a compiled call and is kept where no walk finds it."""

import contextvars
import copy
import functools
import queue

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.capture.snapshot import LARGEST


def into_a_queue():
    kept = queue.SimpleQueue()
    return kept.put, kept.get


def into_a_context():
    kept = contextvars.ContextVar("kept")
    return kept.set, kept.get


def into_an_array():
    kept = np.empty(1, object)
    return functools.partial(kept.__setitem__, 0), lambda: kept[0]


def into_a_large_list():
    kept = [0] * (LARGEST + 1)
    return lambda x: kept.append(x), lambda: kept[-1]


def into_an_exception():
    kept = ValueError()
    return lambda x: setattr(kept, "args", (x,)), lambda: kept.args[0]


@pytest.mark.parametrize("into", [into_a_queue, into_a_context, into_an_array, into_a_large_list, into_an_exception])
@pytest.mark.parametrize("of", [lambda y: y + 1, lambda y: y.detach()[:1], lambda y: y.sum().item() * 2])
def test_it_has_its_value(into, of):
    keep, kept = into()
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def function(x):
        y = w * x
        keep(of(y))
        return y * 2

    compiled = torch.compile(function)
    for i in range(4):
        x = torch.full((2,), float(i))
        result = compiled(x)
        assert torch.as_tensor(kept()).tolist() == torch.as_tensor(of(w * x)).tolist()
        result.sum().backward()


def test_another_number_is_another_call():
    kept = queue.SimpleQueue()

    def function(x, i):
        kept.put(x * i)
        return x + i

    compiled = torch.compile(function)
    for i in range(4):
        compiled(torch.ones(2), i)
        assert kept.get().tolist() == [i, i] and kept.empty()


def test_after_a_cache_has_been_filled_the_function_is_a_program():
    w = torch.ones(2)

    @functools.cache
    def mask(n):
        return torch.arange(n) * w

    @torch.compile
    def function(x):
        return x * mask(2)

    for _ in range(4):
        assert function(torch.full((2,), 3.0)).tolist() == [0, 3]
    assert mask(2).tolist() == [0, 1]
    ((program, _),) = function._compiled.programs.values()
    assert program.refused is None


def test_what_only_history_or_garbage_holds_has_not_escaped():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.other = x * 2
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.other

    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def function(x):
        cycle = [Square.apply(w * x)]
        cycle.append(cycle)
        return cycle[0].exp()

    compiled = torch.compile(function)
    for _ in range(4):
        compiled(torch.ones(2)).sum().backward()
    assert {program.refused for each in compiled._compiled.programs.values() for program in each} == {None}


@pytest.mark.parametrize("runs_backward", [False, True])
def test_a_number_in_the_history_of_a_result_does_not_escape(runs_backward):
    w, weights = torch.tensor([1.0, 2.0], requires_grad=True), {"beta": 1.0}

    def loss(x):
        w.grad = None
        y = (weights["beta"] * 0.5 * (w * x)).sum()
        if runs_backward:
            y.backward()
        return y

    compiled = torch.compile(loss)
    for i in range(4):
        weights["beta"] = 1.0 + i
        y = compiled(torch.ones(2))
        if not runs_backward:
            y.backward()
        assert (y.item(), w.grad.tolist()) == (1.5 * (1 + i), [0.5 * (1 + i)] * 2)
    assert compiled._compiled.recorded == 2 and not compiled._compiled.has_escapes


class Slots:
    __slots__ = ("last",)


def test_an_attribute_in_slots_that_were_empty_is_set():
    kept, w = Slots(), torch.ones(2)

    def function(x):
        kept.last = w * x

    compiled = torch.compile(function)
    for i in range(4):
        compiled(torch.full((2,), float(i)))
        assert kept.last.tolist() == [i, i]


def deep_copy(w, x):
    return copy.deepcopy(w)


def other_data(w, x):
    y = w.detach()
    y.data = x * 1
    return y


def other_memory(w, x):
    return w.detach().set_(x * 1)


@pytest.mark.parametrize("copied", [deep_copy, other_data, other_memory])
def test_a_tensor_with_memory_made_inside_is_made_inside(copied):
    w = torch.ones(2)

    @torch.compile
    def f(x):
        y = copied(w, x)
        y.add_(x)
        return {"y": y}

    expected = copied(w.clone(), torch.ones(2)) + 1
    for _ in range(4):
        assert f(torch.ones(2))["y"].tolist() == expected.tolist() and w.tolist() == [1, 1]
