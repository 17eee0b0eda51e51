"""One recording of an operation for operands of many sizes: see NOTE [Families of graphs].

The second time that an operation has operands which differ from earlier ones in some sizes alone, it is recorded with
symbols in the place of these.  If the symbolic graph with the earlier sizes put in is the one that was recorded for
them, it is used for all further sizes that differ there; else each is recorded.  So the graph of an operation never
depends on what ran before.

Small sizes stay numbers, for rules and kernels tell them from others.  Equal sizes are one symbol, and so are integers
of the parameters that are equal to a size, or to the product of some that are neighbours: those of a view's shape.
"""

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from attrs import frozen

from fgrad.mutable.operation.operands import OperandType
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.seam import LARGEST, SMALLEST, Family, Graph, calls_alike, is_symbolic, simplify, symbols, with_x64

Sizes = tuple[int, ...]
#: a graph, and what else is known once it has been recorded, which is the same for all sizes
Recorded = tuple[Graph, Any]
#: records a graph for sizes some of which may be symbols
Record = Callable[[Sequence[Any]], Recorded]
#: which sizes differ from the first ones, and are symbols in a family
Varying = tuple[bool, ...]


@frozen
class Size:
    """A number in a pattern that follows from the sizes.

    Attributes:
      factors: small numbers as they are, and those of sizes as negative numbers: -1 for the first.
    """

    factors: tuple[int, ...]

    def of(self, sizes: Sequence[Any]) -> Any:
        """The number for some sizes."""
        return math.prod([sizes[-1 - x] if x < 0 else x for x in self.factors])


@frozen
class Pattern:
    """What operands of an operation have in common with others that differ from them in sizes.

    Attributes:
      key: equal for such operands: types and parameters, with ``Size`` in the place of numbers.
      params: the parameters in it.
      numbers: by their values, those that follow from the sizes.
      sizes: the numbers on which all others depend.
    """

    key: Any
    params: tuple[Any, ...]
    numbers: Mapping[int, Size]
    sizes: Sizes

    def shape(self, of: tuple[int, ...], sizes: Sequence[Any]) -> tuple[Any, ...]:
        """A shape of the operands with others in the place of the sizes."""
        return tuple([n if n < SMALLEST else self.numbers[n].of(sizes) for n in of])

    def parameters(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """The parameters with others in the place of the sizes."""
        return tuple([_with_sizes(x, sizes) for x in self.params])


def pattern_of(types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None) -> Pattern | None:
    """The pattern of an operation's operands; None if no other operands can share it."""
    shapes = [t.shape for t in (*types, into) if isinstance(t, TensorType)]
    numbers = _Numbers(shapes, params)
    operands = []
    for type in (*types, into):
        if isinstance(type, TensorType):
            shape = tuple([n if n < SMALLEST else numbers.size(n) for n in type.shape])
            operands.append((type.dtype, type.number, shape))
        else:
            operands.append(type)
    sizes = tuple(numbers.positions)
    if not sizes or max(sizes) > LARGEST:
        return None
    static = tuple([numbers.parameter(x) for x in params])
    return Pattern((tuple(operands), static), static, numbers.sizes, sizes)


class _Numbers:
    """The numbers of a pattern, as they are met.

    A size that is the product of neighbours in a parameter depends on these, as where a view splits an axis; an integer
    of a parameter that is the product of neighbouring sizes depends on those, as where it joins axes.
    """

    __slots__ = ("positions", "sizes", "_split", "_joined", "_shapes")

    def __init__(self, shapes: Sequence[tuple[int, ...]], params: tuple[Any, ...]):
        #: the sizes on which all others depend, with the numbers that stand for them
        self.positions: dict[int, int] = {}
        self.sizes: dict[int, Size] = {}
        self._shapes: Sequence[tuple[int, ...]] = shapes
        lists = [x for x in params if x.__class__ is tuple and all(n.__class__ is int and n >= 0 for n in x)]
        self._split: dict[int, tuple[int, ...]] = _products(lists) if lists else {}
        self._joined: dict[int, tuple[int, ...]] | None = None

    def size(self, n: int) -> Size:
        """A size of the operands."""
        known = self.sizes.get(n)
        if known is None:
            known = self.sizes[n] = Size(self._factors(n))
        return known

    def _factors(self, n: int) -> tuple[int, ...]:
        if n < SMALLEST:
            return (n,)
        split = self._split.get(n)
        if split is None:
            return (self.positions.setdefault(n, -1 - len(self.positions)),)
        return tuple([factor for x in split for factor in self._factors(x)])

    def parameter(self, value: Any) -> Any:
        """A parameter, once all sizes are met."""
        if value.__class__ is tuple:
            return tuple([self.parameter(x) for x in value])
        if value.__class__ is not int or value < SMALLEST:
            return value
        if value in self.sizes or value in self.positions:
            return self.size(value)
        if self._joined is None:
            self._joined = _products(self._shapes)
        joined = self._joined.get(value)
        return value if joined is None else Size(tuple([factor for x in joined for factor in self._factors(x)]))


def _products(lists: Sequence[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """The neighbours in lists of integers whose product is greater than each of them, by this product."""
    found: dict[int, tuple[int, ...]] = {}
    for numbers in lists:
        for first, last in combinations(range(len(numbers) + 1), 2):
            factors = numbers[first:last]
            product = math.prod(factors)
            if product > max(SMALLEST - 1, *factors):
                found.setdefault(product, factors)
    return found


def _with_sizes(value: Any, sizes: Sequence[Any]) -> Any:
    """A parameter of a pattern with sizes put in."""
    if value.__class__ is Size:
        return value.of(sizes)
    if value.__class__ is tuple:
        return tuple([_with_sizes(x, sizes) for x in value])
    return value


class Sized:
    """The graphs of an operation for the sizes of one pattern."""

    __slots__ = ("first", "_families")

    def __init__(self, sizes: Sizes, recorded: Recorded):
        #: the first sizes, and what was recorded for them
        self.first: tuple[Sizes, Recorded] = sizes, recorded
        #: by the sizes that are symbols; None where there is none
        self._families: dict[Varying, Family | None] = {}

    def symbolic(self, sizes: Sequence[Any]) -> Graph | None:
        """The graph with symbols where sizes are symbols, or other than the first ones; None if there is none."""
        family = self._families.get(self._varying(sizes))
        return None if family is None else family.graph

    def recorded(self, sizes: Sizes, record: Record) -> Recorded:
        """What is recorded for some sizes."""
        first, known = self.first
        if sizes == first:
            return known
        varying = self._varying(sizes)
        if varying not in self._families:
            self._families[varying] = _family(record, first, varying, known)
        family = self._families[varying]
        if family is None:
            return record(sizes)
        numbers = tuple([n for n, varies in zip(sizes, varying, strict=True) if varies])
        return _member(family, numbers, lambda: record(sizes)[0]), known[1]

    def _varying(self, sizes: Sequence[Any]) -> Varying:
        pairs = zip(sizes, self.first[0], strict=True)
        return tuple([n is not known and (is_symbolic(n) or n != known) for n, known in pairs])


def _member(family: Family, numbers: Sizes, record: Callable[[], Graph]) -> Graph:
    """A member, simplified as what is recorded: only now is a number of elements a constant, and 9*10 equal to 90."""
    graph = family.member(numbers, record)
    return with_x64(simplify, graph) if family.counts or len({*graph.nodes}) < len(graph.nodes) else graph


def _family(record: Record, first: Sizes, varying: Varying, known: Recorded) -> Family | None:
    """The family of an operation in some of the first sizes, if it has one that includes what was recorded for them."""
    numbers = tuple([n for n, varies in zip(first, varying, strict=True) if varies])
    if len(numbers) > len(symbols()):
        return None
    unused = iter(symbols())
    try:
        graph, other = record([next(unused) if varies else n for n, varies in zip(first, varying, strict=True)])
        family = Family(graph)
        is_member = other == known[1] and calls_alike(_member(family, numbers, lambda: record(first)[0]), known[0])
    except Exception:  # what it does depends on the sizes, or is something in which symbols cannot be replaced
        return None
    finally:
        # for each symbol JAX leaves an error that refers to itself, and through its frames to the operands
        gc.collect(0)
    return family if is_member else None
