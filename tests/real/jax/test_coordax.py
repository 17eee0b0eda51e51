"""coordax: arrays with named axes, which are the arguments of a loss and of its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
cx = pytest.importorskip("coordax")

LEVELS = cx.LabeledAxis("level", np.array([0.1, 0.4, 0.9]))
FIELD = cx.field(jnp.cos(jnp.arange(6.0)).reshape(2, 3), "time", LEVELS)


def test_a_function_along_a_named_axis():
    def loss(field):
        deviation = cx.cmap(lambda v: v - jnp.mean(v))(field.untag(LEVELS)).tag(LEVELS)
        return jnp.sum((jnp.tanh(1.0) * deviation * field).order_as("time", LEVELS).data ** 2)

    for wrap in (lambda f: f, jax.jit):
        compare(lambda lib, wrap=wrap: wrap(lib.value_and_grad(loss))(FIELD))
    compare(lambda lib: lib.jvp(lib.grad(loss), (FIELD,), (FIELD,)))
