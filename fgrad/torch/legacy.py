"""Legacy constructors: ``torch.Tensor(2, 3)``, ``torch.FloatTensor([1., 2.])``, ``x.new(3)``.

Each takes sizes, data, or a tensor, of which it makes another handle.  ``torch.FloatTensor`` is no class of tensors: it
stands for an element type, and ``isinstance`` asks for that.

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
from fgrad.torch.ops.creation.creation import filled, sizes_of
from fgrad.torch.ops.creation.data import tensor_from_data
from fgrad.torch.ops.creation.sequences import is_sequence
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


def construct(dtype: Dtype, given: tuple[Any, ...], device: Any = None) -> Tensor:
    """A tensor of sizes (its elements are zeros), of data, or of another tensor.

    Raises:
      TypeError: the arguments are of no such kind.
    """
    if not given:
        return filled((0,), 0, dtype, device, False)
    data = given[0]
    if len(given) > 1 or (isinstance(data, int | np.integer) and not isinstance(data, bool)):
        if not isinstance(data, int | np.integer | Tensor):
            raise TypeError(no_match("new", ", ".join(map(type_name, given)), _SIGNATURES))
        return filled(sizes_of(given, "new"), 0, dtype, device, False)
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

    def __call__(cls, *given: Any, device: Any = None) -> Tensor:
        if len(given) == 1 and isinstance(given[0], Tensor) and given[0]._type.dtype is not cls.dtype:
            wanted, have = (_OPTIONS.format(cpp_name(d.numpy)) for d in (cls.dtype, given[0]._type.dtype))
            raise TypeError(f"expected {wanted} (got {have})")
        return construct(cls.dtype, given, device)


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
#: the classes by name, as ``torch`` has them
NAMES: dict[str, tensortype] = {f"{dtype.scalar_name}Tensor": _legacy_type(dtype) for dtype in _LEGACY}


def set_default_tensor_type(t: Any) -> None:
    """Make an element type the default, given as a legacy class or as its name.

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.set_default_tensor_type.html
    """
    found = NAMES.get(t.rpartition(".")[2]) if isinstance(t, str) else t
    if not isinstance(found, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    set_default_dtype(found.dtype)


def _new(cls: type, *given: Any, device: Any = None) -> Any:
    made = construct(get_default_dtype(), given, device)
    return made if cls is Tensor else of_class(made, checked_class(cls))


def _new_like(self: Tensor, *given: Any, device: Any = None) -> Tensor:
    """A tensor of this one's type from sizes or data; ``new_tensor`` and ``new_zeros`` are meant to be used instead."""
    return construct(self._type.dtype, given, device)


Tensor.__new__ = staticmethod(_new)  # type: ignore[assignment]
Tensor.new = _new_like  # type: ignore[attr-defined]
