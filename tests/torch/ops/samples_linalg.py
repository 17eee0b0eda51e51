"""Samples of products of matrices, contractions, and linear algebra."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

A, B, V, W = normal(3, 4), normal(2, 3, 4), normal(4), normal(4, seed=1)
S, SB, X = normal(3, 3), normal(2, 3, 3), normal(3)
P = S @ S.T + np.eye(3)
PB = SB @ np.swapaxes(SB, 1, 2) + np.eye(3)
RIGHT, WIDE = normal(4, 2), normal(2, 4, 5)
COMPLEX = normal(3, 3, dtype="complex128")
HERMITIAN = COMPLEX @ COMPLEX.conj().T + np.eye(3)
INT = integers(3, 3)
ZERO = np.zeros((3, 3))
SINGULAR = np.stack([np.eye(3), ZERO])
RANK_TWO = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])


def _numbered(name: str, *calls: Sequence[Any], **settings: Any) -> list[Sample]:
    """Samples of a function, each given by its positional arguments."""
    return [Sample(name, tuple(args), {}, f"{i}", **settings) for i, args in enumerate(calls)]


def _part(*names: str) -> Callable[[Any], Any]:
    """Some of the fields of a result."""
    return lambda found: tuple(getattr(found, name) for name in names)


def _size(name: str) -> Callable[[Any], Any]:
    """The absolute values of a field, of which the sign (or phase) is free."""
    return lambda found: getattr(found, name).abs()


SAMPLES: list[Sample] = [
    # products
    *_numbered(
        "matmul",
        (A, RIGHT),
        (A, V),
        (V, W),
        (B, V),
        (B, RIGHT),
        (A, WIDE),
        (B, WIDE),
        (V, WIDE),
        (V, RIGHT),
        (normal(5, 1, 3, 4), WIDE),
        (INT, INT),
        (A, A),
        (V, X),
        (B, SB),
        (S, X),
        (COMPLEX, COMPLEX),
        (np.zeros((0, 3)), S),
        (normal(1, 3, 4), WIDE),
    ),
    *_numbered("Tensor.__matmul__", (A, RIGHT), (B, RIGHT)),
    *_numbered("mm", (A, RIGHT), (A, V), (A, A), (INT, INT), (S, S.astype("float32")), (COMPLEX, COMPLEX)),
    *_numbered("mv", (A, V), (A, X), (V, V), (S, X.astype("float32"))),
    *_numbered("bmm", (B, WIDE), (B, B), (A, A), (np.zeros((0, 2, 3)), np.zeros((0, 3, 4)))),
    *_numbered("dot", (V, W), (V, X), (A, A)),
    *_numbered("vdot", (V, W), (COMPLEX[0], COMPLEX[1])),
    *_numbered("inner", (V, W), (A, normal(5, 4)), (B, A), (A, X), (V, A)),
    *_numbered("outer", (V, X), (A, X)),
    *_numbered("ger", (V, X)),
    *_numbered("addmm", (S, A, normal(4, 3)), (X, A, normal(4, 3)), (X[:2], S, S)),
    Sample("addmm", (S, S, P), {"beta": 0.5, "alpha": 2}, "scaled"),
    Sample("addmm", (np.full((3, 3), np.nan), S, P), {"beta": 0}, "beta 0", order=1),
    *_numbered("addmv", (X, A, V), (X, S, V)),
    Sample("addmv", (X, S, X), {"beta": 2, "alpha": 0.5}, "scaled"),
    *_numbered("addbmm", (S, SB, PB)),
    *_numbered("baddbmm", (SB, SB, PB), (S, SB, PB), (SB, SB, B)),
    Sample("baddbmm", (SB, SB, PB), {"beta": 2, "alpha": 0.5}, "scaled"),
    *_numbered("addr", (normal(4, 3), V, X)),
    # contractions
    *_numbered(
        "tensordot",
        (A, A),
        (B, A.T.copy(), 1),
        (B, A, ([1, 2], [0, 1])),
        (A, A, ([0], [0])),
        (A, X, 0),
        (A, S, 1),
        (normal(2, 3), normal(1, 2), 1),
        (normal(2, 1), normal(3, 2), 1),
        (normal(1, 1, 1), normal(2, 1, 2), ([0, 1], [2, 0])),
        (normal(1, 3), normal(3, 1), 1),
        (np.ones((1, 1), np.uint8), np.full((2, 2), 200, np.uint8), ([1], [0])),
    ),
    *_numbered(
        "einsum",
        ("ij,kj->ik", A, A),
        ("ii->i", S),
        ("ij->", A),
        ("ij,ij->i", A, A),
        ("bij,bjk->bik", SB, SB),
        ("i,j->ij", V, X),
        ("...ij->...ji", B),
        ("ij->ij", A),
        ("bij->b", B),
        ("ij,ij->", A, A),
        ("ii", S),
        ("...i,ij->...j", B, RIGHT),
        ("ij,jk", A, RIGHT),
        ("ij,jk", A, A),
        ("i", A),
        ("ij->ijk", A),
        ("ij->ii", A),
        ("i1", A),
        ("ij", A, A),
        ("ij,j", A),
        (A, [0, 1], RIGHT, [1, 2], [0, 2]),
    ),
    *_numbered("einsum", ("ij,jk,kl", S, S, A), ("i,j,k->", X, V, X), ("ij,jk,kl->il", S, S, A), names=False),
    *_numbered("kron", (A, S), (V, X), (X, S), (A, B)),
    *_numbered("chain_matmul", (S, S, A)),
    *_numbered("linalg.multi_dot", ([S, S, S],), ([S, A],), ([X, S, A, V],), ([S, X, S],), ([S],)),
    Sample("cross", (S, P), {"dim": 0}),
    *_numbered("cross", (S, P, 1), (A, A)),
    *_numbered("linalg.cross", (S, P), (SB, PB[:1]), (B, B), (S, X)),
    *_numbered("matrix_power", (S, 2), (S, 3), (S, 5), (S, 1), (A, 2)),
    *_numbered("matrix_power", (S, 0), (S, -2), order=1, names=False),
    *_numbered("linalg.matrix_power", (SB, 4)),
    *_numbered("linalg.matmul", (S, A)),
    *_numbered("linalg.vecdot", (V, W), (A, A), (COMPLEX, COMPLEX)),
    Sample("linalg.vecdot", (B, B), {"dim": 1}, "dim"),
    *_numbered("linalg.diagonal", (SB,)),
    *_numbered("linalg.vander", (V,), names=False),
    Sample("linalg.vander", (S,), {"N": 2}, "N", names=False),
    # systems
    *_numbered("linalg.inv", (S,), (SB,), (COMPLEX,), (ZERO,), (SINGULAR,), (A,), (X,), (INT,)),
    *_numbered("inverse", (S,)),
    *_numbered("linalg.inv_ex", (S,)),
    *_numbered("linalg.inv_ex", (ZERO,), order=0, results=lambda found: found.info),
    *_numbered(
        "linalg.solve",
        (S, A),
        (S, X),
        (SB, B),
        (SB, S),
        (SB, SB[:, 0]),
        (S, A[:2]),
        (A, A),
        (ZERO, X),
        (COMPLEX, COMPLEX),
    ),
    Sample("linalg.solve", (S, A.T.copy()), {"left": False}, "right"),
    *_numbered("linalg.solve_ex", (S, A)),
    Sample("linalg.solve_triangular", (S, A), {"upper": True}),
    Sample("linalg.solve_triangular", (SB, B), {"upper": False, "unitriangular": True}, "unit"),
    Sample("linalg.solve_triangular", (S, A.T.copy()), {"upper": True, "left": False}, "right"),
    *_numbered(
        "triangular_solve", (A, S), (B, SB, False, True, True), (X, S), (A, X), (A, A), (A[:2], S), (np.float32(A), S)
    ),
    *_numbered("cholesky_solve", (A, P), (B, PB, True), (X, S), (A, X), (A, A), (A[:2], S), (np.float32(A), S)),
    *_numbered("cholesky_inverse", (P,), (PB, True)),
    *_numbered("linalg.pinv", (A,), (B,), (A.T.copy(),), (COMPLEX,), tolerance=1e-5),
    Sample("linalg.pinv", (P,), {"hermitian": True}, "hermitian", order=1, tolerance=1e-5),
    Sample("linalg.pinv", (A,), {"rtol": 0.5}, "rtol", order=0),
    *_numbered("pinverse", (A,), order=1),
    *_numbered(
        "linalg.lstsq",
        (A.T.copy(), normal(4, 2)),
        (B.swapaxes(1, 2).copy(), normal(2, 4, 2)),
        order=1,
        results=lambda found: (found.solution.clone(), found.rank),
        names=False,
    ),
    *[
        Sample(
            "linalg.lstsq",
            (A.T.copy(), normal(4, 2)),
            {"driver": driver},
            driver,
            order=0,
            results=lambda found: tuple([x.detach().clone() for x in found]),
        )
        for driver in ("gelsd", "gelss", "gels")
    ],
    *_numbered("linalg.det", (S,), (SB,), (COMPLEX,), (A,), (INT,), (RANK_TWO,), order=1),
    *_numbered("det", (S,), order=1),
    *_numbered("linalg.slogdet", (S,), (SB,), order=1),
    *_numbered("linalg.slogdet", (ZERO,), order=0),
    *_numbered("slogdet", (S,), order=1),
    *_numbered("logdet", (P,), (S,), (PB,), order=1),
    *_numbered("linalg.tensorinv", (normal(2, 3, 6), 2), (A,), order=1, names=False),
    *_numbered("linalg.tensorsolve", (normal(2, 3, 6), normal(2, 3)), order=1),
    # factorisations
    *_numbered("linalg.cholesky", (P,), (PB,), (-P,), (-PB,), (A,), (HERMITIAN,)),
    Sample("linalg.cholesky", (P,), {"upper": True}, "upper"),
    Sample(
        "linalg.cholesky", (np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),), {"upper": True}, "minor"
    ),
    *[Sample("linalg.cholesky", (np.full((3, 3), x),), {}, str(x)) for x in (np.inf, np.nan)],
    Sample("linalg.cholesky", (np.diag([np.inf, 1.0]),), {}, "infinite", order=0),
    *_numbered("linalg.cholesky_ex", (P,)),
    *_numbered("cholesky", (P,), (PB, True), (-P,)),
    *_numbered("linalg.qr", (A,), (B.swapaxes(1, 2).copy(),), (S,)),
    *_numbered("linalg.qr", (A, "r"), (A, "foo"), (A.T.copy(), "complete"), order=0),
    *_numbered("qr", (S,)),
    *_numbered("linalg.svd", (A, False), (B, False), order=1, results=_part("S")),
    *_numbered("linalg.svd", (A,), (B,), order=1, names=False, results=_size("U")),
    *_numbered("svd", (A,), order=1, names=False, results=_size("V")),
    *_numbered("linalg.svdvals", (A,), (B,), (X,)),
    *_numbered("linalg.eigh", (P,), (PB,), order=1, results=_part("eigenvalues")),
    *_numbered("linalg.eigh", (P,), (PB, "U"), order=1, names=False, results=_size("eigenvectors")),
    *_numbered("linalg.eigvalsh", (P,), (A,), (HERMITIAN,)),
    *_numbered("linalg.eig", (S,), order=1, names=False, results=_size("eigenvectors")),
    *[Sample("linalg.eig", (np.full((3, 3), x),), {}, str(x)) for x in (np.inf, np.nan)],
    *_numbered("linalg.eigvals", (P,), order=1),
    *_numbered("linalg.lu", (S,), (SB,), (A,), (A.T.copy(),)),
    *_numbered("linalg.lu_factor", (S,), (SB,), (ZERO,)),
    *_numbered("linalg.lu_factor_ex", (S,)),
    *_numbered("Tensor.lu", (S,)),
    Sample("linalg.lu_solve", (S, np.array([3, 2, 3], np.int32), A), {}, order=1),
    Sample("linalg.lu_solve", (S, np.array([3, 2, 3], np.int32), A), {"adjoint": True}, "adjoint", order=1),
    Sample("linalg.lu_solve", (S, np.array([3, 2, 3], np.int32), A.T.copy()), {"left": False}, "right", order=1),
    Sample("lu_solve", (A, S, np.array([3, 2, 3], np.int32)), {}, order=1),
    Sample("lu_unpack", (S, np.array([3, 2, 3], np.int32))),
    *_numbered("linalg.householder_product", (A.T.copy(), X), (A, X), order=1),
    Sample("linalg.ldl_factor_ex", (np.zeros((2, 0, 0)),), {}, "nothing", order=0),
    Sample("linalg.ldl_solve", (np.zeros((0, 0)), np.zeros(0, np.int32), np.zeros((0, 2))), {}, "nothing", order=0),
    *_numbered("orgqr", (A.T.copy(), X), order=1),
    *_numbered("ormqr", (A.T.copy(), X, RIGHT), order=1),
    *_numbered("geqrf", (A,), order=0),
    # functions of matrices
    *_numbered("linalg.matrix_exp", (S,), (SB,), (A,)),
    *_numbered("matrix_exp", (S,)),
    *_numbered("linalg.matrix_rank", (S,), (B,), (ZERO,), (X,)),
    Sample("linalg.matrix_rank", (P,), {"hermitian": True}, "hermitian"),
    Sample("linalg.matrix_rank", (A,), {"tol": 2.0}, "tol"),
    *_numbered("linalg.cond", (S,), (SB,), (S, -2), (A,), (A, 1), order=1),
    # PyTorch overwrites what its own backward needs
    *_numbered("linalg.cond", (S, 1), (S, "fro"), (S, np.inf), order=0),
]
