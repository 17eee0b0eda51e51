"""Samples of ``torch.nn.functional``: attention and softmax."""

from typing import Any

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, normal

_F = "nn.functional."

Q, K, V = normal(2, 4, 3, 4), normal(2, 4, 5, 4, seed=1), normal(2, 4, 5, 4, seed=2)
MASK = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])

SOFTMAX: list[Sample] = [
    Sample(_F + "softmax", (normal(3, 4), 1)),
    Sample(_F + "softmax", (normal(3, 4),), label="implicit"),
    Sample(_F + "log_softmax", (normal(3, 4), -1)),
    Sample("_safe_softmax", (normal(3, 4), -1)),
    Sample("_safe_softmax", (np.where(np.arange(12).reshape(3, 4) < 4, -np.inf, normal(3, 4)), 1), label="masked"),
    Sample("_softmax_backward_data", (normal(3, 4), normal(3, 4, seed=1), 1, torch.float64)),
    Sample("_log_softmax_backward_data", (normal(3, 4), normal(3, 4, seed=1), 0, torch.float64)),
    Sample(_F + "softmin", (normal(2, 3, 4),), label="implicit"),
    Sample(_F + "softmin", (normal(3, 4), 0)),
    Sample(_F + "gumbel_softmax", (normal(3, 4),), seeded=True),
    Sample(_F + "gumbel_softmax", (normal(3, 4), 0.5, True), {"dim": 0}, "hard", seeded=True),
    Sample(_F + "gumbel_softmax", (normal(3, 4, dtype="float32"),), label="single", seeded=True),
]

ATTENTION: list[Sample] = [
    Sample(_F + "scaled_dot_product_attention", (Q, K, V), order=1),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V), {"is_causal": True, "scale": 0.3}, "causal", order=1),
    Sample(_F + "scaled_dot_product_attention", (Q[..., :0], K[..., :0], V), label="no features", order=1),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V, MASK), label="mask", order=1),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V, normal(3, 5)), label="bias", order=1, frozen=(3,)),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V, normal(3, 5)), label="bias-requires-grad"),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V), {"dropout_p": 0.5}, "dropout", seeded=True),
    Sample(_F + "scaled_dot_product_attention", (Q[0], K[0], V[0]), label="3d"),
    Sample(_F + "scaled_dot_product_attention", (Q[0], K[0], V[0], MASK), label="3d-mask"),
    Sample(_F + "scaled_dot_product_attention", (Q[0], K[0], V[0]), {"is_causal": True}, label="3d-causal"),
    Sample(_F + "scaled_dot_product_attention", (Q[0, 0], K[0, 0], V[0, 0]), label="2d"),
    Sample(_F + "scaled_dot_product_attention", (Q, K, normal(2, 4, 5, 6)), label="width"),
    Sample(_F + "scaled_dot_product_attention", (Q, K[:, :2], V[:, :2]), {"enable_gqa": True}, "gqa", order=1),
    Sample(_F + "scaled_dot_product_attention", (Q[0], K[0, :2], V[0, :2]), {"enable_gqa": True}, "3d-gqa"),
    Sample(_F + "scaled_dot_product_attention", (normal(4), normal(4), normal(4)), label="1d"),
    Sample(_F + "scaled_dot_product_attention", (Q, K.astype("float32"), V), label="types"),
    Sample(_F + "scaled_dot_product_attention", (Q, K, V, np.ones((3, 5), "int64")), label="mask-type"),
]

WIDTH = 6
QUERY, KEY, VALUE = normal(3, 2, WIDTH), normal(4, 2, WIDTH, seed=1), normal(4, 2, WIDTH, seed=2)
PROJECTIONS = (normal(3 * WIDTH, WIDTH), normal(3 * WIDTH))
OUT = (normal(WIDTH, WIDTH), normal(WIDTH))
BAD_KEYS = np.array([[False, True, False, False], [False, False, False, True]])


def _heads(
    *inputs: Any, label: str, bias: tuple[Any, Any] = (None, None), zero: bool = False, p: float = 0.0, **named: Any
) -> Sample:
    args = (*inputs, WIDTH, 2, *PROJECTIONS, *bias, zero, p, *OUT)
    return Sample(_F + "multi_head_attention_forward", args, named, label, order=1, names=False, seeded=True)


MULTIHEAD: list[Sample] = [
    _heads(QUERY, KEY, VALUE, label="three"),
    _heads(QUERY, KEY, VALUE, label="no-weights", need_weights=False),
    _heads(QUERY, KEY, VALUE, label="every-head", average_attn_weights=False),
    _heads(QUERY[:, 0], KEY[:, 0], VALUE[:, 0], label="unbatched"),
    _heads(QUERY, KEY, VALUE, label="padding", key_padding_mask=BAD_KEYS),
    _heads(QUERY, KEY, VALUE, label="mask", attn_mask=MASK[:, :4] & np.array([0, 1, 1, 1], bool)),
    _heads(QUERY, KEY, VALUE, label="masks", attn_mask=normal(3, 4) > 1, key_padding_mask=BAD_KEYS, need_weights=False),
    _heads(QUERY, KEY, VALUE, label="bias", bias=(normal(1, 1, WIDTH), normal(1, 1, WIDTH, seed=1)), zero=True),
    _heads(QUERY, KEY, VALUE, label="dropout", p=0.5),
    _heads(QUERY, KEY, VALUE, label="mask-shape", attn_mask=MASK),
    _heads(QUERY, KEY, normal(3, 2, WIDTH), label="values"),
    _heads(QUERY[:, :, 0], KEY, VALUE, label="ranks"),
]

SAMPLES = [*SOFTMAX, *ATTENTION, *MULTIHEAD]
