"""Elements of a tensor's memory are replaced in place where nobody else holds them: see NOTE [Elements in memory]."""

import jax
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor import tensor as handle
from fgrad.mutable.tensor.in_memory import LARGE

#: the rows of a buffer whose copies would take long
MANY = LARGE


def address(x: torch.Tensor) -> int:
    """Where the elements of a tensor lie now."""
    return np.asarray(x._storage.array).__array_interface__["data"][0]


#: writes into a buffer of four columns, which change no more than a few of its rows
WRITES = {
    "a row": lambda x: x.__setitem__(2, torch.ones(4)),
    "a number": lambda x: x.__setitem__((3, 1), 7.0),
    "a slice": lambda x: x.__setitem__(slice(5, 9), 2.0),
    "a column": lambda x: x.__setitem__((slice(None), 2), torch.arange(float(MANY))),
    "a row that is read": lambda x: x[4].add_(1.0),
    "turned": lambda x: x.t()[1, 3:9].fill_(5.0),
    "steps": lambda x: x[1:40:7, ::2].copy_(torch.ones(6, 2)),
    "nothing": lambda x: x.__setitem__(slice(3, 3), 1.0),
    "indices": lambda x: x.__setitem__(torch.tensor([1, 7, 1]), torch.arange(12.0).reshape(3, 4)),
    "accumulated": lambda x: x.index_put_((torch.tensor([1, 7, 1]),), torch.ones(3, 4), accumulate=True),
    "index_add_": lambda x: x.index_add_(0, torch.tensor([1, 7, 1]), torch.ones(3, 4), alpha=2),
    "index_copy_": lambda x: x.index_copy_(0, torch.tensor([5, 2]), torch.ones(2, 4)),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([[4, 2, 0, 6]]), torch.ones(1, 4)),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.tensor([[4, 2, 0, 6]]), torch.ones(1, 4)),
}


#: those by programs that turn the buffer first
COPIED = {"scatter_", "scatter_add_"}


def buffer() -> torch.Tensor:
    """A tensor of many rows whose memory nobody else holds."""
    x = torch.arange(4.0 * MANY).reshape(MANY, 4).clone()
    x[0] = 0.5  # the first write copies what a program may have passed on
    return x


@pytest.mark.parametrize("name", sorted(WRITES.keys() - COPIED))
def test_a_write_stays_in_place_and_is_that_of_a_copy(name):
    x, held = buffer(), buffer()
    keeps = held._value()
    where, version = address(x), x._version
    WRITES[name](x)
    WRITES[name](held)
    assert address(x) == where
    assert address(held) != keeps.__array_interface__["data"][0] or name == "nothing"
    assert x._version == held._version == version + 1
    assert np.array_equal(x._value(), held._value())


@pytest.mark.parametrize("name", WRITES)
def test_what_others_hold_does_not_change(name):
    x = buffer()
    before = x._value().copy()
    few, many, whole = x[2]._value(), x[: MANY // 2]._value(), x._value()
    jax_array, doubled = jax.device_put(whole), jax.jit(lambda x: 2 * x)(whole)
    WRITES[name](x)
    assert np.array_equal(whole, before)
    assert np.array_equal(few, before[2])
    assert np.array_equal(many, before[: MANY // 2])
    assert np.array_equal(jax_array, before)
    assert np.array_equal(doubled, 2 * before)


@pytest.mark.parametrize("name", WRITES)
def test_an_interrupted_write_is_undone(name, monkeypatch):
    x = buffer()
    before, version = x._value().copy(), x._version

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(handle.VersionCounter, "bump", interrupted)
        with pytest.raises(KeyboardInterrupt):
            WRITES[name](x)
    assert x._version == version
    assert np.array_equal(x._value(), before)


@pytest.mark.parametrize("name", WRITES)
def test_with_a_history(name):
    """The gradient with regard to what the buffer held is zero where it was overwritten."""
    grads = []
    for hold in (False, True):
        start = torch.ones(MANY, 4, requires_grad=True)
        x = start * 2
        kept = x._value() if hold else None
        WRITES[name](x)
        (x * torch.arange(4.0)).sum().backward()
        grads.append(start.grad.numpy())
        assert kept is None or np.array_equal(kept, np.full((MANY, 4), 2.0))
    assert np.array_equal(*grads)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("name", ["index_reduce_", "scatter_reduce_"])
def test_what_backward_saves_of_the_old_elements(name, reduce):
    """The same gradients as of few rows, which are not written in place."""
    grads = []
    for rows in (4, MANY):
        start = (torch.arange(4.0 * rows).reshape(rows, 4) % 7 + 1).requires_grad_()
        source = torch.full((3, 4), 1.5, requires_grad=True)
        index = torch.tensor([0, 2, 0])
        x = start * 2
        getattr(x, name)(0, index if name == "index_reduce_" else index[:, None].expand(3, 4), source, reduce)
        (x[:4] * torch.arange(1.0, 5.0)).sum().backward()
        grads.append((start.grad[:4].tolist(), source.grad.tolist()))
    assert grads[0] == grads[1]


def test_views_see_each_others_writes():
    x = buffer()
    first, second, column = x[1], x[1:3], x[:, 0]
    for k in range(3):
        first.add_(1.0)
        second.mul_(2.0)
        column[1] = float(k)
    assert first.tolist() == second[0].tolist() == x[1].tolist()
    assert column[1].item() == 2.0


def test_indices_that_change_are_checked_again():
    """What is known of an array of indices does not hold once it has changed."""
    x, index = torch.arange(5.0), torch.tensor([0, 1, 2])
    for _ in range(20):
        assert x[index].tolist() == [0.0, 1.0, 2.0]
    index[0] = 4
    assert x[index].tolist() == [4.0, 1.0, 2.0]
    index[0] = 7
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        x[index]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64, torch.bool, torch.int8])
@pytest.mark.parametrize("rows", [3, MANY])
def test_types(dtype, rows):
    x = torch.zeros(rows, 4, dtype=dtype)
    x[1] = torch.ones(4, dtype=dtype)
    x[:, 2] = 1
    x[2, 1:3] = x[1, 1:3].clone()
    assert x[:3].tolist() == torch.tensor([[0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=dtype).tolist()


def test_views_of_another_type():
    x = torch.zeros(MANY, 2, dtype=torch.complex64)
    torch.view_as_real(x)[3, 1, 1] = 2.0
    x.conj()[4, 0] = 1 + 3j
    x.imag[5] = 4.0
    x.conj().imag[6] = 5.0
    wanted = torch.tensor([[0, 2j], [1 - 3j, 0], [4j, 4j], [-5j, -5j]], dtype=torch.complex64)
    assert x[3:7].tolist() == wanted.tolist()
    assert x.view(torch.float32)[3].tolist() == [0.0, 0.0, 0.0, 2.0]
