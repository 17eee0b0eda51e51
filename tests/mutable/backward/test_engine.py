"""What hooks are given where there is no gradient, against real torch."""

from typing import Any

import pytest

from tests.torch.both import Case, agree

theirs = pytest.importorskip("torch")


def listed(grads: Any) -> list[Any]:
    return [None if g is None else g.tolist() for g in grads]


class Pieces:
    """Two outputs of one node, of which backward reaches the first, and what their hooks were given."""

    def __init__(self, torch: Any):
        self.x = torch.ones(2, 3, requires_grad=True)
        self.first, self.second = (self.x * 2).split(1)
        self.log: list[Any] = []
        for name in ("second", "first"):
            getattr(self, name).register_hook(lambda g, name=name: self.log.append([name, *listed([g])]))


def test_hook_of_an_output_that_has_no_gradient():
    def run(torch: Any) -> Any:
        pieces = Pieces(torch)
        pieces.first.sum().backward()
        return pieces.log, pieces.x.grad

    agree(Case("all", run), theirs)


@pytest.mark.parametrize("which", ["first", "second"])
def test_hook_of_an_output_beside_the_one_that_is_asked_for(which: str):
    def run(torch: Any) -> Any:
        pieces = Pieces(torch)
        found = torch.autograd.grad(pieces.first.sum(), getattr(pieces, which), allow_unused=True)
        return pieces.log, found

    agree(Case(which, run), theirs)


@pytest.mark.parametrize("given", ["tensor", "number"])
def test_a_gradient_that_is_not_there_is_not_replaced(given: str):
    def run(torch: Any) -> Any:
        pieces = Pieces(torch)
        pieces.second.register_hook(lambda g: torch.ones(1, 3) if given == "tensor" else 5)
        pieces.first.sum().backward()

    agree(Case(given, run), theirs)


def test_leaf_whose_function_gives_no_gradient():
    def run(torch: Any) -> Any:
        class Nothing(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return None

        x = torch.ones(3, requires_grad=True)
        log: list[Any] = []
        x.register_hook(log.append)
        Nothing.apply(x).sum().backward()
        return log, x.grad

    agree(Case("leaf", run), theirs)


NODES = {
    "product": lambda torch, x, w: x * w,
    "cat": lambda torch, x, w: torch.cat([x, w]),
    "stack of one": lambda torch, x, w: torch.stack([w]),
}


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("inputs", ["w", "y"])
def test_hook_of_a_node_sees_what_was_asked_for(name: str, inputs: str):
    def run(torch: Any) -> Any:
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        y = NODES[name](torch, x, w)
        log: list[Any] = []
        y.grad_fn.register_hook(lambda *grads: log.append([listed(each) for each in grads]))
        y.sum().backward(inputs=[{"w": w, "y": y}[inputs]])
        return log, x.grad, w.grad

    agree(Case(name, run), theirs)


def test_a_leaf_that_became_a_result():
    """What was computed while it was a leaf leads to its ``.grad``, which only leaves have."""

    def run(torch: Any) -> Any:
        x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        y = (x * 2).sum()
        x.requires_grad_(False)
        x.mul_(w)
        y.backward()

    agree(Case("all", run), theirs)


@pytest.mark.parametrize("factors", [(2.0, None), (None, 2.0), (2.0, None, 3.0)])
def test_a_sum_of_gradients_has_the_tangents_of_all_of_them(factors: tuple[float | None, ...]):
    """The gradient of a linear part has no tangent, and may be the first to arrive."""

    def run(torch: Any) -> Any:
        def loss(x: Any) -> Any:
            y = x * 1
            return sum((y.sin() if factor is None else y * factor).sum() for factor in factors)

        x = torch.tensor([0.5, 0.7])
        return torch.func.hessian(loss)(x), torch.func.jvp(torch.func.grad(loss), (x,), (torch.ones(2),))

    agree(Case(str(factors), run), theirs)
