"""Deprecated norms, which PyTorch keeps for old programs."""

from typing import Any

from attrs import evolve

from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.linalg.matrix_functions import matrix_norm
from fgrad.torch.ops.reductions.norms import VECTOR_NORM, formula_of
from fgrad.torch.ops.table.table import Array, composite

_ALL, _SOME = evolve(VECTOR_NORM, node="NormBackward0"), evolve(VECTOR_NORM, node="NormBackward1")


def plain_norm(input: Any, p: Any, dims: tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
    """A vector norm with the node of PyTorch's former kernel, as its functions in C++ call it."""
    return apply(_ALL if dims is None else _SOME, (input, p), (dims, keepdim, None, formula_of(p)))


@composite(method=False)
def frobenius_norm(input: Array, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over at most two axes; deprecated in favour of ``linalg.vector_norm``.

    Source: `torch.linalg.vector_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.vector_norm.html>`_.
    """
    _warn("frobenius_norm", "linalg.vector_norm(A, 2., dim, keepdim)")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return plain_norm(input, 2, dims, keepdim)


@composite(method=False)
def nuclear_norm(input: Array, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of singular values; deprecated in favour of ``linalg.matrix_norm``.

    Source: `torch.linalg.matrix_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.matrix_norm.html>`_.
    """
    _warn("nuclear_norm", "linalg.matrix_norm(A, 'nuc', dim, keepdim)")
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    dims = (-2, -1) if dim is None else (dim, dim) if isinstance(dim, int) else tuple(dim)
    return matrix_norm(input, "nuc", dims, keepdim)


def _warn(name: str, instead: str) -> None:
    warn(
        f"at::{name} is deprecated and it is just left for JIT compatibility. It will be removed in a future PyTorch "
        f"release. Please use `{instead}` instead",
        UserWarning,
    )
