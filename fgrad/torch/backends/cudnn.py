"""``torch.backends.cudnn``: not available; its settings are kept without effect."""

import contextlib
from collections.abc import Iterator

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether cuDNN computes: never."""
    return False


def version() -> None:
    """The version of cuDNN: None, there is none."""


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Settings for a block.

    >>> import fgrad.torch as torch
    >>> with torch.backends.cudnn.flags(enabled=False):
    ...     torch.backends.cudnn.enabled
    False
    >>> torch.backends.cudnn.enabled
    True
    """
    new = dict(locals())
    here = globals()
    old = {name: here[name] for name in new}
    here.update(new)
    try:
        yield
    finally:
        here.update(old)
