"""Forward mode of every operation against real torch, driven by the samples."""

import warnings
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.ops.playing import SAMPLES, assert_close, call, cases, function_of, tensors_in, tensors_of
from tests.torch.ops.sample import Sample

theirs = pytest.importorskip("torch")

#: the samples for which PyTorch's tangents are no model
UNSOUND = {
    # not what finite differences give
    "cholesky_inverse-0", "cholesky_inverse-1",  # factors in the wrong order
    "triangular_solve-0",  # reads the triangle of the tangent that the function does not read
    # none, though the function has a derivative
    "Tensor.scatter_reduce-prodTrue", "Tensor.scatter_reduce-prodFalse",
    "scatter_reduce-prodTrue-ties", "scatter_reduce-prodFalse-ties",
    # an internal error where the mean is to be broadcast
    "normal-both",
    # of another element type than the value
    "frexp-half", "nextafter-mixed",
    # at ties, ends, infinities and what is no number there is no derivative, and its two modes choose differently
    "scatter_reduce-amaxFalse-ties", "scatter_reduce-aminFalse-ties", "fmax-special", "clamp-ties", "clip-ties",
    "clamp_min-special", "clamp_max-special", "maximum-special", "minimum-special", "nn.functional.prelu-special",
    "nn.functional.binary_cross_entropy-ends", "logit-special", "div-special", "divide-special", "true_divide-special",
    "xlogy-special-number", "special.xlog1py-special-number", "median-array3",
}  # fmt: skip


def tangents(torch: Any, sample: Sample) -> list[Any]:
    """The tangent of each result, None where it has none, for fixed tangents of the inexact inputs."""
    ad = torch.autograd.forward_ad
    args, kwargs, inputs = tensors_of(torch, sample)
    if sample.seeded:
        torch.manual_seed(7)
    duals = {}
    with ad.dual_level(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, x in enumerate(inputs):
            if x.requires_grad:
                rng = np.random.default_rng([k, *x.shape])
                along = rng.standard_normal(tuple(x.shape))
                along = along + 1j * rng.standard_normal(tuple(x.shape)) if x.is_complex() else along
                duals[id(x)] = ad.make_dual(x.detach(), torch.tensor(np.asarray(along)).to(x.dtype))

        def dual(x: Any) -> Any:
            if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
                return type(x)(map(dual, x))
            return duals.get(id(x), x)

        found = function_of(torch, sample.name)(*map(dual, args), **{key: dual(x) for key, x in kwargs.items()})
        if sample.results is not None:
            found = sample.results(found)
        return [ad.unpack_dual(y).tangent for y in tensors_in(found, torch)]


@pytest.mark.parametrize("sample", cases([s for s in SAMPLES if s.order and s.id not in UNSOUND]))
def test_tangents(sample: Sample):
    try:
        wanted = tangents(theirs, sample)
    except Exception as error:
        if isinstance(error, NotImplementedError) or isinstance(call(theirs, sample)[0], Exception):
            return  # PyTorch has no forward derivative here, or the call has no result
        with pytest.raises(Exception, match="") as ours_raised:
            tangents(ours, sample)
        assert type(ours_raised.value).__name__ == type(error).__name__
        return
    found = tangents(ours, sample)
    assert len(found) == len(wanted)
    for k, (mine, other) in enumerate(zip(found, wanted, strict=True)):
        if mine is None or other is None:
            left = other if mine is None else mine
            assert left is None or not np.asarray(left.detach().numpy()).any(), f"output {k}"
        else:
            assert str(mine.dtype) == str(other.dtype)
            assert_close(mine, other, sample.tolerance * 10, f"output {k}")
