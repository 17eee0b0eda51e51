"""``torch.types``: names for annotations."""

import builtins
from collections.abc import Sequence

from fgrad.torch.core.tensor import Tensor
from fgrad.torch.devices import device as _device
from fgrad.torch.dtypes import dtype as _dtype
from fgrad.torch.formats import layout as _layout
from fgrad.torch.size import Size

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_complex = builtins.complex
_size = Size | list[int] | tuple[int, ...]
_TensorOrTensors = Tensor | Sequence[Tensor]
Number = int | float | bool
Device = _device | str | int | None

__all__ = [
    "Device", "Number", "_TensorOrTensors", "_bool", "_complex", "_device", "_dtype", "_float", "_int", "_layout",
    "_size",
]  # fmt: skip
