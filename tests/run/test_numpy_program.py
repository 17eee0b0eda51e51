"""Small graphs on NumPy's arrays: the results are those of JAX's primitives, in value, shape and type."""

import linecache
import tracemalloc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax

from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import ShapedArray, typeof
from fgrad.record.stager import stage_closed
from fgrad.run.executable import Executable
from fgrad.run.numpy_program import LARGEST, LAUNCH, LINE, numpy_program
from fgrad.run.policy import POLICIES, operations
from tests.run.test_kernels import SPECIAL, graph_of


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def assert_as_evaluated(graph: Graph, flat: list[Any]) -> None:
    """Compare the two; NaNs are equal, and what XLA flushes to zero is small."""
    found = numpy_program(graph)
    assert found is not None
    with np.errstate(all="ignore"):
        mine = found.run([np.asarray(x) for x in flat])
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
    assert numpy_program(stage_closed(lambda x: [lax.igamma(x, x)], [x])) is None
    assert numpy_program(stage_closed(lambda x: [x], [x])) is None
    large = ShapedArray((LARGEST + 1,), np.dtype("float32"))
    assert numpy_program(stage_closed(lambda x: [-x], [large])) is None
    tiny = ShapedArray((4,), np.dtype(jnp.float8_e5m2))
    assert numpy_program(stage_closed(lambda x: [-x], [tiny])) is None


def test_few_elements_of_a_large_array_are_small():
    """A gather touches what it reads; other readers of the array touch all of it."""
    types = [ShapedArray((LARGEST, 2), np.dtype("float32")), ShapedArray((3,), np.dtype("int32"))]

    def taken(x: Any, i: Any) -> Any:
        return lax.dynamic_index_in_dim(x, i[0]), x.at[i].get(mode="promise_in_bounds")

    graph = stage_closed(taken, types)
    program = numpy_program(graph)
    assert program is not None
    assert program.largest == 6
    assert program.excess < 0
    x, i = np.arange(2.0 * LARGEST, dtype=np.float32).reshape(-1, 2), np.array([5, 1, 7], np.int32)
    row, rows = program.run([x, i])
    assert row.tolist() == [[10.0, 11.0]]
    assert rows.tolist() == x[i].tolist()
    assert numpy_program(stage_closed(lambda x, i: (*taken(x, i), x.sum()), types)) is None


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branches(index):
    def chosen(i: Any, x: Any, y: Any) -> Any:
        branches = [lambda x, y: (y, x), lambda x, y: (x + y, jnp.ones(3)), lambda x, y: (x.sum() * y, y[::-1])]
        return list(lax.switch(i, branches, x, y))

    args = np.int32(index), np.arange(3.0), np.ones(3)
    graph, flat = graph_of(chosen, args)
    assert_as_evaluated(graph, flat)
    program = numpy_program(graph)
    assert program is not None
    program.run([np.asarray(x) for x in args])
    assert all(x.flags.writeable for x in args[1:])


def test_a_linear_solve_is_its_solver():
    def solved(a: Any, b: Any) -> Any:
        return [jnp.linalg.solve(a, b), jax.grad(lambda b: jnp.linalg.solve(a, b).sum())(b)]

    graph, flat = graph_of(solved, (np.array([[4.0, 1.0], [2.0, 3.0]]), np.ones(2)))
    assert "custom_linear_solve" in str(graph)
    assert_as_evaluated(graph, flat)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_loops(length, reverse):
    def loop(w, c, xs):
        def step(carry, x):
            i, before, c = carry
            new = lax.tanh(w @ c + x * i + before)
            return (i + 1, c, new), (new * 2, before, lax.scan(lambda a, b: (a * b, a), c[0], c)[1])

        return jax.tree.leaves(lax.scan(step, (0, c, c + 1), xs, reverse=reverse))

    numbers = np.random.default_rng(0)
    flat = [numbers.standard_normal(shape).astype("float32") for shape in ((3, 3), (3,), (length, 3))]
    graph = stage_closed(loop, [typeof(jnp.asarray(x)) for x in flat])
    assert "scan" in [node.op.name for node in graph.nodes]
    assert_as_evaluated(graph, flat)
    assert all(x.flags.writeable for x in flat)


def test_a_loop_that_numpy_cannot_run_is_left():
    x = ShapedArray((4,), np.dtype("float32"))
    graph = stage_closed(lambda x: [lax.scan(lambda c, a: (lax.igamma(c, a), a), x, x)[0]], [x])
    assert numpy_program(graph) is None


def _lasts(function: Any, *types: ShapedArray) -> bool:
    executable = Executable(stage_closed(function, types), operations)
    executable.begin()
    return executable.numpy is not None


def test_how_long_numpy_runs_it():
    def long(x: Any) -> list[Any]:
        for _ in range(LAUNCH // LINE + 1):
            x = x * x
        return [x]

    x = ShapedArray((4, 4), np.dtype("float32"))
    assert _lasts(lambda x: [x * x], x)
    assert not _lasts(long, x)
    # a function takes NumPy longer than arithmetic, and so fewer elements of it are few
    most_kept = POLICIES["default"].operations.numpy_kept_size
    most, more = (ShapedArray((n,), np.dtype("float32")) for n in (most_kept, most_kept + 1))
    assert _lasts(lambda x: [-x], most)
    assert not _lasts(lambda x: [-x], more)
    few, many = (ShapedArray((n,), np.dtype("float32")) for n in (1000, 30000))
    assert _lasts(lambda x: [jnp.sin(x)], few)
    assert not _lasts(lambda x: [jnp.sin(x)], many)


IN_BOTH = ("abs", "ceil", "exp", "floor", "neg", "sign", "sqrt", "square", "tanh")
BY_DOUBLE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "log", "log1p", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
SINGLE = ("logistic", "rsqrt")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((n, "float32") for n in sorted({*IN_BOTH, *BY_DOUBLE, *SINGLE})), *((n, "float64") for n in IN_BOTH)],
)
def test_functions(name: str, dtype: str):
    values = np.concatenate([VALUES[dtype], np.random.default_rng(0).standard_normal(200).astype(dtype)])
    assert_as_evaluated(*graph_of(getattr(lax, name), [values]))


@pytest.mark.parametrize("name", BY_DOUBLE)
def test_functions_give_the_nearest_number(name: str):
    """See NOTE [Functions by way of double precision]."""
    values = np.random.default_rng(0).uniform(0.1, 0.9, 500).astype("float32")
    values = values + 1 if name == "acosh" else values
    found = numpy_program(graph_of(getattr(lax, name), [values])[0])
    assert found is not None
    exact = np.asarray(getattr(lax, name)(values.astype("float64")))
    # half a unit in the last place, and what the last places of double precision make of it
    assert np.all(np.abs(found.run([values])[0] - exact) <= 0.5001 * np.spacing(np.abs(exact).astype("float32")))


#: the functions of many numbers in single precision, with the greatest error in units in the last place
BY_SIZE = {"cos": 1.6, "erf": 6, "exp": 2.6, "log": 3.1, "log1p": 4.5, "logistic": 3.5, "sin": 1.6, "tanh": 1.5}


@pytest.mark.parametrize("name", BY_SIZE)
def test_functions_of_many_numbers_are_nearly_exact(name: str):
    random = np.random.default_rng(0)
    values = np.concatenate([random.standard_normal(3000) * scale for scale in (1e-20, 1e-3, 1, 6)]).astype("float32")
    values = np.abs(values) if name in ("log", "log1p") else values
    (computed,) = _many(name, values)
    exact = np.asarray(getattr(lax, name)(values.astype("float64")))
    assert np.all(np.abs(computed - exact) <= BY_SIZE[name] * np.spacing(np.abs(exact).astype("float32")))


def test_what_depends_on_numbers_alone_is_computed_once_for_equal_ones():
    types = [ShapedArray((3,), np.dtype("float32")), ShapedArray((), np.dtype("float32"), weak_type=True)]
    graph = stage_closed(lambda x, n: [x * (jnp.exp(n) + 1)], types)
    program = numpy_program(graph)
    assert program is not None
    x, number = np.ones(3, "float32"), np.asarray(2, "float32")
    expected = np.full(3, np.exp(2) + 1, "float32")
    for run in (number, number, np.asarray(1, "float32"), number):
        (result,) = program.run([x, run])
        np.testing.assert_allclose(result, expected if run is number else np.exp(1) + 1, rtol=1e-6)
    # the mutable layer never writes to the array of a number; here it shows that the first result is kept
    number[...] = 5
    np.testing.assert_allclose(program.run([x, number])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", BY_SIZE)
def test_functions_of_many_numbers_have_the_same_ends(name: str):
    ends = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e38, -1e38, 1e-38, -1, 5, -5, 90, -90], "float32")
    (computed,) = _many(name, np.concatenate([ends, np.ones(3000, "float32")]))
    (expected,) = _many(name, ends)
    np.testing.assert_allclose(computed[: len(ends)], expected, rtol=1e-6)
    assert np.array_equal(np.signbit(computed[: len(ends)]), np.signbit(expected)) or name in ("log", "log1p")


def _many(name: str, values: np.ndarray) -> list[np.ndarray]:
    program = numpy_program(graph_of(getattr(lax, name), [values])[0])
    assert program is not None
    with np.errstate(all="ignore"):
        return program.run([values])


def test_a_large_value_is_freed_after_its_last_use():
    x = np.ones(1 << 20, "float32")
    program = numpy_program(graph_of(lambda x: jnp.sum(jnp.cumsum(jnp.cumsum(jnp.cumsum(jnp.cumsum(x))))), [x])[0])
    assert program is not None
    tracemalloc.start()
    program.run([x])
    assert tracemalloc.get_traced_memory()[1] < 3.5 * x.nbytes
    tracemalloc.stop()


BINARY = ("atan2", "pow", "add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge")


DTYPES = ("float32", "float64", "int8", "int64", "uint8")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (n, d)
        for n in BINARY
        for d in DTYPES
        if (n not in ("atan2", "pow") or d == "float32") and (n != "div" or d.startswith("float"))
    ],
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
    assert_as_evaluated(graph, flat)


def test_an_operand_of_one_number_is_not_spread():
    x, y = np.ones((3, 4), "float32"), np.float32(2)
    graph, flat = graph_of(lambda x, y: jnp.where(x > y, x * y, -y), [x, y])
    assert_as_evaluated(graph, flat)
    assert_as_evaluated(*graph_of(lambda a, b: a[:, None] * b, [np.arange(3.0), np.arange(4.0)]))


@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
def test_a_choice_among_many_elements(kind: str):
    which, no, yes = np.random.default_rng(0).standard_normal((3, 70, 100))
    no[0, :2] = -0.0, np.nan
    if kind != "float32":
        no, yes = np.nan_to_num(10 * no), 10 * yes
    run = [which > 0, no.astype(kind), yes.astype(kind)]
    assert_as_evaluated(*graph_of(lambda which, no, yes: lax.select(which, yes, no), run))
    assert_as_evaluated(*graph_of(lambda which, no, yes: jnp.where(which, yes, no[0, 0]), run))


@pytest.mark.parametrize("read_twice", [False, True])
def test_the_transpose_of_a_product(read_twice: bool):
    def function(x: Any, y: Any) -> Any:
        product = x.T @ y
        return (product.T, product) if read_twice else 2 * product.T

    x, y = np.random.default_rng(0).standard_normal((2, 5, 3)).astype("float32")
    graph, flat = graph_of(function, [x, y[:, :2]])
    assert_as_evaluated(graph, flat)


def test_what_is_computed_twice_has_one_line():
    def function(x: Any) -> Any:
        centred = x - (x.sum(0) / 3)[None]
        again = x - (x.sum(0) / jnp.full((4,), 3.0))[None]
        product = x.T @ x
        return centred, again, (x.T @ x).T, product + 1, -(x * 0.0), -(x * -0.0), (again**2).sum(0)

    graph, flat = graph_of(function, [np.random.default_rng(0).standard_normal((3, 4))])
    assert_as_evaluated(graph, flat)
    program = numpy_program(graph)
    lines = linecache.getlines(program.run.__code__.co_filename)
    assert [sum(f" = {name}_" in line for line in lines) for name in ("sub", "dot_general")] == [1, 1]


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


@jax.custom_jvp
def halved(x: Any) -> Any:
    return x * 0.5


halved.defjvp(lambda xs, ts: (halved(*xs), ts[0]))

OTHERS = {
    "greatest": lambda x: [x.max(1), x.min(), (x > 1).any(0), (x > 1).all()],
    "places of the greatest": lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 2)],
    "running sums": lambda x: [jnp.cumsum(x, 1)],
    "products": lambda x: [jnp.prod(x, 1), jnp.prod(x)],
    "clamped": lambda x: [lax.clamp(1.0, x, 5.0), jnp.sign(x - 3)],
    "stacked": lambda x: [jnp.stack([x, -x], 1)],
    "triangle": lambda x: [jnp.tril(x)],
    "spread": lambda x: [jnp.broadcast_to(x[:, :1], x.shape), jnp.broadcast_to(x.sum(), (2, 3))],
    "sum of what is spread": lambda x: [jnp.broadcast_to(x[:, :1], x.shape).sum(1)],
    "calls": lambda x: [halved(halved(x)) + 1],
    "the same twice": lambda x: [x + 1, x, x + 1],
    "what does not depend on it": lambda x: [x + 1, jnp.arange(3.0)],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operations(name: str):
    types = (typeof(jnp.arange(24.0).reshape(2, 3, 4)),)
    assert_as_evaluated(stage_closed(OTHERS[name], types), [jnp.arange(24.0).reshape(2, 3, 4)])


PRODUCTS = [
    # shapes, contracted axes, batch axes
    ((4, 3), (3, 5), ((1,), (0,)), ((), ())),
    ((3, 4), (5, 3), ((0,), (1,)), ((), ())),
    ((3,), (3,), ((0,), (0,)), ((), ())),
    ((4, 3), (3,), ((1,), (0,)), ((), ())),
    ((2, 4, 3), (3, 5), ((2,), (0,)), ((), ())),
    ((2, 4, 3), (2, 3, 5), ((2,), (1,)), ((0,), (0,))),
    ((2, 4, 3), (3, 5, 2), ((2,), (0,)), ((0,), (2,))),
    ((2, 6, 4, 3), (6, 2, 3), ((3,), (2,)), ((0, 1), (1, 0))),
    ((2, 4, 3), (4, 2, 5), ((0, 1), (1, 0)), ((), ())),
    ((4,), (5,), ((), ()), ((), ())),
    ((2, 4), (2, 5), ((), ()), ((0,), (0,))),
    ((4, 0), (0, 5), ((1,), (0,)), ((), ())),
]


@pytest.mark.parametrize(("left", "right", "contracted", "batch"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(left: Any, right: Any, contracted: Any, batch: Any, dtype: str):
    rng = np.random.default_rng(0)
    flat = [rng.standard_normal(shape).astype(dtype) for shape in (left, right)]
    assert_as_evaluated(*graph_of(lambda x, y: lax.dot_general(x, y, (contracted, batch)), flat))


def test_what_is_computed_beforehand_warns_of_nothing():
    zero = jnp.zeros(2)
    assert_as_evaluated(*graph_of(lambda x: x + 1 / zero, [np.ones(2, "float32")]))


GATHERS = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: jnp.take(x, i, axis=1),
    "columns of columns": lambda x, i: jnp.take(x, i.reshape(-1, 1), axis=1),
    "rows, the last one beyond": lambda x, i: jnp.take(x, i, axis=0, mode="clip"),
    "rows, none beyond": lambda x, i: jnp.take(x, i, axis=0, mode="fill"),
    "elements": lambda x, i: x[i, i[::-1]] if x.ndim == 2 else x[i, i[::-1], 0],
    "one of each row": lambda x, i: jnp.take_along_axis(x, i[:3, None], 1),
    "one of each column": lambda x, i: jnp.take_along_axis(x, i[None, :3], 0),
    "one of each row, none beyond": lambda x, i: jnp.take_along_axis(x, i[:3, None], 1, mode="fill"),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str):
    places = np.array([0, 2, -1, 7, -9])
    for shape in ((3, 3),) if name.startswith("one") else ((3, 3), (3, 3, 2)):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        assert_as_evaluated(*graph_of(GATHERS[name], [x, places]))


OTHER_GATHERS = {
    "windows": lambda x, i: jax.vmap(lambda j: lax.dynamic_slice(x, (j, 0), (1, 2)))(i),
    "filled": lambda x, i: jnp.take(x, i, axis=0, mode="fill", fill_value=7.0),
    "promised": lambda x, i: x.at[i[:2]].get(mode="promise_in_bounds", wrap_negative_indices=False),
}


@pytest.mark.parametrize("name", OTHER_GATHERS)
def test_other_gathers(name: str):
    x, at = np.arange(12, dtype="float32").reshape(3, 4), np.array([0, 2, 5])
    assert_as_evaluated(*graph_of(OTHER_GATHERS[name], [x, at]))


SCATTERS = {
    "rows": lambda x, i, u: x.at[i].set(u),
    "rows added": lambda x, i, u: x.at[i].add(u),
    "columns added": lambda x, i, u: x.at[:, i].add(u.T),
    "elements": lambda x, i, u: x.at[i, i[::-1]].set(u[:, 0]),
    "elements added": lambda x, i, u: x.at[i, i[::-1]].add(u[:, 0]),
    "elements promised": lambda x, i, u: x.at[i[::4], i[:2]].add(u[:2, 0], mode="promise_in_bounds"),
    "rows, clipped": lambda x, i, u: x.at[i].add(u, mode="clip"),
    "batch": lambda x, i, u: jax.vmap(lambda row, j, v: row.at[j].add(v))(x, i[:4], u[:4, 0]),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name: str):
    places = np.array([0, 2, -1, 7, 2])
    x = np.arange(16, dtype="float32").reshape(4, 4)
    assert_as_evaluated(*graph_of(SCATTERS[name], [x, places, np.arange(20, dtype="float32").reshape(5, 4) / 3]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_sorts(dtype: str):
    values = np.random.default_rng(0).permuted(np.tile(VALUES.get(dtype, np.array([True, False])), (3, 2)), axis=1)
    for axis in (0, 1):
        assert_as_evaluated(*graph_of(lambda x, axis=axis: lax.sort(x, axis), [values]))
        places = lax.broadcasted_iota(np.int32, values.shape, axis)
        assert_as_evaluated(*graph_of(lambda x, i, axis=axis: lax.sort((x, i), axis, num_keys=1), [values, places]))


@pytest.mark.parametrize("new", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_real_numbers_as_integers(new: str):
    ends = np.array([np.iinfo(new).min, np.iinfo(new).max], "float64")
    values = np.array([0, 0.9, -0.9, 3.5, -3.5, np.inf, -np.inf, np.nan, 1e30, -1e30, *ends, *(ends - 1), *(ends + 1)])
    for old in ("float32", "float64"):
        assert_as_evaluated(*graph_of(lambda x: x.astype(new), [values.astype(old)]))
        assert_as_evaluated(*graph_of(lambda x: x.astype(new), [np.array([1.5, 2.5], old)]))


def test_subnormal_numbers_are_kept():
    values = np.array([1e-40], "float32")
    graph, _ = graph_of(lambda x: x * 1, [values])
    found = numpy_program(graph)
    assert found is not None
    assert found.run([values])[0][0] == values[0] != 0


def test_a_constant_is_broadcast_once(monkeypatch):
    """As the zeros of a slice's gradient are: at each run that would take longer than the rest."""

    def placed(x: Any, start: Any) -> list[Any]:
        return [lax.dynamic_update_slice(jnp.zeros((5, 4)), x, (start, np.int64(1)))]

    args = [np.arange(6.0).reshape(2, 3), np.int64(2)]
    graph = stage_closed(placed, [typeof(x) for x in args])
    assert_as_evaluated(graph, args)
    program = numpy_program(graph)
    assert program is not None
    monkeypatch.setattr(np, "broadcast_to", None)
    np.testing.assert_array_equal(program.run([np.asarray(x) for x in args])[0][2:4, 1:], args[0])
