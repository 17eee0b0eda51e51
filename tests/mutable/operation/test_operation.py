"""What backward lets go of, against real torch: tensors, and never a number."""

from typing import Any

import pytest

import fgrad.torch
from tests.benchmarks.operations import LINES, operation
from tests.torch.both import Case, agree

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")


@pytest.mark.parametrize("line", LINES)
def test_nodes_and_writes_know_the_line_that_called(line: str):
    """Nothing that calls an operation is nearer to it than the frame at which the search for the user's begins."""
    call = operation(fgrad.torch, line)
    for _ in range(3):
        result = call()  # the first call goes another way than those that find its plan
    for x in result if isinstance(result, tuple | list) else [result]:
        if getattr(x, "grad_fn", None) is not None:
            assert x.grad_fn._source[0] is call.__code__
    for write in call.__globals__["z"]._counter.last_writes():
        assert write.source[0] is call.__code__


CALLS = {
    "1 - x": lambda torch, x: 1 - x,
    "x * 2": lambda torch, x: x * 2,
    "x / 2": lambda torch, x: x / 2,
    "2 / x": lambda torch, x: 2 / x,
    "x ** 2": lambda torch, x: x**2,
    "x[0]": lambda torch, x: x[0],
    "x[1:]": lambda torch, x: x[1:],
    "x[tensor(0)]": lambda torch, x: x[torch.tensor(0)],
    "add": lambda torch, x: torch.add(x, x, alpha=2),
    "sub_": lambda torch, x: x.clone().sub_(x, alpha=2),
    "lerp": lambda torch, x: torch.lerp(x, x, 0.3),
    "addcmul": lambda torch, x: torch.addcmul(x, x.detach(), x.detach(), value=2),
    "x[mask] of no element": lambda torch, x: x[x > 9],
    "masked_fill": lambda torch, x: x.masked_fill(x > 1, 1.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_second_backward(name: str):
    def twice(torch):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = CALLS[name](torch, x)
        y.sum().backward()
        y.sum().backward()
        return x.grad

    agree(Case(name, twice, longer=True), theirs)


MIXED = {
    "with a normal tensor": lambda torch, p, q: p + torch.ones(3),
    "with an inference tensor": lambda torch, p, q: p + q,
    "with a number": lambda torch, p, q: p * 2,
    "with a number that is none of the tensors": lambda torch, p, q: p**2,
    "with a number that the kernel makes a tensor": lambda torch, p, q: torch.fmod(p, 2),
    "with a number to subtract from": lambda torch, p, q: 2 - p,
    "with a divisor": lambda torch, p, q: p // 2,
    "with a dividend": lambda torch, p, q: 2 // p,
    "with a number's sign": lambda torch, p, q: torch.copysign(p, 2),
    "with a number's logarithm": lambda torch, p, q: torch.xlogy(p, 2),
    "copied": lambda torch, p, q: p.clone(),
    "converted": lambda torch, p, q: p.double(),
    "converted, with a number": lambda torch, p, q: torch.float_power(p, 2),
    "written, with a number": lambda torch, p, q: p.mul_(2),
    "written, with a number that is none of the tensors": lambda torch, p, q: p.pow_(2),
    "alone": lambda torch, p, q: p.exp(),
    "with what is saved": lambda torch, p, q: p * torch.ones(3, requires_grad=True),
}


@pytest.mark.parametrize("name", MIXED)
def test_inference_tensors_that_require_grad(name: str):
    def run(torch: Any) -> Any:
        with torch.inference_mode():
            p, q = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
        found = MIXED[name](torch, p, q)
        return found.requires_grad, type(found.grad_fn).__name__

    agree(Case(name, run, longer=True), theirs)
