"""interpax: splines, by their values and by where they are read."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
interpax = pytest.importorskip("interpax")

KNOTS = jnp.linspace(0.0, 5.0, 8)
PLACES = jnp.linspace(0.3, 4.7, 5)


@pytest.mark.parametrize("method", ["linear", "cubic", "cubic2", "monotonic", "akima"])
def test_a_curve(method):
    loss = lambda f, x: jnp.sum(interpax.interp1d(x, KNOTS, f, method=method) ** 2)  # noqa: E731
    compare(lambda lib: jax.jit(lib.grad(loss, (0, 1)))(jnp.sin(KNOTS), PLACES))


def test_a_spline_with_its_system():
    spline = lambda f: jnp.sum(interpax.CubicSpline(KNOTS, f, check=False)(PLACES) ** 2)  # noqa: E731
    compare(lambda lib: jax.jit(lib.grad(spline))(jnp.sin(KNOTS)))
