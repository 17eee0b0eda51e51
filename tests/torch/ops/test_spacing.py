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


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_evenly_spaced_complex_numbers_have_pytorchs_bits(dtype):
    for start, end in ((-1 - 0.083j, 74 + 0.9j), (22.03 - 1.7j, 15.2 + 0.8j), (1, 2j)):
        for steps in (1, 2, 7, 46, 75):
            ours, theirs = (t.linspace(start, end, steps, dtype=getattr(t, dtype)) for t in (torch, real))
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "int64"])
def test_numbers_in_steps_have_pytorchs_bits(dtype):
    for start, end, step in ((0, 10, 0.1), (-1, 9.3, 0.0414), (19.3, 32.7, 0.1), (1.5, -20, -0.3), (1.9, 7.2, 1.5)):
        if (dtype == "int64" and abs(step) < 1) or (dtype == "uint8" and end < 0):
            continue
        ours, theirs = (t.arange(start, end, step, dtype=getattr(t, dtype)).double() for t in (torch, real))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_evenly_spaced_powers_have_pytorchs_bits(dtype):
    for start, end, steps in ((0, 2, 231), (0.6, 2.1, 50), (2.3, 0.5, 189)):
        for base in (2.0, 10.0, 4.62):
            ours, theirs = (
                t.logspace(start, end, steps, base, dtype=getattr(t, dtype)).double() for t in (torch, real)
            )
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


@pytest.mark.parametrize(
    "bounds, dtype",
    [
        ((0, 300, 3), "int8"),
        ((300, 300, 1), "uint8"),
        ((-1, 5, 3), "uint8"),
        ((float("inf"), 0, 3), "int32"),
        ((1e10, 0, 3), "float16"),
        ((1e10, 0, 0), "float16"),
        ((0, 1e40, 2), "complex64"),
    ],
    ids=str,
)
@pytest.mark.parametrize("function", ["linspace", "logspace"])
def test_bounds_that_a_type_cannot_hold_are_refused_as_by_pytorch(function, bounds, dtype):
    def outcome(torch):
        try:
            return getattr(torch, function)(*bounds, dtype=getattr(torch, dtype)).tolist()
        except RuntimeError as error:
            return str(error).splitlines()[0]

    assert outcome(torch) == outcome(real)


@pytest.mark.parametrize("value", [1e40, 1e40j])
def test_a_number_that_a_complex_type_cannot_hold_is_refused(value):
    with pytest.raises(RuntimeError, match="value cannot be converted to type c10::complex<float> without overflow"):
        torch.full((2,), value, dtype=torch.complex64)
