"""Run by ``test_pure.py``: a step over 2 processes on this machine, each with half of the batch."""

import os
import socket
import subprocess
import sys


def work(rank: int, port: str) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=rank)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = torch.randn(8, 4), torch.randn(8, 1)
    function, start = torch.pure(step)(x, y)
    mesh = jax.make_mesh((2,), ("processes",), axis_types=(AxisType.Auto,))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("processes"))
    half = slice(4 * rank, 4 * rank + 4)
    batch = [jax.make_array_from_process_local_data(split, a.numpy()[half]) for a in (x, y)]
    state = jax.tree.map(lambda a: jax.make_array_from_process_local_data(everywhere, np.asarray(a)), start)
    program = jax.jit(function)
    losses = []
    for _ in range(3):
        state, loss = program(state, *batch)
        losses.append(float(loss))
    np.testing.assert_allclose(losses, [step(x, y).item() for _ in range(3)], rtol=1e-5)
    print("as on one")


if len(sys.argv) > 1:
    import jax
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    import fgrad.torch as torch

    work(int(sys.argv[1]), sys.argv[2])
else:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = str(found.getsockname()[1])
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    workers = [subprocess.Popen([sys.executable, __file__, str(rank), port], env=environment) for rank in (0, 1)]
    sys.exit(max([worker.wait(240) for worker in workers]))
