"""Exponentials of large matrices, and their derivatives for large cotangents."""

import numpy as np
import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


def _value_and_gradient(torch, elements, size):
    x = torch.tensor(elements, dtype=torch.float64, requires_grad=True)
    y = torch.linalg.matrix_exp(x)
    (gradient,) = torch.autograd.grad(y, x, torch.full_like(y, size))
    return y.detach().numpy(), gradient.numpy()


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("elements", [[[0.1, 0.2], [-0.3, 0.4]], [[0.0, 1e6], [-1e6, 0.0]], [[-1e6, 1.0], [0.0, -1.0]]])
def test_they_are_those_of_pytorch(elements, size):
    expected = _value_and_gradient(theirs, elements, size)
    actual = _value_and_gradient(ours, elements, size)
    for mine, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, other, 1e-5, 1e-6 * max(size, 1))


def test_the_second_derivative_for_a_large_cotangent():
    x = ours.tensor([[0.1, 0.2], [-0.3, 0.4]], dtype=ours.float64, requires_grad=True)
    assert ours.autograd.gradgradcheck(lambda x: ours.linalg.matrix_exp(x) * 1e3, (x,), rtol=1e-4, atol=1e-2)
