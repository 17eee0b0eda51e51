"""The device of a value: the CPU, one of JAX's accelerators, or none (PyTorch's device ``meta``).

NOTE [A value knows its device]
A tensor's device is that of its value.  NumPy arrays and JAX's arrays on the CPU are on the CPU; an array on an
accelerator is committed to it; an ``Absent`` value has a shape and a type and no elements.  Results are on the device
of the operands, whatever JAX's default device is.  While all values are on the CPU, and JAX has no other device,
nothing is checked (``elsewhere.exist``).
"""

import contextlib
import functools
from typing import Any

import jax
import numpy as np

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.types import devices
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.values.batched import Batched
from fgrad.seam import Tracer, with_x64

CPU, META = Device("cpu"), Device("meta")
NO_DATA = "Cannot copy out of meta tensor; no data!"


class Absent:
    """The value of a tensor on the device ``meta``."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Ints, dtype: Any):
        elsewhere.exist = True
        self.shape: Ints = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(NO_DATA)


class _Elsewhere:
    """Whether any value was ever, or might be, elsewhere than on the CPU."""

    exist = False


elsewhere: _Elsewhere = _Elsewhere()


@functools.cache
def accelerated() -> bool:
    """Whether JAX's default device is not the CPU."""
    has_accelerator = jax.default_backend() != "cpu"
    elsewhere.exist = elsewhere.exist or has_accelerator
    return has_accelerator


def on_cpu() -> Any:
    """A block in which the CPU is JAX's default device."""
    return jax.default_device(devices.jax_device(CPU)) if accelerated() else contextlib.nullcontext()


def accelerator_of(value: Any) -> Any:
    """The JAX device of a value on an accelerator; None of any other."""
    if value.__class__ is Batched:
        return accelerator_of(value.array)
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return None
    device = min(value.devices(), key=lambda each: each.id)
    return None if devices.of_jax(device).type == "cpu" else device


def place_of(value: Any) -> Device:
    """The device of a value's elements; a traced value counts as on the CPU."""
    if value.__class__ is Absent:
        return META
    accelerator = None if value.__class__ is np.ndarray else accelerator_of(value)
    return CPU if accelerator is None else devices.of_jax(accelerator)


def placed(value: Any, where: Device) -> Any:
    """A concrete value moved to a device.

    Raises:
      NotImplementedError: it has no elements to be copied.
      AssertionError, RuntimeError: there is no such device; PyTorch's errors.
    """
    if value.__class__ is Batched:
        return Batched(placed(value.array, where), value.level)
    if where.type == "meta":
        return Absent(tuple(value.shape), value.dtype)
    if value.__class__ is Absent:
        raise NotImplementedError(NO_DATA)
    target = devices.jax_device(where)
    if isinstance(value, Tracer) or place_of(value) == devices.settled(where):
        return value
    elsewhere.exist = True
    return with_x64(jax.device_put, np.array(value) if where.type == "cpu" else value, target)
