"""``torch.backends.opt_einsum``: not available: XLA computes everything."""


def is_available() -> bool:
    """Never."""
    return False
