"""The number of ``add`` and ``addcmul`` may stand second, as it did in PyTorch's first releases."""

from typing import Any

import numpy as np
import pytest

from fgrad import torch as ours
from fgrad.torch.core.once import once
from tests.torch.both import Case, agree

X, Y = np.array([1.0, 2.0]), np.array([3.0, 5.0])

CASES = [
    Case(f"{kind} {name}", lambda torch, x, y, run=run, name=name: run(torch, name, x, y), (X, Y))
    for name in ("add", "sub", "addcmul", "addcdiv")
    for kind, run in {
        "function": lambda torch, name, x, y: getattr(torch, name)(x, 2, *[y] * (2 if "c" in name else 1)),
        "method": lambda torch, name, x, y: getattr(x, name)(2, *[y] * (2 if "c" in name else 1)),
        "in place": lambda torch, name, x, y: getattr(x, name + "_")(2, *[y] * (2 if "c" in name else 1)),
    }.items()
]


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_former_order_is_pytorchs(case: Case):
    agree(case, pytest.importorskip("torch"))


def test_it_is_warned_of_once(monkeypatch: Any):
    monkeypatch.setattr(once, "given", set())
    x = ours.ones(2)
    with pytest.warns(UserWarning, match=r"add_ is deprecated:\n\tadd_\(Number alpha, Tensor other\)"):
        x.add_(2, x)
    assert ours.add(x, 2, x).tolist() == [9.0, 9.0]
    with pytest.raises(TypeError):
        ours.add(x, x, x)
