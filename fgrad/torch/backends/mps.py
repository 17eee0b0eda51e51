"""``torch.backends.mps``: Apple GPUs, which are not supported."""


def is_available() -> bool:
    """Whether there is one: never."""
    return False


def is_built() -> bool:
    """Whether PyTorch was built for them: never."""
    return False
