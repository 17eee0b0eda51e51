"""What may be given as ``out=``: types, shared memory and strides, against real torch."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.ops.playing import numbers

theirs = pytest.importorskip("torch")

#: what each of them returns or raises
CALLS: dict[str, Callable[[Any], Any]] = {
    "elementwise results are cast": lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.float64)),
    "but not to a lower kind": lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.int64)),
    "promoted": lambda t: t.sin(t.ones(3, dtype=t.int64), out=t.empty(3, dtype=t.int64)),
    "kernels of one type": lambda t: t.neg(t.ones(3), out=t.empty(3, dtype=t.float64)),
    "products are of their type": lambda t: t.mm(t.ones(3, 3), t.ones(3, 3), out=t.empty((3, 3), dtype=t.float64)),
    "joined": lambda t: t.cat([t.ones(2), t.ones(2)], out=t.empty(4, dtype=t.int64)),
    "sums go anywhere": lambda t: t.sum(t.ones(3), 0, out=t.empty((), dtype=t.int64)),
    "means do not": lambda t: t.std(t.ones(3), 0, out=t.empty((), dtype=t.int64)),
    "second output": lambda t: t.max(t.ones(3), 0, out=(t.empty(()), t.empty(()))),
    "named results": lambda t: t.max(t.ones(3), 0, out=(t.empty(()), t.empty((), dtype=t.int64))).indices,
    "too many": lambda t: t.max(t.ones(3), 0, out=(t.ones(3),) * 3),
    "an inverse": lambda t: t.linalg.inv(t.eye(3), out=t.empty(3, 3, dtype=t.int64)),
    "a norm": lambda t: t.linalg.norm(t.eye(3), out=t.empty((), dtype=t.float64)),
    "torch.norm": lambda t: (lambda x: (t.norm(t.eye(3), out=x), x)[1])(t.zeros(())),
    "a transform": lambda t: t.fft.fft2(t.eye(3), out=t.empty(3, 3)),
    "frequencies": lambda t: t.fft.fftfreq(4, out=t.empty(4)),
    "places": lambda t: t.nonzero(t.ones(3), out=t.empty(3)),
    "a chain": lambda t: t.linalg.multi_dot([t.eye(3), t.eye(3)], out=t.empty(3, 3, dtype=t.float64)),
    "no tensor": lambda t: t.sin(t.ones(3), out=3),
    "a tuple": lambda t: t.sin(t.ones(3), out=(t.ones(3),)),
    "onto itself": lambda t: (lambda x: t.sin(x, out=x))(t.ones(3)),
    "onto a part of itself": lambda t: (lambda x: t.sin(x[:2], out=x[1:]))(t.ones(3)),
    "sums onto a part of itself": lambda t: (lambda x: t.cumsum(x[:2], 0, out=x[1:]))(t.ones(3)),
    "picked onto one place": lambda t: t.index_select(
        t.ones(3, 6), 1, t.tensor([0, 1]), out=t.empty(1, 1).expand(3, 2)
    ),
    "gathered onto itself": lambda t: (lambda x: t.gather(x, 0, t.tensor([2, 1, 0]), out=x))(t.ones(3)),
    "gathered onto the places": lambda t: (lambda i: t.gather(t.arange(3), 0, i, out=i))(t.tensor([2, 0, 1])),
    "taken onto the places": lambda t: (lambda i: t.take(t.arange(3), i, out=i))(t.tensor([2, 0, 1])),
    "a pool": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 2, 2), 2, out=t.empty(0)),
    "a pool of volumes": lambda t: t.nn.functional.avg_pool3d(t.ones(1, 2, 2, 2), 2, out=t.empty(0)),
    "a pool of another type": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 2, 2), 2, out=t.empty(0).double()),
    "a layer": lambda t: t.nn.functional.linear(t.ones(2, 2), t.ones(3, 2), t.ones(3), out=t.empty(0)),
    "gelu": lambda t: t.nn.functional.gelu(t.ones(2), out=t.empty(0)),
    "gelu of another type": lambda t: t.nn.functional.gelu(t.ones(2), out=t.empty(0).double()),
    "gelu onto a part of itself": lambda t: (lambda x: t.nn.functional.gelu(x[:2], out=x[1:]))(t.ones(3)),
    "softplus": lambda t: t.nn.functional.softplus(t.ones(2), 2, out=t.empty(0)),
    "hardshrink": lambda t: t.nn.functional.hardshrink(t.ones(2), out=t.empty(0)),
    "torch.hardshrink": lambda t: t.hardshrink(t.ones(2), out=t.empty(0)),
    "softshrink": lambda t: t.nn.functional.softshrink(t.ones(2), out=t.empty(0)),
    "logsigmoid": lambda t: t.nn.functional.logsigmoid(t.ones(2), out=t.empty(0)),
    "logsigmoid of another type": lambda t: t.nn.functional.logsigmoid(t.ones(2), out=t.empty(0).double()),
    "logsigmoid of what is tracked": lambda t: t.nn.functional.logsigmoid(
        t.ones(2, requires_grad=True), out=t.empty(0)
    ),
    "not in Python": lambda t: t.nn.functional.elu(t.ones(2), out=t.empty(0)),
    "strides of what is resized": lambda t: t.sin(t.ones(2, 3).t(), out=t.empty(0)),
    "strides that are there": lambda t: t.sin(t.ones(3, 2), out=t.empty(2, 3).t()),
}


def outcome(torch: Any, call: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(torch)
        except (RuntimeError, TypeError) as error:
            return type(error), str(error).splitlines()[0]
    return str(found.dtype), found.stride(), numbers(found).tolist()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_out(call: Callable[[Any], Any]):
    assert outcome(ours, call) == outcome(theirs, call)


@pytest.mark.parametrize("name", ["max", "sort", "kthvalue"])
def test_name_of_several(name: str):
    """What was written is returned as a type of its own."""

    def run(torch: Any) -> str:
        x = torch.tensor([[3.0, 1.0, 2.0]])
        out = torch.empty(0), torch.empty(0, dtype=torch.int64)
        return type(getattr(torch, name)(x, 1, out=out)).__name__

    assert run(ours) == run(theirs)


def test_pieces_that_are_written_are_not_returned():
    def run(torch: Any) -> Any:
        x, out = torch.arange(4.0), [torch.empty(2), torch.empty(2)]
        found = torch.split_copy(x, 2, out=out), torch.split_with_sizes_copy(x, [2, 2], out=out)
        return found, torch.unbind_copy(x.view(2, 2), out=out), [each.tolist() for each in out]

    assert run(ours) == run(theirs)


def test_an_output_that_is_resized_is_written_once():
    def run(torch: Any) -> Any:
        new, wrong = torch.empty(0), torch.empty(2)
        for _ in range(2):
            torch.add(torch.ones(3), 1, out=new)
            torch.cat([torch.ones(3)], out=wrong)
        return new.tolist(), wrong.tolist(), new._version, wrong._version

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(ours) == run(theirs)
