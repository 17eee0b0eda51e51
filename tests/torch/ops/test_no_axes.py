"""Reductions and normalisations of tensors without axes: value and gradient of numbers that are special."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

VALUES = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan)
TYPES = ("float16", "bfloat16", "float32", "float64")
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda t, x: t.softmax(x, 0),
    "softmin": lambda t, x: t.nn.functional.softmin(x, 0),
    "log_softmax": lambda t, x: t.log_softmax(x, 0),
    "softmax, typed": lambda t, x: t.nn.functional.softmax(x, -1, dtype=t.float64),
    "log_softmax, typed": lambda t, x: t.nn.functional.log_softmax(x, -1, dtype=t.float64),
    "Softmax": lambda t, x: t.nn.Softmax(0)(x),
    "Softmin": lambda t, x: t.nn.Softmin(0)(x),
    "LogSoftmax": lambda t, x: t.nn.LogSoftmax(0)(x),
    "logsumexp": lambda t, x: t.logsumexp(x, 0),
    "logcumsumexp": lambda t, x: t.logcumsumexp(x, 0),
    "sum": lambda t, x: t.sum(x, 0),
    "nansum": lambda t, x: t.nansum(x, 0),
    "mean": lambda t, x: t.mean(x, 0),
    "prod": lambda t, x: t.prod(x, 0),
    "cumprod": lambda t, x: t.cumprod(x, 0),
    "amax": lambda t, x: t.amax(x, 0),
    "var": lambda t, x: t.var(x, 0, correction=0),
    "std": lambda t, x: t.std(x, 0, correction=0),
    "norm": lambda t, x: t.linalg.vector_norm(x, 2),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special(name: str, dtype: str):
    def run(t: Any, value: float) -> Any:
        x = t.tensor(value, dtype=getattr(t, dtype), requires_grad=True)
        found = FUNCTIONS[name](t, x)
        return found.double(), *t.autograd.grad(found.double(), x)[0].double().reshape(1)

    for value in VALUES:
        agree(Case(f"{name} {dtype} {value}", lambda t, value=value: run(t, value)), torch)


def test_nansum_into_integers_leaves_nan_out():
    agree(Case("nansum", lambda t: (t.nansum(t.tensor([1.5, math.nan, 3.5]), 0, dtype=t.int64),)), torch)
