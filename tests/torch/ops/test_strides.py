"""The strides of results and gradients, against real torch."""

from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

SHAPES = [(), (1,), (3,), (1, 1), (1, 3), (3, 1), (2, 1, 3), (2, 3)]

REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum over the first axis": lambda x: x.sum(0),
    "sum over the last": lambda x: x.sum(-1),
    "sum over the last, kept": lambda x: x.sum(-1, keepdim=True),
    "sum over no axes": lambda x: x.sum(()),
    "mean": lambda x: x.mean(),
    "mean over the first axis": lambda x: x.mean(0),
    "mean over the first, kept": lambda x: x.mean(0, keepdim=True),
    "expand": lambda x: x.expand(2, *x.shape),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradient(name: str, shape: tuple[int, ...]):
    def run(torch: Any) -> Any:
        x = torch.ones(shape, requires_grad=True)
        y = REDUCTIONS[name](x)
        return torch.autograd.grad(y, x, torch.ones_like(y))[0].stride()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("strides", [(2, 1), (1, 3), (1, 1), (5, 7)])
def test_gradient_that_is_made_of_nothing(strides: tuple[int, int]):
    def run(torch: Any) -> Any:
        x = torch.ones(30, requires_grad=True).as_strided((3, 2), strides)
        return torch.autograd.grad(torch.ones(1, requires_grad=True), x, materialize_grads=True)[0].stride()

    assert run(ours) == run(theirs)


INDICES = {
    "a list": [0],
    "two of one": [0, 0],
    "the last axis": (..., [0]),
    "the last axis twice": (..., [0, 1]),
    "two axes": ([0, 1], [0, 0]),
    "two axes apart": ([0, 1], slice(None), [0, 0]),
    "a mask": "mask",
    "a square": ([[0, 1], [1, 0]],),
}

LAYOUTS = [
    ((2, 2, 2), (4, 2, 1)),
    ((2, 2, 2), (1, 2, 4)),
    ((2, 3, 2), (1, 2, 6)),
    ((2, 2, 2), (1, 1, 1)),
    ((2, 1, 2), (2, 1, 1)),
    ((2, 2, 3), (3, 6, 1)),
    ((2, 2, 3), (0, 3, 1)),
]


@pytest.mark.parametrize("sizes, strides", LAYOUTS)
@pytest.mark.parametrize("name", INDICES)
def test_indexed(name: str, sizes: Any, strides: Any):
    def run(torch: Any) -> Any:
        x = torch.arange(20.0).as_strided(sizes, strides)
        index = INDICES[name]
        found = x[x > 1 if index == "mask" else index]
        return found.stride(), found.tolist()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("sizes", [(3, 1), (1, 3), (2, 1, 3)])
def test_operands_in_order_whose_axes_of_one_element_differ(sizes: tuple[int, ...]):
    def run(torch: Any) -> Any:
        x, y = torch.ones(sizes), torch.ones(sizes[::-1]).permute(*reversed(range(len(sizes))))
        return (x + y).stride(), (y + x).stride(), (y * 2).stride()

    assert run(ours) == run(theirs)


def test_numbers_expanded():
    def run(torch: Any) -> Any:
        return [torch.tensor(1.0).expand(size).stride() for size in ((), (1,), (1, 1), (2, 1), (1, 2))]

    assert run(ours) == run(theirs)
