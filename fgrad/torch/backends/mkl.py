"""``torch.backends.mkl``: not available: XLA computes everything."""


def is_available() -> bool:
    """Never."""
    return False
