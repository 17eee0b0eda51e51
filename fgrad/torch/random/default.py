"""The default generator, and the functions that set and read it."""

import contextlib
from collections.abc import Iterator
from typing import Any, SupportsInt

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.random.public import Generator

default_generator: Generator = Generator()


def manual_seed(seed: SupportsInt | str) -> Generator:
    """Seeds the default generator, and returns it.

    Raises ``ValueError`` for a seed outside ``[-2**63, 2**64)``.

    >>> from fgrad.torch.random.default import manual_seed
    >>> manual_seed(0).floats(2)
    array([0.4962566, 0.7682218], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.manual_seed.html
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the default generator from the operating system's entropy, and returns that seed.

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.seed.html
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started with.

    >>> from fgrad.torch.random.default import initial_seed, manual_seed
    >>> _ = manual_seed(-1)
    >>> initial_seed() == 2**64 - 1
    True

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.initial_seed.html
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as a tensor of bytes.

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.get_rng_state.html
    """
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Continues the default generator from a state that ``get_rng_state`` returned.

    Raises ``TypeError`` if it is not a tensor of bytes, ``RuntimeError`` if the bytes are not a state.

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.set_rng_state.html
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Restores the default generator's state at the end of the block.

    ``devices``, of type ``device_type``, are accepted: here all devices draw from this generator.
    With ``enabled=False`` nothing is restored.

    >>> from fgrad.torch.random.default import default_generator, fork_rng
    >>> with fork_rng():
    ...     inside = default_generator.words(1)
    >>> bool(inside == default_generator.words(1))
    True

    Source: https://docs.pytorch.org/docs/2.13/random.html
    """
    if not enabled:
        yield
        return
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)
