"""Element types that operations refuse, arguments of wrong types, and types that results have."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

_HALF = normal(2, 3, seed=1, dtype="float16")
_INTS = np.ones((2, 3), np.int32)
_COMPLEX = normal(2, 3, seed=2, dtype="complex64")
_BOOLS = np.ones((2, 3), bool)
_F = "nn.functional"


def _images(*sizes: int, dtype: str = "int32") -> np.ndarray:
    return np.ones((1, 2, *sizes), dtype)


_REFUSED = [
    Sample(f"{_F}.avg_pool3d", (_images(2, 2, 2, dtype="float16"), 2)),
    Sample(f"{_F}.avg_pool3d", (_images(2, 2, 2), 2)),
    Sample(f"{_F}.adaptive_avg_pool3d", (_images(2, 2, 2), 1)),
    Sample(f"{_F}.adaptive_avg_pool2d", (_images(2, 2), 1)),
    Sample(f"{_F}.adaptive_avg_pool1d", (np.ones((0, 2, 4), np.int32), 2), order=0),
    Sample(f"{_F}.max_unpool2d", (_images(1, 1), np.zeros((1, 2, 1, 1), np.int64), 2)),
    Sample(f"{_F}.grid_sample", (_images(2, 2), np.ones((1, 2, 2, 2), np.int32))),
    Sample(f"{_F}.grid_sample", (_images(2, 2, 2), np.ones((1, 2, 2, 2, 3), np.int32))),
    Sample(f"{_F}.interpolate", (_images(4), 3)),
    Sample(f"{_F}.conv_transpose1d", (_images(3), np.ones((2, 2, 3), np.int32))),
    Sample(f"{_F}.conv_transpose3d", (_images(3, 3, 3), np.ones((2, 2, 3, 3, 3), np.int32))),
    Sample(f"{_F}.bilinear", (_BOOLS, _BOOLS, np.ones((4, 3, 3), bool))),
    Sample(f"{_F}.prelu", (_COMPLEX, np.ones(1, np.complex64))),
    Sample(f"{_F}.binary_cross_entropy", (_INTS, _INTS)),
    Sample(f"{_F}.soft_margin_loss", (_INTS, _INTS)),
    Sample(f"{_F}.soft_margin_loss", (_BOOLS, _BOOLS)),
    Sample(f"{_F}.multi_margin_loss", (_HALF, np.zeros(2, np.int64))),
    Sample(f"{_F}.multilabel_margin_loss", (_HALF, np.zeros((2, 3), np.int64))),
    Sample(f"{_F}.ctc_loss", (np.ones((5, 1, 3), np.float16), np.ones((1, 2), np.int64), (5,), (2,))),
    Sample(f"{_F}.pdist", (_HALF,)),
    Sample(f"{_F}.pdist", (_HALF[:1],), order=0),
    Sample("histogramdd", (_HALF, [2, 2, 2])),
    Sample("mm", (np.ones((0, 3), bool), np.ones((3, 2), bool))),
    Sample("mv", (np.ones((0, 3), bool), np.ones(3, bool))),
    Sample("trace", (_BOOLS,)),
    Sample("unique", (_COMPLEX,)),
    Sample("unique", (_COMPLEX,), {"dim": 0}),
    Sample("unique_consecutive", (_COMPLEX,)),
    Sample("xlogy", (_COMPLEX, _COMPLEX)),
    Sample("xlogy", (_COMPLEX, 2)),
    Sample("special.xlog1py", (2, _COMPLEX)),
    Sample("special.hermite_polynomial_h", (_HALF, 2)),
    Sample("special.legendre_polynomial_p", (_COMPLEX, 2)),
    *[
        Sample("scatter_reduce", (_COMPLEX, 0, np.zeros((2, 3), np.int64), _COMPLEX, reduce))
        for reduce in ("amax", "amin")
    ],
]

_MISFITS = [
    Sample("cumsum", (normal(3), 0.0)),
    Sample("cumsum", (normal(3), True)),
    Sample("Tensor.cumsum", (normal(3), 0.0)),
    Sample("Tensor.cumsum", (normal(3),), {"dim": "rows"}),
    Sample("Tensor.sum", (normal(3), 0, 2)),
    Sample("Tensor.sum", (normal(3), 0), {"keepdim": 2}),
    Sample("Tensor.unsqueeze", (normal(3), 0.5)),
    Sample("Tensor.permute", (normal(2, 3), 0.5)),
    Sample("Tensor.repeat", (normal(3), 1.5)),
    Sample("Tensor.add_", (normal(3), "one"), frozen=(0,)),
    Sample("gather", (normal(3), 0.0, integers(2, high=3))),
    Sample("stack", ([normal(3)], 0.5)),
    Sample("linalg.inv", ("matrix",)),
    Sample("remainder", (2, 3)),
    Sample("where", (1, 2, 3)),
    Sample("max", (2, 3)),
    Sample("min", (2, normal(3))),
    Sample("tensor_split", (normal(3), 1.5)),
    Sample("hsplit", (normal(3), 1.5)),
    Sample("vsplit", (normal(2, 3), "rows")),
    Sample("special.chebyshev_polynomial_t", (2, 3)),
]

_TYPED = [
    *[Sample(name, (7, 2)) for name in ("floor_divide", "true_divide", "divide", "multiply", "subtract")],
    Sample("special.chebyshev_polynomial_t", (normal(3, dtype="float32"), normal(3))),
    Sample("special.chebyshev_polynomial_t", (integers(3), 2.0)),
    Sample("special.hermite_polynomial_he", (2.5, integers(3))),
    Sample(f"{_F}.unfold", (np.ones((1, 2, 2, 2), bool), 2), {"padding": 1}),
]

_HALVES = np.concatenate([np.linspace(0.02, 0.98, 25), np.linspace(1.02, 3.0, 14)]).astype(np.float16)

#: what half precision is computed with 32 bits
_WIDENED = [
    *[
        Sample(name, (_HALVES[:25] if name in ("asin", "acos", "atanh") else _HALVES,), order=1, tolerance=1e-4)
        for name in (
            *("log2", "log10", "exp2", "expm1", "sigmoid", "tanh", "erf", "erfc", "i0"),
            *("asin", "acos", "asinh", "atanh", "deg2rad", "rad2deg"),
        )
    ],
    Sample("acosh", (_HALVES[25:],), order=1, tolerance=1e-4),
    Sample("special.i1", (_HALVES,), order=0, tolerance=1e-4),
    Sample("i0", (np.array([11.5, -12.0], np.float16),), label="large", order=0, tolerance=1e-4),
    Sample("exp2", (_HALF * 6,), order=1, tolerance=1e-3),
    Sample("cumprod", (np.array([300, 300, 1e-3], np.float16), 0), order=0),
    Sample("dist", (np.full(3, 20, np.float16), np.zeros(3, np.float16), 4), order=0),
    Sample("linalg.vector_norm", (np.full(3, 20, np.float16), 4), order=0),
]

_ORDERS = np.array([0.0, np.inf, np.inf, np.inf, np.nan, np.nan, 2.0])
_POINTS = np.array([0.5, 2.0, np.inf, np.nan, 0.0, np.inf, 0.0])

_LIMITS = [
    *[Sample(name, (_ORDERS, _POINTS), order=0) for name in ("igamma", "igammac")],
    *[
        Sample("linalg.norm", (np.zeros(shape), order), {"keepdim": keepdim}, order=0)
        for shape, order, keepdim in (((0, 3), np.inf, False), ((0, 0), 2, True), ((3, 0), -2, False))
    ],
]

SAMPLES = [*_REFUSED, *_MISFITS, *_TYPED, *_WIDENED, *_LIMITS]
