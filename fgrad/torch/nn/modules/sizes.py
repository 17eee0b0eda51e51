"""Arguments that are one number for all dimensions or a number for each."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

#: a number, or one for each spatial dimension
Size = int | tuple[int, ...]
#: how many axes a tensor can have: no more are taken from an endless generator
_MOST = 64


def each(value: Any, count: int) -> tuple[Any, ...]:
    """``value`` for each of ``count`` dimensions; several values stay, at most as many as a tensor can have axes.

    >>> each(3, 2), each((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return tuple(islice(value, _MOST + 1)) if isinstance(value, Iterable) else (value,) * count
