"""Legacy constructors: ``torch.Tensor(2, 3)``, ``torch.FloatTensor([1., 2.])``, ``x.new(3)``.

Each takes sizes, data, or a tensor, of which it makes an alias.  ``torch.FloatTensor`` is not a class of tensors: it
stands for a dtype, and ``isinstance`` checks that.

Source: https://docs.pytorch.org/docs/2.13/tensors.html
"""

from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor, of_class
from fgrad.mutable.types import dtypes, formats
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype, set_default_dtype
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.methods.subclasses import checked_class
from fgrad.torch.ops.creation.data import tensor_from_data
from fgrad.torch.ops.creation.making import filled, sizes_of
from fgrad.torch.ops.creation.sequences import is_sequence
from fgrad.torch.ops.table.dispatch import UNLISTED, as_method
from fgrad.torch.ops.table.overloads import no_match
from fgrad.torch.ops.views.views import alias_of
from fgrad.torch.random.scalars import cpp_name

_SIGNATURES = (
    "*, torch.device device = None",
    "torch.Storage storage",
    "Tensor other",
    "tuple of ints size, *, torch.device device = None",
    "object data, *, torch.device device = None",
)
_OPTIONS = (
    "TensorOptions(dtype={}, device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), "
    "memory_format=(nullopt))"
)


def construct(dtype: Dtype, args: tuple[Any, ...], device: Any = None) -> Tensor:
    """A tensor from sizes (filled with zeros), data, or another tensor.

    Raises:
      TypeError: the arguments are none of these.
    """
    if not args:
        return filled((0,), 0, dtype, device, False)
    data = args[0]
    if len(args) > 1 or (isinstance(data, int | np.integer) and not isinstance(data, bool)):
        if not isinstance(data, int | np.integer | Tensor):
            raise TypeError(no_match("new", ", ".join(map(type_name, args)), _SIGNATURES))
        return filled(sizes_of(args, "new"), 0, dtype, device, False)
    if isinstance(data, Tensor):
        return alias_of(data)
    if isinstance(data, Size):
        return filled(data, 0, dtype, device, False)
    if not is_sequence(data):
        raise TypeError(f"new(): data must be a sequence (got {type_name(data)})")
    return tensor_from_data(data, dtype, device)


class tensortype(type):
    """The type of ``torch.FloatTensor`` and its like."""

    dtype: Dtype
    layout = formats.strided
    is_cuda = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance._type.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor) and args[0]._type.dtype is not cls.dtype:
            wanted, have = (_OPTIONS.format(cpp_name(d.numpy)) for d in (cls.dtype, args[0]._type.dtype))
            raise TypeError(f"expected {wanted} (got {have})")
        return construct(cls.dtype, args, device)


def _legacy_type(dtype: Dtype) -> tensortype:
    return tensortype(f"{dtype.scalar_name}Tensor", (), {"dtype": dtype, "__module__": "torch"})


_LEGACY = (
    dtypes.float32,
    dtypes.float64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.uint8,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.bool_,
)
#: the classes by their name in ``torch``
NAMES: dict[str, tensortype] = {f"{dtype.scalar_name}Tensor": _legacy_type(dtype) for dtype in _LEGACY}


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype, given as a legacy class or its name.

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.set_default_tensor_type.html
    """
    tensor_type = NAMES.get(t.rpartition(".")[2]) if isinstance(t, str) else t
    if not isinstance(tensor_type, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    set_default_dtype(tensor_type.dtype)


def _new(cls: type, *args: Any, device: Any = None) -> Any:
    tensor = construct(get_default_dtype(), args, device)
    return tensor if cls is Tensor else of_class(tensor, checked_class(cls))


@as_method(UNLISTED)
def _new_like(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """A tensor of this one's dtype from sizes or data; superseded by ``new_tensor`` and ``new_zeros``."""
    return construct(self._type.dtype, args if size is None else (Size(size),), device)


Tensor.__new__ = staticmethod(_new)  # type: ignore[assignment]
Tensor.new = _new_like  # type: ignore[attr-defined]
