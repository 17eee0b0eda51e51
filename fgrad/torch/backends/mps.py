"""``torch.backends.mps``: Apple GPUs, which are not supported."""


def is_available() -> bool:
    """Never."""
    return False


def is_built() -> bool:
    """Never."""
    return False
