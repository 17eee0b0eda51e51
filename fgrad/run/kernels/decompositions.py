"""Kernels of decompositions and triangular systems: LAPACK, which XLA calls on a CPU too; mostly that of SciPy.

SciPy imports ``scipy.linalg`` on attribute access, here at the first use.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.run.kernels.blas_threads import on_one_thread
from fgrad.run.kernels.kernel import MOVED, TABLE, Compute, Entry, Kernel, WithoutHalves, flushed, same
from fgrad.run.kernels.openblas import LETTERS, cholesky, of_scipy, triangular_solve

#: nanoseconds that Python takes for one matrix of a batch
_MATRIX = 5000.0

#: from an operation to its computation for one matrix; None if it has no kernel
_ForOneMatrix = Callable[[Op], Compute | None]


def _each(compute_of: _ForOneMatrix) -> Entry:
    """The kernel that loops over a batch of matrices."""

    def entry(op: Op) -> Kernel | None:
        types, outs = op.in_types, op.out_types
        batch = types[0].shape[: types[0].ndim - 2]
        if types[0].dtype not in LETTERS or any(t.size == 0 for t in (*types, *outs)):
            return None
        compute = compute_of(op)
        if compute is None:
            return None
        compute = on_one_thread(_batched(compute, op, len(batch)) if batch else compute)
        return Kernel(compute, _flushing(compute), _excess(batch, op), exact=False)

    return entry


def _excess(batch: Sequence[int], op: Op) -> float:
    return MOVED + _MATRIX * math.prod(batch) / max([t.size for t in (*op.in_types, *op.out_types)])


def _flushing(compute: Compute) -> Compute:
    def as_xla(*xs: Any) -> Any:
        outs = compute(*map(flushed, xs))
        return list(map(flushed, outs)) if isinstance(outs, list) else flushed(outs)

    return as_xla


def _batched(compute: Compute, op: Op, axes: int) -> Compute:
    """The computation for each matrix of a batch, which is the first ``axes`` axes."""
    shapes, outs = [t.shape[axes:] for t in op.in_types], op.out_types

    def compute_batch(*xs: Any) -> Any:
        flat = [x.reshape(-1, *shape) for x, shape in zip(xs, shapes, strict=True)]
        stacked = [np.empty((len(flat[0]), *t.shape[axes:]), t.dtype) for t in outs]
        for i, matrices in enumerate(zip(*flat, strict=True)):
            results = compute(*matrices)
            for stack, result in zip(stacked, results if isinstance(results, list) else [results], strict=True):
                stack[i] = result
        arrays = [x.reshape(t.shape) for x, t in zip(stacked, outs, strict=True)]
        return arrays if len(arrays) > 1 else arrays[0]

    return compute_batch


def _or_nan(x: np.ndarray, ok: bool) -> np.ndarray:
    return x if ok else np.full_like(x, np.nan)


def _cholesky(op: Op) -> Compute:
    factored = cholesky(op.in_types[0].dtype)
    return lambda x: _or_nan(*factored(x))


def _triangular_solve(op: Op) -> Compute:
    params = op.params
    conjugate, transpose = params["conjugate_a"], params["transpose_a"]
    solve = triangular_solve(
        op.in_types[0].dtype,
        left=params["left_side"],
        lower=params["lower"],
        transposed=0 if not transpose else 2 if conjugate else 1,
        unit=params["unit_diagonal"],
    )
    return solve if transpose or not conjugate else lambda a, b: solve(a.conj(), b)


def _lu(op: Op) -> Compute:
    rows = op.in_types[0].shape[-2]
    getrf = of_scipy("getrf", op.in_types[0].dtype)

    def compute(x: Any) -> Any:
        factors, pivots, info = getrf(x)
        return [_or_nan(factors, info >= 0), pivots.astype(np.int32), _permutation(pivots, rows)]

    return compute


def _permutation(pivots: Sequence[int], size: int) -> np.ndarray:
    """The permutation made of these row exchanges."""
    order = list(range(size))
    for i, j in enumerate(pivots):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int32)


def _pivots(op: Op) -> Kernel | None:
    (type,), (out,) = op.in_types, op.out_types
    if 0 in (type.size, out.size):
        return None

    def compute(pivots: Any) -> Any:
        return _permutation(pivots, out.shape[-1])

    batch = out.shape[:-1]
    return same(_batched(compute, op, len(batch)) if batch else compute, _excess(batch, op))


def _geqrf(op: Op) -> Compute:
    type = op.in_types[0]
    geqrf = of_scipy("geqrf", type.dtype)
    work_size = int(of_scipy("geqrf_lwork", type.dtype)(*type.shape[-2:])[0].real)

    def compute(x: Any) -> Any:
        factors, scales, _, _ = geqrf(x, lwork=work_size)
        return [factors, scales]

    return compute


def _householder_product(op: Op) -> Compute:
    dtype = op.in_types[0].dtype
    routine = of_scipy("ungqr" if dtype.kind == "c" else "orgqr", dtype)

    def compute(factors: Any, scales: Any) -> Any:
        work_size = int(routine(factors, scales, lwork=-1)[1][0].real)
        return routine(factors, scales, lwork=work_size)[0]

    return compute


def _qr(op: Op) -> Compute | None:
    params, type = op.params, op.in_types[0]
    if params["pivoting"]:
        return None
    (m, n), full = type.shape[-2:], params["full_matrices"]
    factored, product = _geqrf(op), _householder_product(op)

    def compute(x: Any) -> Any:
        r, scales = factored(x)
        if m < n:
            q = product(r[:, :m], scales)
        elif full:
            q = product(np.pad(r, [(0, 0), (0, m - n)]), scales)
        else:
            q, r = product(r, scales), r[:n]
        return [q, np.triu(r)]

    return compute


def _eigh(op: Op) -> Compute | None:
    params, type = op.params, op.in_types[0]
    n, dtype = type.shape[-1], type.dtype
    if params["subset_by_index"] not in (None, (0, n)) or params.get("algorithm") is not None:
        return None
    name, lower = "heevd" if dtype.kind == "c" else "syevd", int(params["lower"])
    evd = of_scipy(name, dtype)
    *sizes, _ = of_scipy(f"{name}_lwork", dtype)(n, lower=lower)
    work_size = {key: int(np.real(size)) for key, size in zip(("lwork", "liwork", "lrwork"), sizes, strict=False)}

    def compute(x: Any) -> Any:
        values, vectors, info = evd(x, lower=lower, **work_size)
        return [_or_nan(vectors, info == 0), _or_nan(values, info == 0)]

    return compute


def _svd(op: Op) -> Compute | None:
    params, type = op.params, op.in_types[0]
    (m, n), vectors, full = type.shape[-2:], int(params["compute_uv"]), int(params["full_matrices"])
    if params["subset_by_index"] not in (None, (0, min(m, n))) or params.get("algorithm") is not None:
        return None
    gesdd = of_scipy("gesdd", type.dtype)
    work_size = int(of_scipy("gesdd_lwork", type.dtype)(m, n, compute_uv=vectors, full_matrices=full)[0].real)

    def compute(x: Any) -> Any:
        u, values, v, info = gesdd(x, compute_uv=vectors, full_matrices=full, lwork=work_size)
        values = _or_nan(values, info == 0)
        return [values, _or_nan(u, info == 0), _or_nan(v, info == 0)] if vectors else values

    return compute


DECOMPOSITIONS: dict[str, Entry] = {
    "cholesky": WithoutHalves(_each(_cholesky)),
    "eigh": WithoutHalves(_each(_eigh)),
    "geqrf": WithoutHalves(_each(_geqrf)),
    "householder_product": WithoutHalves(_each(_householder_product)),
    "lu": WithoutHalves(_each(_lu)),
    "lu_pivots_to_permutation": _pivots,
    "qr": WithoutHalves(_each(_qr)),
    "svd": WithoutHalves(_each(_svd)),
    "triangular_solve": _each(_triangular_solve),
}
TABLE.update(DECOMPOSITIONS)
