"""The device of a value: the CPU, one of JAX's accelerators, or none (PyTorch's device ``meta``).

NOTE [A value knows its device]
A tensor's device is that of its value.  NumPy arrays and JAX's arrays on the CPU are on the CPU; an array on an
accelerator is committed to it; an ``Absent`` value has a shape and a type and no elements.  Results are on the device
of the operands, whatever JAX's default device is.  While all values are on the CPU, and JAX has no other device,
nothing is checked (``elsewhere.exist``).

A traced value of a capture is where it would be uncompiled: its tape notes the accelerator (``Places``).  Other traced
values, of JAX's transformations, are wherever their program runs, so they go with all others.
"""

import contextlib
import functools
from typing import Any, Protocol

import jax
import numpy as np

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.types import devices
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.values.batched import Batched, unbatched
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


class Places(Protocol):
    """A trace whose values have numbers and devices.

    Attributes:
      accelerators: the JAX devices of those values that are on accelerators, by number.
    """

    accelerators: dict[Any, Any]

    def copy_of(self, value: Any) -> Any:
        """Another traced value with the same elements, on the CPU."""
        ...


def places_of(value: Tracer) -> Places | None:
    """The trace of a traced value, if its values have devices."""
    trace: Any = value._trace
    return trace if hasattr(trace, "accelerators") else None


def accelerator_of(value: Any) -> Any:
    """The JAX device of a value on an accelerator; None of any other."""
    if value.__class__ is Batched:
        return accelerator_of(value.array)
    if isinstance(value, Tracer):
        places = places_of(value)
        return None if places is None else places.accelerators.get(value.number)
    if not isinstance(value, jax.Array):
        return None
    device = min(value.devices(), key=lambda each: each.id)
    return None if devices.of_jax(device).type == "cpu" else device


def is_somewhere(value: Any) -> bool:
    """Whether the device of a value is known; it is not for values that JAX traces."""
    value = unbatched(value)
    return not isinstance(value, Tracer) or places_of(value) is not None


def place_of(value: Any) -> Device:
    """The device of a value's elements; a traced value without one counts as on the CPU."""
    if value.__class__ is Absent:
        return META
    accelerator = None if value.__class__ is np.ndarray else accelerator_of(value)
    return CPU if accelerator is None else devices.of_jax(accelerator)


def placed(value: Any, where: Device) -> Any:
    """A value moved to a device; a traced value without one stays as it is.

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
    target = None if where.type == "cpu" else devices.jax_device(where)
    return at(value, target)


def made_at(value: Any, accelerator: Any) -> Any:
    """A value that was just computed from values on an accelerator."""
    places = places_of(value) if isinstance(value, Tracer) else None
    if places is None:
        return at(value, accelerator)
    places.accelerators[value.number] = accelerator
    return value


def at(value: Any, accelerator: Any) -> Any:
    """A value on an accelerator, a JAX device, or on the CPU for None; traced or not."""
    if accelerator_of(value) == accelerator:
        return value
    if value.__class__ is Batched:
        return Batched(at(value.array, accelerator), value.level)
    elsewhere.exist = True
    if isinstance(value, Tracer):
        places = places_of(value)
        if places is None:
            return value
        value = places.copy_of(value)
        if accelerator is not None:
            places.accelerators[value.number] = accelerator
        return value
    if accelerator is None:
        value, accelerator = np.array(value), devices.jax_device(CPU)
    return with_x64(jax.device_put, value, accelerator)
