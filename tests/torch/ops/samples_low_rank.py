"""Samples of decompositions by random projections, and of symmetric matrices."""

import numpy as np

from tests.torch.ops.sample import Sample, normal


def _low_rank(m: int, n: int, dtype: str = "float64") -> np.ndarray:
    return normal(m, 3, dtype=dtype) @ normal(3, n, seed=1, dtype=dtype)


def _values(found):
    return found[1]


def _sizes(found):
    """The signs of singular vectors are free."""
    return [t.abs() for t in found]


LOW_RANK = [
    Sample("svd_lowrank", (_low_rank(8, 5), 3), results=_sizes, seeded=True, order=0),
    Sample("svd_lowrank", (_low_rank(5, 8), 3, 1), label="wide", results=_sizes, seeded=True, order=0),
    Sample("svd_lowrank", (_low_rank(8, 5), 3, 2, normal(5)), label="less", results=_sizes, seeded=True, order=0),
    Sample("svd_lowrank", (_low_rank(8, 5, "complex128"), 3), label="complex", results=_sizes, seeded=True, order=0),
    Sample("svd_lowrank", (_low_rank(8, 5), 3), label="derivative", results=_values, seeded=True, order=1, names=False),
    Sample("pca_lowrank", (_low_rank(8, 5), 3), results=_sizes, seeded=True, order=0),
    Sample("pca_lowrank", (_low_rank(8, 5), 3, False, 1), label="not centred", results=_sizes, seeded=True, order=0),
    Sample("pca_lowrank", (_low_rank(8, 5), 9), label="too many", seeded=True),
    Sample("pca_lowrank", (_low_rank(8, 5), 2, True, -1), label="negative", seeded=True),
]


def _symmetric(*shape: int, dtype: str = "float64", hermitian: bool = False, seed: int = 0) -> np.ndarray:
    made = normal(*shape, dtype=dtype, seed=seed)
    other = made.swapaxes(-2, -1)
    return made + (other.conj() if hermitian else other)


_EXCHANGE = np.array([[0.0, 1.0], [1.0, 0.0]])
_LD = np.array([[4.0, 0.0], [0.5, 2.0]])
_ROWS = np.array([1, 2], "int32")

SYMMETRIC = [
    *[Sample("linalg.ldl_factor_ex", (_symmetric(2, 5, 5, seed=seed),), label=str(seed), order=0) for seed in range(4)],
    *[Sample("linalg.ldl_factor", (_symmetric(6, 6, seed=seed, dtype="float32"),), label=str(seed), order=0)
      for seed in range(3)],
    *[Sample("linalg.ldl_factor", (_symmetric(3, 4, 4, seed=seed, dtype="complex128", hermitian=yes),),
             {"hermitian": yes}, str(yes), order=0) for seed in range(2) for yes in (False, True)],
    Sample("linalg.ldl_factor", (_EXCHANGE,), label="exchange", order=0),
    Sample("linalg.ldl_factor_ex", (np.zeros((2, 2)),), label="singular", order=0),
    Sample("linalg.ldl_factor_ex", (np.zeros((0, 2, 2)),), label="empty", order=0),
    Sample("linalg.ldl_factor", (normal(2, 3),), label="not square"),
    Sample("linalg.ldl_factor", (normal(3),), label="one axis"),
    Sample("linalg.ldl_factor", (np.eye(3, dtype="int64"),), label="integers"),
    Sample("linalg.ldl_factor", (np.eye(3, dtype="float16"),), label="half"),
    Sample("linalg.ldl_solve", (_LD, _ROWS, normal(2, 3)), order=0),
    Sample("linalg.ldl_solve", (np.tril(_EXCHANGE), np.array([-2, -2], "int32"), normal(3, 2, 1)), label="batch",
           order=0),
    Sample("linalg.ldl_solve", (_LD, _ROWS, normal(3, 1)), label="sizes"),
    Sample("linalg.ldl_solve", (_LD, _ROWS[:1], normal(2, 1)), label="pivots"),
    Sample("linalg.ldl_solve", (_LD, _ROWS, normal(2, 1, dtype="float32")), label="types"),
]  # fmt: skip

SAMPLES = [*LOW_RANK, *SYMMETRIC]
