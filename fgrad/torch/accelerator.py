"""``torch.accelerator``: the accelerator, if there is one.

Source: `torch.accelerator <https://docs.pytorch.org/docs/2.13/accelerator.html>`_.
"""

from fgrad.mutable.types.devices import device
from fgrad.torch import cuda
from fgrad.torch.stand_ins import names

globals().update(names("accelerator"))


def device_count() -> int:
    """The number of devices."""
    return cuda.device_count()


def is_available() -> bool:
    """Whether there is one.

    >>> import fgrad.torch as torch
    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The device, or None."""
    return device("cuda") if is_available() else None


def synchronize(device: object = None) -> None:
    """Wait for all pending work of the devices."""
    cuda.synchronize(device)
