"""Singular values and principal components of matrices of low rank, by random projections.

Source: Halko, Martinsson, Tropp, Finding structure with randomness (2009), algorithms 4.4 and 5.1
"""

from typing import Any

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import float16, float32, float64
from fgrad.torch.ops.linalg.decompositions import linalg_qr, linalg_svd
from fgrad.torch.ops.random.random import randn
from fgrad.torch.ops.table.dispatch import Dispatch
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, composite


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Orthonormal columns that span most of the range of ``A - M``."""

    def product(matrix: Tensor, subtracted: Tensor | None, columns: Tensor) -> Tensor:
        projected = matrix.matmul(columns)
        return projected if subtracted is None else projected - subtracted.matmul(columns)

    dtype = A.dtype if A.is_complex() or A.dtype in (float16, float32, float64) else float32
    random = randn(A.shape[-1], q, dtype=dtype, device=A.device)
    Q = linalg_qr(product(A, M, random))[0]
    for _ in range(niter):
        Q = linalg_qr(product(A.mH, None if M is None else M.mH, Q))[0]
        Q = linalg_qr(product(A, M, Q))[0]
    return Q


@composite(method=False, dispatch=Dispatch(Rule.WRITTEN, "torch._lowrank"), out=NOT_TAKEN)
def svd_lowrank(A: Array, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """The largest singular values of a matrix and their vectors: ``A`` is close to ``U @ diag(S) @ V.mH``.

    Arguments:
      A: a matrix, or a batch of them.
      q: the number of singular values, somewhat more than the rank.
      niter: the number of subspace iterations.
      M: subtracted from ``A``.

    >>> import fgrad.torch as torch
    >>> U, S, V = torch.svd_lowrank(torch.diag(torch.tensor([3., 2., 0., 0.])), q=2)
    >>> S
    tensor([3., 2.])

    Source: `torch.svd_lowrank <https://docs.pytorch.org/docs/2.13/generated/torch.svd_lowrank.html>`_.
    """
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.size())
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = _basis(A, 6 if q is None else q, 2 if niter is None else niter, M)
    B = Q.mH.matmul(A)
    if M is not None:
        B = B - Q.mH.matmul(M)
    U, S, Vh = linalg_svd(B, full_matrices=False)
    U, V = Q.matmul(U), Vh.mH
    return (V, S, U) if m < n else (U, S, V)


@composite(method=False, dispatch=Dispatch(Rule.WRITTEN, "torch._lowrank"), out=NOT_TAKEN)
def pca_lowrank(A: Array, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of samples in rows: the columns of the last tensor of ``svd_lowrank``.

    Arguments:
      A: a matrix, or a batch of them.
      q: the number of components, by default at most 6.
      center: whether the mean of each column is subtracted first.
      niter: as in ``svd_lowrank``.

    Raises:
      ValueError: ``q`` is negative or larger than the matrix, or ``niter`` is negative.

    >>> import fgrad.torch as torch
    >>> U, S, V = torch.pca_lowrank(torch.tensor([[1., 0.], [3., 0.]]), q=1)
    >>> S
    tensor([1.4142])

    Source: `torch.pca_lowrank <https://docs.pytorch.org/docs/2.13/generated/torch.pca_lowrank.html>`_.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean((-2,), keepdim=True) if center else A, q, niter)
