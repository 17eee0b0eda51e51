"""``torch.distributed``: programs ask whether they run in several processes; here they never do."""

from fgrad.torch.distributed import optim as optim


def is_available() -> bool:
    """Whether processes can be joined: never."""
    return False


def is_initialized() -> bool:
    """Whether processes are joined: never."""
    return False
