"""The generator with a tensor interface: its state is a tensor, and it has a device."""

import math
from typing import Any

import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.random import generator


class Generator(generator.Generator):
    """A stream of random numbers, the same as PyTorch's on the CPU from the same seed.

    Raises ``RuntimeError`` for a device other than the CPU: random numbers are always drawn there.

    >>> import fgrad.torch as torch
    >>> torch.rand(2, generator=torch.Generator().manual_seed(0))
    tensor([0.4963, 0.7682])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Generator.html
    """

    def __init__(self, device: Any = "cpu"):
        self._device = Device(device)
        if self._device.type != "cpu":
            raise RuntimeError(f"Device type {self._device.type} is not supported for torch.Generator() api.")
        super().__init__()

    @property
    def device(self) -> Device:
        """The device on which numbers are drawn."""
        return self._device

    def get_state(self) -> Tensor:  # type: ignore[override]
        """The whole state as a tensor of bytes, which PyTorch's generator takes as well."""
        state = constant(super().get_state()) if modes.capturing is None else modes.capturing.generator_state(self)
        return new_tensor(state, type_of(state))

    def set_state(self, state: Any) -> "Generator":
        """Continues from a state that ``get_state`` returned.

        Raises ``TypeError`` if it is not a tensor of bytes, ``RuntimeError`` if the bytes are not a state.
        """
        if not isinstance(state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type_name(state)}")
        shape = state._type.shape
        generator.check_type_of_state(state._type.dtype.numpy, math.prod(shape), state._geometry_of().contiguous)
        if modes.capturing is None:
            super().set_state(concrete(state._value()))
        else:
            modes.capturing.lift_operands([state])
            modes.capturing.set_generator_state(self, state._value() if len(shape) == 1 else state.reshape(-1)._value())
        return self

    def clone_state(self) -> "Generator":
        """Another generator that continues as this one would."""
        return type(self)().set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_in_python()
        return type(self), (), super().get_state()

    def __setstate__(self, state: np.ndarray) -> None:
        super().set_state(state)
        if modes.capturing is not None:
            modes.capturing.add_local_generator(self)


# for printing and pickling
Generator.__module__ = "fgrad.torch"
