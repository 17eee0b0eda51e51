"""Which second gradients are None, and which are zeros, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


def _of_shape(torch: Any, *shape: int) -> Any:
    return torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape).requires_grad_()


#: functions of tensors of the shapes that follow
FUNCTIONS = {
    "conv1d": (lambda torch, x, w, b: torch.nn.functional.conv1d(x, w, b), (1, 2, 5), (3, 2, 2), (3,)),
    "conv2d": (lambda torch, x, w: torch.nn.functional.conv2d(x, w), (1, 2, 3, 3), (2, 2, 2, 2)),
    "conv_transpose1d": (lambda torch, x, w: torch.nn.functional.conv_transpose1d(x, w), (1, 2, 4), (2, 3, 2)),
    "batch_norm": (
        lambda torch, x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True),
        (4, 3),
        (3,),
        (3,),
    ),
    "prelu": (lambda torch, x, w: torch.nn.functional.prelu(x, w), (2, 3), (1,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_gradients(name: str):
    """Those of each gradient alone, and the ``.grad`` that a backward from it leaves; also of a backward met often."""

    def run(torch: Any) -> list[Any]:
        function, *shapes = FUNCTIONS[name]
        found = []
        for _ in range(10):
            leaves = [_of_shape(torch, *shape) for shape in shapes]
            result = function(torch, *leaves)
            seed = torch.ones_like(result, requires_grad=True)
            first = torch.autograd.grad(result, leaves, seed, create_graph=True)
            for gradient in first:
                more = {"retain_graph": True, "allow_unused": True}
                second = torch.autograd.grad(gradient.sum(), [*leaves, seed], **more)
                found.append([x is None for x in second])
            first[0].sum().backward(retain_graph=True)
            found.append([leaf.grad is None for leaf in leaves])
        return found

    assert run(ours) == run(theirs)
