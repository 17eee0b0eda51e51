"""``torch.cpu``: the device that is always there."""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import names, submodules

globals().update(names("cpu"))
if TYPE_CHECKING:
    from fgrad.torch.cpu import amp as amp
else:
    __getattr__, __dir__ = submodules(__name__, {__name__: "amp"})


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
