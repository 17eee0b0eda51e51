"""In-place writes against real torch: gradients that views retain when their base is written, and empty tensors."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

pytestmark = pytest.mark.fast

theirs = pytest.importorskip("torch")

PROGRAMS = {
    "read after the write": lambda x, y, w: (x.mul_(2), (y * 2).sum())[1],
    "read before": lambda x, y, w: (x.mul_(2), w.sum())[1],
    "read before, asked for after": lambda x, y, w: (x.mul_(2), y.grad_fn, w.sum())[2],
    "read before and after": lambda x, y, w: (x.mul_(2), (y * 2).sum() + w.sum())[1],
    "written through the view": lambda x, y, w: (y.mul_(2), (y * 2).sum())[1],
    "written through the view, read before": lambda x, y, w: (y.mul_(2), w.sum())[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_retained_gradient_follows_the_view(name: str):
    def run(torch: Any) -> Any:
        x = torch.ones(3, requires_grad=True).clone()
        y = x.view(1, 3)
        w = y * 3
        y.retain_grad()
        PROGRAMS[name](x, y, w).backward()
        return y.grad, type(y.grad_fn).__name__

    agree(Case(name, run), theirs)


@pytest.mark.parametrize("shape", [(3, 0, 2, 0), (3, 2, 1, 0), (0, 3)], ids=str)
def test_a_view_without_elements_is_written(shape: tuple[int, ...]):
    """Strides of what has no element may look as though elements shared a place."""
    agree(
        Case("mul_", lambda torch: (torch.ones(shape).transpose(0, -1).mul_(2), torch.ones(shape)[..., :1].add_(1))),
        theirs,
    )


@pytest.mark.parametrize("name", ["view_as_real", "view_as_complex", "conj", "real", "imag"])
def test_the_node_of_a_view_whose_base_was_written(name: str):
    def run(torch: Any) -> Any:
        base = torch.ones(3, 2, requires_grad=True) * 1
        if name != "view_as_complex":
            base = torch.complex(base, base) * 1
        view = getattr(torch, name)(base)
        made = view.grad_fn.name()
        base.mul_(2)
        return made, view.grad_fn.name()

    agree(Case(name, run), theirs)


@pytest.mark.parametrize("index", [0, slice(0, 1), [0], ...], ids=str)
def test_a_number_too_large_for_half_precision_is_written_as_infinity(index: Any):
    def run(torch: Any, number: float, dtype: str) -> Any:
        x = torch.zeros(2, dtype=getattr(torch, dtype))
        x[index] = number
        return x

    for number, dtype in ((-1e9, "float16"), (1e39, "bfloat16"), (1e39, "float32")):
        agree(Case(f"{number} in {dtype}", lambda torch: run(torch, number, dtype)), theirs)


def test_a_view_of_another_dtype_that_is_transposed_in_place_is_written():
    """The gradient is that of a transposed view; PyTorch's own tests note that its gradient is not."""

    def gradient(torch: Any, transpose: str) -> Any:
        leaf = torch.ones(3, 3, dtype=torch.complex64, requires_grad=True)
        view = getattr(torch.view_as_real(leaf.clone()), transpose)(0, 1)
        view += 1
        view.backward(torch.arange(18.0).view(3, 3, 2))
        return leaf.grad.numpy()

    expected = gradient(theirs, "transpose")
    np.testing.assert_array_equal(gradient(ours, "transpose"), expected)
    np.testing.assert_array_equal(gradient(ours, "transpose_"), expected)
    np.testing.assert_array_equal(gradient(theirs, "transpose_"), expected.T)
