"""Integers into which a differentiable value was written, against real torch: see NOTE [Integers with a history]."""

from typing import Any

import pytest

import fgrad.torch as ours

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")

USES = {
    "the tensor": lambda torch, x, w: x,
    "a sum": lambda torch, x, w: x.sum(),
    "a product of integers": lambda torch, x, w: x * 2,
    "a product": lambda torch, x, w: x * 2.0,
    "a view": lambda torch, x, w: x.view(3, 1),
    "an element": lambda torch, x, w: x[0],
    "a copy": lambda torch, x, w: x.clone(),
    "a conversion": lambda torch, x, w: x.float(),
    "a comparison": lambda torch, x, w: x == 1,
    "a place": lambda torch, x, w: x.argmax(),
    "a sum in place": lambda torch, x, w: x.add_(1),
    "another filling": lambda torch, x, w: x.fill_(3),
    "zeros": lambda torch, x, w: x.zero_(),
    "an assignment": lambda torch, x, w: x.__setitem__(0, 5),
    "a detached tensor": lambda torch, x, w: x.detach(),
    "a NumPy array": lambda torch, x, w: x.numpy(),
    "a write into a view": lambda torch, x, w: torch.zeros(3, dtype=torch.int64).view(3)[:2].fill_(w)._base,
    "a masked filling": lambda torch, x, w: torch.zeros(3, dtype=torch.int64).masked_fill_(torch.ones(3) > 0, w),
    "booleans": lambda torch, x, w: torch.zeros(3, dtype=torch.bool).fill_(w),
    "a copy into integers": lambda torch, x, w: torch.zeros(3, dtype=torch.int64).copy_(w),
    "backward of a product": lambda torch, x, w: (x * 2.0).sum().backward(),
    "backward of a conversion": lambda torch, x, w: torch.autograd.grad(x.float().sum(), w),
    "backward of the tensor": lambda torch, x, w: x.backward(torch.ones(3)),
    "its own gradient": lambda torch, x, w: torch.autograd.grad(x.float().sum(), x),
}


@pytest.mark.parametrize("use", USES)
def test_uses(use: str):
    def run(torch: Any) -> str:
        x, w = torch.zeros(3, dtype=torch.int64), torch.ones((), requires_grad=True)
        x.fill_(w * 2)
        try:
            return str(USES[use](torch, x, w))
        except RuntimeError as error:
            return str(error).split("\n\n")[0].strip()

    assert run(ours) == run(theirs)


def test_the_error_says_where_and_what_to_do():
    x, w = ours.zeros(3, dtype=ours.int64), ours.ones((), requires_grad=True)
    x.fill_(w)
    with pytest.raises(
        RuntimeError, match=r"came to mul, at .*test_integers.py:\d+[\s\S]*Way out: write into a tensor"
    ):
        (x * 2.0).sum().backward()
