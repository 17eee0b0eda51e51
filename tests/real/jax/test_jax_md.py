"""jax_md: forces of particles, and steps of their motion."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jax_md = pytest.importorskip("jax_md")

PLACES = jnp.array([[0.2, 0.4], [1.1, 0.3], [0.7, 1.6], [2.4, 2.6]])
distance, move = jax_md.space.periodic(3.0)
energy = jax_md.energy.soft_sphere_pair(distance, sigma=1.2)


def test_forces():
    pairs = jax_md.energy.morse_pair(distance)
    compare(lambda lib: lib.value_and_grad(lambda x: energy(x) + pairs(x))(PLACES))


def test_through_a_simulation():
    init, step = jax_md.simulate.nve(energy, move, 1e-2)

    def after(places):
        state = init(jax.random.key(0), places, kT=0.1)
        return jnp.sum(jax.lax.fori_loop(0, 3, lambda _, state: step(state), state).position ** 2)

    compare(lambda lib: lib.grad(after)(PLACES))
