"""Programs: what cannot be compiled goes on being run node by node."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import fgrad

pytestmark = pytest.mark.fast

cube = Primitive("cube_in_python")
cube.def_impl(lambda x: jnp.asarray(np.asarray(x) ** 3))
cube.def_abstract_eval(lambda x: x)


def test_a_primitive_with_an_implementation_in_python_only():
    fgrad.define_rule(cube, vjp=lambda ct, out, x: (3 * ct * x**2,))
    f = fgrad.value_and_grad(lambda x: cube.bind(x) * 2)
    for k in range(1, 5):
        value, slope = f(float(k))
        assert (value, slope) == (2 * k**3, 6 * k**2)


def test_a_compiled_program_takes_over():
    fgrad.clear_cache()
    f = fgrad.grad(lambda x: jnp.sin(x) * x)
    values = [f(2.0) for _ in range(3)]
    assert fgrad.cache_info().compiled >= 1
    assert np.allclose(values, jax.grad(lambda x: jnp.sin(x) * x)(2.0))
