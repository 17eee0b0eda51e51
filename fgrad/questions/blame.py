"""From a non-finite value back to the operation that produced it, and the path between them.

NOTE [Blame]
Many operations may have non-finite operands, and not all of these are the cause: ``where`` may not select them, a
matrix product may have an infinity elsewhere.  So an event is executed again with such operands replaced by ordinary
numbers.  If its result is still not finite, the event itself produced it; if the result becomes finite, the operands
that make it non-finite on their own are to blame, and the search continues from these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact
from fgrad.questions.execution import Event, Execution, is_finite, numbers

#: the numbers tried as replacements: if the result is non-finite for both, the operands are not the cause
ORDINARY = (0.5, 1.5)


@frozen
class Trail:
    """How a value became non-finite.

    Attributes:
      event: the first operation on the path that produced NaN or Inf; None if it came from outside.
      cells: from the result of that operation, or the value from outside, to the value.
      infinities: the infinities from outside from which the operation produced NaN.
    """

    event: Event | None
    cells: tuple[int, ...]
    infinities: tuple[int, ...] = ()


def trail(execution: Execution, cell: int) -> Trail:
    """The path back from a non-finite value to its first cause."""
    successor: dict[int, int | None] = {cell: None}
    stack, inputs = [cell], []
    causes: list[tuple[Event, int]] = []
    while stack:
        i = stack.pop()
        event = execution.makers[i]
        if event is None:
            inputs.append(i)
            continue
        blamed = _blamed(execution, event, event.writes.index(i))
        if not blamed:
            causes.append((event, i))
        for operand in blamed:
            if operand not in successor:
                successor[operand] = i
                stack.append(operand)

    def path_from(start: int) -> tuple[int, ...]:
        path = [start]
        while (following := successor[path[-1]]) is not None:
            path.append(following)
        return tuple(path)

    nan = _has_nan(execution.values[cell])
    outside = next((i for i in inputs if not nan or _has_nan(execution.values[i])), None)
    if outside is not None:
        return Trail(None, path_from(outside))
    if causes:
        event, i = min(causes, key=lambda pair: pair[0].number)
        return Trail(event, path_from(i))
    # infinities from outside, from which an operation on the path produced NaN
    for start in inputs:
        cells = path_from(start)
        for k, i in enumerate(cells[1:], 1):
            event = execution.makers[i]
            if event is not None and _has_nan(execution.values[i]):
                return Trail(event, cells[k:], tuple(inputs))
    return Trail(None, path_from(inputs[0]))


def _has_nan(value: Any) -> bool:
    return bool(np.isnan(numbers(value)).any())


def _blamed(execution: Execution, event: Event, k: int) -> Sequence[int]:
    """The operands that are to blame for a non-finite result; none if it is the operation itself."""
    nonfinite = [i for i in dict.fromkeys(event.reads) if not execution.is_finite(i)]
    if not nonfinite or event.op is None:  # a movement of elements
        return nonfinite
    if not any(_is_finite_with(execution, event, k, nonfinite, replacement) for replacement in ORDINARY):
        return ()
    if len(nonfinite) == 1:
        return nonfinite
    alone = [
        i for i in nonfinite if not _is_finite_with(execution, event, k, [j for j in nonfinite if j != i], ORDINARY[0])
    ]
    return alone or nonfinite


def _is_finite_with(execution: Execution, event: Event, k: int, replaced: Sequence[int], replacement: float) -> bool:
    """Whether a result is finite after the non-finite elements of some operands are replaced."""
    values = [
        _replaced(execution.values[i], replacement) if i in replaced else execution.values[i] for i in event.reads
    ]
    with np.errstate(all="ignore"):
        return is_finite(event.compute(values)[k])


def _replaced(value: Any, replacement: float) -> Any:
    array = np.array(value)
    if not is_inexact(typeof(value)):
        return array
    array[~np.isfinite(numbers(array))] = replacement
    return array
