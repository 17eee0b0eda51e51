"""One recording of an operation for operands of many sizes: see NOTE [Families of graphs].

The second time that an operation has operands which differ from earlier ones in sizes alone, it is recorded on symbols.
If the symbolic graph with the earlier sizes put in is the one that was recorded for them, it is used for all further
sizes; else each is recorded.  So the graph of an operation never depends on what ran before.

Small sizes stay numbers, for rules and kernels tell them from others, and so do those that are among the operation's
parameters.  Equal sizes are one symbol.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.operation.operands import OperandType
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.seam import LARGEST, SMALLEST, Family, Graph, calls_alike, simplify, symbols, with_x64

Sizes = tuple[int, ...]
#: a graph, and what else is known once it has been recorded, which is the same for all sizes
Recorded = tuple[Graph, Any]
#: records a graph for sizes that may be symbols
Record = Callable[[Sequence[Any]], Recorded]


@frozen
class Pattern:
    """What operands of an operation have in common with others that differ from them in sizes.

    Attributes:
      key: equal for such operands: types and parameters, with sizes as negative numbers that say which are equal.
      sizes: the numbers for which these stand.
    """

    key: Any
    sizes: Sizes

    def shape(self, of: tuple[int, ...], sizes: Sequence[Any]) -> tuple[Any, ...]:
        """A shape of the operands with others in the place of the sizes."""
        new = dict(zip(self.sizes, sizes, strict=True))
        return tuple([new.get(n, n) for n in of])


def pattern_of(types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None) -> Pattern | None:
    """The pattern of an operation's operands; None if no other operands can share it."""
    positions: dict[int, int] = {}
    fixed = {*range(SMALLEST), *_integers(params)}
    operands = []
    for type in (*types, into):
        if not isinstance(type, TensorType):
            operands.append(type)
            continue
        shape = tuple([n if n in fixed else positions.setdefault(n, -1 - len(positions)) for n in type.shape])
        operands.append((type.dtype, type.number, shape))
    if not 0 < len(positions) <= len(symbols()) or max(positions) > LARGEST:
        return None
    return Pattern((tuple(operands), params), tuple(positions))


def _integers(value: Any) -> Iterator[int]:
    """The integers in an operation's parameters."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, slice):
        yield from _integers((value.start, value.stop, value.step))


class Sized:
    """The graphs of an operation for the sizes of one pattern."""

    __slots__ = ("first", "_family", "_is_known")

    def __init__(self, sizes: Sizes, recorded: Recorded):
        #: the first sizes, and what was recorded for them
        self.first: tuple[Sizes, Recorded] = sizes, recorded
        self._family: Family | None = None
        #: whether it is known if there is a family
        self._is_known: bool = False

    @property
    def symbolic(self) -> Graph | None:
        """The symbolic graph, if there is one."""
        return None if self._family is None else self._family.graph

    def recorded(self, sizes: Sizes, record: Record) -> Recorded:
        """What is recorded for some sizes."""
        if sizes == self.first[0]:
            return self.first[1]
        if not self._is_known:
            self._family = _family(record, *self.first)
            self._is_known = True
        if self._family is None:
            return record(sizes)
        return _member(self._family, sizes, record), self.first[1][1]


def _member(family: Family, sizes: Sizes, record: Record) -> Graph:
    """A member, simplified as what is recorded: only now is a number of elements a constant, and 9*10 equal to 90."""
    graph = family.member(sizes, lambda: record(sizes)[0])
    return with_x64(simplify, graph) if family.counts or len({*graph.nodes}) < len(graph.nodes) else graph


def _family(record: Record, sizes: Sizes, known: Recorded) -> Family | None:
    """The family of an operation, if it has one that includes what was recorded for some sizes."""
    try:
        graph, other = record(symbols()[: len(sizes)])
        family = Family(graph)
        is_member = other == known[1] and calls_alike(_member(family, sizes, record), known[0])
    except Exception:  # what it does depends on the sizes, or is something in which symbols cannot be replaced
        return None
    finally:
        # for each symbol JAX leaves an error that refers to itself, and through its frames to the operands
        gc.collect(0)
    return family if is_member else None
