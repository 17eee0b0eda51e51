"""A weight as a magnitude times a direction, and the norm over all dimensions but one."""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.reductions.former_norms import plain_norm
from fgrad.torch.ops.table.kinds import widened
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, composite, operation


@composite(method=False, out=NOT_TAKEN)
def norm_except_dim(v: Array, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which keeps its position; with -1, the norm of all elements.

    >>> import fgrad.torch as torch
    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [6., 8.]]))
    tensor([[ 5.],
            [10.]])

    Source: `torch.nn.utils.weight_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.weight_norm.html>`_.
    """
    tensor: Any = v
    if dim == -1:
        return plain_norm(v, pow)
    rest: Any = [1] * (tensor.dim() - 1)
    if dim == 0:
        rows: Any = plain_norm(tensor.contiguous().view(tensor.size(0), -1), pow, (1,))
        return rows.view(-1, *rest)
    if dim == tensor.dim() - 1:
        columns: Any = plain_norm(tensor.contiguous().view(-1, tensor.size(-1)), pow, (0,))
        return columns.view(*rest, -1)
    return norm_except_dim(tensor.transpose(0, dim), pow, 0).transpose(0, dim)


@operation(
    "WeightNormInterfaceBackward0", outputs=("result0", "result1"), always_saved=("v", "g", "result1"), method=False
)
def _weight_norm_interface(v: Array, g: Array, dim: int = 0) -> Any:
    """The weight and the norms of ``v`` over all dimensions but the first or the last.

    In half precision all is computed, and the norms are given, in single precision; the weight is rounded once.
    """
    axes = tuple(range(1, v.ndim)) if dim == 0 else tuple(range(v.ndim - 1))
    wide = widened(v)
    norms = lax.sqrt(jnp.sum(wide * wide, axes, keepdims=True))
    return lax.convert_element_type(wide * (widened(g) / norms), v.dtype), norms


@composite(method=False)
def _weight_norm(v: Array, g: Array, dim: int = 0) -> Tensor:
    """``v`` with norms ``g`` over all dimensions but one; with -1, over all."""
    tensor: Any = v
    if dim == 0 or dim == tensor.dim() - 1:
        return _weight_norm_interface(tensor.contiguous(), g, dim)[0]
    return tensor * (g / norm_except_dim(tensor, 2, dim))
