"""Arguments that are a number for all dimensions alike or a number for each."""

from collections.abc import Iterable
from typing import Any

#: a number, or one for each spatial dimension
Size = int | tuple[int, ...]


def each(value: Any, count: int) -> tuple[Any, ...]:
    """``value`` for each of ``count`` dimensions; several values are left as they are.

    >>> each(3, 2), each((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return tuple(value) if isinstance(value, Iterable) else (value,) * count
