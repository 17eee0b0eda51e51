"""``torch.cpu``: queries about the CPU."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import names, submodules

globals().update(names("cpu"))
if TYPE_CHECKING:
    from fgrad.torch.cpu import amp as amp
else:
    __getattr__, __dir__ = submodules(__name__, {__name__: "amp"})


def is_available() -> bool:
    """Always true."""
    return True


def device_count() -> int:
    """Always one."""
    return 1


def current_device() -> str:
    """Always ``"cpu"``."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Accepted as in PyTorch: reading a value waits for it."""
