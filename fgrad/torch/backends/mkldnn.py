"""``torch.backends.mkldnn``: oneDNN, in whose place XLA computes."""

#: kept, and without effect
enabled = True


def is_available() -> bool:
    """Whether oneDNN computes: never."""
    return False
