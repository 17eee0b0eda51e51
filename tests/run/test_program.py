"""Programs: what cannot be compiled goes on being run node by node."""

import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import fgrad
from fgrad.graph import source
from fgrad.jaxcore import ShapedArray, typeof
from fgrad.record.stager import stage_closed
from fgrad.run.executable import Executable
from fgrad.run.numpy_program import numpy_program
from fgrad.run.policy import operations

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


@pytest.mark.parametrize("policy", ["compiled", "stretches"])
def test_what_was_interrupted_is_compiled_anew(policy, monkeypatch):
    """See NOTE [Interrupted in XLA]."""
    made = []

    class Program:
        def __init__(self, function, **options):
            made.append(self)
            self.program = jit(function, **options)

        def __call__(self, *args):
            if made == [self]:
                raise KeyboardInterrupt
            return self.program(*args)

    jit = jax.jit
    monkeypatch.setattr(jax, "jit", Program)
    x = jnp.linspace(0.1, 0.5, 23)  # away from the poles, where rounding is magnified
    executable = Executable(stage_closed(lambda x: [jnp.tan(jnp.tan(jnp.tan(x)))], [typeof(x)]), operations)
    with fgrad.policy(policy):
        with pytest.raises(KeyboardInterrupt):
            executable([x])
        for _ in range(2):
            np.testing.assert_allclose(executable([x])[0], np.tan(np.tan(np.tan(x))), 1e-5)


def test_what_another_policy_compiled_does_not_run_where_numpy_does():
    x = jnp.linspace(0.1, 0.9, 7)
    executable = Executable(stage_closed(lambda x: [jnp.tanh(x).sum()], [typeof(x)]), operations)
    with fgrad.policy("compiled"):
        executable([x])
    with fgrad.policy("reproducible"):
        executable([x])
        assert executable.numpy is not None
        assert executable.compiled is None


def test_a_numpy_program_has_source():
    program = numpy_program(stage_closed(lambda x: [x + x], [ShapedArray((4,), np.dtype("float32"))]))
    assert program is not None
    with pytest.raises(TypeError) as caught:
        program.run([None])  # type: ignore[list-item]
    assert "v1 = add_1(v0, v0)" in str(caught.getrepr())


def test_the_source_of_a_numpy_program_goes_with_the_last_one_that_has_it():
    program = numpy_program(stage_closed(lambda x: [x + x], [ShapedArray((4,), np.dtype("float32"))]))
    assert program is not None
    file = program.run.__code__.co_filename
    assert linecache.getlines(file)
    del program
    assert linecache.getlines(file)
    source._compiled.cache_clear()
    assert not linecache.getlines(file)
