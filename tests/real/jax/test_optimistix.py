"""optimistix: implicit derivatives of roots, fixed points, least squares and minima, by lineax and equinox."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

optx = pytest.importorskip("optimistix")

P = jnp.array([0.7, 0.4])
START = jnp.array([0.5, 0.5])


def root(y, p):
    return y - p * jnp.cos(y)


def test_newton():
    solver = optx.Newton(1e-6, 1e-6)
    compare(lambda lib: lib.grad(lambda p: optx.root_find(root, solver, START, args=p).value.sum())(P))


def _root(solver):
    return lambda p: optx.root_find(root, solver, START, args=p).value.sum()


def _fixed_point(solver):
    return lambda p: optx.fixed_point(lambda y, p: p * jnp.cos(y), solver, START, args=p).value.sum()


def _least_squares(solver):
    residuals = lambda y, p: jnp.array([10 * (y[1] - y[0] ** 2), p[0] - y[0]])  # noqa: E731
    return lambda p: optx.least_squares(residuals, solver, START, args=p).value.sum()


def _minimise(solver):
    value = lambda y, p: jnp.sum((y - p) ** 2) + jnp.sum(jnp.sin(y) * p**2)  # noqa: E731
    return lambda p: optx.minimise(value, solver, START, args=p, max_steps=1000).value.sum()


PROGRAMS = {
    "Chord": _root(optx.Chord(1e-6, 1e-6)),
    "Dogleg": _root(optx.Dogleg(1e-6, 1e-6)),
    "FixedPointIteration": _fixed_point(optx.FixedPointIteration(1e-6, 1e-6)),
    "GaussNewton": _least_squares(optx.GaussNewton(1e-6, 1e-6)),
    "LevenbergMarquardt": _least_squares(optx.LevenbergMarquardt(1e-6, 1e-6)),
    "BFGS": _minimise(optx.BFGS(1e-6, 1e-6)),
    "NonlinearCG": _minimise(optx.NonlinearCG(1e-6, 1e-6)),
}


@pytest.mark.real
@pytest.mark.parametrize("name", PROGRAMS)
def test_solver(name):
    loss = PROGRAMS[name]
    compare(lambda lib: (lib.value_and_grad(loss)(P), jax.jit(lib.grad(loss))(P)), rtol=1e-3)


@pytest.mark.real
def test_through_the_steps_of_the_solver():
    def loss(p):
        solver, adjoint = optx.Newton(1e-6, 1e-6), optx.RecursiveCheckpointAdjoint()
        return optx.root_find(root, solver, START, args=p, adjoint=adjoint).value.sum()

    compare(lambda lib: lib.grad(loss)(P))


MINIMISERS = [optx.DFP(1e-4, 1e-4), optx.BestSoFarMinimiser(optx.NonlinearCG(1e-4, 1e-4))]


@pytest.mark.real
@pytest.mark.parametrize("solver", MINIMISERS)
def test_minima_with_auxiliary_outputs(solver):
    energy = lambda y, a: (jnp.sum((y - a) ** 2 + jnp.cosh(y)), y)  # noqa: E731
    find = lambda a: optx.minimise(energy, solver, jnp.zeros(2), a, has_aux=True, max_steps=64)  # noqa: E731
    compare(lambda lib: lib.grad(lambda a: jnp.sum(find(a).value ** 2))(jnp.array([1.3, 0.4])), rtol=1e-2)


@pytest.mark.real
def test_least_squares_of_a_pytree_without_its_jacobian():
    times, solver = jnp.array([1.0, -0.5, 0.3]), optx.IndirectLevenbergMarquardt(1e-4, 1e-4)

    def residuals(p, a):
        return {"fit": p["scale"] * jnp.exp(p["rate"] * times) - a * jnp.cos(times), "prior": p["rate"] - 0.3}

    def loss(a):
        start = {"scale": jnp.array(1.0), "rate": jnp.array(0.3)}
        return optx.least_squares(residuals, solver, start, a, max_steps=32).value["scale"]

    compare(lambda lib: lib.grad(loss)(jnp.array(1.3)), rtol=1e-2)
