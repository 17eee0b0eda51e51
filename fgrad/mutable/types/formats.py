"""How the elements of a tensor are laid out in memory, by name: ``torch.memory_format`` and ``torch.layout``."""

from enum import Enum
from typing import Any

from fgrad.mutable.types.type_names import type_name


class memory_format(Enum):
    """The order of a dense tensor's dimensions in memory.

    >>> import fgrad.torch as torch
    >>> torch.channels_last, isinstance(torch.channels_last, torch.memory_format)
    (torch.channels_last, True)

    Source: `torch.memory_format <https://docs.pytorch.org/docs/2.13/tensor_attributes.html#torch.memory_format>`_.
    """

    __torch_name__ = "torch.memory_format"

    contiguous_format = "contiguous_format"
    preserve_format = "preserve_format"
    channels_last = "channels_last"
    channels_last_3d = "channels_last_3d"

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    __str__ = __repr__


def format_name(format: Any) -> str | None:
    """The name of an argument ``memory_format``; None if there is none.

    Raises:
      TypeError: it is something else.

    >>> format_name(memory_format.channels_last)
    'channels_last'
    """
    if format is not None and not isinstance(format, memory_format):
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type_name(format)}")
    return format and format.name


class layout(Enum):
    """Whether a tensor is dense (``torch.strided``) or sparse; here all are dense, the others are names only.

    >>> import fgrad.torch as torch
    >>> torch.strided, isinstance(torch.sparse_coo, torch.layout)
    (torch.strided, True)

    Source: `torch.layout <https://docs.pytorch.org/docs/2.13/tensor_attributes.html#torch.layout>`_.
    """

    __torch_name__ = "torch.layout"

    strided = "strided"
    sparse_coo = "sparse_coo"
    sparse_csr = "sparse_csr"
    sparse_csc = "sparse_csc"
    sparse_bsr = "sparse_bsr"
    sparse_bsc = "sparse_bsc"
    jagged = "jagged"

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    __str__ = __repr__


contiguous_format = memory_format.contiguous_format
preserve_format = memory_format.preserve_format
channels_last = memory_format.channels_last
channels_last_3d = memory_format.channels_last_3d
legacy_contiguous_format = contiguous_format

strided = layout.strided
sparse_coo = layout.sparse_coo
sparse_csr = layout.sparse_csr
sparse_csc = layout.sparse_csc
sparse_bsr = layout.sparse_bsr
sparse_bsc = layout.sparse_bsc
jagged = layout.jagged
