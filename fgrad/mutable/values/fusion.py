"""Many operations as one program, or one by one: which of the two is faster is found out by trying both.

A structure of operations, a backlog or a backward, runs one by one at first.  Once that has taken as long as compiling
takes, its program is made: NOTE [Rent or buy].  While this is compiled, and after, both ways are timed, until the
program has won once, or lost so often that it is dropped.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from time import perf_counter
from typing import Any

from attrs import define
from jax import block_until_ready

from fgrad.mutable.values.evaluation import Routine
from fgrad.seam import Size, active, prices

#: how many structures of a kind are kept
STRUCTURES_KEPT = 1024


@define(eq=False)
class Fusion:
    """What is known of operations of one structure: whether to run them as one program."""

    #: the seconds that they may still take one by one before there is a program; infinite once it has lost
    unspent: float
    routine: Routine | None = None
    #: the fewest seconds that they have taken
    fastest: float = inf
    #: whether the program has been faster once, and is not timed any more
    won: bool = False
    #: how often the program has taken more
    slower: int = 0

    def program(self, made: Callable[[], Routine]) -> Routine | None:
        """The program, if it is to run now: it is made, and compiled, once that pays."""
        if self.unspent > 0:
            return None
        routine = self.routine
        if routine is None:
            routine = self.routine = made()
        return routine if routine.ready() else None

    def run(self, routine: Routine, args: Sequence[Any]) -> Sequence[Any]:
        """The results of the program; if it proves slower, the operations run one by one from now on."""
        if self.won or self.fastest == inf or (routine.compiled is None and routine.numpy is None):
            return routine(args)  # JAX takes longer for the first call of a compiled program
        outs, took = timed(lambda: routine(args), args)
        if took < self.fastest:
            self.won = True
        else:
            self.slower += 1
            if self.slower >= active().trials:
                self.unspent, self.routine = inf, None
        return outs

    def spend(self, seconds: float) -> None:
        """Note how long the operations have taken one by one."""
        self.unspent -= seconds
        self.fastest = min(self.fastest, seconds)


def compiling_price(routines: Iterable[Routine]) -> float:
    """The seconds that some operations may take one by one before they are compiled as one program."""
    return active().pieces_rent * prices.rent(sum([Size.of(routine.graph) for routine in routines], Size()))


def timed(run: Callable[[], Any], args: Sequence[Any]) -> tuple[Sequence[Any], float]:
    """What a call gives for arrays that are there, and the seconds that it takes."""
    block_until_ready(args)
    began = perf_counter()
    outs = block_until_ready(run())
    return outs, perf_counter() - began
