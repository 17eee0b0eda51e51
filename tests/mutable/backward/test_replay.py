"""Which gradients can be differentiated again, against real torch."""

from typing import Any

import pytest

from tests.torch.both import Case, agree

theirs = pytest.importorskip("torch")

PROGRAMS = {
    "no element": lambda x: x[x > 9] ** 2,
    "no element, twice used": lambda x: x[x > 9] ** x[x > 9],
    "a product of no element": lambda x: x[x > 9] @ x[x > 9],
    "a product of one number": lambda x: x[0].prod(),
    "a product of one element": lambda x: x[:1].prod(),
    "a sum": lambda x: x.sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_requires_grad(name: str):
    def run(torch: Any) -> Any:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = PROGRAMS[name](x)
        return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)

    agree(Case(name, run), theirs)


def test_loop_in_a_gradient():
    def run(torch: Any) -> Any:
        x = torch.arange(12.0).reshape(4, 1, 3).sin().requires_grad_()
        loss = torch.nn.functional.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2]]), (4,), (2,))
        return torch.autograd.grad(loss, x, create_graph=True)

    agree(Case("the gradient of a recurrence, recorded", run), theirs)


#: operations that save their input, though the gradient of their gradient reads nothing of it
SAVED = {
    "max_pool1d": lambda F, x: F.max_pool1d(x, 2),
    "avg_pool1d": lambda F, x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda F, x: F.adaptive_avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda F, x: F.adaptive_max_pool1d(x, 2),
    "pad": lambda F, x: F.pad(x, (1, 1), mode="reflect"),
    "hardtanh": lambda F, x: F.hardtanh(x),
}


@pytest.mark.parametrize("name", SAVED)
def test_second_derivative_is_zeros(name: str):
    """PyTorch's formulas give zeros for an operand that was saved, and not nothing."""

    def run(torch: Any) -> Any:
        x = torch.tensor([[1.0, -2.0, 0.5, 3.0]], requires_grad=True)
        (gradient,) = torch.autograd.grad(SAVED[name](torch.nn.functional, x).sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)

    agree(Case(name, run), theirs)
