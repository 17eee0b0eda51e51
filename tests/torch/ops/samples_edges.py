"""Samples of inputs at the edges: equal eigenvalues, no elements, no axes, truth values, types that kernels lack."""

import numpy as np

from tests.torch.ops.sample import Sample, normal

EYE, NOTHING, PAIR = np.eye(3), np.zeros((0, 0)), np.array([True, False])
HALF = np.eye(2, dtype=np.float16)
TALL = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 2.0]])
PLACES = np.array([0, 0, 1])
COLUMN = normal(3, 1)
COMPLEX = np.array([2j, 0, 1 + 0j])


def _first(found):
    return found[0]


def _lengths(found):
    return found[1].abs()


def _residuals(found):
    return found.residuals


SAMPLES: list[Sample] = [
    # of equal eigenvalues and singular values, only the vectors have no derivative
    Sample("linalg.svdvals", (EYE,), {}, "equal", order=1),
    Sample("linalg.svdvals", (EYE * 1j,), {}, "equal-complex", order=1),
    Sample("linalg.eigvalsh", (EYE,), {}, "equal", order=1),
    Sample("linalg.eigh", (EYE,), {}, "equal", order=1, results=_first),
    Sample("linalg.eigvals", (EYE,), {}, "equal", order=1),
    Sample("linalg.matrix_norm", (np.zeros((3, 3)), "nuc"), {}, "zero", order=1),
    Sample("linalg.matrix_norm", (EYE, 2), {}, "equal", order=1),
    Sample("linalg.cond", (EYE,), {}, "equal", order=1),
    Sample("linalg.eig", (normal(3, 3, dtype="complex128"),), {}, "lengths", names=False, results=_lengths),
    Sample("linalg.eigh", (normal(3, 3, dtype="complex128"),), {}, "lengths", names=False, results=_lengths),
    # no elements, no axes
    Sample("linalg.det", (NOTHING,), {}, "empty", order=1),
    Sample("linalg.det", (np.zeros((2, 0, 0)),), {}, "empty-batch", order=1),
    Sample("linalg.eig", (NOTHING,), {}, "empty", order=0),
    Sample("linalg.eigvals", (np.zeros((0, 3, 3)),), {}, "empty-batch", order=0),
    Sample("linalg.vander", (np.array(2.0),), {"N": 3}, "0-d", order=1),
    Sample("histogram", (np.array(3.0), 2), {}, "0-d", frozen=(0,), order=0),
    Sample("histogram", (np.zeros(0), 2), {}, "empty", frozen=(0,), order=0),
    Sample("diff", (normal(3), 0), {}, "none"),
    # residuals have a derivative
    Sample("linalg.lstsq", (TALL, COLUMN), {"driver": "gels"}, "residuals", order=1, results=_residuals),
    Sample("linalg.lstsq", (TALL * 1j, COLUMN * 1j), {"driver": "gelss"}, "residuals", order=0, results=_residuals),
    # a slice that is named twice
    Sample("index_fill", (normal(3, 4), 1, np.array([0, 0, 2]), normal()), {}, "twice", order=1),
    # truth values
    Sample("addr", (np.array([[True, False]]), PAIR, PAIR), {}, "bool"),
    Sample("addr", (np.array([[True, False]]), PAIR, PAIR), {"beta": 0, "alpha": 2}, "bool-scaled"),
    Sample("index_add", (np.zeros(3, bool), 0, PLACES, np.array([True, True, False])), {}, "bool"),
    Sample("index_put", (np.zeros(3, bool), (PLACES,), np.array([True, True, False])), {"accumulate": True}, "bool"),
    Sample("put", (np.zeros(3, bool), PLACES, np.array([True, True, False])), {"accumulate": True}, "bool"),
    Sample("scatter_add", (np.zeros(3, bool), 0, PLACES, np.array([True, True, False])), {}, "bool"),
    Sample("cummax", (PAIR, 0), {}, "bool"),
    Sample("Tensor.bool", (COMPLEX,), {}, "complex", order=0),
    Sample("masked_fill", (PAIR, PAIR, 2j), {}, "bool"),
    # what does not divide evenly
    *[
        Sample(name, (x, sections), {}, f"{x.ndim}-{sections}")
        for name in ("hsplit", "vsplit", "dsplit")
        for x, sections in ((normal(5, 5, 5), 0), (normal(5, 5, 5), 2), (normal(5, 5, 5), -1), (normal(2), 2))
    ],
    # weights of observations
    Sample("cov", (normal(3),), {"fweights": normal(3)}, "floating-frequencies"),
    Sample("cov", (normal(3),), {"fweights": np.ones((3, 3), int)}, "frequencies-2d"),
    Sample("cov", (normal(3),), {"aweights": np.ones(3, int)}, "integer-weights"),
    Sample("cov", (normal(3),), {"aweights": normal(2)}, "few-weights"),
    Sample("cov", (normal(3),), {"fweights": -np.ones(3, int)}, "negative-frequencies"),
    # bounds of ranges, and axes
    Sample("linspace", (np.array([1, 1]), 3, 2), {}, "bounds-1d"),
    Sample("logspace", (1, np.array([3]), 2), {}, "bounds-1d"),
    Sample("narrow", (normal(3), 0, np.array(True), 1), {}, "bool"),
    Sample("movedim", (normal(2, 3, 4), (0, -3), (1, 2)), {}, "repeated"),
    Sample("empty_permuted", ((2,), (3,)), {}, "outside"),
    *[
        Sample("nanquantile", args, {}, label)
        for args, label in (((np.zeros(0), 0.5), "empty"), ((normal(2), 1.5), "outside"), ((PAIR, 0.5), "bool"))
    ],
    # element types that kernels lack
    *[
        Sample(name, (np.ones(2, "complex128"),) * count, {}, "complex")
        for name, count in (
            ("atan2", 2), ("copysign", 2), ("lgamma", 1), ("digamma", 1), ("logaddexp2", 2), ("logit", 1),
            ("deg2rad", 1), ("heaviside", 2), ("clamp_min", 2), ("searchsorted", 2), ("mode", 1),
        )
    ],
    *[
        Sample(name, (PAIR,) * count, {}, "bool-kernel")
        for name, count in (
            ("addcmul", 3), ("clamp", 3), ("bucketize", 2), ("dist", 2), ("trapezoid", 1), ("cumulative_trapezoid", 2),
            ("bincount", 1), ("linalg.vander", 1), ("linalg.vecdot", 2),
        )
    ],
    *[
        Sample(f"linalg.{name}", (HALF,), {}, "half")
        for name in ("cholesky", "lu", "lu_factor_ex", "svdvals", "eigh", "eig", "qr", "det", "pinv", "matrix_rank")
    ],
    *[
        Sample(name, (HALF, HALF), {}, "half")
        for name in ("linalg.solve", "cholesky_solve", "triangular_solve", "cdist")
    ],
    Sample("linalg.cross", (np.ones(3, bool),) * 2, {}, "bool-kernel"),
    Sample("index_reduce", (PAIR, 0, np.array([0]), PAIR[:1], "amax"), {}, "bool-kernel"),
    Sample("isclose", (normal(2), 2.0), {}, "number"),
]  # fmt: skip
