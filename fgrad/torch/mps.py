"""``torch.mps``: Apple's GPUs, of which there are none here."""


def is_available() -> bool:
    """Whether there is one: never."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0
