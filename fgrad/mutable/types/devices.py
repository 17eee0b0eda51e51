"""Devices: ``torch.device``, the JAX device behind it, and the default device of a thread."""

import functools
import re
import threading
from typing import Any, ClassVar, Self, final

import jax
from attrs import frozen

from fgrad.mutable.types.type_names import type_name

_PYTORCH_TYPES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
#: the names of device types; "tpu" is an addition, since PyTorch knows TPUs only through XLA
TYPES = frozenset((*_PYTORCH_TYPES.split(", "), "tpu"))

_DEVICE_STRING = re.compile(r"([a-zA-Z_]+)(?::(0|[1-9][0-9]*))?")
_LARGEST_INDEX = 2**31 - 1


@final
@frozen(repr=False, init=False, order=False)
class device:
    """A device that holds tensors: a type such as ``"cpu"``, ``"cuda"`` or ``"tpu"``, and an index.

    Any device can be named; using one that does not exist raises.  As a context manager it is the default device of the
    thread within the block.

    Arguments:
      type: the type, optionally with an index as in ``"cuda:1"``; or a device; or the index of an accelerator.
      index: the index; by default, the first device.
      device: another name of the first argument.

    Raises:
      RuntimeError: the string names no device, or there is no accelerator.
      TypeError: the arguments are of other types.

    >>> import fgrad.torch as torch
    >>> torch.device('cuda:1'), torch.device('cuda', 1).type, torch.device('cpu').index
    (device(type='cuda', index=1), 'cuda', None)
    >>> torch.device('gpu')  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    RuntimeError: Expected one of cpu, cuda, ... device type at start of device string: gpu

    Source: `torch.device <https://docs.pytorch.org/docs/2.13/tensor_attributes.html#torch.device>`_.
    """

    __torch_name__: ClassVar[str] = "torch.device"

    type: str
    index: int | None

    def __init__(
        self,
        type: "str | device | int | None" = None,
        index: int | None = None,
        *,
        device: "str | device | int | None" = None,
    ) -> None:
        value = type if device is None else device
        self.__attrs_init__(*(_place(value) if index is None else _indexed(value, index)))  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> Self:
        default_devices.entered = (*default_devices.entered, self)
        return self

    def __exit__(self, *exception: object) -> None:
        default_devices.entered = default_devices.entered[:-1]


def _place(value: Any) -> tuple[str, int | None]:
    if isinstance(value, device):
        return value.type, value.index
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _accelerator(_checked(value)), value
    raise TypeError(
        f"device() received an invalid combination of arguments - got ({type_name(value)}), but expected one of:\n"
        " * (torch.device device)\n"
        f"      didn't match because some of the arguments have invalid types: (!{type_name(value)}!)\n"
        " * (str type, int index = -1)\n"
    )


def _indexed(value: Any, index: Any) -> tuple[str, int | None]:
    if not isinstance(value, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type_name(value)}")
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type_name(index)}")
    type, other_index = _parsed(value)
    if other_index is not None:
        raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {value}")
    return type, _checked(index)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[str, int | None]:
    if not text:
        raise RuntimeError("Device string must not be empty")
    match = _DEVICE_STRING.fullmatch(text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    type, index = match.groups()
    if type not in TYPES:
        raise RuntimeError(f"Expected one of {_PYTORCH_TYPES} device type at start of device string: {type}")
    if index is not None and int(index) > _LARGEST_INDEX:
        raise RuntimeError(f"Could not parse device index '{index}' in device string '{text}'")
    return type, None if index is None else int(index)


def _checked(index: int) -> int:
    if index < 0:
        raise RuntimeError("Device index must not be negative")
    return index


def argument(value: Any, function: str, name: str = "device", position: int | None = None) -> device:
    """An argument as a device: a device, a string, or the index of an accelerator.

    Arguments:
      value: the argument.
      function: the name of the called function, for the error.
      name, position: of the parameter; a keyword parameter has no position.

    Raises:
      TypeError: it is none of these; PyTorch's error.
      RuntimeError: the string names no device.

    >>> argument('cpu', 'zeros')
    device(type='cpu')
    >>> argument(0.5, 'zeros')
    Traceback (most recent call last):
    TypeError: zeros(): argument 'device' must be torch.device, not float
    """
    if isinstance(value, device):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        return device(value)
    where = "" if position is None else f" (position {position})"
    raise TypeError(f"{function}(): argument '{name}'{where} must be torch.device, not {type_name(value)}")


# NOTE [Devices]: JAX starts its backends when its devices are first listed. So nothing here lists them before a tensor
# is made on a device. GPUs of all vendors are "gpu" to JAX, and "cuda" to PyTorch. As in PyTorch there is one "cpu",
# whatever its index, even if JAX splits the host into several devices.

_JAX_BACKENDS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}


def _jax_devices(type: str) -> list[Any]:
    """The devices of a type that this process can use, possibly none."""
    try:
        return jax.local_devices(backend=_JAX_BACKENDS[type])
    except RuntimeError:  # JAX has no such backend
        return []


def _accelerator(index: int) -> str:
    """The type of the accelerator that a bare index refers to."""
    for type in ("cuda", "tpu"):
        if _jax_devices(type):
            return type
    raise RuntimeError("Cannot access accelerator device when none is available.")


@functools.cache
def jax_device(where: device) -> Any:
    """The JAX device that holds the tensors of a device.

    Raises:
      AssertionError, RuntimeError: there is no such device; PyTorch's errors.
      NotImplementedError: for ``"meta"``, which holds no data.

    >>> jax_device(device('cpu')).platform
    'cpu'
    """
    if where.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    devices = _jax_devices(where.type) if where.type in _JAX_BACKENDS else []
    index = 0 if where.index is None or where.type == "cpu" else where.index
    if index < len(devices):
        return devices[index]
    if devices:
        raise RuntimeError(f"{where.type.upper()} error: invalid device ordinal")
    if where.type in ("cuda", "xpu"):
        raise AssertionError(f"Torch not compiled with {where.type.upper()} enabled")
    raise RuntimeError(f"PyTorch is not linked with support for {where.type} devices")


def settled(where: device) -> device:
    """The device as its tensors report it: the CPU has no index, an accelerator always has one.

    Raises:
      AssertionError, RuntimeError: there is no such device; PyTorch's errors.

    >>> settled(device('cpu:3')), settled(device('meta'))
    (device(type='cpu'), device(type='meta'))
    """
    if where.type in ("meta", "cpu"):
        return where if where.index is None else device(where.type)
    jax_device(where)
    return device(where.type, where.index or 0)


@functools.cache
def of_jax(jax_device: Any) -> device:
    """The device of tensors whose arrays are on a JAX device.

    >>> of_jax(jax.devices('cpu')[0])
    device(type='cpu')
    """
    for type in ("cuda", "tpu"):
        jax_devices = _jax_devices(type)
        if jax_device in jax_devices:
            return device(type, jax_devices.index(jax_device))
    return device("cpu")


class _Defaults(threading.local):
    """A thread's defaults: from ``set_default_device``, and from its ``with`` blocks, which take precedence."""

    def __init__(self) -> None:
        self.chosen = device("cpu")
        self.entered: tuple[device, ...] = ()


default_devices = _Defaults()


def default_as_given() -> device:
    """The device on which this thread makes tensors by default, perhaps without its index."""
    return default_devices.entered[-1] if default_devices.entered else default_devices.chosen


def get_default_device() -> device:
    """The device on which this thread makes tensors by default.

    Raises:
      AssertionError, RuntimeError: there is no such device.

    >>> import fgrad.torch as torch
    >>> with torch.device('meta'):
    ...     torch.get_default_device()
    device(type='meta')

    Source: `torch.get_default_device <https://docs.pytorch.org/docs/2.13/generated/torch.get_default_device.html>`_.
    """
    default = default_as_given()
    return default if default.index is not None else settled(default)


def set_default_device(device: "str | device | int | None") -> None:
    """Set the device on which this thread makes tensors by default; ``None`` is the CPU.

    >>> import fgrad.torch as torch
    >>> torch.set_default_device('meta')
    >>> torch.get_default_device()
    device(type='meta')
    >>> torch.set_default_device(None)

    Source: `torch.set_default_device <https://docs.pytorch.org/docs/2.13/generated/torch.set_default_device.html>`_.
    """
    default_devices.chosen = _Device("cpu" if device is None else device)


_Device = device  # hidden in `set_default_device` by its parameter, which has PyTorch's name
