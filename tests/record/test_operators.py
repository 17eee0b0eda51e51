"""The graphs of a tracer's operators, which are recorded without JAX's own functions where these are one primitive."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import fgrad
from fgrad.record import templates

OPERATORS = (*templates._PRIMITIVES, operator.floordiv, operator.mod)
TYPES = ("float32", "bfloat16", "float64", "int32", "uint8", "bool", "complex64")


def text(function: Any, x: Any) -> str:
    """A graph, or the error of recording it."""
    templates._templates.clear()
    try:
        return str(fgrad.make_graph(function)(x))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def operands(dtype: str) -> list[Any]:
    shapes = [(2, 3), (), (2, 1), (3,), (4, 2, 1), (2, 4)]
    return [0.5, 2, True, jnp.ones(3, "float32"), *[jnp.ones(shape, dtype) for shape in shapes]]


@pytest.mark.parametrize("dtype", TYPES)
def test_graphs_are_those_of_jaxs_functions(dtype, monkeypatch):
    with jax.enable_x64(True):
        x = jnp.ones((2, 3), dtype)
        for function in OPERATORS:
            for other in operands(dtype):
                for call in (lambda x: function(x, other), lambda x: function(other, x)):
                    mine = text(call, x)
                    with monkeypatch.context() as patch:
                        patch.setattr(templates, "_PRIMITIVES", {})
                        assert mine == text(call, x)


def test_ranks_are_promoted_as_the_setting_says():
    def product(x: Any) -> Any:
        return x * jnp.ones(3)

    assert "mul" in text(product, jnp.ones((2, 3)))
    with jax.numpy_rank_promotion("raise"):
        assert "rank" in text(product, jnp.ones((2, 3)))
