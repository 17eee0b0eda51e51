"""Random numbers of Python and NumPy, and iterators: what a call takes from them differs from call to call.

No operation draws these numbers, so they would be constants of a program.  Whether a call has drawn any is seen by the
states of the generators.  An iterator cannot be put back, so it matters whether a function can reach one.
"""

import io
import pickle
import random
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

import numpy as np
from attrs import frozen

#: gets and sets the state of a generator
_State = tuple[Callable[[], Any], Callable[[Any], Any]]


@frozen(eq=False)
class Streams:
    """The random generators of Python and NumPy that a call may draw from, with their states.

    Attributes:
      states: the functions that get and set each state, the state before the call, and its bytes.
    """

    states: list[tuple[_State, Any, bytes]]

    @staticmethod
    def of(objects: Iterable[Any]) -> "Streams":
        """The global generators, and those among some objects."""
        accesses: list[_State] = [
            (random.getstate, random.setstate),
            (lambda: np.random.get_state(legacy=False), np.random.set_state),
            *[access for x in objects if (access := _access(x)) is not None],
        ]
        states = [(access, access[0]()) for access in accesses]
        return Streams([(access, state, pickle.dumps(state)) for access, state in states])

    def have_advanced(self) -> bool:
        """Whether numbers have been drawn."""
        return any(pickle.dumps(get()) != before for (get, _), _, before in self.states)

    def restore(self) -> None:
        """Put all of them back."""
        for (get, put), state, before in self.states:
            if pickle.dumps(get()) != before:
                put(state)


def _access(x: Any) -> _State | None:
    if isinstance(x, np.random.Generator):
        return _access(x.bit_generator)
    if isinstance(x, random.Random) and not isinstance(x, random.SystemRandom):
        return x.getstate, x.setstate
    if isinstance(x, np.random.RandomState):
        return lambda: x.get_state(legacy=False), x.set_state
    if isinstance(x, np.random.BitGenerator):
        return lambda: x.state, lambda state: setattr(x, "state", state)
    return None


def is_iterator(x: Any) -> bool:
    """Whether an object is used up by what reads it; a file (so is ``no_grad``) is rather written."""
    return isinstance(x, SimpleQueue) or (hasattr(type(x), "__next__") and not isinstance(x, io.IOBase))
