"""Samples of copies of views, of pieces, and of the kernels that give their statistics too."""

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, integers, normal, positive

A, B = normal(2, 3, 4), normal(3, 4, seed=1)

COPIES = [
    Sample("alias_copy", (A,)),
    Sample("detach_copy", (A,), order=0),
    Sample("expand_copy", (normal(3, 1), (2, 3, 4))),
    Sample("expand_copy", (A, (2, 2)), label="does not fit"),
    Sample("view_copy", (A, (6, -1))),
    Sample("view_copy", (B, torch.int64), label="type", order=0),
    Sample("view_copy", (B, (5, 5)), label="does not fit"),
    Sample("permute_copy", (A, (2, 0, 1))),
    Sample("permute_copy", (A, (0, 0, 1)), label="twice"),
    Sample("transpose_copy", (A, 0, -1)),
    Sample("t_copy", (B,)),
    Sample("t_copy", (A,), label="three axes"),
    Sample("unsqueeze_copy", (B, 1)),
    Sample("squeeze_copy", (normal(1, 3, 1),)),
    Sample("squeeze_copy", (normal(1, 3, 1), 0), label="dim"),
    Sample("squeeze_copy", (normal(1, 3, 1), (0, 2)), label="dims"),
    Sample("diagonal_copy", (A, 1, 1, 2)),
    Sample("diagonal_copy", (A, 0, 1, 1), label="same axes"),
    Sample("unfold_copy", (B, 1, 2, 1)),
    Sample("unfold_copy", (B, 1, 7, 1), label="too long"),
    Sample("view_as_real_copy", (normal(3, dtype="complex128"),)),
    Sample("select_copy", (A, 1, -1)),
    Sample("select_copy", (A, 1, 5), label="outside"),
    Sample("narrow_copy", (A, 2, 1, 2)),
    Sample("narrow_copy", (A, 2, -1, 1), label="from the end", order=0),
    Sample("narrow_copy", (A, 2, 3, 2), label="too long"),
    Sample("slice_copy", (A, 1, 0, 3, 2)),
    Sample("slice_copy", (A,), label="whole"),
    Sample("slice_copy", (A, 1, 0, 3, 0), label="no step"),
    Sample("as_strided_copy", (B, (2, 2), (5, 1), 1)),
    Sample("unbind_copy", (B, 1)),
    Sample("split_copy", (B, 2, 1)),
    Sample("split_copy", (B, 0), label="no length"),
    Sample("split_with_sizes_copy", (B, [1, 3], 1)),
    Sample("split_with_sizes", (B, [1, 3], 1)),
    Sample("split_with_sizes", (B, [1, 1], 1), label="too short"),
]

SUMS = [
    Sample("Tensor.sum_to_size", (A, 3, 1)),
    Sample("Tensor.sum_to_size", (A, (1, 3, 4)), label="same rank"),
    Sample("Tensor.sum_to_size", (A, (2, 3, 4)), label="same size"),
    Sample("Tensor.sum_to_size", (A, ()), label="all"),
    Sample("Tensor.sum_to_size", (A, (2, 4)), label="does not fit"),
    Sample("Tensor.sum_to_size", (A, (1, 2, 3, 4)), label="too many axes"),
]

INDICES = [
    Sample("unravel_index", (integers(2, 3, high=12), (3, 4))),
    Sample("unravel_index", (np.array([5, 7, -1, 12]), (3, 4)), label="outside"),
    Sample("unravel_index", (integers(2, dtype="int32"), 12), label="one axis"),
    Sample("unravel_index", (normal(2), 12), label="no integers"),
    Sample("unravel_index", (integers(2), (3, -4)), label="negative"),
    Sample("unravel_index", (integers(2), (3, 4.0)), label="no integer"),
    Sample("unravel_index", (integers(2), "ab"), label="letters"),
    Sample("nonzero_static", (integers(3, 4, high=2),), {"size": 9}),
    Sample("nonzero_static", (integers(3, 4, high=2),), {"size": 2, "fill_value": 7}, label="fewer"),
    Sample("nonzero_static", (np.array(3.0),), {"size": 2}, label="no axes", order=0),
    Sample("nonzero_static", (integers(3),), {"size": -1}, label="negative"),
    Sample("Tensor.nonzero_static", (normal(3),), {"size": 2}, label="method", order=0),
]

_EDGES = (np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 3.0, 4.0]))
SLOPES = [
    Sample("gradient", (B,), order=1),
    Sample("gradient", (B,), {"dim": 1, "edge_order": 2}, label="second order at ends"),
    Sample("gradient", (B,), {"spacing": 2, "dim": (1, 0)}, label="spacing"),
    Sample("gradient", (B,), {"spacing": [2.0, 0.5]}, label="spacings"),
    Sample("gradient", (B,), {"spacing": _EDGES}, label="coordinates", order=1),
    Sample("gradient", (B,), {"spacing": _EDGES, "edge_order": 2}, label="coordinates, second order", order=1),
    Sample("gradient", (normal(3, dtype="complex128"),), label="complex"),
    Sample("gradient", (integers(4),), label="integers"),
    Sample("gradient", (integers(4, dtype="uint8"),), label="bytes"),
    Sample("gradient", (B,), {"edge_order": 3}, label="third order"),
    Sample("gradient", (normal(1),), label="too short"),
    Sample("gradient", (B,), {"spacing": [2.0]}, label="too few spacings"),
    Sample("gradient", (B,), {"spacing": [2.0, 1.0], "dim": 1}, label="too many spacings"),
    Sample("gradient", (B,), {"dim": (0, 0)}, label="axis twice"),
]

POINTS = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
HISTOGRAMS = [
    Sample("histogramdd", (POINTS, [3, 2]), order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, 2), {"weight": positive(4)}, label="weight", order=0, frozen=(0, 1)),
    Sample("histogramdd", (POINTS, [2, 2]), {"range": [0.0, 1.0, 0.0, 1.0], "density": True}, label="density",
           order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, [np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0])]), label="edges", order=0,
           frozen=(0, 1, 2)),
    Sample("histogramdd", (normal(2, 3, 2), [2, 3]), label="more axes", order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, [2]), label="too few", order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, [0, 2]), label="none", order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, [2, 2]), {"range": [0.0, 1.0]}, label="short range", order=0, frozen=(0,)),
    Sample("histogramdd", (POINTS, [2, 2]), {"range": [1.0, 0.0, 0.0, 1.0]}, label="empty range", order=0,
           frozen=(0,)),
    Sample("histogramdd", (integers(3, 2), [2, 2]), label="integers", order=0),
    Sample("histogramdd", (normal(3), [2]), label="one axis", order=0, frozen=(0,)),
]  # fmt: skip


def _first(found):
    return found[0]


def _all_detached(found):
    return [t.detach() for t in found]


KERNELS = [
    Sample("native_layer_norm", (A, (4,), normal(4), normal(4, seed=2), 1e-5), results=_first),
    Sample("native_layer_norm", (A, [3, 4], None, None, 1e-5), label="values", results=_all_detached, order=0),
    Sample("native_group_norm", (A, normal(3), normal(3, seed=2), 2, 3, 4, 3, 1e-5), results=_first),
    Sample("native_group_norm", (A, None, None, 2, 3, 4, 1, 1e-5), label="values", results=_all_detached, order=0),
    Sample("native_group_norm", (A, None, None, 2, 3, 4, 3, 1e-5), label="statistics", order=1, names=False),
    Sample("native_group_norm", (A, None, None, 2, 3, 5, 3, 1e-5), label="a wrong count"),
    Sample("native_batch_norm", (A, normal(3), normal(3, seed=2), None, None, True, 0.1, 1e-5), results=_first),
    Sample("native_batch_norm", (A, None, None, np.zeros(3), np.ones(3), True, 0.1, 1e-5), label="values",
           results=_all_detached, order=0, frozen=(1, 2)),
    Sample("native_batch_norm", (A, None, None, np.zeros(3), np.ones(3), False, 0.1, 1e-5), label="evaluation",
           results=_all_detached, order=0, frozen=(1, 2)),
    Sample("grid_sampler_2d", (normal(2, 3, 4, 4), normal(2, 3, 2, 2), 0, 0, False), order=1),
    Sample("grid_sampler_3d", (normal(1, 2, 3, 3, 3), normal(1, 2, 2, 2, 3), 1, 1, True), order=1),
]  # fmt: skip

SAMPLES = [*COPIES, *SUMS, *INDICES, *SLOPES, *HISTOGRAMS, *KERNELS]
