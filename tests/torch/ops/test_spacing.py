"""Numbers at equal distance are PyTorch's to the bit, and so are gradients at the points of an image's own grid."""

import numpy as np
import pytest

import fgrad.torch as torch

real = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_evenly_spaced_numbers_have_pytorchs_bits(dtype):
    for start, end in ((-1, 1), (0.1, 7.3), (-3.3, 2.2), (6e4, 1e-3), (2, 2)):
        for steps in range(40):
            ours, theirs = (t.linspace(start, end, steps, dtype=getattr(t, dtype)).double() for t in (torch, real))
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("align_corners", [True, False])
def test_an_untrained_spatial_transformer_has_pytorchs_gradient(align_corners):
    def gradient(torch):
        theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]], requires_grad=True)
        image = (torch.arange(98.0) ** 2 % 7).reshape(1, 2, 7, 7)
        grid = torch.nn.functional.affine_grid(theta, image.shape, align_corners)
        read = torch.nn.functional.grid_sample(image, grid, align_corners=align_corners)
        (read * torch.arange(98.0).reshape(image.shape)).sum().backward()
        return theta.grad.numpy()

    np.testing.assert_allclose(gradient(torch), gradient(real), rtol=1e-4, atol=1e-2)
