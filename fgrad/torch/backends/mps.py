"""``torch.backends.mps``: Apple's GPUs, of which JAX's CPU build knows nothing."""


def is_available() -> bool:
    """Whether there is one: never."""
    return False


def is_built() -> bool:
    """Whether PyTorch was built for them: never."""
    return False
