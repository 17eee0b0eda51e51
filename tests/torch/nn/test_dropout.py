"""Dropout draws PyTorch's numbers, in the order in which the input lies in memory."""

import numpy as np
import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout2d"])
@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x,
        lambda x: x.permute(2, 0, 3, 1),
        lambda x: x[:, ::2],
        lambda x: x.permute(1, 0, 2, 3)[:, :, ::2],
    ],
    ids=["row-major", "permuted", "gaps", "permuted gaps"],
)
def test_dropout_draws_in_the_order_of_memory(name, layout):
    def outcome(torch):
        x = layout(torch.ones(3, 4, 2, 6))
        torch.manual_seed(3)
        return getattr(torch.nn.functional, name)(x, 0.5, True)

    mine, other = outcome(ours), outcome(theirs)
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6)
    assert mine.stride() == other.stride()
