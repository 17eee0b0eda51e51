"""Samples of the matrix decompositions.

Where a result is fixed only up to a sign or a phase, complex samples look at what does not depend on it.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(15)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _swap(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _positive(x: Any) -> Any:
    return x @ np.conj(_swap(x)) + np.eye(x.shape[-1])


def _symmetric(x: Any) -> Any:
    return (x + np.conj(_swap(x))) / 2


def _spread(*shape: int) -> Any:
    """Real matrices with real eigenvalues that are well apart."""
    n = shape[-1]
    return _rng.normal(size=shape) / 8 + np.diag(np.arange(n) * 1.5 - 1)


def _upper(n: int) -> Any:
    return np.triu(_real(n, n), 1) + np.diag(_rng.uniform(1, 2, n))


def _sample(name: str, label: str, fun: Callable[..., Any], *args: Any, **options: Any) -> Sample:
    return Sample(name, fun, args, label, **options)


def _triangle(x: Any) -> Any:
    """The lower triangle with its diagonal, by multiplication with a mask."""
    return lax.mul(x, np.broadcast_to(np.tril(np.ones(x.shape[-2:])), x.shape))


def _symmetrized_inside(x: Any) -> Any:
    lower = _triangle(x)
    return lax.linalg.cholesky(lax.add(lower, lax.transpose(lower, (1, 0))), symmetrize_input=False)


def _update(r: Any, w: Any) -> Any:
    return lax.linalg.cholesky_update(lax.mul(r, np.triu(np.ones(r.shape))), w)


def _product(a: Any, c: Any) -> Any:
    return lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)


def _lu(x: Any) -> Any:
    return lax.linalg.lu(x)[0]


def _qr(**options: Any) -> Callable[..., Any]:
    return lambda x: lax.linalg.qr(x, **options)[:2]


def _eigh(**options: Any) -> Callable[..., Any]:
    return lambda x: lax.linalg.eigh(x, **options)


def _eigh_weights(x: Any) -> Any:
    v, w = lax.linalg.eigh(x)
    return w, lax.abs(v)


def _eig(**options: Any) -> Callable[..., Any]:
    return lambda x: lax.linalg.eig(x, **options)


def _eig_one(x: Any) -> Any:
    w, vl, vr = lax.linalg.eig(x, enable_eigvec_derivs=True)
    return w, lax.abs(vl), lax.abs(vr)


_none = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": False}
_eigenvalues = _eig(**_none, enable_eigvec_derivs=True)  # else JAX refuses second derivatives, even of eigenvalues
_left = _eig(compute_right_eigenvectors=False, enable_eigvec_derivs=True)
_right = _eig(compute_left_eigenvectors=False, enable_eigvec_derivs=True)


def _svd(**options: Any) -> Callable[..., Any]:
    return lambda x: lax.linalg.svd(x, **options)


_thin = _svd(full_matrices=False)
_values = _svd(compute_uv=False)


def _svd_weights(x: Any) -> Any:
    u, s, v = _thin(x)
    return lax.abs(u), s, lax.abs(v)


def _raw_qr(x: Any) -> Any:
    return jnp.linalg.qr(x, mode="raw")


def _ormqr(left: bool, transpose: bool) -> Callable[..., Any]:
    return lambda a, taus, c: lax.linalg.ormqr(a, taus, c, left=left, transpose=transpose)


SAMPLES: list[Sample] = [
    _sample("cholesky", "real", lax.linalg.cholesky, _positive(_real(3, 3))),
    _sample("cholesky", "complex", lax.linalg.cholesky, _positive(_complex(3, 3))),
    _sample("cholesky", "stack", lax.linalg.cholesky, _positive(_real(2, 2, 2))),
    _sample("cholesky", "1 x 1", lax.linalg.cholesky, _positive(_real(1, 1))),
    _sample("cholesky", "empty", lax.linalg.cholesky, _real(0, 0)),
    _sample("cholesky", "not symmetrized", _symmetrized_inside, _positive(_real(3, 3))),
    _sample("cholesky_update", "real", _update, _upper(3), _real(3)),
    _sample("symmetric_product", "real", _product, _real(3, 2), _symmetric(_real(3, 3))),
    _sample("symmetric_product", "stack", _product, _real(2, 3, 2), _symmetric(_real(2, 3, 3))),
    _sample("lu", "square", _lu, _real(3, 3)),
    _sample("lu", "tall", _lu, _real(4, 2)),
    _sample("lu", "wide", _lu, _real(2, 4)),
    _sample("lu", "complex", _lu, _complex(3, 3)),
    _sample("lu", "complex, tall", _lu, _complex(3, 2)),
    _sample("lu", "stack", _lu, _real(2, 3, 3)),
    _sample("lu", "stack of stacks, wide", _lu, _real(2, 2, 2, 3)),
    _sample("lu", "1 x 1", _lu, _real(1, 1)),
    _sample("lu", "empty", _lu, _real(0, 0)),
    _sample("lu", "no columns", _lu, _real(2, 0)),
    _sample("qr", "square", _qr(), _real(3, 3)),
    _sample("qr", "tall, thin", _qr(full_matrices=False), _real(4, 2)),
    _sample("qr", "tall, full", _qr(), _real(4, 2)),
    _sample("qr", "wide", _qr(), _real(2, 4)),
    _sample("qr", "wide, thin", _qr(full_matrices=False), _real(2, 3)),
    _sample("qr", "complex", _qr(), _complex(3, 3)),
    _sample("qr", "complex, tall, thin", _qr(full_matrices=False), _complex(3, 2)),
    _sample("qr", "complex, tall, full", _qr(), _complex(4, 2)),
    _sample("qr", "complex, wide", _qr(), _complex(2, 3)),
    _sample("qr", "stack", _qr(full_matrices=False), _real(2, 3, 2)),
    _sample("qr", "pivoting", _qr(pivoting=True), _real(3, 3)),
    _sample("qr", "pivoting, tall, thin", _qr(pivoting=True, full_matrices=False), _real(4, 2)),
    _sample("qr", "pivoting, wide", _qr(pivoting=True), _real(2, 3) * np.array([1.0, 4.0, 0.1])),
    _sample("qr", "pivoting, stack", _qr(pivoting=True, full_matrices=False), _real(2, 3, 2)),
    _sample("qr", "empty", _qr(), _real(0, 0)),
    _sample("eigh", "real", _eigh(), _symmetric(_real(3, 3))),
    _sample("eigh", "upper", _eigh(lower=False), _symmetric(_real(3, 3))),
    _sample("eigh", "unsorted", _eigh(sort_eigenvalues=False), _symmetric(_real(3, 3))),
    _sample("eigh", "whole subset", _eigh(subset_by_index=(0, 3)), _symmetric(_real(3, 3))),
    _sample("eigh", "stack", _eigh(), _symmetric(_real(2, 3, 3))),
    _sample("eigh", "complex", _eigh_weights, _symmetric(_complex(3, 3))),
    _sample("eigh", "1 x 1", _eigh(), _real(1, 1)),
    _sample("eigh", "empty", _eigh(), _real(0, 0)),
    _sample("eig", "eigenvalues", _eigenvalues, _spread(3, 3)),
    _sample("eig", "eigenvalues, by default", _eig(**_none), _spread(3, 3), order=1),
    _sample("eig", "complex eigenvalues", _eigenvalues, _real(4, 4)),
    _sample("eig", "eigenvalues, stack", _eigenvalues, _spread(2, 3, 3)),
    _sample("eig", "eigenvalues, complex", _eigenvalues, _complex(3, 3)),
    _sample("eig", "eigenvalues, empty", _eigenvalues, _real(0, 0)),
    _sample("eig", "equal eigenvalues", lambda x: lax.reduce_prod(_eigenvalues(x)[0], (0,)), np.eye(3), order=1),
    _sample("eig", "right", _right, _spread(3, 3)),
    _sample("eig", "left", _left, _spread(3, 3)),
    _sample("eig", "both, stack", _eig_one, _spread(2, 3, 3)),
    _sample("eig", "both, complex", _eig_one, _complex(3, 3)),
    _sample("eig", "right, complex", _right, _complex(3, 3)),
    _sample("svd", "square", _thin, _real(3, 3)),
    _sample("svd", "square, full", _svd(), _real(3, 3)),
    _sample("svd", "tall", _thin, _real(4, 2)),
    _sample("svd", "wide", _thin, _real(2, 4)),
    _sample("svd", "values", _values, _real(3, 2)),
    _sample("svd", "values, full", _values, _real(2, 3)),
    _sample("svd", "whole subset", _svd(full_matrices=False, subset_by_index=(0, 2)), _real(3, 2)),
    _sample("svd", "stack", _thin, _real(2, 3, 2)),
    _sample("svd", "complex", _svd_weights, _complex(3, 3)),
    _sample("svd", "complex, tall", _svd_weights, _complex(4, 2)),
    _sample("svd", "complex, wide", _svd_weights, _complex(2, 3)),
    _sample("svd", "complex, values", _values, _complex(2, 3)),
    _sample("svd", "empty", _thin, _real(0, 2)),
    _sample("householder_product", "real", lax.linalg.householder_product, _real(4, 3), _real(2)),
    _sample("householder_product", "square", lax.linalg.householder_product, _real(3, 3), _real(3)),
    _sample("householder_product", "complex", lax.linalg.householder_product, _complex(3, 2), _complex(2)),
    _sample("householder_product", "stack", lax.linalg.householder_product, _real(2, 3, 2), _real(2, 2)),
    _sample("householder_product", "tau is zero", lax.linalg.householder_product, _real(3, 2), np.array([0.0, 1.2])),
    _sample("ormqr", "left", _ormqr(True, False), _real(3, 2), _real(2), _real(3, 2)),
    _sample("ormqr", "left, transposed", _ormqr(True, True), _real(3, 2), _real(2), _real(3, 2)),
    _sample("ormqr", "right", _ormqr(False, False), _real(3, 2), _real(2), _real(2, 3)),
    _sample("ormqr", "right, transposed, complex", _ormqr(False, True), _complex(3, 2), _complex(2), _complex(2, 3)),
    _sample("ormqr", "left, transposed, complex", _ormqr(True, True), _complex(3, 2), _complex(2), _complex(3, 1)),
    _sample("geqrf", "square", _raw_qr, _real(3, 3)),
    _sample("geqrf", "tall", _raw_qr, _real(4, 2)),
    _sample("geqrf", "wide", _raw_qr, _real(2, 4)),
    _sample("geqrf", "complex", _raw_qr, _complex(3, 3)),
    _sample("geqrf", "complex, tall", _raw_qr, _complex(3, 2)),
    _sample("geqrf", "stack", _raw_qr, _real(2, 3, 2)),
]
