"""Samples of reductions, order statistics, cumulative operations, norms and softmax."""

from typing import Any

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, integers, normal, positive

A, B, V = normal(3, 4), normal(2, 3, 4), normal(5)
S = normal(seed=1)
EMPTY = np.zeros((0, 3))
INT, BOOL = integers(3, 4, seed=2), integers(3, 4, high=2, seed=3, dtype="bool")
TIES = np.array([[1.0, 3.0, 3.0, 0.0], [3.0, 3.0, 3.0, 3.0], [-1.0, -1.0, 2.0, 2.0]])
NAN = np.array([[1.0, np.nan, 3.0, 0.0], [np.nan, np.nan, 5.0, 6.0]])
ZEROS = np.array([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0], [2.0, 4.0, 5.0]])
COMPLEX = normal(3, 4, dtype="complex128")
HALF = normal(3, 4, dtype="float16")

_AXES = (((), {}), ((0,), {}), ((-1,), {"keepdim": True}), (((0, 2),), {}), (((0, 1, 2), True), {}))


def _reduced(name: str, *arrays: np.ndarray, axes: tuple = _AXES, **settings: Any) -> list[Sample]:
    found = [Sample(name, (B, *args), kwargs, f"{args}{kwargs or ''}", **settings) for args, kwargs in axes]
    return found + [Sample(name, (x,), {}, f"array{i}", **settings) for i, x in enumerate(arrays)]


def _along(name: str, *arrays: np.ndarray, dims: tuple[int, ...] = (0, -1), **settings: Any) -> list[Sample]:
    found = [Sample(name, (B, dim), {}, f"dim{dim}", **settings) for dim in dims]
    return found + [Sample(name, (x, 0), {}, f"array{i}", **settings) for i, x in enumerate(arrays)]


SAMPLES: list[Sample] = [
    *_reduced("sum", S, EMPTY, INT, BOOL, COMPLEX, HALF),
    Sample("sum", (A,), {"dtype": torch.float32}, "dtype"),
    Sample("sum", (A, ()), {}, "no axes"),
    Sample("sum", (A,), {"axis": 0, "keepdims": True}, "numpy names"),
    Sample("sum", (S, 0), {}, "0-d axis"),
    Sample("sum", (EMPTY, 0), {}, "empty axis"),
    *_reduced("mean", S, COMPLEX),
    *_reduced("nansum", NAN, INT),
    *_reduced("nanmean", NAN),
    Sample("prod", (A,)),
    Sample("prod", (ZEROS,), {}, "zeros", order=1),
    Sample("prod", (ZEROS[:, 2],), {}, "no zero"),
    Sample("prod", (ZEROS[0],), {}, "one zero"),
    Sample("prod", (S,), {}, "0-d"),
    Sample("prod", (INT,), {}, "integers"),
    Sample("prod", (EMPTY,), {}, "empty"),
    Sample("prod", (COMPLEX,), {}, "complex"),
    *_along("prod", ZEROS[:, 1:2], A),
    Sample("prod", (B, 1, True), {}, "keepdim"),
    *_reduced("amax", TIES, S, axes=_AXES),
    *_reduced("amin", TIES, INT, BOOL),
    *_along("amax", NAN, TIES),
    *[Sample(name, (x,), {}, f"array{i}") for name in ("max", "min") for i, x in enumerate((A, TIES, S, INT, BOOL))],
    *[sample for name in ("max", "min") for sample in _along(name, TIES, INT, BOOL)],
    Sample("max", (B, 1, True), {}, "keepdim"),
    Sample("max", (S, 0), {}, "0-d axis"),
    Sample("min", (NAN, 0), {}, "nan", order=0),
    Sample("max", (A, A[::-1].copy()), {}, "two"),
    Sample("min", (A, A[::-1].copy()), {}, "two"),
    Sample("aminmax", (TIES,)),
    Sample("aminmax", (B,), {"dim": 1, "keepdim": True}, "dim"),
    *[
        Sample(name, (x, *args), {}, f"array{i}{args}")
        for name in ("argmax", "argmin")
        for i, x in enumerate((A, TIES, INT, NAN))
        for args in ((), (0,), (-1, True))
    ],
    Sample("argmax", (A,), {"keepdim": True}, "keepdim"),
    *[sample for name in ("all", "any") for sample in _reduced(name, INT, BOOL, EMPTY, INT.astype("uint8"))],
    *[Sample("count_nonzero", (INT, *args), {}, f"{args}") for args in ((), (0,), ((0, 1),), (-1,))],
    *[
        Sample("hash_tensor", (np.abs(x.real), *args), {}, f"{i} {args}")
        for i, x in enumerate((A, INT, A.astype("float32")))
        for args in ((1,), ((0, 1),))
    ],
    *_along("logsumexp", A, S, COMPLEX, INT),
    Sample("logsumexp", (B, (0, 1), True), {}, "axes"),
    Sample("logsumexp", (np.array([-np.inf, 0.0, np.inf]), 0), {}, "inf", order=0),
    Sample("logsumexp", (np.array([-np.inf, 0.0, 2.0]), 0), {}, "-inf"),
    *[
        Sample(name, (B, *args), kwargs, f"{args}{kwargs}")
        for name in ("var", "std", "var_mean", "std_mean")
        for args, kwargs in (
            ((), {}),
            ((0,), {}),
            ((False,), {}),
            (((0, 2), False, True), {}),
            ((), {"correction": 2}),
            ((-1,), {"correction": 0, "keepdim": True}),
        )
    ],
    Sample("var", (COMPLEX, 0), {}, "complex"),
    Sample("std", (np.ones((2, 3)), 0), {}, "zero", order=1),
    Sample("var", (V[:1],), {}, "one element", order=1),
    *[
        Sample(name, (x,), {}, f"array{i}")
        for name in ("median", "nanmedian")
        for i, x in enumerate((A, V, S, NAN, INT))
    ],
    *[sample for name in ("median", "nanmedian") for sample in _along(name, A, NAN)],
    Sample("median", (A, 1, True), {}, "keepdim"),
    Sample("kthvalue", (A, 2)),
    Sample("kthvalue", (A, 2, 0, True), {}, "keepdim"),
    Sample("kthvalue", (S, 1), {}, "0-d"),
    Sample("kthvalue", (np.array([0.0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1]), 10), {}, "equal elements"),
    Sample("kthvalue", (np.array([[3.0, 3, 2, 2, 1, 1], [1, 1, 1, np.nan, 0, np.nan]]), 3), {}, "passes"),
    Sample("mode", (TIES,)),
    Sample("mode", (integers(4, 7, high=3), 1), {}, "integers"),
    Sample("mode", (TIES, 0, True), {}, "keepdim"),
    *[
        Sample(name, args, kwargs, f"{i}")
        for name in ("quantile", "nanquantile")
        for i, (args, kwargs) in enumerate(
            (
                ((A, 0.3), {}),
                ((A, 0.3, 0), {}),
                ((B, np.array([0.1, 0.5, 1.0]), 1), {"keepdim": True}),
                ((NAN, 0.4, 1), {}),
                ((A, 0.5, -1, True), {}),
                ((B, np.array([0.25])), {}),
                ((S, 0.25, 0), {}),
                ((S, np.array([0.25]), -1, True), {}),
            )
        )
    ],
    *[
        Sample("quantile", (A, 0.3, 1), {"interpolation": way}, way, names=False)
        for way in ("lower", "higher", "nearest", "midpoint")
    ],
    Sample("sort", (A,)),
    Sample("sort", (A, 0, True), {}, "descending"),
    Sample("sort", (TIES,), {"stable": True}, "stable"),
    Sample("sort", (TIES,), {"stable": True, "descending": True, "dim": 0}, "stable descending"),
    Sample("sort", (S,), {}, "0-d"),
    Sample("sort", (NAN,), {}, "nan"),
    Sample("sort", (BOOL,), {}, "bool"),
    Sample("argsort", (A,)),
    Sample("argsort", (TIES,), {"dim": 0, "stable": True}, "stable"),
    Sample("msort", (A,)),
    Sample("topk", (A, 2)),
    Sample("topk", (BOOL, 1), {}, "bool"),
    Sample("topk", (A, 2, 0, False), {}, "smallest"),
    Sample("topk", (INT[:, 0], 1), {}, "integers"),
    Sample("unique", (INT,), {"return_inverse": True, "return_counts": True}),
    Sample("unique_consecutive", (S,), {"return_inverse": True}, "0-d", order=0, frozen=(0,)),
    Sample("unique", (S,), {"return_inverse": True}, "0-d", order=0, frozen=(0,)),
    Sample("unique", (TIES,), {"dim": 0, "return_inverse": True}, "dim", order=0, frozen=(0,)),
    Sample("unique_consecutive", (integers(12, high=2),), {"return_inverse": True, "return_counts": True}),
    Sample("unique_consecutive", (integers(6, 1, high=2),), {"dim": 0, "return_counts": True}, "dim"),
    *[
        Sample("cov", (x,), kwargs, f"{i}", names=False)
        for i, (x, kwargs) in enumerate(
            (
                (A, {}),
                (V, {}),
                (A, {"correction": 0}),
                (COMPLEX, {}),
                (B, {}),
                (A, {"fweights": integers(4, low=1), "aweights": positive(4)}),
            )
        )
    ],
    *[Sample("corrcoef", (x,), {}, f"{i}", names=False) for i, x in enumerate((A, V))],
    Sample("corrcoef", (COMPLEX,), {}, "complex", names=False),
    Sample("histc", (V,), {"bins": 4}, order=0),
    Sample("histc", (V, 5, -1, 2), {}, "range", order=0),
    Sample("histogram", (V, 3), {}, order=0, frozen=(0,)),
    Sample("histogram", (V, np.array([-1.0, 0.0, 2.0])), {"density": True}, "edges", order=0, frozen=(0, 1)),
    Sample("bincount", (integers(9),)),
    Sample("bincount", (integers(9).astype(np.uint8),), label="unsigned"),
    Sample("bincount", (integers(5), V), {"minlength": 8}, "weights", order=0, frozen=(1,)),
    *_along("cumsum", S, EMPTY, INT, BOOL, COMPLEX),
    Sample("cumsum", (A, 0), {"dtype": torch.float32}, "dtype"),
    Sample("cumsum", (BOOL, 0), {"dtype": torch.bool}, "dtype bool"),
    Sample("cumprod", (BOOL.reshape(-1)[0], 0), {"dtype": torch.bool}, "dtype bool of one"),
    *_along("cumprod", ZEROS, INT, S),
    *_along("logcumsumexp", A, S),
    # the angles go around more than once
    Sample("logcumsumexp", (COMPLEX * 5, 1), {}, "complex", order=1),
    *[sample for name in ("cummax", "cummin") for sample in _along(name, TIES, INT, S)],
    Sample("cummax", (NAN, 1), {}, "nan", order=0),
    Sample("diff", (A,)),
    Sample("diff", (A, 2, 0), {}, "twice"),
    Sample("diff", (BOOL,), {}, "bool"),
    Sample("diff", (A, 1, 0), {"prepend": A[:1], "append": A[:2]}, "joined"),
    Sample("diff", (INT,), {"prepend": A[:, :1]}, "types"),
    Sample("diff", (A,), {"prepend": A[:1]}, "shapes"),
    Sample("diff", (A,), {"append": A[0]}, "axes"),
    Sample("trapezoid", (A,)),
    Sample("trapezoid", (A,), {"dx": 2.0, "dim": 0}, "dx"),
    Sample("trapezoid", (A, np.sort(V)[:4]), {}, "points"),
    Sample("trapz", (V,)),
    Sample("cumulative_trapezoid", (A,)),
    Sample("cumulative_trapezoid", (A, np.sort(A)), {}, "points"),
    *[
        Sample(name, (x, dim), {}, f"array{i} dim{dim}")
        for name in ("softmax", "log_softmax")
        for i, x in enumerate((A, B, S))
        for dim in (0, -1)
    ],
    Sample("softmax", (HALF, 0), {}, "half", tolerance=2e-3, order=1),
    Sample("log_softmax", (HALF, 0), {}, "half", tolerance=2e-3, order=1),
    Sample("Tensor.softmax", (A, 0), {"dtype": torch.float32}, "dtype", tolerance=1e-5),
    Sample("log_softmax", (A, 0), {"dtype": torch.float32}, "dtype", tolerance=1e-5),
    *[
        Sample("linalg.vector_norm", (x, order, *args), {}, f"{order} array{i}{args}")
        for order in (2, 1, 0, 3, 1.5, 0.5, np.inf, -np.inf)
        for i, (x, args) in enumerate(((A, ()), (B, ((0, 2), True))))
    ],
    *[
        Sample("linalg.vector_norm", (np.zeros((2, 3)), order), {}, f"{order} zero", order=1)
        for order in (2, 1, 3, 1.5, np.inf)
    ],
    Sample("linalg.vector_norm", (TIES, np.inf, 1), {}, "ties", order=1),
    Sample("linalg.vector_norm", (COMPLEX,), {}, "complex"),
    Sample("linalg.vector_norm", (COMPLEX, 3, 0), {}, "complex 3"),
    Sample("norm", (A,)),
    Sample("norm", (A, "fro"), {}, "fro"),
    Sample("norm", (A, 1, 0), {}, "1"),
    Sample("norm", (A,), {"dim": (0, 1), "keepdim": True}, "axes"),
    Sample("norm", (A, "nuc"), {}, "nuc", order=1, names=False),
    Sample("Tensor.norm", (B, 3, 1), {}, "3"),
    Sample("linalg.norm", (A,)),
    Sample("linalg.norm", (V, 1), {}, "1"),
    *[
        Sample("linalg.norm", (A, order), {}, f"matrix {order}", order=1)
        for order in (1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro")
    ],
    *[
        Sample("linalg.matrix_norm", (B, order, (0, 2)), {"keepdim": True}, f"{order}", order=1)
        for order in (1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro")
    ],
    *[Sample("dist", (A, A[::-1].copy() * 2, p), {}, f"{p}") for p in (2, 3, 1.5)],
    *[Sample("dist", (A, A[::-1].copy() * 2, p), {}, f"{p}", order=1) for p in (1, np.inf)],
    Sample("dist", (A, A.copy()), {}, "zero", order=1),
    Sample("dist", (A, V[:4]), {}, "broadcast"),
    *[Sample("cdist", (A, normal(2, 4, seed=5), p), {}, f"{p}", order=1) for p in (2.0, 1.0, 3.0, 1.5, np.inf, 0.0)],
    Sample("cdist", (B, normal(5, 4, seed=5)), {}, "batch", order=1),
    Sample("cdist", (A, A.copy()), {}, "zero", order=1),
    Sample("cdist", (B, normal(5, 4, seed=5), 2.0, "use_mm_for_euclid_dist"), {}, "products", order=1),
    Sample("cdist", (normal(26, 4), A), {}, "many rows", order=1),
    Sample("_euclidean_dist", (A, normal(2, 4, seed=5)), order=1),
    Sample("renorm", (A, 2, 0, 1.0)),
    Sample("renorm", (B, 1, 1, 2.0), {}, "1"),
    Sample("tril", (A,)),
    Sample("triu", (B, 1), {}, "1"),
    Sample("tril", (A, -1), {}, "-1"),
    Sample("tril_indices", (3, 4, 1)),
    Sample("triu_indices", (3, 4, -1)),
    Sample("trace", (A,)),
    Sample("trace", (INT,), {}, "integers"),
    Sample("diag", (V,)),
    Sample("diag", (A, 1), {}, "matrix"),
    Sample("diag_embed", (A,)),
    Sample("diag_embed", (A, 1, 0, 2), {}, "axes"),
    Sample("diag_embed", (A, -2), {}, "below"),
    Sample("diagflat", (A, 1)),
    Sample("block_diag", (A, V, S)),
    # PyTorch overwrites what its own backward needs
    Sample("vander", (V,), order=0),
    Sample("vander", (V, 3, True), {}, "increasing", order=0),
]
