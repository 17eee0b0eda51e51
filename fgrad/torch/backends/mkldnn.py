"""``torch.backends.mkldnn``: not available: XLA computes everything."""

import contextlib
from collections.abc import Iterator

#: whether a layer of an LSTM on a CPU is one operation, as it is where oneDNN runs it
enabled = True


def is_available() -> bool:
    """Never."""
    return False


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A block in which ``torch.backends.mkldnn.enabled`` is as given."""
    before, globals()["enabled"] = globals()["enabled"], enabled
    try:
        yield
    finally:
        globals()["enabled"] = before
