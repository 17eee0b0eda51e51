"""From a value that is not finite back to what made it so: which operation did, and the way from there.

NOTE [Blame]
Many operations may have operands that are not finite, and not all of them are the cause: ``where`` may not choose them,
a product of matrices may have met an infinity elsewhere.  So an event is carried out again with such operands replaced
by plain numbers.  Where its result stays as it was, it makes NaN or Inf by itself; where the result becomes finite,
those operands are to blame that spoil it alone, and the search goes on from these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.jaxcore import is_inexact, typeof
from fgrad.questions.execution import Event, Execution, is_finite, numbers

#: what operands are replaced by, one after the other: what stays not finite with both is none of the operands' doing
PLAIN = (0.5, 1.5)


@frozen
class Trail:
    """How a value came to be not finite.

    Attributes:
      event: the first operation on the way that made NaN or Inf; None where it came from outside as it is.
      cells: from the result of that operation, or from what came from outside, to the value.
      given: the infinities from outside that went into the operation, where these are what made NaN of it.
    """

    event: Event | None
    cells: tuple[int, ...]
    given: tuple[int, ...] = ()


def trail(execution: Execution, cell: int) -> Trail:
    """The way back from a value that is not finite, to what came first."""
    led: dict[int, int | None] = {cell: None}
    stack, given = [cell], []
    made: list[tuple[Event, int]] = []
    while stack:
        at = stack.pop()
        event = execution.makers[at]
        if event is None:
            given.append(at)
            continue
        blamed = _blamed(execution, event, event.writes.index(at))
        if not blamed:
            made.append((event, at))
        for i in blamed:
            if i not in led:
                led[i] = at
                stack.append(i)

    def way(at: int) -> tuple[int, ...]:
        way_back = [at]
        while (following := led[way_back[-1]]) is not None:
            way_back.append(following)
        return tuple(way_back)

    nan = _has_nan(execution.values[cell])
    outside = next((i for i in given if not nan or _has_nan(execution.values[i])), None)
    if outside is not None:
        return Trail(None, way(outside))
    if made:
        event, at = min(made, key=lambda pair: pair[0].number)
        return Trail(event, way(at))
    # infinities from outside, of which an operation on the way has made NaN
    for start in given:
        cells = way(start)
        for k, at in enumerate(cells[1:], 1):
            event = execution.makers[at]
            if event is not None and _has_nan(execution.values[at]):
                return Trail(event, cells[k:], tuple(given))
    return Trail(None, way(given[0]))


def _has_nan(value: Any) -> bool:
    return bool(np.isnan(numbers(value)).any())


def _blamed(execution: Execution, event: Event, k: int) -> Sequence[int]:
    """The operands that are to blame for a result that is not finite; none if the operation itself is."""
    spoiled = [i for i in dict.fromkeys(event.reads) if not execution.is_finite(i)]
    if not spoiled or event.op is None:  # an element comes from where it lay
        return spoiled
    if not any(_comes_finite(execution, event, k, spoiled, plain) for plain in PLAIN):
        return ()
    if len(spoiled) == 1:
        return spoiled
    alone = [i for i in spoiled if not _comes_finite(execution, event, k, [j for j in spoiled if j != i], PLAIN[0])]
    return alone or spoiled


def _comes_finite(execution: Execution, event: Event, k: int, replaced: Sequence[int], plain: float) -> bool:
    """Whether a result is finite once the places of some operands that are not have been given a plain number."""
    values = [_made_plain(execution.values[i], plain) if i in replaced else execution.values[i] for i in event.reads]
    with np.errstate(all="ignore"):
        return is_finite(event.compute(values)[k])


def _made_plain(value: Any, plain: float) -> Any:
    array = np.array(value)
    if not is_inexact(typeof(value)):
        return array
    array[~np.isfinite(numbers(array))] = plain
    return array
