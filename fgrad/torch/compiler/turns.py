"""The faster of two ways to run a call that is not one program: in pieces, or uncompiled.

NOTE [Pieces take turns]
To record a piece costs more than to run its operations one by one; what is gained is XLA's program, for large tensors.
Which way is faster is measured: after some calls in pieces, by which their programs are compiled, some run uncompiled,
and then the faster way is taken.  Both have the same effects.
"""

import time
from collections.abc import Callable
from typing import Any

from attrs import define, field

from fgrad.run.policy import active

#: calls in pieces before they are timed: their programs are compiled meanwhile
WARM_UP = 8


@define(eq=False)
class Turns:
    """The times of a call's two ways, and which of them is next."""

    calls: int = 0
    #: the least seconds of a call in pieces, and of an uncompiled one
    seconds: list[float] = field(factory=lambda: [float("inf"), float("inf")])

    def run(self, in_pieces: Callable[[], Any], uncompiled: Callable[[], Any]) -> Any:
        """The result of a call by the way that is next, or by the faster one."""
        count = active().turns
        if not count:
            return in_pieces()
        self.calls += 1
        turn = self.calls - WARM_UP
        if turn > 2 * count:
            return in_pieces() if self.seconds[0] <= self.seconds[1] else uncompiled()
        way = int(turn > count)
        start = time.perf_counter()
        result = uncompiled() if way else in_pieces()
        if turn > 0:
            self.seconds[way] = min(self.seconds[way], time.perf_counter() - start)
        return result
