"""Arguments that are a number for all dimensions alike or a number for each."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

#: a number, or one for each spatial dimension
Size = int | tuple[int, ...]
#: how many axes a tensor can have: of a generator without end no more are taken
_MOST = 64


def each(value: Any, count: int) -> tuple[Any, ...]:
    """``value`` for each of ``count`` dimensions; several values are left as they are, as many as a tensor has axes.

    >>> each(3, 2), each((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return tuple(islice(value, _MOST + 1)) if isinstance(value, Iterable) else (value,) * count
