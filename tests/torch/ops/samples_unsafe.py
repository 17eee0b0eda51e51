"""Samples of splitting whose pieces are no views."""

from tests.torch.ops.sample import Sample, normal

SAMPLES = [
    Sample("unsafe_split", (normal(5, 2), 2)),
    Sample("unsafe_split", (normal(3, 4), 3, -1), label="last axis"),
    Sample("unsafe_split", (normal(0, 2), 0), label="empty"),
    Sample("unsafe_split_with_sizes", (normal(5, 2), [1, 0, 4])),
    Sample("unsafe_split_with_sizes", (normal(2, 3), [2, 1]), {"dim": 1}, label="last axis"),
    Sample("unsafe_chunk", (normal(5, 2), 2)),
    Sample("unsafe_chunk", (normal(2, 6), 3, 1), label="last axis"),
    Sample("unsafe_chunk", (normal(0), 3), label="empty"),
]
