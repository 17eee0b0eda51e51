"""What a write to a tensor from outside of a function that is differentiated is called in the error, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda t, x: x.sin_(),
    "add a number": lambda t, x: x.add_(1),
    "add": lambda t, x: x.add_(t.ones(3)),
    "add a multiple": lambda t, x: x.add_(t.ones(3), alpha=2),
    "sub a number": lambda t, x: x.sub_(1),
    "mul a number": lambda t, x: x.mul_(2),
    "mul": lambda t, x: x.mul_(t.ones(3)),
    "div": lambda t, x: x.div_(2),
    "div with rounding": lambda t, x: x.div_(2, rounding_mode="floor"),
    "floor_divide": lambda t, x: x.floor_divide_(2),
    "pow of a number": lambda t, x: x.pow_(2),
    "pow": lambda t, x: x.pow_(t.ones(3)),
    "eq of a number": lambda t, x: x.eq_(2),
    "eq": lambda t, x: x.eq_(t.ones(3)),
    "remainder of a number": lambda t, x: x.remainder_(2),
    "remainder": lambda t, x: x.remainder_(t.ones(3)),
    "copysign": lambda t, x: x.copysign_(-1),
    "lerp": lambda t, x: x.lerp_(t.ones(3), 0.5),
    "lerp by tensors": lambda t, x: x.lerp_(t.ones(3), t.ones(3)),
    "masked_fill": lambda t, x: x.masked_fill_(t.tensor([True, False, True]), 1),
    "fill": lambda t, x: x.fill_(1),
    "fill by a tensor": lambda t, x: x.fill_(t.tensor(1.0)),
    "zero": lambda t, x: x.zero_(),
    "copy": lambda t, x: x.copy_(t.ones(3)),
    "clamp": lambda t, x: x.clamp_(0, 1),
    "clamp by tensors": lambda t, x: x.clamp_(t.zeros(3), t.ones(3)),
    "clamp_min": lambda t, x: x.clamp_min_(0),
    "clamp_min by a tensor": lambda t, x: x.clamp_min_(t.zeros(3)),
    "clamp_max by a tensor": lambda t, x: x.clamp_max_(t.zeros(3)),
    "xlogy of a number": lambda t, x: x.xlogy_(2),
    "xlogy": lambda t, x: x.xlogy_(t.ones(3)),
    "index_fill": lambda t, x: x.index_fill_(0, t.tensor([0]), 1),
    "index_fill by a tensor": lambda t, x: x.index_fill_(0, t.tensor([0]), t.tensor(1.0)),
    "index_add": lambda t, x: x.index_add_(0, t.tensor([0]), t.ones(1)),
    "scatter": lambda t, x: x.scatter_(0, t.tensor([0]), t.ones(1)),
    "scatter a number": lambda t, x: x.scatter_(0, t.tensor([0]), 1),
    "scatter and add": lambda t, x: x.scatter_(0, t.tensor([0]), t.ones(1), reduce="add"),
    "scatter and add a number": lambda t, x: x.scatter_(0, t.tensor([0]), 1, reduce="add"),
    "scatter_reduce": lambda t, x: x.scatter_reduce_(0, t.tensor([0]), t.ones(1), "sum"),
    "addcmul": lambda t, x: x.addcmul_(t.ones(3), t.ones(3)),
}
OF_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": lambda t, x: x.bitwise_and_(1),
    "bitwise_or": lambda t, x: x.bitwise_or_(t.tensor([1, 2, 3])),
    "shift": lambda t, x: x.bitwise_left_shift_(1),
    "shift by a tensor": lambda t, x: x.bitwise_right_shift_(t.tensor([1, 2, 3])),
}


def complaint(torch: Any, call: Callable[[Any, Any], Any], captured: Any) -> str:
    def function(y: Any) -> Any:
        call(torch, captured)
        return y.sum()

    try:
        torch.func.grad(function)(torch.ones(3))
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_overload_is_named(call: Callable[[Any, Any], Any]):
    assert complaint(ours, call, ours.ones(3)) == complaint(theirs, call, theirs.ones(3))


@pytest.mark.parametrize("call", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_the_overload_of_integers_is_named(call: Callable[[Any, Any], Any]):
    mine, wanted = (complaint(torch, call, torch.tensor([1, 2, 3])) for torch in (ours, theirs))
    assert mine == wanted
