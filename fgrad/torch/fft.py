"""Fourier transforms: what ``torch.fft`` has, gathered from the table of operations.

Source: `torch.fft <https://docs.pytorch.org/docs/stable/fft.html>`_.
"""

from typing import TYPE_CHECKING, Any

from fgrad.torch.ops.signal import fourier as fourier
from fgrad.torch.ops.table.table import TABLE

globals().update({name.removeprefix("fft."): TABLE[name].call for name in TABLE if name.startswith("fft.")})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
