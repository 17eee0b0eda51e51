"""Convolutions as a CPU's programs have them: XLA's own numbers, and one operation in the graph."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad.graph.graph import evaluate
from fgrad.run.cpu_convolutions import lowered
from tests.run.test_convolution import drawn, image
from tests.run.test_kernels import graph_of

CASES = 5


def depthwise(x: Any, w: Any, **params: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, params.pop("strides", (1, 1)), ((1, 1), (1, 1)), feature_group_count=x.shape[1], **params
    )


def staged(function: Any, args: Any) -> tuple[Any, str, Any]:
    """The last operation's lowering, the text of the compiled program, and its result."""
    graph, flat = graph_of(lambda *xs: [function(*xs)], args)
    program = jax.jit(lambda *xs: evaluate(graph, xs))
    return lowered(graph.nodes[-1].op), program.lower(*flat).as_text(), np.asarray(program(*flat)[0])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_any_parameters(seed):
    generator = np.random.default_rng(seed)
    done = 0
    with jax.enable_x64(True):
        while done < CASES:
            function, args = drawn(generator, ("feature", "batch"), 2)
            try:
                expected = np.asarray(function(*args))
            except (TypeError, ValueError):  # the padding takes everything away
                continue
            lowering, text, got = staged(function, args)
            if lowering is not None:
                assert "convolution" not in text
                assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
                np.testing.assert_array_equal(got, expected)
                done += 1


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
def test_derivatives(outputs, strides):
    x, w = image(2, 3, 12, 11), image(3 * outputs, 1, 3, 2)

    def loss(x, w):
        return (depthwise(x, w, strides=strides) ** 2).sum()

    expected = jax.grad(loss, (0, 1))(x, w)
    slopes = fgrad.grad(loss, (0, 1))
    text = jax.jit(slopes).lower(x, w).as_text()
    assert "convolution" not in text
    for got in (fgrad.jit(slopes)(x, w), slopes(x, w)):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    graph = fgrad.make_graph(slopes)(x, w)
    assert [node.op.name for node in graph.nodes].count("conv_general_dilated") == 3


@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
def test_one_channel(strides):
    x, w = image(4, 1, 9, 8), image(5, 1, 3, 2)
    lowering, text, got = staged(lambda x, w: lax.conv(x, w, strides, "SAME"), (x, w))
    assert lowering is not None and "convolution" not in text
    np.testing.assert_array_equal(got, lax.conv(x, w, strides, "SAME"))


#: the sizes (n, c, o, image, kernel) and parameters of convolutions whose kernel is larger than all that they read, and
#: of some with few results, each of many elements
ONE_GROUP = {
    "kernel larger than the image": ((2, 12, 8, 2, 3), {"padding": "SAME"}),
    "as many taps as results": ((1, 40, 30, 3, 3), {"padding": "SAME"}),
    "strides and dilations": (
        (1, 30, 40, 7, 3),
        {"window_strides": (2, 1), "rhs_dilation": (1, 2), "padding": "VALID"},
    ),
    "spread image": ((1, 64, 64, 3, 3), {"lhs_dilation": (2, 1), "padding": [(1, 2), (0, 1)]}),
    "one result": ((3, 5, 20, 4, 4), {}),
    "rows of taps": ((17, 2, 18, 9, 7), {}),
    "rows of spread taps": ((17, 3, 16, 10, 4), {"rhs_dilation": (2, 2), "window_strides": (1, 2)}),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ONE_GROUP)
def test_one_group(name, layout):
    (n, c, o, size, k), params = ONE_GROUP[name]
    x, w = image(n, c, size, size), image(o, c, k, k)
    specs = (layout, "OIHW" if layout == "NCHW" else "HWIO", layout)
    if layout == "NHWC":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    params = {"window_strides": (1, 1), "padding": "VALID", "dimension_numbers": specs, **params}

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, **params)

    lowering, text, got = staged(convolved, (x, w))
    assert lowering is not None and "convolution" not in text
    np.testing.assert_array_equal(got, convolved(x, w))
    slopes = jax.jit(fgrad.grad(lambda x, w: (convolved(x, w) ** 2).sum(), (0, 1)))(x, w)
    for a, b in zip(slopes, jax.grad(lambda x, w: (convolved(x, w) ** 2).sum(), (0, 1))(x, w), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_derivative_of_a_kernel_is_a_loop_of_products():
    x, w = image(2, 16, 6, 6), image(16, 16, 3, 3)
    text = jax.jit(fgrad.grad(lambda w: (lax.conv(x, w, (1, 1), "SAME") ** 2).sum())).lower(w).as_text()
    assert text.count("stablehlo.convolution") == 1 and "stablehlo.while" in text


def test_what_is_compiled_is_differentiated_and_mapped_as_any_other():
    x, w = image(2, 3, 5, 4), image(3, 1, 3, 3)
    program = jax.jit(lambda x, w: fgrad.value_and_grad(lambda w: (depthwise(x, w) ** 2).sum())(w)[1])
    expected = jax.grad(lambda w: (depthwise(x, w) ** 2).sum())
    curved = jax.grad(lambda w: expected(w).sum())(w)
    np.testing.assert_array_equal(fgrad.grad(lambda w: program(x, w).sum())(w), curved)
    np.testing.assert_array_equal(jax.grad(lambda w: program(x, w).sum())(w), curved)
    both = np.stack([w, w + 1])
    np.testing.assert_array_equal(jax.vmap(lambda w: program(x, w))(both), np.stack([expected(w) for w in both]))


def test_what_xla_does_well_stays():
    large = image(2, 1, 9, 9), image(64, 1, 4, 4)
    assert staged(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), large)[0] is None
    x, w = image(1, 2, 4, 4), image(2, 2, 3, 3)
    assert staged(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (x, w))[0] is None
    half = [a.astype("float16") for a in (x, image(2, 1, 3, 3))]
    assert staged(depthwise, half)[0] is None
    # as many places of the kernel as results
    large = [image(1, 2, 17, 17), image(2, 1, 9, 9)]
    assert staged(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2), large)[0] is None


def test_an_accelerator_runs_its_own():
    x, w = image(2, 3, 5, 4), image(3, 1, 3, 3)
    graph, flat = graph_of(lambda x, w: [depthwise(x, w)], (x, w))
    program = jax.jit(lambda *xs: evaluate(graph, xs))
    text = program.trace(*flat).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.convolution" in text
