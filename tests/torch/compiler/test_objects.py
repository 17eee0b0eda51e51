"""Objects in the result of a compiled call are what they are uncompiled, and new at each call."""

import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import attrs
import pytest

import fgrad.torch as torch

D = torch.distributions
T = TypeVar("T")


class Mode(Enum):
    ONE = 1


@dataclass
class Output:
    logits: Any
    loss: Any = None
    mode: Mode = Mode.ONE
    log: list[Any] = field(default_factory=list)

    @property
    def double(self):
        return self.logits * 2


@dataclass(frozen=True, slots=True)
class Frozen(Generic[T]):
    logits: T
    count: int = 0


@attrs.define
class Defined:
    logits: Any
    names: tuple[str, ...] = ("a", "b")


class Plain:
    made = 0

    def __init__(self, x):
        self.x, self.shape, self.dtype, self.device, self.kind = x, x.shape, x.dtype, x.device, Output


class Mixed(Plain):
    __slots__ = ("inner", "unset")

    def __init__(self, x):
        super().__init__(x)
        self.inner = Frozen(x.sum())


class Entries(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if isinstance(value, torch.Tensor):
            super().__setattr__(key, value)


class Listed(list):
    pass


class Shouting(dict):
    def __setitem__(self, key, value):
        raise RuntimeError("never called")


RESULTS = {
    "dataclass": lambda y: Output(y, y.sum(), log=[y.mean().item()]),
    "in a tree": lambda y: {"a": [Output(y, y.sum())], "b": (Frozen(y, 3), Defined(y + 1))},
    "plain": Plain,
    "slots": Mixed,
    "entries": lambda y: Entries(a=y, b=Output(y.sum())),
    "list": lambda y: Listed([y, y * 2]),
    "dict": lambda y: Shouting(a=y, b=[y * 2]),
    "namespace": lambda y: SimpleNamespace(y=y, inner=[SimpleNamespace(z=y.sum())]),
    "set": lambda y: (y, {1, 2, "a"}, [{y}]),
    "frozen set": lambda y: (frozenset((y,)), frozenset("abc")),
    "partial": lambda y: [partial(torch.add, y), partial(torch.add, alpha=2, other=y * 2)],
    "no tensors": lambda y: (y, Output(1.0)),
    "normal": lambda y: D.Normal(y, y.exp()),
    "independent": lambda y: D.Independent(D.Normal(y, 1.0), 1),
    "categorical": lambda y: D.Categorical(logits=y),
    "multivariate": lambda y: D.MultivariateNormal(y, torch.eye(2)),
    "mixture": lambda y: D.MixtureSameFamily(D.Categorical(logits=y), D.Normal(y, 1.0)),
    "transformed": lambda y: D.TransformedDistribution(D.Normal(y, 1.0), [D.ExpTransform(), D.AffineTransform(1, y)]),
    "parameters": lambda y: D.Beta(D.Gamma(y.exp(), 1.0).mean, 2.0),
}


def shown(x):
    if isinstance(x, torch.Tensor):
        return x.mul(1e4).round().tolist(), x.requires_grad, x._version, x.grad_fn is None
    if isinstance(x, float):
        return round(x, 4)
    if isinstance(x, partial):
        x = x.func.__name__, x.args, x.keywords
    if isinstance(x, list | tuple | set | frozenset):
        inner = [shown(each) for each in x]
        if isinstance(x, set | frozenset):
            inner.sort(key=str)  # the order of a set depends on how it was filled
    elif isinstance(x, dict):
        inner = [(key, shown(value)) for key, value in x.items()]
    elif isinstance(x, str | int | float | type | Enum | torch.dtype | torch.device | None):
        return x
    else:
        inner = []
    slots = [(name, shown(getattr(x, name))) for name in getattr(type(x), "__slots__", ()) if hasattr(x, name)]
    return type(x), inner, slots, [(name, shown(value)) for name, value in getattr(x, "__dict__", {}).items()]


def leaves(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, type | Enum):
        return []
    if isinstance(x, partial):
        x = x.args, x.keywords
    values = [*x.values()] if isinstance(x, dict) else [*x] if isinstance(x, list | tuple | set | frozenset) else []
    values += [getattr(x, name) for name in getattr(type(x), "__slots__", ()) if hasattr(x, name)]
    return [leaf for value in (*values, *getattr(x, "__dict__", {}).values()) for leaf in leaves(value)]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_the_object_that_it_is_uncompiled(name):
    make = RESULTS[name]
    torch.manual_seed(0)
    linear = torch.nn.Linear(3, 2)
    compiled, found = torch.compile(lambda x: make(linear(x)), fullgraph=True), []
    for k in range(3):
        x = torch.arange(3.0) / 10 + k
        result, expected = compiled(x), make(linear(x))
        assert str(shown(result)) == str(shown(expected))
        gradients = []
        for each in (result, expected):
            sum((x * x).sum() for x in leaves(each) if x.requires_grad).backward()
            gradients.append(linear.weight.grad)
            linear.zero_grad()
        torch.testing.assert_close(*gradients)
        found.append(result)
    assert len({id(x) for x in found}) == 3 and compiled._compiled.recorded == 1
    assert torch.compiler.explain(lambda x: make(linear(x)))(x).graph_break_count == 0


def test_a_distribution_is_used_like_any_other():
    linear = torch.nn.Linear(3, 2)
    policy = torch.compile(lambda x: D.Categorical(logits=linear(x)))
    for k in range(3):
        x = torch.ones(3) * k
        torch.manual_seed(k)
        found = policy(x)
        action = found.sample()
        (found.log_prob(action) + found.entropy()).backward()
        torch.manual_seed(k)
        expected, gradient = D.Categorical(logits=linear(x)), linear.weight.grad
        linear.zero_grad()
        assert expected.sample() == action
        (expected.log_prob(action) + expected.entropy()).backward()
        torch.testing.assert_close(gradient, linear.weight.grad)
        linear.zero_grad()


def test_an_object_that_differs_is_seen_at_the_second_call(monkeypatch):
    compiled = torch.compile(lambda x: Output(x * 2, __import__("os").environ["HIDDEN"]))
    monkeypatch.setenv("HIDDEN", "1")
    assert compiled(torch.ones(1)).loss == "1"
    monkeypatch.setenv("HIDDEN", "2")
    with pytest.warns(UserWarning, match="does something else: it sets or returns '2' where it had '1'"):
        assert compiled(torch.ones(1)).loss == "2"


def test_a_change_of_a_result_stays_with_it():
    compiled = torch.compile(lambda x: Output(x * 2))
    for _ in range(3):
        result = compiled(torch.ones(1))
        assert result.log == [] and result.loss is None
        result.log.append(1)
        result.loss, result.new = 1, 2
        assert not hasattr(compiled(torch.ones(1)), "new")


class Finalized:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        pass


KEPT: list[Any] = []
NOTED: Any = weakref.WeakSet()


class Registered:
    def __init__(self, x):
        self.x = x
        NOTED.add(self)


def closed(x):
    found = Plain(x)
    found.get = lambda: found.x
    return found


def twice(x):
    found = Output(x)
    return found, found


def around(x):
    found = Output(x)
    found.loss = found
    return found


IN_PIECES = {
    "a finalizer": (Finalized, "a Finalized, which has a finalizer"),
    "a weak reference": (lambda x: Registered(x), ""),
    "a function": (closed, "a Plain, which something else holds"),
    "an error": (ValueError, "a ValueError, which is more than what it holds"),
    "a history": (lambda x: x.grad_fn, "MulBackward0, which"),
    "twice": (twice, "one container twice"),
    "around": (around, "a Output, which something else holds"),
}


@pytest.mark.parametrize("name", IN_PIECES)
def test_what_cannot_be_made_anew_runs_in_pieces(name):
    make, reason = IN_PIECES[name]
    w = torch.ones(2, requires_grad=True)
    f = lambda x: make(w * x)  # noqa: E731
    (found,) = torch.compiler.explain(f)(torch.ones(2)).breaks
    assert reason in str(found)
    compiled = torch.compile(f)
    for _ in range(3):
        assert type(compiled(torch.ones(2))) is type(f(torch.ones(2)))


PAIR = ("a", 1)


def test_a_tuple_and_a_function_from_outside_are_returned_themselves():
    local = lambda x: x  # noqa: E731
    compiled = torch.compile(lambda x: [x * 2, PAIR, local], fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(1))[1] is PAIR and compiled(torch.ones(1))[2] is local
    given = torch.compile(lambda x, pair: [x * 2, pair, PAIR])
    for pair in (PAIR, PAIR, ("a", float("1")), PAIR, ("a", int("1"))):
        assert given(torch.ones(1), pair)[1] == pair and given(torch.ones(1), pair)[2] is PAIR


def test_an_object_from_outside_is_returned_itself():
    outside = Output(torch.ones(1))
    compiled = torch.compile(lambda x: Frozen((x * 2, outside)), fullgraph=True)
    assert all(compiled(torch.ones(1)).logits[1] is outside for _ in range(3))
    own = torch.compile(lambda x, given: Frozen((x * 2, given)))
    for given in (Output(torch.ones(1)), Output(torch.ones(1)), Output(torch.zeros(1))):
        assert own(torch.ones(1), given).logits[1] is given


def test_a_module_and_an_optimiser_from_outside_are_returned_themselves():
    linear = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    compiled = torch.compile(lambda x: (linear(x), linear, {"optimizer": optimizer}), fullgraph=True)
    for _ in range(3):
        _, one, two = compiled(torch.ones(1, 2))
        assert one is linear and two["optimizer"] is optimizer


def test_the_graph_of_a_call_has_the_tensors_of_objects():
    graph = torch.capture(lambda x: [Output(x * 2, Entries(a=x + 1)), Frozen(x)])(torch.ones(2))
    assert graph.out_names == ("result[0].logits", "result[0].loss.a", "result[0].loss['a']", "result[1].logits")
    assert [x.tolist() for x in graph(torch.ones(2).numpy())] == [[2, 2], [2, 2], [2, 2], [1, 1]]


class Holder:
    last = None

    def step(self, x):
        self.last = Output(x * 2)
        return self.last


def test_an_object_that_something_else_holds_is_one_object():
    holder = Holder()
    compiled = torch.compile(holder.step)
    for _ in range(3):
        assert compiled(torch.ones(1)) is holder.last
