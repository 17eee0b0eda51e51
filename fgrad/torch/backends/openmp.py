"""``torch.backends.openmp``: not available: XLA computes everything."""


def is_available() -> bool:
    """Never."""
    return False
