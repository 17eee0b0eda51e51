"""Which plans of operations are kept.

NOTE [Generations of plans]
A program whose shapes are new in each step needs ever new plans, some ten kilobytes each.  So the plans made since a
limit was last reached are one generation, and beside it only the one before is kept.  A plan of that one which is used
again joins the present one.  So what a program uses again and again stays, at a dictionary's price for each use.
"""

from typing import Protocol

#: how many operands the plans of a generation have in total
OPERANDS_KEPT = 1 << 15


class Ages(Protocol):
    """What has plans of two generations."""

    def age(self) -> None:
        """Begin a new generation."""
        ...


class Generations:
    """The present generation of plans."""

    __slots__ = ("_operations", "_operands")

    def __init__(self) -> None:
        #: all operations that have had plans
        self._operations: set[Ages] = set()
        self._operands: int = 0

    def enter(self, operation: Ages, operands: int) -> None:
        """Note a plan that joins the generation; begin a new one first if it is full."""
        self._operands += operands
        if self._operands > OPERANDS_KEPT:
            self._operands = operands
            for each in [*self._operations]:
                each.age()
        self._operations.add(operation)


generations = Generations()
