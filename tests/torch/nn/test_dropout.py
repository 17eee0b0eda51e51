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


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout"])
@pytest.mark.parametrize(
    "transformed",
    [
        lambda torch, f, x: torch.func.vjp(f, x)[0],
        lambda torch, f, x: torch.func.jvp(f, (x,), (x,))[0],
        lambda torch, f, x: torch.func.grad(lambda z: (z.sum(), f(x)), has_aux=True)(torch.ones(2))[1],
        lambda torch, f, x: torch.func.vmap(f, randomness="same")(torch.stack([x, x])),
        lambda torch, f, x: torch.func.vmap(f, randomness="different")(torch.stack([x, x])),
    ],
    ids=["vjp", "jvp", "from outside", "same", "different"],
)
def test_dropout_draws_row_by_row_inside_of_transformations(transformed, name, inplace):
    def outcome(torch):
        def f(x):
            return getattr(torch.nn.functional, name)(x.t() * 1.0, 0.5, True, inplace)

        torch.manual_seed(3)
        return transformed(torch, f, torch.arange(1.0, 25.0).reshape(4, 6)).tolist()

    np.testing.assert_allclose(outcome(ours), outcome(theirs), rtol=1e-6)


def test_native_dropout_lies_as_its_input():
    def outcome(torch):
        torch.manual_seed(3)
        result, mask = torch.native_dropout(torch.ones(4, 6).t(), 0.5, True)
        return result.tolist(), result.stride(), mask.stride()

    assert outcome(ours) == outcome(theirs)
