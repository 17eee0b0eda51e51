"""Small graphs on NumPy's arrays: the results are those of JAX's primitives, in value, shape and type."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax

from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import ShapedArray, typeof
from fgrad.record.recording import stage_closed
from fgrad.run.small import LENGTH_LIMIT, SIZE_LIMIT, small
from tests.run.test_numbers import SPECIAL, graph_of


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def assert_as_evaluated(graph: Graph, flat: list[Any]) -> None:
    """Compare the two; NaNs are equal, and what XLA flushes to zero is small."""
    run = small(graph)
    assert run is not None
    with np.errstate(all="ignore"):
        mine = run([np.asarray(x) for x in flat])
    for found, type, other in zip(mine, graph.out_types, evaluate(graph, flat), strict=True):
        assert found.__class__ is np.ndarray
        assert (found.shape, found.dtype) == (type.shape, type.dtype)
        assert not found.flags.writeable
        assert found.flags.c_contiguous
        tolerance = 1e-5 if found.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, np.asarray(other), rtol=tolerance, atol=1e-37)


#: special values without subnormal numbers, which XLA flushes to zero
VALUES = {
    name: values[~((values != 0) & (np.abs(values) < np.finfo(name).tiny))] if name.startswith("float") else values
    for name, values in SPECIAL.items()
}


def test_what_is_not_elementwise_or_not_small_is_left():
    x = ShapedArray((4, 4), np.dtype("float32"))
    assert small(stage_closed(lambda x: [x @ x], [x])) is None
    assert small(stage_closed(lambda x: [x], [x])) is None
    large = ShapedArray((SIZE_LIMIT + 1,), np.dtype("float32"))
    assert small(stage_closed(lambda x: [-x], [large])) is None

    def long(x: Any) -> list[Any]:
        for _ in range(LENGTH_LIMIT + 1):
            x = x * x
        return [x]

    assert small(stage_closed(long, [x])) is None
    half = ShapedArray((4,), np.dtype("float16"))
    assert small(stage_closed(lambda x: [-x], [half])) is None


UNARY = ("abs", "ceil", "exp", "floor", "neg", "sqrt", "square", "tanh")


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in UNARY for d in ("float32", "float64") if (n, d) != ("exp", "float32")]
)
def test_functions(name: str, dtype: str):
    values = np.concatenate([VALUES[dtype], np.random.default_rng(0).standard_normal(200).astype(dtype)])
    assert_as_evaluated(*graph_of(getattr(lax, name), [values]))


BINARY = ("add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge")


DTYPES = ("float32", "float64", "int8", "int64", "uint8")


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in BINARY for d in DTYPES if n != "div" or d.startswith("float")]
)
def test_of_two(name: str, dtype: str):
    left, right = (x.ravel() for x in np.meshgrid(VALUES[dtype], VALUES[dtype]))
    assert_as_evaluated(*graph_of(getattr(lax, name), [left, right]))


SHAPES = ((), (3,), (4, 3), (4, 1), (1, 3), (2, 4, 3))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_broadcasting(data: Any):
    """Sums, selections, powers and conversions of operands of many shapes."""
    shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=2, max_size=3))
    steps = data.draw(st.lists(st.sampled_from(("mul", "add", "where", "sum", "cube", "int", "exp")), max_size=4))
    flat = [jnp.arange(1, 1 + np.prod(s, dtype=int), dtype="float64").reshape(s) / 8 for s in shapes]

    def function(*xs: Any) -> list[Any]:
        y = xs[0]
        for step, x in zip(steps, [*xs[1:], *xs, *xs], strict=False):
            match step:
                case "mul":
                    y = y * x
                case "add":
                    y = x + y
                case "where":
                    y = jnp.where(x > 1, x, y)
                case "sum":
                    y = y.sum(axis=0) if y.ndim else y
                case "cube":
                    y = y**3
                case "int":
                    y = y * (x > 1)
                case _:
                    y = jnp.exp(-y)
        return [y + 0.5 * xs[-1]]

    graph = stage_closed(function, tuple(map(typeof, flat)))
    if small(graph) is None:
        # the sum of what is not yet of its shape
        assert len(graph.nodes) > LENGTH_LIMIT or "sum" in steps
    else:
        assert_as_evaluated(graph, flat)


def test_an_operand_of_one_number_is_not_spread():
    x, y = np.ones((3, 4), "float32"), np.float32(2)
    graph, flat = graph_of(lambda x, y: jnp.where(x > y, x * y, -y), [x, y])
    assert_as_evaluated(graph, flat)
    assert_as_evaluated(*graph_of(lambda a, b: a[:, None] * b, [np.arange(3.0), np.arange(4.0)]))


MOVES = {
    "transpose": lambda x: jnp.transpose(x, (2, 0, 1)),
    "slice": lambda x: x[1:, ::2],
    "flip": lambda x: x[:, ::-1] * 2,
    "reshape of a transpose": lambda x: jnp.swapaxes(x, 0, 1).reshape(-1),
    "joined": lambda x: jnp.concatenate([x, x + 1], 1),
    "padded": lambda x: lax.pad(x, 0.5, ((1, 0, 1), (0, 2, 0), (0, 0, 0))),
    "window": lambda x: lax.dynamic_slice(x, (1, 7, 0), (1, 2, 3)),
    "written": lambda x: lax.dynamic_update_slice(x, x[:1, :1] * 3, (0, 1, 0)),
    "sum of a transpose": lambda x: jnp.transpose(x).sum(0),
}


@pytest.mark.parametrize("name", MOVES)
def test_movements(name: str):
    graph, flat = graph_of(MOVES[name], [np.arange(24.0).reshape(2, 3, 4)])
    assert_as_evaluated(graph, flat)


def test_functions_that_xla_computes_better_are_left_to_it():
    for function in (jnp.exp, jnp.sin, jnp.log):
        assert small(graph_of(function, [np.ones(3, "float32")])[0]) is None


def test_subnormal_numbers_are_kept():
    values = np.array([1e-40], "float32")
    graph, _ = graph_of(lambda x: x * 1, [values])
    run = small(graph)
    assert run is not None
    assert run([values])[0][0] == values[0] != 0
