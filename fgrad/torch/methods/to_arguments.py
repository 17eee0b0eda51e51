"""The arguments of ``to`` of tensors and modules: three forms, and the error for any other."""

from collections.abc import Mapping, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import PYTHON_TYPES, dtype
from fgrad.mutable.types.formats import memory_format

_TO = """to() received an invalid combination of arguments - got ({got}), but expected one of:
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
"""


#: device, dtype, ``non_blocking``, ``copy`` (None where it is not given) and memory format
To = tuple[Any, dtype | None, bool, bool | None, memory_format | None]


def _of_device(device: Any = None, dtype: Any = None, non_blocking: Any = False, copy: Any = None, *, memory_format: Any = None) -> Any:  # fmt: skip  # noqa: E501
    return device, dtype, non_blocking, copy, memory_format


def _of_dtype(dtype: Any, non_blocking: Any = False, copy: Any = None, *, memory_format: Any = None) -> Any:
    return None, dtype, non_blocking, copy, memory_format


def _of_tensor(tensor: Any, non_blocking: Any = False, copy: Any = None, *, memory_format: Any = None) -> Any:
    return tensor.device, tensor._type.dtype, non_blocking, copy, memory_format


def to_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> To:
    """The arguments of ``to`` in any of its forms.

    Raises:
      TypeError: they fit none.
    """
    if len(args) > 4:
        raise TypeError(f"to() takes from 0 to 4 positional arguments but {len(args)} were given")
    arguments, first = args, args[0] if args else kwargs.get("tensor")
    if isinstance(first, bool | float | complex):
        # PyTorch takes a number for its type, except that an integer is a device
        first = type(first)
        arguments = (first, *args[1:])
    if isinstance(first, Tensor):
        form = _of_tensor
    elif isinstance(first, dtype) or _is_python_type(first):
        form = _of_dtype
    else:
        form = _of_device
    try:
        device_argument, dtype_argument, non_blocking, copy, format = form(*arguments, **kwargs)
    except TypeError:
        raise unfit(args, kwargs) from None
    if _is_python_type(dtype_argument):
        dtype_argument = PYTHON_TYPES[dtype_argument]
    if not (
        (
            device_argument is None
            or (isinstance(device_argument, str | int | device) and not isinstance(device_argument, bool))
        )
        and (dtype_argument is None or isinstance(dtype_argument, dtype))
        and isinstance(non_blocking, bool)
        and (copy is None or isinstance(copy, bool))
        and (format is None or isinstance(format, memory_format))
    ):
        raise unfit(args, kwargs)
    return device_argument, dtype_argument, non_blocking, copy, format


def _is_python_type(value: Any) -> bool:
    return isinstance(value, type) and value in PYTHON_TYPES


def unfit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError:
    """PyTorch's error, with the types of the arguments."""
    types = ", ".join([*map(_kind, args), *(f"{name}={_kind(value)}" for name, value in kwargs.items())])
    # PyTorch puts a comma after keyword arguments that stand alone
    return TypeError(_TO.format(got=f"{types}, " if kwargs and not args else types))


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"torch.{name}" if isinstance(value, dtype | device | memory_format) else name
