"""sympy2jax: expressions of SymPy, by their numbers and their symbols."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
sympy = pytest.importorskip("sympy")
sympy2jax = pytest.importorskip("sympy2jax")


def test_expressions():
    x = sympy.symbols("x")
    module = sympy2jax.SymbolicModule([1.5 * sympy.cos(x), 2.0 * sympy.sin(x) ** 2 + sympy.exp(-x)])

    def loss(x):
        return sum(jnp.sum(y**2) for y in module(x=x))

    compare(lambda lib: lib.value_and_grad(loss)(jnp.arange(3.0)))
