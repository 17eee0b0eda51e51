"""``torch.backends.mkldnn``: oneDNN, in whose place XLA computes."""

import contextlib
from collections.abc import Iterator

#: whether a layer of an LSTM on a CPU is one operation, as it is where oneDNN runs it
enabled = True


def is_available() -> bool:
    """Whether oneDNN computes: never."""
    return False


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A block in which ``torch.backends.mkldnn.enabled`` is as given."""
    before, globals()["enabled"] = globals()["enabled"], enabled
    try:
        yield
    finally:
        globals()["enabled"] = before
