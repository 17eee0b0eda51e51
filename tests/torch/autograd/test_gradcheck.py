"""``gradcheck`` and ``gradgradcheck`` against PyTorch: right and wrong derivatives, every option."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from fgrad.run.policy import POLICIES, active
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

RNG = np.random.RandomState(0)
X, Y = RNG.rand(3) + 0.3, RNG.rand(3) + 0.3
Z = RNG.rand(3) + 1j * RNG.rand(3)


def with_backward(t: Any, backward: Any, materialize: bool = True) -> Any:
    """A function that doubles, with a given backward."""

    class Doubling(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 2

    Doubling.backward = staticmethod(lambda ctx, grad: backward(grad))
    return Doubling.apply


def drifting(t: Any) -> Any:
    calls = [0]

    def backward(grad: Any) -> Any:
        calls[0] += 1
        return grad * 2 + calls[0] * 1e-7

    return with_backward(t, backward)


RIGHT = {
    "sin": (lambda t: t.sin, (X,)),
    "two": (lambda t: lambda a, b: (a * b, a.sum()), (X, Y)),
    "complex": (lambda t: lambda a: a * a, (Z,)),
    "a transposed result": (lambda t: lambda a: a.t().exp(), (np.arange(6.0).reshape(2, 3),)),
    "complex to real": (lambda t: lambda a: a.abs(), (Z,)),
    "real to complex": (lambda t: lambda a: a * (1 + 2j), (X,)),
    "integer output": (lambda t: lambda a: (a * 2, (a > 0).long()), (X,)),
    "detached": (lambda t: lambda a: a.detach() * 2, (X,)),
}
WRONG = {
    "factor": lambda t: with_backward(t, lambda grad: grad * 3),
    "not multiplied": lambda t: with_backward(t, lambda grad: t.full((3,), 2.0, dtype=t.float64)),
    "drifting": drifting,
    "undefined": lambda t: with_backward(t, lambda grad: grad * 2, materialize=False),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"fast_mode": True},
    {"raise_exception": False},
    {"check_grad_dtypes": True},
    {"check_batched_grad": True},
    {"check_undefined_grad": False},
    {"nondet_tol": 1e-3},
    {"masked": True},
]
FORWARD: list[dict[str, Any]] = [
    {"check_forward_ad": True},
    {"check_forward_ad": True, "check_backward_ad": False},
    {"check_forward_ad": True, "fast_mode": True},
    {"check_forward_ad": True, "check_batched_forward_grad": True},
]


def first_lines(function: Any) -> Any:
    """The function with errors cut before numbers whose last digits differ."""

    def run(t: Any, *args: Any) -> Any:
        try:
            return function(t, *args)
        except RuntimeError as error:
            raise type(error)(str(error).split("numerical:")[0]) from None

    return run


def checked(make: Any, options: dict[str, Any]) -> Any:
    return first_lines(
        lambda t, *args: t.autograd.gradcheck(make(t), tuple([a.requires_grad_() for a in args]), **options)
    )


@pytest.mark.parametrize("options", [*OPTIONS, *FORWARD], ids=str)
@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, options: dict[str, Any]) -> None:
    make, arrays = RIGHT[name]
    agree(Case(name, checked(make, options), arrays), torch)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str, options: dict[str, Any]) -> None:
    agree(Case(name, checked(WRONG[name], options), (X,)), torch)


@pytest.mark.parametrize(
    "run",
    [
        lambda t, a: t.autograd.gradcheck(t.sin, a),
        lambda t, a: t.autograd.gradcheck(t.sin, a.sum().expand(3).requires_grad_()),
        lambda t, a: t.autograd.gradcheck(t.sin, a, check_forward_ad=False, check_backward_ad=False),
        lambda t, a: t.autograd.gradcheck(t.sin, a, check_batched_grad=True, check_backward_ad=False),
        lambda t, a: t.autograd.gradcheck(t.sin, a, check_batched_forward_grad=True),
        lambda t, a: t.autograd.gradgradcheck(t.sin, a, check_fwd_over_rev=False, check_rev_over_rev=False),
        lambda t, a: t.autograd.gradgradcheck(t.sin, a, check_fwd_over_rev=True, check_rev_over_rev=False),
    ],
)
def test_arguments(run: Any) -> None:
    agree(Case("", run, (X,)), torch)


def test_single_precision_warns() -> None:
    for t in (torch, ours):
        x = t.tensor(X, dtype=t.float32).requires_grad_()
        with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
            t.autograd.gradcheck(t.sin, x, raise_exception=False)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fast_mode": True},
        {"check_fwd_over_rev": True},
        {"check_batched_grad": True},
        {"gen_non_contig_grad_outputs": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["sin", "two", "complex", "a transposed result"])
def test_second_derivatives(name: str, options: dict[str, Any]) -> None:
    make, arrays = RIGHT[name]
    run = first_lines(
        lambda t, *args: t.autograd.gradgradcheck(make(t), tuple([a.requires_grad_() for a in args]), **options)
    )
    agree(Case(name, run, arrays), torch)


def test_a_change_of_back_end_is_no_difference() -> None:
    calls = [0]

    def backward(grad: Any) -> Any:
        calls[0] += active() is not POLICIES["reproducible"]
        return grad * (2 + calls[0] * 1e-12)

    assert ours.autograd.gradcheck(with_backward(ours, backward), ours.tensor(X).double().requires_grad_())
