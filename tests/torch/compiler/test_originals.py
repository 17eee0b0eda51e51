"""A function around a compiled one is a function of its own, whatever attributes it has."""

import functools

import pytest

import fgrad.torch as torch


@torch.compile
def doubled(x):
    return x * 2


@functools.wraps(doubled)
def wrapped(x):
    return doubled(x) + 1


class Delegating:
    """A callable that hands on the attributes of what it calls."""

    def __init__(self, function):
        self.function = function

    def __getattr__(self, name):
        return getattr(self.__dict__["function"], name)

    def __call__(self, x):
        return self.function(x) + 1


@pytest.mark.parametrize("function", [wrapped, Delegating(doubled)], ids=["wraps", "__getattr__"])
def test_what_is_around_a_compiled_function_is_compiled_too(function):
    compiled = torch.compile(function)
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [3] * 3
    (graph,) = torch.compiler.explain(function)(torch.ones(1)).graphs
    assert [node.op.name for node in graph.nodes] == ["mul", "add"]


def test_a_compiled_function_is_compiled_once():
    assert torch.compile(doubled)._compiled.function is doubled._compiled.function
