"""Run by ``test_pure.py``: a step over 8 devices of the host, batches split and weights replicated or split."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import fgrad.torch as torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


x, y = torch.randn(32, 8), torch.randn(32, 1)
function, start = torch.pure(step)(x, y)
program = jax.jit(function)

losses = {}
for axes in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
    mesh = jax.make_mesh((8,), ("devices",), axis_types=(axes,))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("devices"))
    batch = [jax.device_put(jnp.asarray(a.numpy()), split) for a in (x, y)]
    for name, weights in (("replicated", everywhere), ("split", split)):
        shardings = jax.tree.map(lambda a: weights if a.ndim and a.shape[0] % 8 == 0 else everywhere, start)
        state = jax.device_put(start, shardings)
        losses[name, axes] = []
        for _ in range(4):
            state, loss = program(state, *batch)
            losses[name, axes].append(float(loss))
        if axes is jax.sharding.AxisType.Explicit:
            alike = jax.tree.map(lambda a, sharding: a.sharding.is_equivalent_to(sharding, a.ndim), state, shardings)
            assert all(jax.tree.leaves(alike)) and loss.sharding.is_fully_replicated
        assert len(batch[0].sharding.device_set) == 8

one = [step(x, y).item() for _ in range(4)]
for name, found in losses.items():
    np.testing.assert_allclose(found, one, rtol=1e-5, err_msg=str(name))
print("as on one")
