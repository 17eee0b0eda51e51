"""The arguments of ``to``, ``type`` and ``view``: which forms there are, and what fits none."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.both import Case, agree

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda torch, x: x.to(int),
    "bool": lambda torch, x: x.to(bool),
    "a device and float": lambda torch, x: x.to("cpu", float),
    "a tensor": lambda torch, x: x.to(torch.ones(1, dtype=torch.int8)),
    "None": lambda torch, x: x.to(None),
    "a list": lambda torch, x: x.to([1]),
    "a class": lambda torch, x: x.to(str),
    "a memory format": lambda torch, x: x.to(torch.channels_last),
    "a name that is not there": lambda torch, x: x.to(foo=1),
    "a number": lambda torch, x: x.to(1.0),
    "a dtype and a device": lambda torch, x: x.to(torch.float, "cpu"),
    "a tensor by name": lambda torch, x: x.to(tensor=torch.ones(1, dtype=torch.int8)),
    "a dtype twice": lambda torch, x: x.to(float, dtype=int),
    "a flag for a dtype": lambda torch, x: x.to("cpu", True),
    "a module, float": lambda torch, x: str(torch.nn.Linear(2, 1).to(float).weight.dtype),
    "a module, a device and float": lambda torch, x: str(torch.nn.Linear(2, 1).to("cpu", float).weight.dtype),
    "a module, int": lambda torch, x: torch.nn.Linear(2, 1).to(int),
    "a module, a class": lambda torch, x: torch.nn.Linear(2, 1).to(str),
    "a module, copy": lambda torch, x: torch.nn.Linear(2, 1).to(copy=False),
    "type, float": lambda torch, x: x.type(float),
    "type, a number": lambda torch, x: x.type(3),
    "type, Tensor": lambda torch, x: x.double().type(torch.Tensor),
    "type, a subclass of Tensor": lambda torch, x: x.type(torch.nn.Parameter),
    "view, int": lambda torch, x: x.view(int).shape,
    "view, bool": lambda torch, x: x.view(bool).shape,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str):
    agree(Case(name, lambda torch: [CALLS[name](torch, torch.ones(2, 4))]), theirs)
