"""Operators and functions of NumPy on tensors: what comes back is a tensor, as in PyTorch."""

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as torch
from tests.torch.both import Case, agree

ARRAY = np.array([1.0, 3.0])
X = np.array([1.0, 2.0], np.float32)

CASES = [
    *[
        Case(f"{function.__name__} with the array on the {side}", run, (np.array([1.0, 2.0], np.float32),))
        for function in (
            operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.eq,
            operator.ne, operator.lt,
        )
        for side, run in (
            ("right", lambda torch, x, function=function: function(x, ARRAY)),
            ("left", lambda torch, x, function=function: function(ARRAY, x)),
        )
    ],
    Case("a sum of arrays", lambda torch, x: np.add(x, ARRAY), (np.array([1.0, 2.0], np.float32),)),
    Case("a function", lambda torch, x: np.sin(x), (np.array([1.0, 2.0], np.float32),)),
    Case("truth values", lambda torch, x: np.isnan(x), (np.array([1.0, np.nan]),)),
    Case("no dimensions", lambda torch, x: np.sqrt(x), (np.array(4.0),)),
    Case("other shapes", lambda torch, x: x == np.ones(3), (np.array([1.0, 2.0]),)),
    Case("no numbers", lambda torch, x: x == np.array(["a"]), (np.array([1.0, 2.0]),)),
    *[
        Case(f"{name} {type(number).__name__}", lambda torch, x, run=run, number=number: run(torch, x, number), (X,))
        for number in (np.float64(0.5), np.float32(0.5), np.int64(2))
        for name, run in {
            "fill_": lambda torch, x, number: x.fill_(number),
            "fill": lambda torch, x, number: torch.fill(x, number),
            "where": lambda torch, x, number: torch.where(x > 1, x, number),
            "assignment": lambda torch, x, number: x.__setitem__(0, number) or x,
        }.items()
    ],
    *[
        Case(f"an array without dimensions for {name}", run, (X,))
        for name, run in {
            "an operand": lambda torch, x: torch.mul(x, np.array(2.0)),
            "an exponent": lambda torch, x: torch.pow(x, np.array(2.0)),
            "an in-place operand": lambda torch, x: x.add_(np.array(2.0)),
            "a value": lambda torch, x: x.fill_(np.array(2.0)),
            "a value of a mask": lambda torch, x: x.masked_fill(x > 1, np.array(2.0)),
            "a factor": lambda torch, x: torch.add(x, x, alpha=np.array(2.0)),
            "a weight": lambda torch, x: torch.lerp(x, x, np.array(2.0)),
            "a bound": lambda torch, x: x.clamp(np.array(2.0)),
            "an axis": lambda torch, x: x.softmax(np.array(0)),
            "a size": lambda torch, x: x.view(1, np.array(2)),
            "sizes": lambda torch, x: torch.zeros(1, np.array(2)),
        }.items()
    ],
    Case("a tensor that requires grad", lambda torch, x: ARRAY / x.requires_grad_(), (np.array([1.0, 2.0]),), True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_arrays_and_tensors_together_are_pytorchs(case: Case):
    agree(case, pytest.importorskip("torch"))


@pytest.mark.parametrize("call", [np.cos, lambda x: ARRAY / x], ids=["function", "operator"])
def test_nothing_is_warned_of(call: Callable[[Any], Any]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(call(torch.ones(2)), torch.Tensor)
