"""optax: L-BFGS with its line search, an optimiser inside a loss, projections and perturbations."""

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
AIM = jnp.arange(3.0)


def test_lbfgs():
    def program(lib):
        loss = lambda w: jnp.sum((w - AIM) ** 2) + jnp.sum(w**4)  # noqa: E731
        optimiser, w = optax.lbfgs(), jnp.zeros(3)
        state = optimiser.init(w)
        for _ in range(3):
            value, grad = lib.value_and_grad(loss)(w)
            updates, state = optimiser.update(grad, state, w, value=value, grad=grad, value_fn=loss)
            w = optax.apply_updates(w, updates)
        return w

    compare(program)


def test_through_an_optimiser():
    def program(lib):
        def after(rate):
            optimiser, w = optax.inject_hyperparams(optax.adam)(learning_rate=rate), jnp.ones(3)
            state = optimiser.init(w)
            for _ in range(3):
                updates, state = optimiser.update(lib.grad(lambda w: jnp.sum((w - AIM) ** 2))(w), state)
                w = optax.apply_updates(w, updates)
            return jnp.sum(w**2)

        return lib.grad(after)(jnp.array(0.1))

    compare(program)


def test_projections_and_perturbations():
    x = jnp.array([0.3, 1.0, -1.0])
    chosen = lambda x: jax.nn.one_hot(jnp.argmax(x), 3)  # noqa: E731
    smooth = optax.perturbations.make_perturbed_fun(chosen, 20, 0.5)
    compare(lambda lib: lib.grad(lambda x: jnp.sum(optax.projections.projection_simplex(x) * AIM))(x))
    compare(lambda lib: lib.grad(lambda x: jnp.sum(smooth(jax.random.key(0), x) * AIM))(x))


def test_steps_on_gradients_at_another_point():
    loss = lambda w: jnp.sum((w - AIM) ** 2) + jnp.sum(jnp.cos(w))  # noqa: E731

    def sharpness_aware(lib):
        climb = optax.chain(optax.contrib.normalize(), optax.sgd(0.05))
        optimiser, w = optax.contrib.sam(optax.sgd(0.1), climb, sync_period=2, opaque_mode=True), jnp.ones(3)
        state = optimiser.init(w)
        for _ in range(3):
            grad_fn = lambda w, _: lib.grad(loss)(w)  # noqa: E731
            updates, state = optimiser.update(lib.grad(loss)(w), state, w, grad_fn=grad_fn)
            w = optax.apply_updates(w, updates)
        return w

    def look_ahead(lib):
        optimiser, w = optax.lookahead(optax.adam(0.1), 2, 0.5), optax.LookaheadParams.init_synced(jnp.ones(3))
        state = optimiser.init(w)
        for _ in range(4):
            updates, state = optimiser.update(lib.grad(loss)(w.fast), state, w)
            w = optax.apply_updates(w, updates)
        return w.fast, w.slow

    compare(sharpness_aware)
    compare(look_ahead)


def test_adversarial_examples():
    x, inside = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), optax.projections.projection_box
    loss = lambda w, x: jnp.mean(jnp.tanh(x @ w) ** 2)  # noqa: E731

    def program(lib):
        def attacked(w):
            step = lambda _, y: inside(y + 0.05 * jnp.sign(lib.grad(loss, 1)(w, y)), x - 0.1, x + 0.1)  # noqa: E731
            return jax.lax.fori_loop(0, 3, step, x)

        return lib.jit(lib.value_and_grad(lambda w: loss(w, attacked(w))))(AIM)

    compare(program)
