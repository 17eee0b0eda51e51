"""keras: a train step of one's own on its JAX backend, with the state of a normalisation."""

import os

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

os.environ.setdefault("KERAS_BACKEND", "jax")
pytestmark = pytest.mark.real
keras = pytest.importorskip("keras")


def test_a_train_step_without_state():
    x = jax.random.normal(jax.random.key(0), (6, 3))
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((3,)),
        keras.layers.Dense(4, "tanh"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
    ]
    model, optimizer = keras.Sequential(layers), keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables, model.non_trainable_variables, optimizer.variables

    def loss(trainable, others):
        y, others = model.stateless_call(trainable, others, x, training=True)
        return jnp.mean(keras.losses.huber(x[:, :1], y)), others

    def program(lib):
        trainable, others, state = ([v.value for v in vs] for vs in variables)
        for _ in range(2):
            (value, others), gradient = lib.value_and_grad(loss, has_aux=True)(trainable, others)
            trainable, state = optimizer.stateless_apply(state, gradient, trainable)
        return value, trainable, others

    compare(program, rtol=1e-3)
