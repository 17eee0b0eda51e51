"""Multi-head attention: the function behind ``nn.MultiheadAttention``."""

import math
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_
from fgrad.torch import ops
from fgrad.torch.nn.functional.attention import scaled_dot_product_attention
from fgrad.torch.nn.functional.dropout import dropout
from fgrad.torch.nn.functional.kernels import functional
from fgrad.torch.nn.functional.linear import linear
from fgrad.torch.nn.functional.padding import pad
from fgrad.torch.nn.functional.softmax import softmax


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def _canonical_mask(
    mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Any:
    """A mask of booleans as what is added to scores; masks of numbers as they are."""
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
    what = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected"
    _require(
        key.dim() == rank and value.dim() == rank,
        f"{what} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
    )
    if padding is not None:
        _require(
            padding.dim() == rank - 1,
            f"{what} `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.dim()}-D tensor instead",
        )
    if mask is not None:
        _require(
            mask.dim() in (2, 3), f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
        if rank == 2 and mask.dim() == 3:
            expected = (heads, query.shape[0], key.shape[0])
            _require(tuple(mask.shape) == expected, f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return rank == 3


def _packed_projection(q: Any, k: Any, v: Any, weight: Any, bias: Any) -> Any:
    """Queries, keys and values, as few multiplications as what is the same tensor allows."""
    width = q.size(-1)
    if k is v and q is k:
        found = linear(q, weight, bias)
        found = found.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return found[0], found[1], found[2]
    if k is v:
        w_q, w_kv = weight.split([width, width * 2])
        b_q, b_kv = (None, None) if bias is None else bias.split([width, width * 2])
        query = linear(q, w_q, b_q)
        found = linear(k, w_kv, b_kv)
        found = found.unflatten(-1, (2, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return query, found[0], found[1]
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple([linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)])


def _separate_projection(given: Any, weights: Any, biases: Any) -> Any:
    width = given[0].size(-1)
    for name, x, weight in zip(("query", "key", "value"), given, weights, strict=True):
        expected = (width, x.size(-1))
        _require(
            tuple(weight.shape) == expected, f"expecting {name} weights shape of {expected}, but got {weight.shape}"
        )
    for name, bias in zip(("query", "key", "value"), biases, strict=True):
        _require(
            bias is None or tuple(bias.shape) == (width,),
            f"expecting {name} bias shape of {(width,)}, but got {None if bias is None else bias.shape}",
        )
    return tuple([linear(x, w, b) for x, w, b in zip(given, weights, biases, strict=True)])


def _check_mask(mask: Any, heads: int, queries: int, keys: int) -> Any:
    """A mask with an axis for heads."""
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


def _static(name: str, given: Any, heads: int, width: int) -> Any:
    _require(given.size(0) == heads, f"expecting {name}.size(0) of {heads}, but got {given.size(0)}")
    _require(given.size(2) == width, f"expecting {name}.size(2) of {width}, but got {given.size(2)}")
    return given


def _longer(mask: Any) -> Any:
    return None if mask is None else pad(mask, (0, 1))


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
        # what was one tensor stays one, for the packed projection
        first = query.unsqueeze(1)
        same_key = first if key is query else key.unsqueeze(1)
        value = same_key if value is key else value.unsqueeze(1)
        query, key = first, same_key
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    queries, batch, width = query.shape
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        is_causal = is_causal and key_padding_mask is None
    _require(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    _require(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", weights, strict=True):
            _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _separate_projection((query, key, value), weights, biases)
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _packed_projection(query, key, value, in_proj_weight, in_proj_bias)
    heads = batch * num_heads
    if attn_mask is not None:
        attn_mask = _check_mask(attn_mask, heads, queries, key.shape[0])
    _require(bias_k is None or bias_v is not None, "bias_k is set but bias_v is None")
    _require(bias_v is None or bias_k is not None, "bias_v is set but bias_k is None")
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k, v = ops.cat([k, bias_k.repeat(1, batch, 1)]), ops.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    q = q.view(queries, heads, head).transpose(0, 1)
    k = _static("static_k", static_k, heads, head) if static_k is not None else k.view(-1, heads, head).transpose(0, 1)
    v = _static("static_v", static_v, heads, head) if static_v is not None else v.view(-1, heads, head).transpose(0, 1)
    if add_zero_attn:
        zeros = ops.zeros((heads, 1, head), dtype=k.dtype)
        k, v = ops.cat([k, zeros], dim=1), ops.cat([v, zeros], dim=1)
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    keys = k.size(1)
    if key_padding_mask is not None:
        for axis, size in ((0, batch), (1, keys)):
            _require(
                key_padding_mask.shape[axis] == size,
                f"Expected key_padded_mask.shape[{axis}] to be {size}, but got {key_padding_mask.shape[axis]}",
            )
        spread = key_padding_mask.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1).reshape(heads, 1, keys)
        attn_mask = spread if attn_mask is None else attn_mask + spread
    p = dropout_p if training else 0.0
    if not need_weights:
        if attn_mask is not None:
            shared = attn_mask.size(0) == 1 and attn_mask.dim() == 3
            attn_mask = attn_mask.unsqueeze(0) if shared else attn_mask.view(batch, num_heads, -1, keys)
        parts = [x.view(batch, num_heads, -1, head) for x in (q, k, v)]
        found = scaled_dot_product_attention(*parts, attn_mask, p, is_causal)
        found = found.permute(2, 0, 1, 3).reshape(batch * queries, width)
        found = linear(found, out_proj_weight, out_proj_bias)
        found = found.view(queries, batch, found.size(1))
        return found if is_batched else found.squeeze(1), None
    _require(not (is_causal and attn_mask is None), "FIXME: is_causal not implemented for need_weights")
    scaled = q * math.sqrt(1.0 / float(head))
    if attn_mask is None:
        scores = ops.bmm(scaled, k.transpose(-2, -1))
    else:
        scores = ops.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
    weights_of = softmax(scores, dim=-1)
    if p > 0.0:
        weights_of = dropout(weights_of, p=p)
    found = ops.bmm(weights_of, v).transpose(0, 1).reshape(queries * batch, width)
    found = linear(found, out_proj_weight, out_proj_bias)
    found = found.view(queries, batch, found.size(1))
    weights_of = weights_of.view(batch, num_heads, queries, keys)
    if average_attn_weights:
        weights_of = weights_of.mean(dim=1)
    if not is_batched:
        return found.squeeze(1), weights_of.squeeze(0)
    return found, weights_of
