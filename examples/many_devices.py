"""Run the step of an unchanged PyTorch training script over 8 devices: the batch is split, and so are the weights.

    python examples/many_devices.py

Nothing here communicates: ``jax.sharding`` says where arrays lie, and XLA puts in what has to be sent.  The same
program runs on 8 accelerators, or in many processes after ``jax.distributed.initialize``; here the processor stands for
all of them.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import training_script as script
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import fgrad.torch as torch


def main():
    batches = script.batches()[:8]
    step, start = torch.pure(script.step)(*batches[0])
    mesh = jax.make_mesh((8,), ("devices",), axis_types=(AxisType.Auto,))
    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("devices"))

    def placed(array):
        """Weights in equal parts where their first axis allows it, whole on each device otherwise."""
        return jax.device_put(array, split if array.ndim > 1 and array.shape[0] % 8 == 0 else whole)

    program = jax.jit(step)
    state, losses = jax.tree.map(placed, start), []
    for x, y in batches:
        state, loss = program(state, *[jax.device_put(jnp.asarray(a.numpy()), split) for a in (x, y)])
        losses.append(float(loss))

    alone = [script.step(x, y).item() for x, y in batches]
    difference = np.max(np.abs(np.subtract(losses, alone)))
    parts = {name: len(w.sharding.device_set) for name, w in state["model"].items()}
    print(f"{len(batches)} steps on {parts.popitem()[1]} devices: loss {losses[0]:.3f} to {losses[-1]:.3f}")
    print(f"the same on one device, up to {difference:.0e}")
    if difference > 1e-3:
        raise SystemExit("other numbers than on one device")


if __name__ == "__main__":
    main()
