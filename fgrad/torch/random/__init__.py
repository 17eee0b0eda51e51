"""PyTorch's random numbers on the CPU, bit for bit, over NumPy: the generator and its distributions.

The package is ``torch.random`` too, with that module's names.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.random.default import (
        default_generator as default_generator,
        fork_rng as fork_rng,
        get_rng_state as get_rng_state,
        initial_seed as initial_seed,
        manual_seed as manual_seed,
        seed as seed,
        set_rng_state as set_rng_state,
    )
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {f"{__name__}.default": "default_generator fork_rng get_rng_state initial_seed manual_seed seed set_rng_state"},
    )
