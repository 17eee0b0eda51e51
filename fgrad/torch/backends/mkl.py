"""``torch.backends.mkl``: MKL, in whose place XLA computes."""


def is_available() -> bool:
    """Whether MKL computes: never."""
    return False
