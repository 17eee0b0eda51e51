"""Run an epoch of an unchanged PyTorch training script as one XLA program: ``lax.scan`` over its batches.

    python examples/epoch_as_one_program.py

``torch.pure`` makes of the script's step a function from state to state.  The state (weights, buffers, the optimiser's
moments, the generator of the dropout) is put back into the script's model at the end of each epoch.
"""

import jax
import jax.numpy as jnp
import numpy as np
import training_script as script

import fgrad.torch as torch


def main():
    first = script.batches()
    step, state = torch.pure(script.step)(*first[0])

    @jax.jit
    def epoch(state, xs, ys):
        return jax.lax.scan(lambda state, batch: step(state, *batch), state, (xs, ys))

    for number in range(script.EPOCHS):
        batches = first if number == 0 else script.batches()
        xs, ys = [jnp.stack([batch[i].numpy() for batch in batches]) for i in (0, 1)]
        state, losses = epoch(step.state(), xs, ys)
        step.load(state)
        right = script.accuracy()
        print(f"epoch {number}: loss {np.mean(losses):.4f}, {right:.1%} of the digits are right")
    if right < 0.95:
        raise SystemExit("less than 95% of the digits are right")


if __name__ == "__main__":
    main()
