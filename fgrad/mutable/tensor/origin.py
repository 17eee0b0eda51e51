"""Where a tensor without history came from: what ``why_no_grad`` follows.

NOTE [Origins]
The ``grad_fn`` of a recorded tensor shows where it came from.  A tensor that could have been recorded and was not
(``detach``, ``no_grad``, an integer result) keeps an *origin* instead: the operation, the user's line, why the history
ends there, and weak references to the inputs.  Results computed from it without history inherit the origin.  Origins
hold no arrays, and chains of them have a maximal length, so that an endless loop does not grow one.
"""

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from attrs import define

from fgrad.seam import RawSource

#: how long a chain of origins may be
LONGEST = 64
#: how many nodes and leaves before it an origin remembers
NEAREST = 32
#: the reason of a tensor that left a function that ``torch.func`` differentiates
LEFT = "left"
#: how many values that left the tensors are remembered
LEFT_KEPT = 64


@define(eq=False)  # not frozen, which would take twice as long: every operation without history makes one
class Origin:
    """An operation whose result has no history; never modified.

    Attributes:
      operation: its name.
      source: the user's line.
      reason: why history ends here: "detach", "no_grad", "not differentiable", "data", "leaf" (it was made a new
        leaf) or ``LEFT``; None if it had ended before.
      before: weak references to the nearest nodes and leaves that the inputs were computed from.
      parents: the origins of inputs without history.
      length: of the longest chain that ends here.
    """

    operation: str
    source: RawSource | None
    reason: str | None
    before: tuple["weakref.ref[Any]", ...]
    parents: tuple["Origin", ...]
    length: int


def origin_of(
    operation: str, source: RawSource | None, reason: str | None, tracked: Sequence[Any], parents: Sequence[Origin]
) -> Origin:
    """The origin of a result; chains that have become too long are cut.

    ``tracked`` are the nodes and leaves that the inputs were computed from.
    """
    short, longest = [], 0
    for parent in parents:
        if parent.length < LONGEST:
            short.append(parent)
            longest = max(longest, parent.length)
    return Origin(operation, source, reason, _before(tracked) if tracked else (), tuple(short), 1 + longest)


def _before(start: Sequence[Any]) -> tuple["weakref.ref[Any]", ...]:
    """The nearest nodes and leaves, as many as are remembered."""
    if len(start) == 1 and not getattr(start[0], "next_edges", ()):
        return (weakref.ref(start[0]),)
    nearest = dict.fromkeys(start)
    queue = list(nearest)
    for at in queue:
        if len(nearest) >= NEAREST:
            break
        for edge in getattr(at, "next_edges", ()):
            if edge is not None:
                following = getattr(edge[0], "variable", edge[0])
                if following not in nearest:
                    nearest[following] = None
                    queue.append(following)
    return tuple(map(weakref.ref, nearest))


@define(eq=False)
class Read:
    """A read of elements into Python or NumPy, from a tensor with history or made from one.

    Attributes:
      how: the method: "item()".
      source: the user's line.
      of: a weak reference to the node or leaf of the tensor; or its origin.
    """

    how: str
    source: RawSource | None
    of: "weakref.ref[Any] | Origin"


#: the last of them
left: deque[Read] = deque(maxlen=LEFT_KEPT)
