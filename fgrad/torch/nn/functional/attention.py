"""Attention: the values weighted by the softmax of scaled products of queries and keys."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types.dtypes import bool_, float32, is_half
from fgrad.torch import ops
from fgrad.torch.backends.cuda import kernels
from fgrad.torch.nn.functional.dropout import drop
from fgrad.torch.ops.reductions.softmax import safe_weights
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_NN
from fgrad.torch.ops.table.kernels import functional, kernel, single, takes
from fgrad.torch.ops.table.table import Array, Fixed, Float, operation_of
from fgrad.torch.random.scalars import cpp_name


def _flash_strides(operands: Any, shape: Ints) -> Ints | None:
    """PyTorch's kernel interleaves the heads in memory when the query does."""
    g = operands[0]._geometry_of()
    if len(shape) == 4 and g.strides[1] < g.strides[2] and shape[1] > 1 and shape[2] > 1:
        _, heads, length, width = shape
        return (heads * length * width, width, heads * width, 1)
    return None


#: the axes of examples and heads, of both factors
_BATCH = ((0, 1), (0, 1))


@kernel(
    "ScaledDotProductFlashAttentionForCpuBackward0", strides=_flash_strides, outputs=("output",),
    saved=("query", "key", "value", "attn_mask", "scale"),
    always_saved=("query", "key", "value", "attn_mask", "output"),
)  # fmt: skip
@single
def _scaled_dot_product_flash_attention_for_cpu(
    query: Array, key: Array, value: Array, attn_mask: Fixed = None, *, scale: Float = None,
    dropout_p: float, is_causal: bool,
) -> Any:  # fmt: skip
    if query.shape[1] != key.shape[1]:
        key, value = (jnp.repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = lax.dot_general(query, key, (((3,), (3,)), _BATCH))
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        rows, columns = (lax.broadcasted_iota(np.int32, scores.shape[-2:], axis) for axis in (0, 1))
        scores = choose(rows >= columns, scores, -jnp.inf)
    if attn_mask is not None:
        scores = scores + attn_mask.astype(scores.dtype)
    return lax.dot_general(safe_weights(scores, -1), value, (((3,), (2,)), _BATCH))


_FLASH = operation_of(_scaled_dot_product_flash_attention_for_cpu)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    kinds = {x.dtype for x in (query, key, value)}
    if len(kinds) > 1:
        q, k, v = (cpp_name(x.dtype.numpy) for x in (query, key, value))
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{q} key.dtype: {k} and value.dtype: {v} instead."
        )
    if min(x.dim() for x in (query, key, value)) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is not None and mask.dtype not in (bool_, float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{cpp_name(mask.dtype.numpy)} and  query.dtype: {cpp_name(query.dtype.numpy)} instead."
        )


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask as an additive one: minus infinity where it is False."""
    return ops.zeros_like(mask, dtype=like.dtype).masked_fill_(mask.logical_not(), -math.inf)


def _is_flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, gqa: bool) -> bool:
    """Whether PyTorch runs its fused kernel (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp)."""
    q, k, v = shapes = [x._type.shape for x in (query, key, value)]
    if dropout_p or not query._type.inexact or any(len(shape) != 4 or 0 in shape for shape in shapes):
        return False
    batch, heads, length, width = q
    if k != v or (batch, width) != (k[0], k[3]) or (heads != k[1] and not (gqa and heads % k[1] == 0)):
        return False
    if mask is None:
        return True
    if modes.grad and is_tracked(mask):
        return False
    sizes, full = mask._type.shape, (batch, heads, length, k[2])
    return len(sizes) in (2, 4) and all(n in (1, m) for n, m in zip(reversed(sizes), reversed(full), strict=False))


@functional(autocast="lower_precision_fp", dispatch=OF_NN)
@takes("scaled_dot_product_attention(query, key, value, attn_mask?)")
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """``softmax(query @ key.T * scale + mask) @ value`` over the last two axes.

    Arguments:
      attn_mask: added to the products; in a boolean mask, False excludes a key.
      dropout_p: the probability with which weights are dropped.
      is_causal: whether a query sees only the keys up to its own position.
      scale: ``1 / sqrt(width)`` if None.
      enable_gqa: whether groups of heads of the query may share a head of key and value.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(1, 2, 2)
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x)
    tensor([[[1., 1.],
             [1., 1.]]])

    Source: `torch.nn.functional.scaled_dot_product_attention
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html>`_.
    """
    _check(query, key, value, attn_mask)
    dropout_p = float_of("scaled_dot_product_attention", "dropout_p", dropout_p)
    scale = None if scale is None else float_of("scaled_dot_product_attention", "scale", scale)
    if attn_mask is not None and attn_mask.dtype is bool_:
        attn_mask = _additive(attn_mask, query)
    if kernels["flash"] and _is_flash(query, key, value, attn_mask, dropout_p, enable_gqa):
        return apply(_FLASH, (query, key, value, attn_mask, scale), (0.0, bool(is_causal)))
    if not kernels["math"]:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the "
            "math kernel and the fused kernels."
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa and query.dim() >= 3 and query.size(-3) != key.size(-3):
        heads = query.size(-3)
        if heads % key.size(-3) or heads % value.size(-3):
            raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
        key = key.repeat_interleave(heads // key.size(-3), -3)
        value = value.repeat_interleave(heads // value.size(-3), -3)
    dtype = query.dtype
    if is_half(dtype.numpy):
        query, key, value = (x.to(float32) for x in (query, key, value))
    if scale is None:
        width = query.size(-1)
        scale = 1 / math.sqrt(width) if width else math.inf
    root = math.sqrt(abs(scale))
    if is_causal:
        attn_mask = _additive(query.new_ones(query.size(-2), key.size(-2), dtype=bool_).tril(), query)
    scores = (query * (-root if scale < 0 else root)).matmul((key * root).transpose(-2, -1))
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = ops._safe_softmax(scores, scores.dim() - 1)
    if dropout_p:
        weights = drop(weights, dropout_p, True)
    return weights.matmul(value).to(dtype)
