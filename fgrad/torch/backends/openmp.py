"""``torch.backends.openmp``: OpenMP, in whose place XLA computes."""


def is_available() -> bool:
    """Whether OpenMP computes: never."""
    return False
