"""Tensors that share memory: batched results may be written together only where none do."""

from collections.abc import Iterator, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor


def without_aliasing(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in lists to be written in order: within a list no two share memory."""
    remaining = list(tensors)
    while remaining:
        first: dict[Any, Tensor] = {}
        later = []
        for tensor in remaining:
            key = id(tensor._storage)
            if key in first:
                later.append(tensor)
            else:
                first[key] = tensor
        yield list(first.values())
        remaining = later
