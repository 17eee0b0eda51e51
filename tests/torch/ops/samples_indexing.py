"""Samples of what picks, writes and finds elements by index tensors and masks."""

from typing import Any

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

INDEX = np.array([[0, 1, 2, 0], [1, 2, 0, 0]])
UNIQUE = np.array([[0, 1, 2, 0], [1, 2, 0, 1]])
SCALAR = np.array(0)
NONE = np.zeros(0, "int64")
COLUMNS = np.array([2, 0])
TWICE = np.array([2, 0, 2])
#: values for three places
TRUTHS = np.array([True, False, True])
MASK = np.array([[True, False, True, False], [False, False, True, True], [False, True, False, False]])
#: values that tie, and zeros
TIES = np.array([[1.0, 0.0, 2.0, 1.0], [1.0, 2.0, 0.0, 3.0], [2.0, 1.0, 2.0, 0.0]])


def _segments() -> list[Sample]:
    made = []
    for reduce in ("sum", "prod", "mean", "max", "min"):
        # where elements tie for the extremum, PyTorch shares a positive cotangent between them, and not a negative one
        data = normal(3, 4) if reduce in ("max", "min") else TIES
        named = {"lengths": np.array([2, 0, 1]), "initial": 2.0}
        made.append(Sample("segment_reduce", (data, reduce), named, reduce, order=1))
        named = {"offsets": np.array([[0, 2, 2, 4], [0, 1, 2, 3], [1, 3, 3, 4]]), "axis": 1}
        made.append(Sample("segment_reduce", (data, reduce), named, f"{reduce} rows", order=1))
    odd = np.array([1, np.nan, 2, np.nan, 0, 2, 0, 0, np.nan, np.nan, np.nan, 3])
    made.append(Sample("segment_reduce", (odd, "prod"), {"lengths": np.array([3, 3, 3, 3])}, "NaN", order=1))
    made.append(Sample("_segment_reduce", (TIES, "sum"), {"lengths": np.array([2, 0, 1])}, order=1))
    return made


def _reductions() -> list[Sample]:
    made = []
    for include_self in (True, False):
        named = {"include_self": include_self}
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            order = 2 if reduce in ("sum", "mean") else 1
            label = f"{reduce}{include_self}"
            args: tuple[Any, ...] = (normal(3, 4), 0, INDEX, normal(2, 4, seed=1), reduce)
            made.append(Sample("Tensor.scatter_reduce", args, named, label, order=2))
            args = (TIES, 1, np.array([[0, 0, 1, 1, 3]] * 2), np.array([[1.0, 2.0, 0.0, 2.0, 0.0]] * 2), reduce)
            made.append(Sample("scatter_reduce", args, named, label + "-ties", order=order))
            integer = (integers(3, 4), 0, INDEX, integers(2, 4, seed=1), reduce)
            made.append(Sample("scatter_reduce", integer, named, label + "-integers"))
            if reduce == "sum":
                continue
            args = (normal(3, 4), 1, TWICE, normal(3, 3, seed=1), reduce)
            made.append(Sample("index_reduce", args, named, label, order=2))
            args = (TIES, 1, TWICE, TIES[:, 1:], reduce)
            made.append(Sample("Tensor.index_reduce", args, named, label + "-ties", order=1))
    return made


SAMPLES: list[Sample] = [
    Sample("gather", (normal(3, 4), 0, INDEX)),
    Sample("gather", (normal(3, 4), -1, INDEX[:, :3]), label="negative axis"),
    Sample("gather", (normal(3, 4), 1, np.array([[0, 1, 2, 3, 3, 3]])), label="longer"),
    Sample("gather", (normal(2, 3, 4, dtype="complex128"), 1, integers(2, 5, 3, high=3)), label="complex"),
    Sample("gather", (normal(), 0, SCALAR), label="0-d"),
    Sample("gather", (normal(), 0, np.array([0, 0])), label="vector of 0-d"),
    Sample("gather", (normal(3), 0, SCALAR), label="0-d of vector"),
    Sample("gather", (normal(3, 4), 1, np.zeros((3, 0), "int64")), label="empty"),
    Sample("Tensor.gather", (integers(3, 4), 0, INDEX.astype("int32")), label="integers"),
    Sample("take_along_dim", (normal(3, 4), INDEX, 0)),
    Sample("take_along_dim", (normal(3, 4), INDEX[:, :1], 0), label="broadcast"),
    Sample("Tensor.take_along_dim", (normal(3, 4), INDEX), label="flat"),
    Sample("index_select", (normal(3, 4), 1, TWICE)),
    Sample("index_select", (normal(2, 3, 4), -2, COLUMNS), label="negative axis"),
    Sample("index_select", (normal(3, 4), 0, SCALAR), label="one"),
    Sample("index_select", (normal(3, 4), 0, NONE), label="empty"),
    Sample("Tensor.index_select", (normal(), 0, SCALAR), label="0-d"),
    Sample("take", (normal(3, 4), np.array([[0, -1], [5, 5]]))),
    Sample("take", (normal(3), SCALAR), label="0-d"),
    Sample("Tensor.take", (normal(3), NONE), label="empty"),
    Sample("masked_select", (normal(3, 4), MASK)),
    Sample("masked_select", (normal(4), MASK), label="broadcast"),
    Sample("masked_select", (normal(3, 4), MASK[0]), label="broadcast mask"),
    Sample("masked_select", (normal(), np.array(True)), label="0-d"),
    Sample("Tensor.masked_select", (normal(3, 4), np.zeros((3, 4), bool)), label="nothing"),
    Sample("nonzero", (MASK,)),
    Sample("nonzero", (integers(2, 3, 4, high=2),), label="integers"),
    Sample("nonzero", (np.array([0.0, -0.0, np.nan, 1.0]),), label="special"),
    Sample("nonzero", (np.zeros((0, 3)),), label="empty"),
    Sample("nonzero", (np.array(3.0),), label="0-d"),
    Sample("nonzero", (MASK,), {"as_tuple": True}, label="tuple"),
    Sample("Tensor.nonzero", (np.array(3.0),), {"as_tuple": True}, label="tuple of 0-d"),
    Sample("argwhere", (MASK,)),
    Sample("scatter", (normal(3, 4), 0, UNIQUE, normal(2, 4, seed=1))),
    Sample("scatter", (normal(3, 4), -1, UNIQUE[:, :2], normal(3, 5, seed=1)), label="larger source", order=0),
    Sample("scatter", (normal(3), 0, SCALAR, normal(1, seed=1)), label="0-d index", order=0),
    Sample("scatter", (normal(), 0, SCALAR, normal(seed=1)), label="0-d"),
    Sample("scatter", (normal(3), 0, NONE, normal(1, seed=1)), label="empty"),
    Sample("scatter", (normal(3, 4), 0, INDEX, 2.5), label="number"),
    Sample("scatter", (normal(3, 4), 0, INDEX), {"value": 2.5}, label="named number"),
    Sample("scatter", (integers(3, 4), 0, INDEX, 2.5), label="integers"),
    Sample("scatter", (normal(3, 4), 0, INDEX, 2.5), {"reduce": "multiply"}, label="multiply", order=0),
    Sample("Tensor.scatter", (normal(3, 4), 0, INDEX, 2.5), {"reduce": "add"}, label="add", order=0),
    Sample("scatter_add", (normal(3, 4), 0, INDEX, normal(2, 4, seed=1))),
    *[
        Sample("scatter_reduce", (np.array([True, True, False]), 0, np.array([0, 1, 1]), TRUTHS, reduce), label=reduce)
        for reduce in ("sum", "prod", "amax", "amin", "mean")
    ],
    Sample("scatter", (np.array([True, True]), 0, np.array([0, 0]), True), {"reduce": "multiply"}, "truth values"),
    *[
        Sample("scatter", (normal(*shape), 0, np.zeros(given, int), normal(*source)), label=f"ranks-{i}")
        for i, (shape, given, source) in enumerate(
            (
                ((3, 3, 3), (1, 1, 1), (1, 1)),
                ((3, 3, 3), (1, 1, 4), (1, 1)),
                ((3, 3), (2, 1), (1,)),
                ((3, 3), (1, 1), (1,)),
                ((3, 3), (2, 2), (1, 1, 1)),
                ((3, 3), (1, 1), ()),
            )
        )
    ],
    Sample("scatter_add", (normal(3, 4), 1, INDEX[:, :3], normal(3, 4, seed=1)), label="larger source", order=0),
    Sample("scatter_add", (normal(), 0, SCALAR, normal(seed=1)), label="0-d"),
    Sample("Tensor.scatter_add", (integers(3, 4), 0, INDEX, integers(2, 4, seed=1)), label="integers"),
    *_segments(),
    *_reductions(),
    Sample("index_add", (normal(3, 4), 1, TWICE, normal(3, 3, seed=1))),
    Sample("index_add", (normal(3, 4), 0, COLUMNS, normal(2, 4, seed=1)), {"alpha": -2}, label="alpha"),
    Sample("index_add", (normal(), 0, SCALAR, normal(seed=1)), label="0-d"),
    Sample("index_add", (normal(3, 4), 1, NONE, normal(3, 0)), label="empty"),
    Sample("Tensor.index_add", (integers(3, 4), 1, TWICE, integers(3, 3)), {"alpha": 2.5}, label="integers"),
    Sample("index_copy", (normal(3, 4), 1, COLUMNS, normal(3, 2, seed=1))),
    Sample("index_copy", (normal(3, 4), -2, SCALAR, normal(1, 4, seed=1)), label="one"),
    Sample("Tensor.index_copy", (normal(), 0, SCALAR, normal(seed=1)), label="0-d"),
    Sample("index_fill", (normal(3, 4), 1, np.array([0, -1]), 2.5)),
    Sample("index_fill", (normal(3, 4), 0, COLUMNS, normal()), label="tensor"),
    Sample("Tensor.index_fill", (integers(3), 0, SCALAR, 2), label="integers"),
    Sample("put", (normal(3, 4), np.array([[0, -1], [5, 6]]), normal(2, 2, seed=1))),
    Sample("Tensor.put", (normal(3, 4), np.array([0, 0, 5]), normal(3, seed=1), True), label="accumulate"),
    Sample("index_put", (normal(3, 4), (COLUMNS,), normal(4, seed=1))),
    Sample("index_put", (normal(3, 4), (np.array([2, 2]), np.array([1, 1])), normal(seed=1), True), label="accumulate"),
    Sample("Tensor.index_put", (normal(3, 4), (MASK,), normal(5, seed=1)), label="mask"),
    Sample(
        "index_put",
        (normal(3, 4), (np.array([2, 0], np.int32), np.array([1, 1])), normal(2, seed=1)),
        label="indices of two types",
    ),
    Sample(
        "Tensor.__getitem__",
        (normal(3, 4), (np.array([0, 2], np.int32), slice(None, 2))),
        label="short index",
    ),
    Sample(
        "Tensor.__getitem__",
        (normal(3, 4, 2), (np.array([0, 2], np.int32), slice(None), np.array([1, 0]))),
        label="indices of two types",
    ),
    Sample("masked_fill", (normal(3, 4), MASK, -np.inf)),
    Sample("masked_fill", (normal(3, 4), MASK, normal()), label="tensor"),
    Sample("masked_fill", (normal(4), MASK, 1), label="broadcast"),
    Sample("masked_fill", (integers(3, 4), MASK[0], 2.5), label="integers"),
    Sample("masked_fill", (integers(3, 4), MASK[0], 2j), label="integers, complex"),
    Sample("masked_fill", (integers(3, 4), MASK[0], np.array(2j)), label="integers, a complex tensor", frozen=(2,)),
    Sample("masked_fill", (integers(3, 4), MASK[0], np.array(2.5)), label="integers, a tensor", frozen=(2,)),
    Sample("Tensor.masked_fill", (normal(), np.array(True), 2.0), label="0-d"),
    Sample("masked_scatter", (normal(3, 4), MASK, normal(2, 3, seed=1))),
    Sample("masked_scatter", (normal(4), MASK, normal(7, seed=1)), label="broadcast"),
    Sample("Tensor.masked_scatter", (normal(3, 4), MASK[0], normal(8, seed=1)), label="broadcast mask"),
    Sample("select_scatter", (normal(3, 4), normal(3, seed=1), 1, -1)),
    Sample("Tensor.select_scatter", (normal(3, 4, dtype="float32"), normal(4), 0, 2), label="other type"),
    Sample("slice_scatter", (normal(3, 4), normal(3, 2, seed=1), 1, 0, 4, 2)),
    Sample("slice_scatter", (normal(3, 4), normal(1, 4, seed=1)), {"start": -1}, label="negative"),
    Sample("Tensor.slice_scatter", (normal(3, 4), normal(0, 4), 0, 2, 1), label="empty"),
    Sample("diagonal_scatter", (normal(3, 4), normal(3, seed=1), 1)),
    Sample("Tensor.diagonal_scatter", (normal(2, 3, 4), normal(3, 2), -1, 2, 0), label="axes"),
    # PyTorch's gradient of the input is the part that was replaced, not the rest
    Sample("as_strided_scatter", (normal(3, 4), normal(2, 4, seed=1), (2, 4), (4, 1), 1), order=0),
    Sample("searchsorted", (np.array([1.0, 3.0, 3.0, 5.0]), np.array([0.0, 1.0, 3.0, 6.0, np.nan]))),
    Sample("searchsorted", (np.array([1.0, 3.0, 3.0]), np.array([1.0, 3.0])), {"right": True}, label="right"),
    Sample("searchsorted", (np.array([1.0, 3.0]), 2), {"out_int32": True}, label="number"),
    Sample("searchsorted", (np.sort(normal(2, 5)), normal(2, 3)), {"side": "right"}, label="rows"),
    Sample("searchsorted", (np.array([3, 1, 2]), np.array([[2, 9]])), {"sorter": np.array([1, 2, 0])}, label="sorter"),
    Sample("searchsorted", (np.array([1, 2]), np.zeros((0, 3))), label="empty"),
    Sample("searchsorted", (np.array([0.0, 1.0, np.nan]), np.array([np.nan, 0.5, 2.0])), label="NaN"),
    Sample("searchsorted", (np.array([0.0, np.nan, 1.0]), -1.0), {"right": True}, label="NaN between"),
    Sample("bucketize", (np.array([[3, 6, 9]]), np.array([1.0, 3.0, 5.0, 7.0, 9.0]))),
    Sample("bucketize", (3.0, np.array([1.0, 3.0])), {"right": True, "out_int32": True}, label="number"),
    Sample("isin", (integers(3, 4), np.array([1, 2]))),
    Sample("isin", (integers(3), normal(2, 2).round()), {"invert": True}, label="types"),
    Sample("isin", (2, integers(3)), {"assume_unique": True}, label="number"),
    Sample("isin", (normal(3), np.zeros(0)), label="empty"),
    Sample("_convert_indices_from_coo_to_csr", (np.array([0, 0, 2, 3, 3]), 5)),
    Sample("_convert_indices_from_coo_to_csr", (np.array([0, 2]), 3), {"out_int32": True}, label="int32"),
    Sample("_convert_indices_from_csr_to_coo", (np.array([0, 2, 2, 3]), np.array([1, 4, 0]))),
    Sample(
        "_convert_indices_from_csr_to_coo",
        (np.array([0, 2, 2, 3]), np.array([1, 4, 0])),
        {"transpose": True, "out_int32": True},
        label="transpose",
    ),
]
