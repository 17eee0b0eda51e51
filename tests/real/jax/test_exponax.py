"""exponax: exponential integrators of partial differential equations."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
ex = pytest.importorskip("exponax")

U = jnp.sin(jnp.linspace(0, 6, 16))[None]


def test_the_jacobian_of_a_step():
    step = ex.stepper.KuramotoSivashinskyConservative(num_spatial_dims=1, domain_extent=10.0, num_points=16, dt=0.1)
    compare(lambda lib: lib.jacfwd(step)(U))


def test_through_a_rollout():
    def loss(u, diffusivity):
        step = ex.stepper.Burgers(1, 3.0, 16, 0.05, diffusivity=diffusivity)
        return jnp.sum(ex.rollout(step, 5, include_init=True)(u) ** 2)

    compare(lambda lib: lib.value_and_grad(loss, (0, 1))(U, 0.1))
