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
    "batch_norm, evaluated": (
        lambda torch, x, w: torch.nn.functional.batch_norm(x, w.detach(), w.detach().exp(), w, None, False),
        (4, 3),
        (3,),
    ),
    "layer_norm": (lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (3,), w, b), (4, 3), (3,), (3,)),
    "grid_sample": (
        lambda torch, x, grid: torch.nn.functional.grid_sample(x, grid, align_corners=False),
        (1, 1, 3, 3),
        (1, 2, 2, 2),
    ),
    "mean of var_mean": (lambda torch, x: torch.var_mean(x, 0)[1], (4, 3)),
    "prelu": (lambda torch, x, w: torch.nn.functional.prelu(x, w), (2, 3), (1,)),
}


@pytest.mark.parametrize("frozen", [(), (0,), (1,)], ids=["none", "first", "second"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_gradients(name: str, frozen: tuple[int, ...]):
    """Those of each gradient alone, and the ``.grad`` that a backward from it leaves; also of a backward met often."""

    if max(frozen, default=0) >= len(FUNCTIONS[name]) - 1 or (len(FUNCTIONS[name]) == 2 and frozen):
        pytest.skip("an operand must be left")

    def run(torch: Any) -> list[Any]:
        function, *shapes = FUNCTIONS[name]
        found = []
        for _ in range(1 if frozen else 10):
            operands = [_of_shape(torch, *shape) for shape in shapes]
            leaves = [x for i, x in enumerate(operands) if i not in frozen]
            for i in frozen:
                operands[i].requires_grad_(False)
            result = function(torch, *operands)
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


#: functions of a tensor, one of whose results alone has a gradient, and numbers where the others' is not finite
ONE_RESULT = {
    "mean of std_mean of one number": (lambda torch, x: torch.std_mean(x)[1], [2.0]),
    "mean of var_mean of one number": (lambda torch, x: torch.var_mean(x)[1], [2.0]),
    "mean of var_mean with infinity": (lambda torch, x: torch.var_mean(x)[1], [1.0, float("inf"), 2.0]),
    "matrix of triangular_solve": (
        lambda torch, x: torch.triangular_solve(torch.ones(2, 1), x)[1],
        [[0.0, 1.0], [0.0, 0.0]],
    ),
}


@pytest.mark.filterwarnings("ignore:.*triangular_solve:UserWarning", "ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ONE_RESULT)
def test_a_derivative_that_nobody_asked_for(name: str, create_graph: bool):
    """The gradients of the other results are undefined, not zeros, which would be multiplied by infinity."""

    def run(torch: Any) -> list[Any]:
        function, numbers = ONE_RESULT[name]
        found = []
        for _ in range(10):
            x = torch.tensor(numbers, requires_grad=True)
            result = function(torch, x).sum()
            if create_graph:
                x.grad = torch.autograd.grad(result, x, create_graph=True)[0].detach()
            else:  # which runs as one program when it was met often
                result.backward()
            found.append(x.grad.tolist())
        return found

    assert run(ours) == run(theirs)
