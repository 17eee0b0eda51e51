"""Convolutions and reductions of windows by NumPy: XLA's numbers, whatever the parameters are."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from fgrad.graph.graph import evaluate
from fgrad.graph.op import Op
from fgrad.jaxcore import primitive
from fgrad.run.kernels import columns, convolution
from fgrad.run.kernels.kernel import kernel, kernel_as_xla
from tests.run.test_kernels import graph_of

CASES = 25
MORE = [pytest.param(seed, marks=[pytest.mark.slow] if seed else []) for seed in range(4)]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def last_op(function: Any, *args: Any) -> tuple[Op, Any]:
    """The operation that gives the result, and XLA's result."""
    graph, flat = graph_of(lambda *xs: [function(*xs)], args)
    return graph.nodes[-1].op, np.asarray(evaluate(graph, flat)[0])


def assert_same(function: Any, *args: Any, exact: bool = True) -> None:
    op, expected = last_op(function, *args)
    for kernel_of in (kernel, kernel_as_xla):
        found = kernel_of(op)
        assert found is not None
        got = np.asarray(found.compute(*args))
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        if exact:
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def numbers(generator: Any, low: int, high: int, count: int) -> list[int]:
    return [int(n) for n in generator.integers(low, high, count)]


def drawn(
    generator: Any, kinds: Sequence[str] = ("none", "feature", "batch"), fewest: int = 1
) -> tuple[Any, list[np.ndarray]]:
    """A convolution of small whole numbers, which no order of adding rounds, in groups of some kinds."""
    dims = int(generator.choice([1, 2, 2, 3]))
    kind, groups = generator.choice(kinds), int(generator.integers(fewest, 4))
    features, batches = (groups if kind == k else 1 for k in ("feature", "batch"))
    n, c, o = numbers(generator, 1, 4, 3)
    sizes = (
        [n * batches, c * features, *numbers(generator, 1, 8, dims)],
        [o * groups, c, *numbers(generator, 1, 5, dims)],
    )
    natural = generator.random() < 0.5
    specs = [tuple(range(dims + 2)) if natural else tuple(numbers_in_order(generator, dims + 2)) for _ in range(3)]
    dtype = generator.choice(["float32", "float64", "complex64", "int32"])
    args = []
    for size, spec in zip(sizes, specs, strict=False):
        shape = [0] * (dims + 2)
        for axis, length in zip(spec, size, strict=True):
            shape[axis] = length
        args.append(generator.integers(-4, 5, shape).astype(dtype))
    params = {
        "window_strides": numbers(generator, 1, 4, dims),
        "padding": [tuple(numbers(generator, -2, 5, 2)) for _ in range(dims)],
        "lhs_dilation": numbers(generator, 1, 4, dims),
        "rhs_dilation": numbers(generator, 1, 3, dims),
        "dimension_numbers": lax.ConvDimensionNumbers(*specs),
        "feature_group_count": features,
        "batch_group_count": batches,
    }
    return (lambda x, w: lax.conv_general_dilated(x, w, **params)), args


def numbers_in_order(generator: Any, count: int) -> list[int]:
    return [int(n) for n in generator.permutation(count)]


@pytest.mark.parametrize("seed", MORE)
def test_any_parameters(seed):
    generator = np.random.default_rng(seed)
    done = 0
    while done < CASES:
        function, args = drawn(generator)
        try:
            jax.eval_shape(function, *args)
        except (TypeError, ValueError):  # the padding takes everything away
            continue
        assert_same(function, *args)
        done += 1


def conv(strides: Any = (1, 1), padding: Any = ((1, 1), (1, 1)), **params: Any) -> Any:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **params)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, shape).astype("float32")


def test_results_in_several_blocks(monkeypatch):
    for module in (columns, convolution):
        monkeypatch.setattr(module, "BLOCK", 100)
    x = image(5, 4, 6, 6)
    assert_same(conv(), x, image(7, 4, 3, 3))  # columns
    assert_same(conv(), x, image(2, 4, 3, 3))  # what is added
    assert_same(conv(padding=[(0, 0), (0, 0)]), x, image(7, 4, 5, 6))  # rows


@pytest.mark.parametrize("channels", [2, 40])  # along the last dimension, and along the channels
def test_depthwise(channels):
    x = image(2, channels, 6, 7)
    for outputs in (1, 2, 5):
        w = image(outputs * channels, 1, 3, 2)
        assert_same(conv(feature_group_count=channels), x, w)
        assert_same(conv(feature_group_count=channels, strides=(2, 1), lhs_dilation=(1, 2)), x, w)


@pytest.mark.parametrize("taps", [4, 17])  # with the groups as the last axis, and where they are
def test_few_results_of_each_group(taps):
    """As in the derivative of a depthwise convolution with respect to its kernel."""
    x = image(2 * 6, 3, taps + 1, taps)
    for outputs in (1, 2):
        w = image(outputs * 6, 3, taps, taps)
        assert_same(conv(batch_group_count=6), x, w)
        assert_same(conv(batch_group_count=6, strides=(2, 1), rhs_dilation=(1, 2), padding=((2, 1), (taps, 0))), x, w)
        assert_same(conv(batch_group_count=6, lhs_dilation=(2, 1), padding=((1, 0), (0, 1))), x, w)
        assert_same(conv(feature_group_count=6), image(1, 18, taps, taps), w)


def test_groups_in_several_blocks(monkeypatch):
    """Where a depthwise convolution has many results, it is a product of matrices, some groups at a time."""
    monkeypatch.setattr(convolution, "FEW", 0)
    monkeypatch.setattr(columns, "GROUPED_BLOCK", 2000)
    monkeypatch.setattr(columns, "BLOCK", 500)
    x = image(2, 10, 6, 7)
    for outputs in (1, 2):
        w = image(outputs * 10, 1, 3, 2)
        assert_same(conv(feature_group_count=10), x, w)
        assert_same(conv(feature_group_count=10), x, w[:, :, ::-1, ::-1])
        assert_same(conv(feature_group_count=10, strides=(2, 1), lhs_dilation=(1, 2)), x, w)
    assert_same(conv(batch_group_count=5), image(5, 2, 6, 7), image(10, 2, 4, 5))


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_results_in_parts(monkeypatch, threads):
    """Parts of examples, groups, rows or features."""
    for name, value in (("THREADS", threads), ("PART", 1), ("UNEVEN", 1)):
        monkeypatch.setattr(convolution, name, value)
    for shape in ((4, 12, 6, 7), (1, 12, 6, 7)):
        x = image(*shape)
        for groups in (1, 3, 12):
            w = image(24, 12 // groups, 3, 2)
            assert_same(conv(feature_group_count=groups), x, w)
            assert_same(conv(feature_group_count=groups, strides=(2, 1), lhs_dilation=(1, 2)), x, w)
    assert_same(conv(batch_group_count=3), image(3, 2, 6, 7), image(9, 2, 4, 5))
    assert_same(conv(), image(1, 4, 6, 7), image(1, 4, 3, 3))  # cannot be cut


def test_operands_as_they_lie_in_memory():
    x, w = image(3, 6, 6, 5), image(2, 3, 3, 5)
    assert_same(conv(), x.transpose(0, 3, 1, 2)[:, ::-1], w.transpose(0, 3, 1, 2)[:, ::-1, ::-1])
    assert_same(conv(), np.broadcast_to(x[:1, :1], (2, 4, 6, 5)), image(2, 4, 3, 3)[..., ::-1])


def test_no_elements():
    for x, w in (((0, 2, 4, 4), (3, 2, 3, 3)), ((2, 2, 4, 4), (0, 2, 3, 3)), ((2, 0, 4, 4), (3, 0, 3, 3))):
        assert_same(conv(), image(*x), image(*w))


def test_what_is_no_convolution_of_windows_is_left_to_jax():
    x, w = image(2, 3), image(4, 3)
    op, _ = last_op(lambda x, w: lax.conv_general_dilated(x, w, (), []), x, w)
    assert kernel(op) is None
    op, _ = last_op(
        lambda x, w: lax.conv(x, w, (1, 1), "SAME", preferred_element_type=np.float64),
        image(1, 1, 4, 4), image(1, 1, 3, 3),
    )  # fmt: skip
    assert kernel(op) is None


def test_rounding_is_that_of_products():
    x, w = (np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ((2, 8, 9, 9), (4, 8, 3, 3)))
    assert_same(conv(), x, w, exact=False)


# -- windows ----------------------------------------------------------------------------------------------------------


def with_special(generator: Any, shape: list[int], dtype: str) -> np.ndarray:
    x = generator.integers(0, 5, shape).astype(dtype)
    if dtype.startswith("float"):
        for value in (np.nan, np.inf, -np.inf):
            x[generator.random(shape) < 0.1] = value
    return x


@pytest.mark.parametrize("seed", MORE)
@pytest.mark.parametrize("name", ["add", "max", "min", "mul"])
def test_reductions_of_windows(name, seed):
    generator = np.random.default_rng(seed)
    done = 0
    while done < CASES // 3:
        dims = int(generator.integers(1, 4))
        dtype = str(generator.choice(["float32", "float64", "int32", "uint8"]))
        x = with_special(generator, numbers(generator, 1, 9, dims), dtype)
        window, strides = numbers(generator, 1, generator.choice([4, 9]), dims), numbers(generator, 1, 4, dims)
        padding = [tuple(numbers(generator, -1, 3, 2)) for _ in range(dims)]
        base, dilation = numbers(generator, 1, 3, dims), numbers(generator, 1, 3, dims)
        ends = np.iinfo(dtype) if x.dtype.kind in "iu" else None
        low, high = (-np.inf, np.inf) if ends is None else (ends.min, ends.max)
        known = {"add": 0, "max": low, "min": high, "mul": 1}[name]
        start = np.asarray(known, dtype)
        slide = lambda x, start: lax.reduce_window(  # noqa: E731
            x, start, getattr(lax, name), window, strides, padding, base, dilation
        )
        if 0 in jax.eval_shape(slide, x, start).shape:
            continue
        with np.errstate(invalid="ignore"):
            if name != "mul":
                assert_same(lambda x: slide(x, start), x)
            assert_same(slide, x, np.asarray(2, dtype))
        done += 1


@pytest.mark.parametrize("select", ["ge", "le"])
def test_select_and_scatter_add(select):
    generator = np.random.default_rng(0)
    for window, strides in (((2, 2), (2, 2)), ((3, 2), (1, 2)), ((1, 3), (2, 1))):
        for padding in (((0, 0), (0, 0)), ((1, 0), (1, 2))):
            x = with_special(generator, [6, 7], "float32")
            sizes = zip(x.shape, padding, window, strides, strict=True)
            shape = [(n + sum(ends) - k) // s + 1 for n, ends, k, s in sizes]
            source = generator.integers(1, 9, shape).astype("float32")
            params = {
                "select_prim": primitive(select), "window_dimensions": window, "window_strides": strides,
                "padding": padding,
            }  # fmt: skip
            assert_same(lambda s, x, p=params: primitive("select_and_scatter_add").bind(s, x, **p), source, x)


def test_a_reduction_by_a_function_of_the_users_is_left_to_jax():
    op, _ = last_op(
        lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: lax.add(a, lax.mul(b, b)), (2,), (1,), "VALID"),
        image(5),
    )
    assert kernel(op) is None


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(name, reverse):
    x = with_special(np.random.default_rng(0), [3, 5], "float32")
    for axis in (0, 1):
        with np.errstate(invalid="ignore"):
            assert_same(lambda x, axis=axis: getattr(lax, name)(x, axis=axis, reverse=reverse), x)


def test_negative_padding():
    x = image(5, 4)
    for low, high, gap in ((-1, -2, 0), (-2, 1, 1), (3, -4, 2), (-3, -3, 1), (-5, 0, 0), (-6, 3, 0)):
        config = ((low, high, gap), (0, 0, 0))
        assert_same(lambda x, filling, config=config: lax.pad(x, filling, config), x, np.array(7, "float32"))
