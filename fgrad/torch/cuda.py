"""``torch.cuda``: whether there are GPUs; programs ask before they use one.

Source: `torch.cuda <https://docs.pytorch.org/docs/stable/cuda.html>`_.
"""

import jax

from fgrad.torch.random.default import manual_seed as manual_seed


def device_count() -> int:
    """How many GPUs JAX sees."""
    try:
        return len(jax.devices("cuda"))
    except RuntimeError:
        return 0


def is_available() -> bool:
    """Whether there is a GPU.

    >>> import fgrad.torch as torch
    >>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def manual_seed_all(seed: int) -> None:
    """Start the random numbers anew; there is one generator for all devices."""
    manual_seed(seed)


def synchronize(device: object = None) -> None:
    """Wait until the devices have done what they were given."""
    jax.effects_barrier()


def empty_cache() -> None:
    """Accepted as in PyTorch; JAX manages the memory of devices."""
