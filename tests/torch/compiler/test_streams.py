"""Random numbers of Python and NumPy, and iterators, are taken at each compiled call as uncompiled."""

import contextlib
import itertools
import random
from functools import partial

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.errors import CaptureError


def own(make, draw):
    def made():
        generator = make(3)
        return lambda x: x * draw(generator)

    return made


def advancing(iterator):
    return lambda x: x * next(iterator)


#: functions that make a function whose calls differ; two in a row may agree
FUNCTIONS = {
    "a branch": lambda: lambda x: x * 2 if random.random() < 0.5 else x * 3,
    "a shuffle": lambda: lambda x: x * random.sample([1.0, 2.0], 2)[0],
    "a counter's method": lambda: (lambda tick: lambda x: x * tick())(itertools.count().__next__),
    "NumPy's stream": lambda: lambda x: x * float(np.random.choice([1.0, 2.0])),
    "a stream of Python": own(random.Random, lambda r: r.choice([1, 2])),
    "a generator of NumPy": own(np.random.default_rng, lambda r: r.integers(2)),
    "a stream of NumPy": own(np.random.RandomState, lambda r: r.randint(2)),
    "an iterator": lambda: advancing(iter([1, 1, 1, 2, 3, 4, 5, 6, 7, 8])),
    "a cycle": lambda: advancing(itertools.cycle([1, 1, 1, 2])),
    "a count": lambda: advancing(itertools.count()),
    "a generator": lambda: advancing(x for x in [1, 1, 1, 2, 3, 4, 5, 6, 7, 8]),
}


def calls(function):
    random.seed(0)
    np.random.seed(0)
    results = [function(torch.ones(())).item() for _ in range(10)]
    return results, random.random(), np.random.rand()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_call_draws_as_uncompiled(name):
    assert calls(torch.compile(FUNCTIONS[name]())) == calls(FUNCTIONS[name]())


@pytest.mark.parametrize("way", [torch.capture, torch.pure, partial(torch.compile, fullgraph=True)])
def test_what_each_call_draws_anew_is_no_constant_of_a_graph(way):
    function = FUNCTIONS["a branch"]()
    state = random.getstate()
    with pytest.raises(CaptureError, match="draws random numbers of Python or NumPy"):
        way(function)(torch.ones(()))
    assert random.getstate() == state


def test_an_explanation_draws_nothing():
    function, iterator = FUNCTIONS["a branch"](), iter([1.0, 2.0])
    state = random.getstate()
    assert "draws random numbers of Python" in torch.compiler.explain(function)(torch.ones(())).breaks[0]
    assert "can reach an iterator, iterator" in torch.compiler.explain(advancing(iterator))(torch.ones(())).breaks[0]
    assert random.getstate() == state
    assert next(iterator) == 1


def test_a_function_under_a_mode_reaches_no_iterator():
    @torch.no_grad()
    def doubled(x):
        return x * 2

    compiled = torch.compile(lambda x: doubled(x) + 1)
    assert compiled(torch.ones(())).item() == 3
    assert [program.refused for programs in compiled._compiled.programs.values() for program in programs] == [None]


def test_a_function_that_a_generator_decorates_reaches_no_iterator():
    @contextlib.contextmanager
    def counted(times):
        times.append(len(times))
        yield

    times = []

    @counted(times)
    def twice(x):
        return x * 2

    compiled = torch.compile(lambda x: twice(x) + len(times))
    assert [compiled(torch.ones(1)).item() for _ in range(5)] == [3, 4, 5, 6, 7]

    @contextlib.contextmanager
    def without_gradients():
        with torch.no_grad():
            yield

    compiled = torch.compile(without_gradients()(lambda x: x * 2))
    assert compiled(torch.ones(1)).item() == 2 and torch.compiler.explain(compiled)(torch.ones(1)).graph_count == 1
