"""Convolutions in groups as a CPU's programs have them: XLA's own numbers, and one operation in the graph."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad.graph.graph import evaluate
from fgrad.run.grouped_convolutions import lowered
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
