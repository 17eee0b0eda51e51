"""Gradients that are made to fit what they go to."""

import pytest

import fgrad.torch as torch
from fgrad.mutable.backward.fit import expands_to, fitted

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("shape", "desired", "does"),
    [((3,), (2, 3), True), ((1, 3), (2, 3), True), ((), (2,), True), ((2,), (2, 3), False), ((2, 3), (3,), False)],
)
def test_expands_to(shape, desired, does):
    assert expands_to(shape, desired) == does


def test_a_gradient_is_summed_over_broadcast_axes_and_cast():
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    leaf = torch.ones(1, 3, dtype=torch.float64)
    found = fitted(node, 0, torch.ones(2, 3), leaf._type)
    assert found.tolist() == [[2, 2, 2]] and found.dtype == torch.float64


def test_a_gradient_of_another_shape_is_refused():
    node = (torch.ones(3, requires_grad=True) * 2).grad_fn
    with pytest.raises(RuntimeError, match=r"MulBackward0 returned an invalid gradient at index 1 - got \[2\]"):
        fitted(node, 1, torch.ones(2), torch.ones(3)._type)
