"""Multi-head attention: the function behind ``nn.MultiheadAttention``."""

import math
from typing import Any

from attrs import define

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_
from fgrad.torch import ops
from fgrad.torch.nn.functional.attention import scaled_dot_product_attention
from fgrad.torch.nn.functional.dropout import dropout
from fgrad.torch.nn.functional.linear import linear
from fgrad.torch.nn.functional.softmax import softmax
from fgrad.torch.ops.table.kernels import functional
from fgrad.torch.ops.views.padding import pad


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def _canonical_mask(
    mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Any:
    """A boolean mask as an additive one; masks of numbers as they are."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    _require(mask.dtype is bool_ or is_float, f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
        )
    return mask if is_float else ops.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def _none_or_dtype(input: Any) -> Any:
    """A tensor's element type; None for None."""
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _check_shapes(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> bool:
    """Whether the operands have a batch axis, or PyTorch's error for ranks that do not fit."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    prefix = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected"
    _require(
        key.dim() == rank and value.dim() == rank,
        f"{prefix} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
    )
    if padding is not None:
        _require(
            padding.dim() == rank - 1,
            f"{prefix} `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.dim()}-D tensor instead",
        )
    if mask is not None:
        _require(
            mask.dim() in (2, 3),
            f"{prefix} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead",
        )
        if rank == 2 and mask.dim() == 3:
            expected = (heads, query.shape[0], key.shape[0])
            _require(tuple(mask.shape) == expected, f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return rank == 3


def _projected_at_once(x: Any, weight: Any, bias: Any, count: int, width: int) -> Any:
    """Several projections of one tensor, by one multiplication."""
    wide = linear(x, weight, bias).unflatten(-1, (count, width))
    return wide.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _packed_projection(q: Any, k: Any, v: Any, weight: Any, bias: Any) -> Any:
    """Queries, keys and values, sharing multiplications between inputs that are the same tensor."""
    width = q.size(-1)
    if k is v and q is k:
        projected = _projected_at_once(q, weight, bias, 3, width)
        return projected[0], projected[1], projected[2]
    if k is v:
        w_q, w_kv = weight.split([width, width * 2])
        b_q, b_kv = (None, None) if bias is None else bias.split([width, width * 2])
        query = linear(q, w_q, b_q)
        projected = _projected_at_once(k, w_kv, b_kv, 2, width)
        return query, projected[0], projected[1]
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple([linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)])


def _separate_projection(inputs: Any, weights: Any, bias: Any) -> Any:
    query, key, value = inputs
    _require(
        key.shape[:2] == value.shape[:2],
        f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
    )
    for name, weight in zip("qkv", weights, strict=True):
        _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    width = query.size(-1)
    for name, x, weight in zip(("query", "key", "value"), inputs, weights, strict=True):
        expected = (width, x.size(-1))
        _require(
            tuple(weight.shape) == expected, f"expecting {name} weights shape of {expected}, but got {weight.shape}"
        )
    for name, bias in zip(("query", "key", "value"), biases, strict=True):
        _require(
            bias is None or tuple(bias.shape) == (width,),
            f"expecting {name} bias shape of {(width,)}, but got {None if bias is None else bias.shape}",
        )
    return tuple([linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)])


def _check_mask(mask: Any, heads: int, queries: int, keys: int) -> Any:
    """A mask with a head axis."""
    if mask.dim() == 2:
        if tuple(mask.shape) != (queries, keys):
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(queries, keys)}.")
        return mask.unsqueeze(0)
    if mask.dim() == 3:
        if tuple(mask.shape) != (heads, queries, keys):
            raise RuntimeError(
                f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, queries, keys)}."
            )
        return mask
    raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")


def _by_head(name: str, static: Any, projected: Any, heads: int, width: int) -> Any:
    """Keys or values of each head: the given ones, or the projected ones."""
    if static is None:
        return projected.view(projected.size(0), heads, width).transpose(0, 1)
    _require(static.size(0) == heads, f"expecting {name}.size(0) of {heads}, but got {static.size(0)}")
    _require(static.size(2) == width, f"expecting {name}.size(2) of {width}, but got {static.size(2)}")
    return static


def _canonical_masks(dtype: Any, padding: Any, mask: Any, is_causal: bool, need_weights: bool) -> tuple[Any, Any, bool]:
    """The masks of keys and of scores as additive ones, and whether the attention itself is causal."""
    padding = _canonical_mask(padding, "key_padding_mask", _none_or_dtype(mask), "attn_mask", dtype)
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        return padding, None, True
    mask = _canonical_mask(mask, "attn_mask", None, "", dtype, check_other=False)
    return padding, mask, is_causal and padding is None


@define
class _Memory:
    """Keys and values, and masks with a column for each key."""

    k: Any
    v: Any
    mask: Any
    padding: Any

    def append(self, k: Any, v: Any, dim: int) -> None:
        """Append keys and values that are never masked."""
        self.k, self.v = ops.cat([self.k, k], dim), ops.cat([self.v, v], dim)
        self.mask, self.padding = [None if m is None else pad(m, (0, 1)) for m in (self.mask, self.padding)]

    def merged_mask(self, batch: int, heads: int) -> Any:
        """The additive mask for all heads."""
        if self.padding is None:
            return self.mask
        keys = self.k.size(1)
        for axis, size in ((0, batch), (1, keys)):
            _require(
                self.padding.shape[axis] == size,
                f"Expected key_padded_mask.shape[{axis}] to be {size}, but got {self.padding.shape[axis]}",
            )
        spread = self.padding.view(batch, 1, 1, keys).expand(-1, heads, -1, -1).reshape(batch * heads, 1, keys)
        return spread if self.mask is None else self.mask + spread


def _attend(q: Any, k: Any, v: Any, mask: Any, p: float, is_causal: bool, num_heads: int) -> Any:
    """Attention without its weights, the heads concatenated."""
    heads, queries, head = q.shape
    batch = heads // num_heads
    if mask is not None:
        shared = mask.size(0) == 1 and mask.dim() == 3
        mask = mask.unsqueeze(0) if shared else mask.view(batch, num_heads, mask.size(1), k.size(1))
    parts = [x.view(batch, num_heads, x.size(1), head) for x in (q, k, v)]
    result = scaled_dot_product_attention(*parts, mask, p, is_causal)
    return result.permute(2, 0, 1, 3).reshape(batch * queries, num_heads * head)


def _attend_with_weights(q: Any, k: Any, v: Any, mask: Any, p: float, num_heads: int) -> tuple[Any, Any]:
    """Attention, and its weights for each head."""
    heads, queries, head = q.shape
    batch = heads // num_heads
    scaled = q * math.sqrt(1.0 / float(head))
    keys = k.transpose(-2, -1)
    weights = softmax(ops.bmm(scaled, keys) if mask is None else ops.baddbmm(mask, scaled, keys), dim=-1)
    if p > 0.0:
        weights = dropout(weights, p=p)
    result = ops.bmm(weights, v).transpose(0, 1).reshape(queries * batch, num_heads * head)
    return result, weights.view(batch, num_heads, queries, k.size(1))


@functional
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention by several heads, each on its own projection of query, key and value.

    Returns the result and, if ``need_weights``, the weights (of all heads, or their mean).

    Source: `torch.nn.MultiheadAttention
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html>`_.
    """
    is_batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        # inputs that are one tensor stay one, for the packed projection
        first = query.unsqueeze(1)
        same_key = first if key is query else key.unsqueeze(1)
        value = same_key if value is key else value.unsqueeze(1)
        query, key = first, same_key
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    queries, batch, width = query.shape
    padding, mask, is_causal = _canonical_masks(query.dtype, key_padding_mask, attn_mask, is_causal, need_weights)
    _require(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    _require(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _separate_projection((query, key, value), weights, in_proj_bias)
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _packed_projection(query, key, value, in_proj_weight, in_proj_bias)
    heads = batch * num_heads
    if mask is not None:
        mask = _check_mask(mask, heads, queries, key.shape[0])
    memory = _Memory(k, v, mask, padding)
    _require(bias_k is None or bias_v is not None, "bias_k is set but bias_v is None")
    _require(bias_v is None or bias_k is not None, "bias_v is set but bias_k is None")
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        memory.append(bias_k.repeat(1, batch, 1), bias_v.repeat(1, batch, 1), dim=0)
    q = q.view(queries, heads, head).transpose(0, 1)
    memory.k = _by_head("static_k", static_k, memory.k, heads, head)
    memory.v = _by_head("static_v", static_v, memory.v, heads, head)
    if add_zero_attn:
        zeros = k.new_zeros((heads, 1, head))
        memory.append(zeros, zeros, dim=1)
    mask = memory.merged_mask(batch, num_heads)
    p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        _require(not (is_causal and mask is None), "FIXME: is_causal not implemented for need_weights")
        result, weights = _attend_with_weights(q, memory.k, memory.v, mask, p, num_heads)
    else:
        result = _attend(q, memory.k, memory.v, mask, p, is_causal, num_heads)
    result = linear(result, out_proj_weight, out_proj_bias)
    result = result.view(queries, batch, result.size(1))
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if is_batched:
        return result, weights
    return result.squeeze(1), None if weights is None else weights.squeeze(0)
