"""Operands brought together, as JAX's own functions do it."""

import itertools
from typing import Any

import numpy as np
import pytest
from jax import numpy as jnp

from fgrad.mutable.values.evaluation import array_type, recorded
from fgrad.seam import evaluate, with_x64
from fgrad.torch.ops.table.broadcasting import choose

pytestmark = pytest.mark.fast

SHAPES = ((), (1,), (3,), (2, 1), (2, 3), (0, 3))
TYPES = ("bool", "int32", "int64", "bfloat16", "float32", "complex64")
NUMBERS = (0, True, -1.5, float("inf"), 2j, np.float32(2))


def graph_and_value(function: Any, arrays: Any) -> tuple[Any, Any]:
    graph = recorded(lambda *xs: [function(*xs)], [array_type(x.shape, x.dtype) for x in arrays])
    return graph.types[graph.outputs[0]], np.asarray(with_x64(evaluate, graph, arrays)[0])


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", [*TYPES, *NUMBERS], ids=str)
def test_choices_are_those_of_where(first: str, second: Any):
    made = np.random.RandomState(0)
    for shapes in itertools.islice(itertools.product(SHAPES, repeat=3), 0, None, 7):
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            continue
        condition, x, y = (made.randint(0, 3, shape) for shape in shapes)
        arrays = [condition.astype("bool" if made.rand() < 0.7 else "int32"), x.astype(jnp.dtype(first))]
        if isinstance(second, str):
            arrays.append(y.astype(jnp.dtype(second)))

        def run(where: Any, arrays: Any = arrays) -> Any:
            of_numbers = where if isinstance(second, str) else lambda c, x: where(c, second, x)
            return graph_and_value(of_numbers, arrays)

        (our_type, ours), (their_type, theirs) = run(choose), run(jnp.where)
        assert our_type == their_type
        np.testing.assert_array_equal(ours, theirs)
