"""Distances and angles between rows."""

import math
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.torch import ops
from fgrad.torch.ops.elementwise.arithmetic import shifted_by
from fgrad.torch.ops.reductions.norms import formula_of, is_count, largest_difference, normed, vector_norm
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_TORCH
from fgrad.torch.ops.table.kernels import check_wide, functional, kernel, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, Float, Number, composite


@kernel("NormBackward1", always_saved=("self", "result"), undefined=is_count)
def _norm(input: Array, p: Number, dim: int, keepdim: bool, special: Any) -> Any:
    """The norm along an axis, as PyTorch's own functions record it."""
    if not input.ndim:
        return normed(input.reshape(1), p, special, (0,), False)
    return normed(input, p, special, (dim,), keepdim)


@composite(method=False, out=NOT_TAKEN)
@functional(dispatch=OF_TORCH)
@takes("pairwise_distance(x1, x2)")
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of the differences of rows; ``eps`` is added to each difference.

    Source: `torch.nn.functional.pairwise_distance
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pairwise_distance.html>`_.
    """
    axis = max(x1.dim(), x2.dim()) - 1
    p = float_of("pairwise_distance", "p", p)
    return _norm(shifted_by(x1 - x2, float_of("pairwise_distance", "eps", eps)), p, axis, keepdim, formula_of(p))


@composite(method=False, out=NOT_TAKEN)
@functional(dispatch=OF_TORCH)
@takes("cosine_similarity(x1, x2)")
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; norms are clamped to at least ``eps``.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([1., 0.]), torch.tensor([1., 1.]), dim=0)
    tensor(0.7071)

    Source: `torch.nn.functional.cosine_similarity
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cosine_similarity.html>`_.
    """
    common = ops.result_type(x1, x2)
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}")
    eps = float_of("cosine_similarity", "eps", eps)
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    # of two floating-point dtypes, each has its norm and quotient in its own
    x1, x2 = [x if x.is_floating_point() else x.to(common) for x in (x1, x2)]
    if x1.shape != x2.shape:
        x1, x2 = ops.broadcast_tensors(x1, x2)
    norms = [vector_norm(x, 2, dim, keepdim=True).clone() for x in (x1, x2)]
    with no_grad():
        for norm in norms:
            norm.clamp_min_(eps)
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


@kernel("PdistBackward0", backward_node="PdistBackwardBackward0", always_saved=("self", "result"))
def _pdist(input: Array, p: Float, special: Any) -> Any:
    if not from_numpy(input.dtype).is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    count, width = input.shape
    first, second = np.triu_indices(count, 1)
    if not width or count < 2:
        return jnp.zeros(len(first), input.dtype)
    check_wide("pdist", input)
    if special == math.inf:
        return largest_difference(input[first] - input[second])
    differences = input[first] - input[second]
    if special == 1:
        # as PyTorch has it, with slope 0 where coordinates are equal
        return jnp.sum(differences * jnp.sign(differences), 1)
    gaps = jnp.abs(differences)
    if special == 0:
        return jnp.sum((gaps != 0).astype(input.dtype), 1)
    if special == 2:
        p = 2.0
    powers = choose(gaps != 0, choose(gaps != 0, gaps, 1) ** p, 0).sum(1, keepdims=True)
    # rows are apart if their powers are: those of small gaps are 0
    apart = powers != 0
    return choose(apart, choose(apart, powers, 1) ** (1 / p), 0)[:, 0]


@composite(method=False)
@functional(dispatch=OF_TORCH)
@takes("pdist(input)")
def pdist(input: Any, p: float = 2) -> Tensor:
    """The p-norm distances of all pairs of rows.

    Source: `torch.nn.functional.pdist <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pdist.html>`_.
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    p = float_of("pdist", "p", p)
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _pdist(input, p, formula_of(p))
