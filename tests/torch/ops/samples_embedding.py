"""Samples of ``torch.nn.functional``: embeddings and one-hot rows."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

_F = "nn.functional."

INDICES, WEIGHT = np.array([[1, 2, 1], [4, 0, 1]]), normal(5, 3)
LIST, STARTS = np.array([1, 2, 1, 4, 0]), np.array([0, 2, 2])

SAMPLES: list[Sample] = [
    Sample(_F + "embedding", (INDICES, WEIGHT)),
    Sample(_F + "embedding", (np.array(3), WEIGHT), label="0-d"),
    Sample(_F + "embedding", (np.zeros((0, 2), "int64"), WEIGHT), label="empty", order=1),
    Sample(_F + "embedding", (INDICES.astype("int32"), WEIGHT), label="int32"),
    Sample(_F + "embedding", (INDICES, WEIGHT, 1), label="padding"),
    Sample(_F + "embedding", (INDICES, WEIGHT, -1), label="padding-from-the-end"),
    Sample(_F + "embedding", (INDICES, WEIGHT), {"scale_grad_by_freq": True}, "frequency", order=1),
    Sample(_F + "embedding", (INDICES, WEIGHT), {"max_norm": 0.5}, "max-norm", frozen=(1,)),
    Sample(_F + "embedding", (INDICES, WEIGHT), {"max_norm": 0.5, "norm_type": 1.0}, "max-norm-1", frozen=(1,)),
    Sample(_F + "embedding", (np.array([5]), WEIGHT), label="out-of-range"),
    Sample(_F + "embedding", (np.array([-1]), WEIGHT), label="negative"),
    Sample(_F + "embedding", (np.array([5]), WEIGHT), {"max_norm": 0.5}, label="out-of-range-max-norm"),
    Sample(_F + "embedding", (np.array([1.0]), WEIGHT), {"max_norm": 0.5}, label="floats-max-norm"),
    Sample(_F + "embedding", (normal(2), WEIGHT), label="floating"),
    Sample(_F + "embedding", (INDICES, normal(3)), label="vector"),
    Sample(_F + "embedding", (INDICES, WEIGHT, 7), label="padding-out-of-range"),
    Sample("embedding", (WEIGHT, INDICES)),
    Sample("embedding_renorm_", (WEIGHT, LIST, 0.5, 2.0), frozen=(0,)),
    *[
        Sample(_F + "embedding_bag", (INDICES, WEIGHT), {"mode": mode, **named}, f"{mode}-{label}", order=1)
        for mode in ("sum", "mean", "max")
        for label, named in [("plain", {}), ("padding", {"padding_idx": 1})]
    ],
    Sample(_F + "embedding_bag", (LIST, WEIGHT, STARTS), label="offsets", order=1),
    Sample(_F + "embedding_bag", (LIST, WEIGHT, STARTS), {"mode": "max"}, label="offsets-max", order=1),
    Sample(
        _F + "embedding_bag",
        (LIST, WEIGHT, STARTS),
        {"mode": "sum", "include_last_offset": True},
        "last-offset",
        order=1,
    ),
    Sample(_F + "embedding_bag", (LIST, WEIGHT, STARTS), {"scale_grad_by_freq": True}, label="frequency", order=1),
    Sample(
        _F + "embedding_bag",
        (INDICES, WEIGHT),
        {"mode": "sum", "per_sample_weights": normal(2, 3)},
        "weighted",
        order=1,
    ),
    Sample(_F + "embedding_bag", (INDICES, WEIGHT), {"per_sample_weights": normal(2, 3)}, "weighted-mean"),
    Sample(_F + "embedding_bag", (LIST, WEIGHT), label="no-offsets"),
    Sample(_F + "embedding_bag", (LIST, WEIGHT, np.array([0, 9])), label="offset-too-large"),
    Sample(_F + "embedding_bag", (np.array([[9]]), WEIGHT), label="out-of-range"),
    Sample(_F + "embedding_bag", (INDICES, WEIGHT), {"mode": "other"}, "wrong-mode"),
    Sample(_F + "embedding_bag", (INDICES, WEIGHT), {"padding_idx": 9}, "padding-out-of-range"),
    Sample(_F + "one_hot", (integers(2, 3),)),
    Sample(_F + "one_hot", (integers(3), 7), label="classes"),
    Sample(_F + "one_hot", (np.array(2), 4), label="0-d"),
    Sample(_F + "one_hot", (np.zeros(0, "int64"), 4), label="empty"),
    Sample(_F + "one_hot", (np.zeros(0, "int64"),), label="empty-unknown"),
    Sample(_F + "one_hot", (np.array([-1]),), label="negative"),
    Sample(_F + "one_hot", (np.array([3]), 2), label="too-few"),
    Sample(_F + "one_hot", (normal(2),), label="floating"),
]
