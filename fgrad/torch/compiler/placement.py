"""The device that a compiled program runs on, and what of its inputs and outputs lies elsewhere.

NOTE [Placement]
A program runs on one device: on an accelerator, if the call has values on one, and else on the CPU, whatever JAX's
default device is.  What a program on an accelerator reads from the CPU or leaves there (labels that the function moves,
a counter) is copied to the accelerator before it runs, and back afterwards; a program owns nothing of that kind
(NOTE [Owned tensors]).  A call with values on several accelerators is not one program.
"""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.types.devices import jax_device
from fgrad.mutable.values.device_of_value import CPU, accelerated, accelerator_of
from fgrad.torch.compiler.new_tensors import NotReplayable


@frozen
class Placement:
    """Where a program runs.

    Attributes:
      accelerator: the JAX device, if it is not the CPU.
      inputs, outputs: the indices of those of a program on an accelerator that are on the CPU.
    """

    accelerator: Any = None
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    @property
    def device(self) -> Any:
        """The JAX device; None if JAX would choose it by itself."""
        return jax_device(CPU) if self.accelerator is None and accelerated() else self.accelerator


#: of a program on the CPU
HERE = Placement()


def placement_of(tape: Tape, inputs: Sequence[Any], outputs: Sequence[Any]) -> Placement:
    """The placement of the program from some traced values to others.

    Raises:
      NotReplayable: there are values on several accelerators.
    """
    if len(set(tape.accelerators.values())) > 1:
        raise NotReplayable("the function works on several accelerators")
    home = tape.home
    return HERE if home is None else Placement(home, _on_the_cpu(inputs), _on_the_cpu(outputs))


def _on_the_cpu(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple([i for i, x in enumerate(values) if accelerator_of(x) is None])
