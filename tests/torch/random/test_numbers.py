"""What numbers are drawn with may stand in tensors without axes, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

DRAWN: dict[str, Callable[[Any], Any]] = {
    "deviation": lambda t: t.normal(0, t.tensor(2.0), (3,)),
    "mean": lambda t: t.normal(t.tensor(1.0), 2.0, (3,)),
    "both": lambda t: t.normal(mean=t.tensor(1.0), std=t.tensor(2), size=(2, 2), dtype=t.float64),
    "the type of neither": lambda t: t.normal(0, t.tensor(2.0, dtype=t.float64), (3,)),
    "out": lambda t: t.normal(0.0, t.tensor(2.0), (3,), out=t.empty(3)),
    "without a size": lambda t: t.normal(t.tensor(1.0), t.tensor(2.0)),
    "with an axis": lambda t: t.normal(0, t.tensor([2.0]), (3,)),
    "both with an axis": lambda t: t.normal(t.ones(3), t.ones(3), (3,)),
    "tracked": lambda t: t.normal(t.tensor(1.0, requires_grad=True), 2.0, (3,)),
    "dropout": lambda t: t.nn.functional.dropout(t.ones(8), t.tensor(0.3)),
    "alpha dropout": lambda t: t.nn.functional.alpha_dropout(t.ones(8), t.tensor(0.3), True),
    "dropout of channels": lambda t: t.nn.functional.dropout2d(t.ones(4, 3, 1, 1), t.tensor(0.3, dtype=t.float64)),
    "all dropped": lambda t: t.nn.functional.dropout(t.ones(8), t.tensor(1)),
}


def _drawn(name: str) -> Case:
    def run(torch: Any) -> Any:
        torch.manual_seed(3)
        return DRAWN[name](torch), torch.rand(1)

    return Case(name, run)


@pytest.mark.parametrize("name", DRAWN)
def test_in_a_tensor(name: str):
    agree(_drawn(name), torch)
