"""``torch.types``: names for annotations."""

import builtins
from collections.abc import Sequence

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.devices import device as _device
from fgrad.mutable.types.dtypes import dtype as _dtype
from fgrad.mutable.types.formats import layout as _layout
from fgrad.mutable.types.size import Size

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
