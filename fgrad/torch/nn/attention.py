"""``torch.nn.attention``: which kernels ``scaled_dot_product_attention`` may use.

Source: `torch.nn.attention <https://docs.pytorch.org/docs/2.13/nn.attention.html>`_.
"""

import contextlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from fgrad.torch.backends.cuda import kernels

#: the package whose modules the table lists
__path__: list[str] = []


class SDPBackend(Enum):
    """A kernel of attention; on the CPU there are ``MATH`` and ``FLASH_ATTENTION``.

    Source: `torch.nn.attention.SDPBackend
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.attention.SDPBackend.html>`_.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


#: the kernels by the names of their settings
_NAMES = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "overrideable": SDPBackend.OVERRIDEABLE,
}


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A context in which attention uses only the given kernels.

    Arguments:
      backends: the kernel or kernels.
      set_priority: accepted as in PyTorch, where it orders the kernels of GPUs.

    Raises:
      AssertionError: ``backends`` is neither a kernel nor a list.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.nn.attention import SDPBackend, sdpa_kernel
    >>> x = torch.ones(1, 1, 2, 2)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).sum()
    tensor(4.)

    Source: `torch.nn.attention.sdpa_kernel
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.attention.sdpa_kernel.html>`_.
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before = dict(kernels)
    _allow([backends] if isinstance(backends, SDPBackend) else backends)
    try:
        yield {}
    finally:
        kernels.update(before)


def _allow(backends: Iterable[Any]) -> None:
    allowed = list(backends)
    kernels.update({name: backend in allowed for name, backend in _NAMES.items()})
