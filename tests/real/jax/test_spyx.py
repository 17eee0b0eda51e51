"""spyx: a spiking network, trained through a surrogate gradient."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
spyx = pytest.importorskip("spyx")
snn = pytest.importorskip("spyx.nn")


def test_a_loss_of_spikes():
    rngs = nnx.Rngs(0)
    net = snn.Sequential(
        nnx.Linear(4, 6, use_bias=False, rngs=rngs),
        snn.LIF((6,), activation=spyx.axn.triangular(), rngs=rngs),
        nnx.Linear(6, 3, use_bias=False, rngs=rngs),
        snn.LI((3,), rngs=rngs),
    )
    graph, params, rest = nnx.split(net, nnx.Param, ...)
    spikes = (jax.random.uniform(jax.random.key(0), (6, 3, 4)) < 0.4).astype(jnp.float32)
    crossentropy = spyx.fn.integral_crossentropy(time_axis=0)

    def loss(params):
        return crossentropy(snn.run(nnx.merge(graph, params, rest), spikes)[0], jnp.arange(3))

    compare(lambda lib: lib.value_and_grad(loss)(params))
