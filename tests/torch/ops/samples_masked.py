"""Samples of ``torch.masked``: reductions and normalisations of what a mask leaves in."""

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, integers, normal

X, N, Z = normal(2, 3), integers(2, 3), normal(2, 3, dtype="complex128")
MASK = np.array([[True, False, True], [False, False, False]])
ROW, NUMBERS = np.array([True, True, False]), np.array([[1.0], [0.0]])

_REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std")
_ALONG = ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")

SAMPLES = [
    *[Sample(f"masked.{name}", (X,), {"mask": ROW}) for name in _REDUCTIONS],
    *[Sample(f"masked.{name}", (X,), {"dim": 1, "mask": MASK, "keepdim": True}, label="nothing left", order=1)
      for name in (*_REDUCTIONS, "argmax", "argmin", "median")],
    *[Sample(f"masked.{name}", (X,), {"dim": -1}, label="no mask") for name in (*_REDUCTIONS, *_ALONG, "median")],
    *[Sample(f"masked.{name}", (X, 0), {"mask": ROW}) for name in _ALONG],
    *[Sample(f"masked.{name}", (N,), {"mask": ROW}, label="integers")
      for name in ("sum", "prod", "amax", "amin", "mean", "norm", "var", "argmin")],
    *[Sample(f"masked.{name}", (N > 2,), {"mask": ROW}, label="booleans") for name in ("sum", "amax", "var")],
    *[Sample(f"masked.{name}", (Z,), {"mask": ROW}, label="complex") for name in ("sum", "mean", "var", "amin")],
    Sample("masked.sum", (X, (1, 0)), {"mask": NUMBERS, "dtype": torch.float32}, label="mask of numbers", frozen=(1,)),
    Sample("masked.sum", (X, (0, 0)), label="an axis twice"),
    Sample("masked.sum", (X, 2), label="no such axis"),
    Sample("masked.sum", (X[0],), {"mask": MASK}, label="mask of more axes"),
    Sample("masked.norm", (X, float("-inf"), 1), {"mask": ROW}, label="smallest"),
    Sample("masked.norm", (N, float("-inf")), {"mask": ROW}, label="smallest integer"),
    Sample("masked.var", (X,), {"mask": ROW, "unbiased": False}, label="biased"),
    Sample("masked.var", (X,), {"mask": ROW, "correction": 2, "dim": 0}, label="correction"),
    Sample("masked.var", (X, 0, True), {"correction": 1}, label="both corrections"),
    Sample("masked.median", (N,), {"mask": ROW}, label="integers"),
    Sample("masked.median", (N,), {"mask": MASK}, label="no integers left"),
    Sample("masked.logaddexp", (X, X[::-1].copy()), {"input_mask": ROW, "other_mask": MASK}),
    Sample("masked.normalize", (X, 2.0, 1), {"mask": ROW}),
    Sample("masked.normalize", (X, 2.0, 1), {"mask": MASK, "eps": 0.5}, label="nothing left", order=1),
]  # fmt: skip
