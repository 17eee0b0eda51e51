"""What NumPy computes in place of JAX's primitives: the same bits, on special values and on every rule's samples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import primitive, typeof
from fgrad.record.stager import stage_closed
from fgrad.run.interpreter import interpret
from fgrad.run.kernels.kernel import TABLE, exact_kernel, kernel, kernel_as_xla
from tests.rules.samples import Sample
from tests.rules.test_rules import SAMPLES


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def graph_of(function: Any, args: Any) -> tuple[Graph, list[Any]]:
    """The graph of a function whose results are arrays, or lists of them, and its flat arguments."""
    flat = [jnp.array(x) for x in jax.tree.leaves(args)]
    structure = jax.tree.structure(args)
    graph = stage_closed(
        lambda *xs: tuple(jax.tree.leaves(function(*jax.tree.unflatten(structure, xs)))), tuple(map(typeof, flat))
    )
    return graph, flat


def assert_same_bits(function: Any, *args: Any) -> None:
    """Exact kernels give the bits of JAX's primitives; the others give them up to rounding."""
    graph, flat = graph_of(function, args)
    if not all(exact_kernel(node.op) for node in graph.nodes):
        for mine, other in zip(interpret(graph, flat, kernel_as_xla), evaluate(graph, flat), strict=True):
            mine, other = np.asarray(mine), np.asarray(other)
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
            single = mine.dtype in (np.float32, np.complex64)
            np.testing.assert_allclose(mine, other, rtol=3e-5 if single else 1e-12, atol=1e-5 if single else 1e-12)
    for mine, other in zip(interpret(graph, flat, exact_kernel), evaluate(graph, flat), strict=True):
        mine, other = np.asarray(mine), np.asarray(other)
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
        if mine.dtype.kind == "f":
            known = ~np.isnan(other)
            np.testing.assert_array_equal(np.signbit(mine[known]), np.signbit(other[known]))


with np.errstate(all="ignore"):
    SPECIAL = {
        name: np.array(
            [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-310, 3e38, 1e308, 0.5, 7, 1e-20, -1e-30]
        ).astype(name)
        for name in ("float32", "float64")
    }
SPECIAL |= {name: np.array([0, 1, -1, 5, -7, 100, 127, -128]).astype(name) for name in ("int8", "int32", "int64")}
SPECIAL |= {"uint8": np.array([0, 1, 5, 128, 255], "uint8"), "bool": np.array([False, True])}

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right_arithmetic", "shift_right_logical")
BINARY = {
    "f": ("add", "sub", "mul", "div", "rem", "max", "min", *COMPARISONS),
    "i": ("add", "sub", "mul", "div", "rem", "max", "min", *COMPARISONS, *BITS),
    "u": ("add", "sub", "mul", "div", "rem", "max", "min", *COMPARISONS, *BITS),
    "b": (*COMPARISONS, *BITS[:3]),
}
UNARY = {
    "f": ("neg", "abs", "sign", "floor", "ceil", "sqrt", "square", "is_finite"),
    "i": ("neg", "abs", "sign", "square", "bitwise_not", "population_count"),
    "u": ("sign", "square", "bitwise_not", "population_count"),
    "b": ("bitwise_not",),
}


@pytest.mark.parametrize("dtype", SPECIAL)
def test_arithmetic_of_special_values(dtype):
    values = SPECIAL[dtype]
    pairs = [x.ravel() for x in np.meshgrid(values, values)]
    numbers = np.random.default_rng(0)
    for name in BINARY[values.dtype.kind]:
        function = getattr(lax, name)
        assert_same_bits(function, *pairs)
        if values.dtype.kind == "f":
            assert_same_bits(function, *(numbers.standard_normal((2, 400)).astype(dtype)))
    for name in UNARY[values.dtype.kind]:
        assert_same_bits(getattr(lax, name), values)
        if values.dtype.kind == "f":
            assert_same_bits(getattr(lax, name), 10 * numbers.standard_normal(400).astype(dtype))


FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
    *("tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma", "rsqrt", "cbrt"),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_special_values(name, dtype):
    function = getattr(lax, name)
    assert_same_bits(function, SPECIAL[dtype])
    assert_same_bits(function, np.geomspace(1e-8, 50, 600, dtype=dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", [*FUNCTIONS, *UNARY["f"], *BINARY["f"]])
def test_halves(name, dtype):
    """They are rounded once."""
    function = getattr(lax, name)
    numbers = np.random.default_rng(0).standard_normal(400).astype(jnp.dtype(dtype))
    special = SPECIAL["float32"]
    with np.errstate(all="ignore"):
        special = special[(special == 0) | ~(np.abs(special) < 1e-37)].astype(numbers.dtype)
    for x in (special, numbers):
        graph, flat = graph_of(function, (x, x[::-1]) if name in BINARY["f"] else (x,))
        assert kernel(graph.nodes[-1].op)
        (mine,), (other,) = interpret(graph, flat, kernel_as_xla), evaluate(graph, flat)
        assert mine.dtype == other.dtype
        mine, other = [np.asarray(y, "float32") for y in (mine, other)]
        np.testing.assert_allclose(mine, other, rtol=2 * float(jnp.finfo(dtype).eps), atol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype):
    real, imag = np.random.default_rng(0).standard_normal((2, 2, 30))
    x, y = (real + 1j * imag).astype(dtype)
    for function in (lax.add, lax.sub, lax.mul, lax.div, lax.eq, lax.ne):
        assert_same_bits(function, x, y)
    for function in (lax.neg, lax.abs, lax.conj, lax.square, lax.real, lax.imag, jnp.sum, jnp.prod, jnp.cumsum):
        assert_same_bits(function, x)
    assert_same_bits(lax.complex, x.real, y.imag)
    assert_same_bits(jnp.matmul, x.reshape(5, 6), y.reshape(6, 5))
    assert_same_bits(lambda x, i, y: x.at[i].add(y).at[i[:3]].multiply(y[:3]), x, np.arange(30) % 7, y)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatters(dtype):
    x, y = np.random.default_rng(0).integers(-9, 9, (2, 30)).astype(dtype)
    i = np.arange(30) % 7
    for name in ("add", "subtract", "multiply", "max", "min"):
        assert_same_bits(lambda x, i, y, name=name: getattr(x.at[i], name)(y), x, i, y)


@pytest.mark.parametrize("dtype", SPECIAL)
def test_total_order(dtype):
    """As a search and a sort by several keys compare."""
    pairs = [x.ravel() for x in np.meshgrid(SPECIAL[dtype], SPECIAL[dtype])]
    for name in ("lt_to", "le_to"):
        assert_same_bits(lambda x, y, name=name: primitive(name).bind(x, y), *pairs)


@pytest.mark.parametrize("old, new", [("float32", "bfloat16"), ("bfloat16", "float32"), ("uint32", "float16")])
def test_bits_of_halves_read_as_numbers_of_another_size(old, new):
    x = jnp.arange(1, 5, dtype=old).reshape(2, 2)
    graph, flat = graph_of(lambda x: lax.bitcast_convert_type(x, new), (x,))
    for mine, other in zip(interpret(graph, flat, kernel), evaluate(graph, flat), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))


@pytest.mark.parametrize("types", [("int8", "int8", "int32"), ("bfloat16", "float32", "float32")])
def test_products_of_a_type_that_is_asked_for(types):
    left, right, out = types
    x, y = jnp.array([100, 3], left), jnp.array([77, 5], right)
    assert_same_bits(lambda x, y: lax.mul(x, y, out_dtype=out), x, y)


def test_bits_and_tiles():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    assert_same_bits(lambda x: lax.bitcast_convert_type(x, "int32"), x)
    assert_same_bits(lambda x: lax.bitcast_convert_type(x, "uint8"), x)
    assert_same_bits(lambda x: jnp.tile(x, (2, 1, 3)), x)
    assert_same_bits(lambda x: lax.cumlogsumexp(x, reverse=True), x)
    assert_same_bits(lambda x: lax.reduce_xor(x, axes=(0,)), np.array([3, 5, 6]))


@pytest.mark.parametrize("new", [*SPECIAL, "complex64", "complex128"])
@pytest.mark.parametrize("old", SPECIAL)
def test_conversions(old, new):
    if old.startswith("float") and "int" in new:
        assert_same_bits(lambda x: lax.convert_element_type(x, new), np.array([0.5, -3.7, 100.2], old))
    else:
        assert_same_bits(lambda x: lax.convert_element_type(x, new), SPECIAL[old])


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(dtype, power):
    numbers = np.concatenate([SPECIAL[dtype], np.random.default_rng(0).standard_normal(200).astype(dtype)])
    assert_same_bits(lambda x: lax.integer_pow(x, power), numbers)


@pytest.mark.parametrize("dtype", SPECIAL)
def test_places_of_extremes(dtype):
    values = np.random.default_rng(0).permuted(np.tile(SPECIAL[dtype], (20, 1)), axis=1)[:, :7]
    for function in (lax.argmax, lax.argmin):
        for axis in (0, 1):
            assert_same_bits(lambda x, function=function, axis=axis: function(x, axis, np.int32), values)


def _distinct(samples: list[Sample]) -> list[Any]:
    chosen = [s for s in samples if s.primitive in TABLE and not s.axis]
    slow = [pytest.mark.slow]
    return [
        pytest.param(s, i % 2 == 1, id=f"{s.primitive}-{s.label}-{i}", marks=slow if i % 4 else [])
        for i, s in enumerate(chosen)
    ]


@pytest.mark.parametrize(("sample", "double"), _distinct(SAMPLES))
def test_samples_of_rules(sample, double):
    if double:
        assert_same_bits(sample.fun, *sample.args)
        return
    single = jax.tree.map(lambda x: x.astype("float32") if x.dtype == "float64" else x, sample.args)
    try:
        jax.eval_shape(sample.fun, *single)
    except TypeError:  # it has double constants of its own
        return
    assert_same_bits(sample.fun, *single)


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds", "drop"])
def test_gathers_and_scatters_beyond_the_edge(mode):
    x = np.arange(20.0).reshape(4, 5)
    i = np.array([[-9, 0], [3, 1], [2, 2], [5, -1]]) if mode != "promise_in_bounds" else np.array([[0, 0], [3, 1]])
    read = "fill" if mode == "drop" else mode
    assert_same_bits(lambda x, i: x.at[i].get(mode=read), x, i)
    assert_same_bits(lambda x, i: x.at[i[:, 0], i[:, 1]].get(mode=read), x, i)
    assert_same_bits(lambda x, i: x.at[:, i[:, 1]].get(mode=read), x.astype(np.int32), i)
    for name in ("set", "add"):

        def write(place, update, name=name):
            return getattr(place, name)(update, mode=mode)

        assert_same_bits(lambda x, i, u, write=write: write(x.at[i[:, 0], i[:, 1]], u), x, i, x[: len(i), 0])
        assert_same_bits(lambda x, i, u, write=write: write(x.at[:, i[:, 1]], u), x, i, x[:, : len(i)])
        assert_same_bits(lambda x, i, u, write=write: write(x.at[i[:, 0]], u), x, i, x[: len(i)] / 3)


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("size", [20, 200, 300])
def test_indices_of_a_type_that_is_too_narrow_for_the_axis(mode, size):
    x, i = np.arange(float(size)), np.array([[-1], [3], [100]])
    windows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    places = lax.ScatterDimensionNumbers((), (0,), (0,))

    def both(x, i):
        return lax.gather(x, i, windows, (2,), mode=mode), lax.scatter(x, i, jnp.ones(3), places, mode=mode)

    expected = evaluate(*graph_of(both, (x, i)))
    found = interpret(*graph_of(both, (x, i.astype(np.int8))), kernel)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_gathers_of_a_mode_that_jax_does_not_compile():
    rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    graph, args = graph_of(
        lambda x, i: lax.gather(x, i, rows, (1, 2), mode="one_hot"), (np.ones((2, 2)), np.zeros((1, 1), np.int32))
    )
    assert kernel(graph.nodes[-1].op) is None


def test_indices_that_are_no_signed_numbers():
    x, i = np.arange(6.0), np.array([2, 2**64 - 1], np.uint64)
    assert_same_bits(lambda x, i: jnp.take(x, i, mode="clip"), x, i)


SINGULAR = np.array([[0.0, 0.0], [1.0, 2.0]])
UNKNOWN = np.array([[np.nan, 1.0], [1.0, 2.0]])
NEGATIVE = np.array([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_decompositions_of_matrices_that_have_none(dtype):
    """What LAPACK reports is NaN or an infinity, for the matrix in question alone."""
    batch = np.stack([SINGULAR, UNKNOWN, NEGATIVE, np.eye(2)]).astype(dtype)
    assert_same_bits(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), batch)
    assert_same_bits(lambda x: lax.linalg.lu(x), batch)
    assert_same_bits(lambda x: lax.linalg.qr(x, full_matrices=False), batch)
    assert_same_bits(lambda x: lax.linalg.triangular_solve(x, x, left_side=True, lower=True), batch)
    assert_same_bits(lambda x: lax.linalg.triangular_solve(x, x, conjugate_a=True), batch)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["cholesky", "eigh", "lu", "qr", "svd"])
def test_decompositions_that_jax_refuses_in_16_bits(name, dtype):
    function, x = getattr(lax.linalg, name), jnp.eye(2, dtype=dtype)
    with pytest.raises((NotImplementedError, TypeError)) as theirs:
        function(x)
    with pytest.raises(theirs.type):
        fgrad.jvp(function, (x,), (x,))


def test_a_primitive_without_its_optional_parameter():
    x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    assert_same_bits(lambda x: primitive("svd").bind(x, full_matrices=True, compute_uv=False, subset_by_index=None), x)


def test_algorithms_of_products_that_a_cpu_does_not_have():
    x = jnp.ones((2, 2), jnp.float32)
    with pytest.raises(ValueError, match="not supported"):
        fgrad.jvp(lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.F16_F16_F32), (x,), (x,))


def test_the_branch_for_the_cpu_is_taken():
    graph, flat = graph_of(lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=lambda x: 2 * x), (np.ones(2),))
    (found,) = interpret(graph, flat, kernel_as_xla)
    np.testing.assert_array_equal(found, 2 * np.ones(2))


def test_a_batch_of_gathers():
    x, i = np.arange(24.0).reshape(2, 3, 4), np.array([[0, 2], [1, 9]])
    assert_same_bits(jax.vmap(lambda x, i: x[i]), x, i)
    assert_same_bits(jax.vmap(lambda x, i: x.at[i].set(7.0)), x, i)
    assert_same_bits(jax.vmap(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 2))), x, i)


def test_what_may_round_otherwise_is_not_exact():
    for function in (jnp.sum, jnp.exp, lambda x: x @ x):
        graph, _ = graph_of(function, (np.ones(4),))
        assert all(kernel_as_xla(node.op) for node in graph.nodes)
        assert not any(exact_kernel(node.op) for node in graph.nodes)


def test_subnormal_numbers():
    """PyTorch keeps them, XLA flushes them to zero, also in what is not exact."""
    values = np.array([1e-40, 2e-40], "float32")
    for function in (lambda x: x * 1, lambda x: x + x, jnp.sinh, jnp.sum, lambda x: jnp.exp(x - 100)):
        graph, flat = graph_of(function, (values,))
        (expected,) = interpret(graph, flat, lambda op: None)
        (found,) = interpret(graph, flat, kernel_as_xla)
        (kept,) = interpret(graph, flat, kernel)
        np.testing.assert_array_equal(expected, 0)
        np.testing.assert_array_equal(found, 0)
        assert np.all(kept > 0)


def test_results_do_not_share_memory_with_arguments():
    fgrad.clear_cache()
    x = jnp.arange(4.0)
    y = fgrad.grad(lambda x: (x.reshape(2, 2) * 1.0).sum() + x[0] * 0)(x)
    x.delete()
    np.testing.assert_array_equal(y, np.ones(4))


def test_steps_that_are_not_taken_may_be_longer_than_any_array():
    x, far = np.arange(6.0, dtype="float32"), 2**62
    for window, steps in ((4, {"window_strides": (far,)}), (1, {"window_dilation": (far,)})):
        (found,) = interpret(*graph_of(lambda x, w=window, s=steps: windows(x, w, **s), (x,)), kernel_as_xla)
        np.testing.assert_array_equal(found, windows(x, window, **steps))


def windows(x, length, window_strides=(1,), **options):
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (length,), window_strides, "VALID", **options)


def test_first_run_compiles_nothing_for_what_numpy_computes(monkeypatch):
    graph, args = graph_of(lambda x, y: (x[1:] * y - x[0]).reshape(17, 1).T, (np.arange(18.0), np.ones(17)))
    monkeypatch.setattr("jax.extend.core.Primitive.bind", None)
    (found,) = interpret(graph, args, kernel_as_xla)
    np.testing.assert_array_equal(found, np.arange(1.0, 18.0)[None])


def test_nan_checks_see_every_primitive():
    graph, args = graph_of(lambda x: x / x, (np.zeros(3),))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        interpret(graph, args, kernel_as_xla)


def test_a_function_applied_at_places_is_no_plain_scatter():
    graph, args = graph_of(lambda x: x.at[0].apply(jnp.sin), (jnp.array([0.5, 1.0]),))
    (found,) = interpret(graph, args, kernel_as_xla)
    np.testing.assert_allclose(found, [np.sin(0.5), 1.0], rtol=1e-6)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(8, 12, 16), (600, 1, 1), (1, 1, 600), (24, 1, 24), (512, 3, 1), (2, 5000, 2)])
def test_sums(shape, axes):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    graph, _ = graph_of(lambda x: [lax.reduce_sum_p.bind(x, axes=axes, out_sharding=None)], [x])
    compute = kernel(graph.nodes[-1].op).compute
    for array in (x, np.asfortranarray(x), x[::-1]):
        found = compute(array)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, array.astype(float).sum(axes), rtol=1e-5, atol=1e-4)


def test_sums_of_what_is_not_a_number():
    x = np.ones((16, 64), "float32")
    x[3, 5], x[7, 9], x[8, 2:4] = np.nan, np.inf, (np.inf, -np.inf)
    for axes in ((0,), (1,), (0, 1)):
        assert_same_bits(lambda x, axes=axes: [jnp.isnan(jnp.sum(x, axes)), jnp.isinf(jnp.sum(x, axes))], x)


@pytest.mark.parametrize("zero", [0.0, -0.0, 1.0])
def test_choices_of_one_number(zero):
    """Zeros are chosen by their bits: what is not chosen may be anything."""
    x = np.tile(np.array([1.0, np.nan, np.inf, -0.0], "float32"), 1 << 11)
    which = np.arange(x.size) % 3 == 0
    for function in (lambda w, x: lax.select(w, x, lax.full_like(x, zero)), lambda w, x: jnp.where(w, zero, x)):
        assert_same_bits(lambda w, x, function=function: [function(w, x)], which, x)
