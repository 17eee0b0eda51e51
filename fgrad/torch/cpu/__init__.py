"""``torch.cpu``: the device that is always there."""


def is_available() -> bool:
    """Whether there is one: always."""
    return True


def device_count() -> int:
    """How many there are: one."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Accepted as in PyTorch: a value is there when it is asked for."""
