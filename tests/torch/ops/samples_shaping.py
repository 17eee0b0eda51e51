"""Samples of what joins, repeats and moves elements."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

MATRIX = normal(3, 4)
VECTOR = normal(3)
SCALAR = np.array(1.5)
EMPTY = np.zeros(0)

SAMPLES: list[Sample] = [
    Sample("cat", ([MATRIX, normal(2, 4)],)),
    Sample("cat", ((MATRIX, normal(3, 1)), -1), label="negative axis"),
    Sample("cat", ([MATRIX.astype("float32"), MATRIX, integers(1, 4)],), label="types"),
    Sample("cat", ([MATRIX, EMPTY],), label="legacy empty"),
    Sample("cat", ([np.zeros((0, 3)), normal(2, 3)],), label="empty"),
    Sample("concat", ([VECTOR, VECTOR],), {"dim": 0}),
    Sample("concatenate", ([VECTOR, VECTOR],), {"axis": 0}),
    Sample("stack", ([MATRIX, normal(3, 4, seed=1)],)),
    Sample("stack", ([MATRIX, normal(3, 4, seed=1)], -1), label="last"),
    Sample("stack", ([SCALAR, np.array(2)],), label="0-d"),
    Sample("hstack", ([MATRIX, normal(3, 2)],)),
    Sample("hstack", ([VECTOR, SCALAR],), label="vectors"),
    Sample("vstack", ([MATRIX, normal(4)],)),
    Sample("row_stack", ([VECTOR, VECTOR],)),
    Sample("dstack", ([VECTOR, normal(1, 3, 2)],)),
    Sample("dstack", ([SCALAR, SCALAR],), label="0-d"),
    Sample("column_stack", ([VECTOR, normal(3, 2)],)),
    Sample("block_diag", (VECTOR, MATRIX, SCALAR)),
    Sample("block_diag", (MATRIX, integers(2)), label="types"),
    Sample("Tensor.repeat", (MATRIX, 2, 3)),
    Sample("Tensor.repeat", (VECTOR, (2, 1, 2)), label="new axes"),
    Sample("Tensor.repeat", (SCALAR, 2), label="0-d"),
    Sample("Tensor.repeat", (MATRIX, 0, 1), label="empty"),
    Sample("tile", (MATRIX, (2,))),
    Sample("Tensor.tile", (MATRIX, 2, 1, 2), label="new axes"),
    Sample("repeat_interleave", (MATRIX, 2)),
    Sample("repeat_interleave", (MATRIX, 2, -1), label="axis"),
    Sample("repeat_interleave", (MATRIX, np.array([1, 0, 2]), 0), label="counts"),
    Sample("repeat_interleave", (MATRIX, np.array([2]), 1), label="one count"),
    Sample("repeat_interleave", (np.array([1, 0, 2]),), label="places"),
    Sample("Tensor.repeat_interleave", (SCALAR, 3), label="0-d"),
    Sample("roll", (MATRIX, 1)),
    Sample("roll", (MATRIX, (1, -2), (0, -1)), label="axes"),
    Sample("roll", (MATRIX, 7, 1), label="far"),
    Sample("Tensor.roll", (SCALAR, 1), label="0-d"),
    Sample("roll", (normal(0, 3), 1, 0), label="empty", results=lambda found: tuple(found.shape)),
    Sample("flip", (MATRIX, [0])),
    Sample("Tensor.flip", (MATRIX, 0, -1), label="axes"),
    Sample("flip", (SCALAR, ()), label="0-d"),
    Sample("fliplr", (MATRIX,)),
    Sample("flipud", (VECTOR,)),
    *[Sample("rot90", (MATRIX, k), label=str(k)) for k in (-1, 0, 1, 2, 3)],
    Sample("Tensor.rot90", (normal(2, 3, 4), 1, [2, 1]), label="axes"),
    Sample("atleast_1d", (SCALAR,)),
    Sample("atleast_2d", (SCALAR, VECTOR)),
    Sample("atleast_3d", ([SCALAR, VECTOR, MATRIX, normal(2, 3, 4)],)),
    Sample("broadcast_tensors", (VECTOR, normal(2, 1), SCALAR)),
    Sample("broadcast_shapes", ((3, 1), 4, (2, 1, 1))),
    Sample("meshgrid", (VECTOR, normal(2)), {"indexing": "ij"}),
    Sample("meshgrid", ([VECTOR, SCALAR, normal(2)],), {"indexing": "xy"}, label="xy"),
    Sample("cartesian_prod", (VECTOR, normal(2))),
    Sample("cartesian_prod", (VECTOR,), label="one"),
    Sample("combinations", (VECTOR,)),
    Sample("combinations", (VECTOR, 3), {"with_replacement": True}, label="replacement"),
    Sample("combinations", (VECTOR, 0), label="none", names=False),
]
