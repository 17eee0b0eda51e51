"""rlax: losses of reinforcement learning."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
rlax = pytest.importorskip("rlax")

VALUES, REWARDS, LOGITS = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(5,), (5,), (5, 3)]))
ACTIONS, DISCOUNTS = jnp.array([0, 1, 2, 0, 1]), jnp.full(5, 0.9)


def test_returns():
    errors = lambda v: rlax.td_lambda(v, REWARDS, DISCOUNTS, jnp.roll(v, -1), 0.8)  # noqa: E731
    compare(lambda lib: lib.grad(lambda v: jnp.sum(errors(v) ** 2))(VALUES))


def test_off_policy_returns():
    trace = lambda v: rlax.vtrace_td_error_and_advantage(v, jnp.roll(v, 1), REWARDS, DISCOUNTS, DISCOUNTS, 0.9)  # noqa: E731
    compare(lambda lib: lib.grad(lambda v: jnp.sum(trace(v).errors ** 2))(VALUES))


def test_values_of_actions():
    errors = lambda q: jax.vmap(rlax.q_learning)(q, ACTIONS, REWARDS, DISCOUNTS, 2 * q)  # noqa: E731
    compare(lambda lib: lib.grad(lambda q: jnp.sum(errors(q) ** 2))(LOGITS))


def test_policies():
    loss = lambda x: rlax.policy_gradient_loss(x, ACTIONS, REWARDS, jnp.ones(5))  # noqa: E731
    compare(lambda lib: lib.grad(lambda x: loss(x) + jnp.mean(rlax.entropy_loss(x, jnp.ones(5))))(LOGITS))


def test_a_clipped_gradient():
    compare(lambda lib: lib.grad(lambda x: 3 * rlax.clip_gradient(x, -0.1, 0.1))(2.0))
