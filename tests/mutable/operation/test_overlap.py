"""Writes to tensors whose elements share memory, with one another or with what is read, against real torch."""

import warnings
from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.mirror import first_part

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")

#: writes to a tensor of which two rows are one
EXPANDED = {
    "itself": lambda torch, x: x.copy_(x),
    "a view of itself": lambda torch, x: x.copy_(x[:]),
    "other values": lambda torch, x: x.copy_(torch.ones(3)),
    "itself, assigned": lambda torch, x: x.__setitem__(slice(None), x),
    "fill_": lambda torch, x: x.fill_(1),
    "fill_ with a tensor": lambda torch, x: x.fill_(torch.tensor(1)),
    "zero_": lambda torch, x: x.zero_(),
    "add_": lambda torch, x: x.add_(1),
    "one place": lambda torch, x: x.__setitem__(0, 1.5),
    "a list": lambda torch, x: x.__setitem__([0], 1.5),
    "values of a list": lambda torch, x: x.__setitem__([0, 1], torch.tensor([[1.0], [2.0]])),
    "a mask": lambda torch, x: x.__setitem__(x > 2, 1.5),
    "values of a mask": lambda torch, x: x.__setitem__(x > 2, torch.tensor([1.5, 2.5])),
    "masked_fill_": lambda torch, x: x.masked_fill_(x > 2, torch.tensor(1.5)),
    "masked_scatter_": lambda torch, x: x.masked_scatter_(x > 2, torch.ones(10)),
    "index_fill_": lambda torch, x: x.index_fill_(0, torch.tensor([0]), 2.0),
    "index_add_": lambda torch, x: x.index_add_(0, torch.tensor([0]), torch.ones(1, 3)),
}

#: writes of values that lie in the same memory
OWN = {
    "one element": lambda torch, x: x.fill_(x[1]),
    "one element, assigned": lambda torch, x: x.__setitem__(slice(None), x[1]),
    "a list": lambda torch, x: x.__setitem__([0], x[1]),
    "all of it": lambda torch, x: x.__setitem__([0, 1, 2, 3], x),
    "a mask": lambda torch, x: x.__setitem__(x > 2, x[1]),
    "values of a mask": lambda torch, x: x.__setitem__(x > 2, x[2:]),
    "masked_fill_": lambda torch, x: x.masked_fill_(x > 2, x[1]),
    "masked_scatter_": lambda torch, x: x.masked_scatter_(x > 2, x[:2]),
    "masked_scatter_ of itself": lambda torch, x: x.masked_scatter_(x > 1, x),
    "masked_scatter_ of itself, shifted": lambda torch, x: x[1:].masked_scatter_(x[1:] > 0, x[:3]),
    "masked_scatter_ with gaps": lambda torch, x: x[::2].masked_scatter_(x[::2] > 2, x),
    "masked_scatter_ of no elements": lambda torch, x: x.masked_scatter_(x > 9, x[:0]),
    "masked_scatter_ to no elements": lambda torch, x: x[:0].masked_scatter_(x[:0] > 0, x),
    "masked_scatter_ of a copy": lambda torch, x: x.masked_scatter_(x > 1, x.view(2, 2).t()),
    "index_fill_": lambda torch, x: x.index_fill_(0, torch.tensor([0]), x[1]),
    "scatter_": lambda torch, x: x.scatter_(0, torch.tensor([0, 0, 1, 1]), x),
    "scatter_ of other values": lambda torch, x: x.scatter_(0, torch.tensor([0, 0, 1, 1]), x.clone()),
    "scatter_add_": lambda torch, x: x.scatter_add_(0, torch.tensor([0, 0, 1, 1]), x),
    "scatter_reduce_": lambda torch, x: x.scatter_reduce_(0, torch.tensor([0, 0, 1, 1]), x, "sum"),
    "scatter_ with reduce": lambda torch, x: x.scatter_(0, torch.tensor([0, 0, 1, 1]), x, reduce="add"),
    "put_": lambda torch, x: x.put_(torch.tensor([0, 0, 1, 1]), x),
    "add_": lambda torch, x: x.add_(x[1]),
    "shifted": lambda torch, x: x[1:].copy_(x[:3]),
    "transposed": lambda torch, x: x.view(2, 2).copy_(x.view(2, 2).t()),
    "one element of other strides": lambda torch, x: x[:1].view(1, 1).add_(x.as_strided((1, 1), (5, 7))),
    "a number expanded": lambda torch, x: x[:1].copy_(x[0].expand(1)),
    "nothing": lambda torch, x: x[1:1].add_(x[None, :0]),
}


def outcome(torch: Any, write: Any, x: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            write(torch, x)
            done = "done"
        except RuntimeError as error:
            done = first_part(str(error))
    return done, [first_part(str(w.message)) for w in caught], x.tolist(), x._version


@pytest.mark.parametrize("name", EXPANDED)
def test_elements_that_share_a_place(name: str):
    def run(torch: Any) -> Any:
        return outcome(torch, EXPANDED[name], torch.tensor([1.0, 2.0, 3.0]).expand(2, 3))

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("name", OWN)
def test_values_from_the_memory_that_is_written(name: str):
    def run(torch: Any) -> Any:
        return outcome(torch, OWN[name], torch.tensor([1.0, 2.0, 3.0, 4.0]))

    assert run(ours) == run(theirs)


#: in-place operations on a matrix that read a part of it, which they have written by then in part
PARTS = {
    "its diagonal": lambda torch, x: x.add_(x.diagonal()),
    "its diagonal as a column": lambda torch, x: x.add_(x.diagonal()[:, None]),
    "a product with it": lambda torch, x: x.mul_(x.diagonal()),
    "a scaled difference": lambda torch, x: x.sub_(x.diagonal(), alpha=2),
    "a column": lambda torch, x: x.add_(x[:, :1]),
    "a row to the diagonal": lambda torch, x: x.diagonal().add_(x[0]),
    "a column to the diagonal": lambda torch, x: x.diagonal().add_(x[:, 0]),
    "every other element": lambda torch, x: x.view(-1)[::2].add_(x.view(-1)[:5]),
    "the other way round": lambda torch, x: x.view(-1)[:5].add_(x.view(-1)[::2]),
    "its diagonal, copied": lambda torch, x: x.copy_(x.diagonal()),
    "a column, copied": lambda torch, x: x.copy_(x[:, 0]),
    "a column to the diagonal, copied": lambda torch, x: x.diagonal().copy_(x[:, 0]),
    "every other element, copied": lambda torch, x: x.view(-1)[:5].copy_(x.view(-1)[::2]),
    "two parts": lambda torch, x: x.addcmul_(x[1], x.diagonal()),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_was_written_is_read_as_it_is_then(name: str):
    def run(torch: Any) -> Any:
        return outcome(torch, PARTS[name], torch.arange(1.0, 10.0).view(3, 3))

    assert run(ours) == run(theirs)


def test_long_chains_of_reads():
    def run(torch: Any) -> Any:
        x = torch.arange(400, dtype=torch.float64).view(20, 20)
        x.add_(x.diagonal())
        x.view(-1)[1::3].sub_(x.view(-1)[:133])
        return x.tolist()

    assert run(ours) == run(theirs)


def test_gradients_of_what_was_read_in_part():
    def run(torch: Any) -> Any:
        w = torch.arange(9.0).view(3, 3).requires_grad_()
        y = w * 1
        y.add_(y.diagonal())
        return y.tolist(), torch.autograd.grad(y.sum(), w)[0].tolist()

    assert run(ours) == run(theirs)


@pytest.mark.parametrize("name", ["exp_", "neg_", "sqrt_", "zero_"])
@pytest.mark.parametrize("sizes, strides", [((3, 2), (1, 1)), ((2, 3), (2, 1)), ((2, 2, 2), (1, 1, 1))])
def test_windows_are_written_element_after_element(name: str, sizes: Any, strides: Any):
    def run(torch: Any) -> list[float]:
        x = torch.arange(1.0, 6.0)
        getattr(x.as_strided(sizes, strides), name)()
        return x.tolist()

    assert run(ours) == pytest.approx(run(theirs))


def test_windows_are_read_as_they_are_written():
    def run(torch: Any) -> list[float]:
        x = torch.arange(1.0, 6.0)
        windows = x.unfold(0, 2, 1)
        windows.add_(windows)
        return x.tolist()

    assert run(ours) == run(theirs)
