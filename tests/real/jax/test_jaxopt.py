"""jaxopt: implicit derivatives of its solvers."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jaxopt = pytest.importorskip("jaxopt")

X = jax.random.normal(jax.random.key(0), (20, 3))
Y = X @ jnp.arange(3.0)


def ridge(w, penalty):
    return jnp.mean((X @ w - Y) ** 2) + 0.5 * penalty * jnp.sum(w**2)


@pytest.mark.parametrize("name", ["GradientDescent", "LBFGS"])
def test_solver(name):
    solver = getattr(jaxopt, name)(fun=ridge, maxiter=200)
    loss = lambda penalty: jnp.sum(solver.run(jnp.zeros(3), penalty).params ** 2)  # noqa: E731
    compare(lambda lib: lib.grad(loss)(0.3), rtol=1e-3)


def test_projection_on_a_simplex():
    compare(lambda lib: lib.jacrev(jaxopt.projection.projection_simplex)(jnp.array([0.3, 1.2, -0.4])))


def test_custom_root():
    @jaxopt.implicit_diff.custom_root(lambda x, a: x - a * jnp.cos(x))
    def solve(start, a):
        iteration = jaxopt.FixedPointIteration(fixed_point_fun=lambda x, a: a * jnp.cos(x), implicit_diff=False)
        return iteration.run(start, a).params

    compare(lambda lib: lib.grad(lambda a: solve(jnp.array(0.5), a))(jnp.array(0.7)))


def test_quadratic_program():
    def loss(q):
        found = jaxopt.OSQP().run(params_obj=(2 * jnp.eye(2), q), params_eq=(jnp.ones((1, 2)), jnp.ones(1)))
        return jnp.sum(found.params.primal**2)

    compare(lambda lib: lib.grad(loss)(jnp.array([0.3, -0.2])), rtol=1e-3)


def test_solvers_by_a_fixed_point():
    def lasso(penalty):
        return jaxopt.ProximalGradient(lambda w: jnp.sum((X @ w - Y) ** 2), jaxopt.prox.prox_lasso).run(X[0], penalty)

    def accelerated(a):
        return jaxopt.AndersonAcceleration(lambda x, a: jnp.cos(a * x) / 2, history_size=2).run(X[0], a)

    compare(lambda lib: lib.grad(lambda penalty: jnp.sum(lasso(penalty).params ** 2))(0.3), rtol=1e-3)
    compare(lambda lib: lib.grad(lambda a: jnp.sum(accelerated(a).params ** 2))(0.7), rtol=1e-3)


def test_projection_on_a_section_of_a_box():
    project = jaxopt.projection.projection_box_section
    section = (jnp.zeros(3), jnp.ones(3), jnp.ones(3), 1.0)
    compare(lambda lib: lib.jacrev(lambda x: project(x, section))(jnp.array([0.3, 1.2, -0.4])))
