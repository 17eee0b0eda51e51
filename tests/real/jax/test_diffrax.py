"""diffrax: differential equations, by each of its adjoints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import pytest

from tests.real.jax.compare import compare

dfx = pytest.importorskip("diffrax")

P = jnp.array([0.7, 0.4])
ADAPTIVE = dfx.PIDController(rtol=1e-4, atol=1e-4)


def decay(t, y, p):
    return -p[0] * y + p[1] * jnp.sin(t)


def solved(adjoint, solver=None, controller=ADAPTIVE, saved=None):
    def loss(p):
        found = dfx.diffeqsolve(
            dfx.ODETerm(decay), solver or dfx.Tsit5(), 0.0, 2.0, 0.1, jnp.array([1.0, 0.5]), args=p, adjoint=adjoint,
            saveat=saved or dfx.SaveAt(ts=jnp.linspace(0, 2, 5)), stepsize_controller=controller,
        )  # fmt: skip
        return jnp.sum(found.ys**2)

    return loss


def test_steps_of_one_size():
    loss = solved(dfx.RecursiveCheckpointAdjoint(), dfx.Euler(), dfx.ConstantStepSize())
    compare(lambda lib: lib.value_and_grad(loss)(P))


ADJOINTS = {
    "RecursiveCheckpoint": solved(dfx.RecursiveCheckpointAdjoint()),
    "Direct": solved(dfx.DirectAdjoint()),
    "Backsolve": solved(dfx.BacksolveAdjoint(), saved=dfx.SaveAt(t1=True)),
    "an implicit solver": solved(dfx.RecursiveCheckpointAdjoint(), dfx.Kvaerno3()),
}


@pytest.mark.real
@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoint(name):
    loss = ADJOINTS[name]

    def program(lib):
        return lib.value_and_grad(loss)(P), jax.jit(lib.grad(loss))(P), jax.vmap(lib.grad(loss))(jnp.stack([P, 2 * P]))

    compare(program, rtol=1e-3)


@pytest.mark.real
def test_forward_mode():
    loss = solved(dfx.ForwardMode())
    compare(lambda lib: (lib.jacfwd(loss)(P), lib.jvp(loss, (P,), (P,))), rtol=1e-3)


@pytest.mark.real
def test_a_steady_state():
    def loss(p):
        found = dfx.diffeqsolve(
            dfx.ODETerm(lambda t, y, p: p - y), dfx.Tsit5(), 0.0, jnp.inf, 0.1, jnp.array(1.0), args=p,
            saveat=dfx.SaveAt(t1=True), max_steps=None, adjoint=dfx.ImplicitAdjoint(),
            event=dfx.Event(dfx.steady_state_event()), stepsize_controller=dfx.PIDController(rtol=1e-4, atol=1e-5),
        )  # fmt: skip
        return found.ys[0] ** 2

    compare(lambda lib: lib.value_and_grad(loss)(jnp.array(0.7)), rtol=1e-3)


@pytest.mark.real
def test_a_stochastic_equation():
    def loss(p):
        motion = dfx.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=jax.random.key(3))
        noise = dfx.ControlTerm(lambda t, y, p: 0.1 * p, motion)
        terms = dfx.MultiTerm(dfx.ODETerm(lambda t, y, p: -p * y), noise)
        return dfx.diffeqsolve(terms, dfx.Euler(), 0.0, 1.0, 0.05, jnp.array(1.0), args=p).ys[0] ** 2

    compare(lambda lib: lib.value_and_grad(loss)(jnp.array(0.7)), rtol=1e-3)


class Field(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, t, y, args):
        return self.mlp(y)


@pytest.mark.real
def test_a_neural_equation():
    model = Field(eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jax.random.key(0)))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params, starts):
        def path(y):
            saved = dfx.SaveAt(ts=jnp.linspace(0, 1, 6))
            term = dfx.ODETerm(eqx.combine(params, static))
            return dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y, stepsize_controller=ADAPTIVE, saveat=saved).ys

        return jnp.mean(jax.vmap(path)(starts) ** 2)

    starts = jax.random.normal(jax.random.key(1), (3, 2))
    compare(lambda lib: jax.jit(lib.value_and_grad(loss))(params, starts), rtol=1e-3)


@pytest.mark.real
def test_a_bouncing_ball():
    optx = pytest.importorskip("optimistix")

    def loss(height):
        term = dfx.ODETerm(lambda t, y, args: (y[1], -8.0 * jnp.ones(())))
        event = dfx.Event(lambda t, y, args, **_: y[0], optx.Newton(1e-5, 1e-5))
        found = dfx.diffeqsolve(
            term, dfx.Tsit5(), 0.0, jnp.inf, 0.1, (height, 0.0), event=event, stepsize_controller=ADAPTIVE
        )
        return found.ts[0]

    compare(lambda lib: lib.value_and_grad(loss)(jnp.array(10.0)), rtol=1e-3)


@pytest.mark.real
def test_a_solver_that_takes_areas_of_the_noise():
    def loss(p):
        motion = dfx.VirtualBrownianTree(0.0, 1.0, 1e-2, (2,), jax.random.key(3), levy_area=dfx.SpaceTimeLevyArea)
        noise = dfx.ControlTerm(lambda t, y, p: lx.DiagonalLinearOperator(0.3 * p * jnp.ones(2)), motion)
        terms = dfx.MultiTerm(dfx.ODETerm(lambda t, y, p: -p * jnp.sin(y)), noise)
        ys = dfx.diffeqsolve(terms, dfx.ShARK(), 0.0, 1.0, 0.25, jnp.array([1.0, 0.2]), args=p, max_steps=8).ys
        return jnp.sum(ys**2)

    compare(lambda lib: lib.value_and_grad(loss)(jnp.array(0.7)), rtol=1e-3)
