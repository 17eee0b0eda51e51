"""Paths back from a tensor through nodes and origins: whether one leads to another tensor, and where it is cut."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.origin import Origin
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_function, is_tracked
from fgrad.seam import RawSource


@frozen(eq=False)
class Way:
    """A path that was found.

    Attributes:
      steps: the nodes and origins on it, starting at the output.
      cut: the origin that breaks it; None if a gradient passes all of it.
    """

    steps: tuple[Any, ...]
    cut: Origin | None


def way(y: Tensor, x: Tensor) -> Way | None:
    """The shortest path from one tensor back to another, preferring uncut ones; None if there is none."""
    start = _start(y)
    return _search(start, _is(x), False) or _search(start, _is(x), True)


def _is(x: Tensor) -> Callable[[Any], bool]:
    """Whether something on the path is a tensor, or what made it."""
    node = gradient_function(x)
    return lambda at: at is x or (node is not None and at is node)


def cuts(y: Tensor) -> list[Origin]:
    """What cuts the paths back from a tensor, nearest first."""
    return [cut for _, cut, _ in _reached(_start(y), True) if cut is not None]


def leaves(y: Tensor) -> list[Tensor]:
    """The leaves that a gradient of a tensor reaches."""
    return [at.variable for at, _, _ in _reached(_start(y), False) if isinstance(at, AccumulateGrad)]


def lines(y: Tensor) -> list[RawSource]:
    """The user's lines that computed a tensor, with history or without."""
    reached = [at for at, _, _ in _reached(_start(y), True)]
    sources = [at.source if isinstance(at, Origin) else at._source if isinstance(at, Node) else None for at in reached]
    return [source for source in dict.fromkeys(sources) if source is not None]


def descends(start: Any, x: Tensor) -> bool:
    """Whether a node, leaf or origin was made from a tensor."""
    node = gradient_function(x)
    return (
        start is not None and _search(start, lambda at: at is x or (node is not None and at is node), True) is not None
    )


def _start(y: Tensor) -> Any:
    if not is_tracked(y):
        return y._origin
    return gradient_function(y) or y


def _search(start: Any, matches: Callable[[Any], bool], across: bool) -> Way | None:
    previous: dict[Any, tuple[Any, Origin | None]] = {}
    for at, cut, before in _reached(start, across, previous):
        variable = at.variable if isinstance(at, AccumulateGrad) else at
        if matches(variable):
            steps = [at]
            while before is not None:
                steps.append(before)
                before = previous[before][0]
            return Way(tuple([step for step in reversed(steps) if not isinstance(step, AccumulateGrad | Tensor)]), cut)
    return None


def _reached(
    start: Any, across: bool, previous: dict[Any, tuple[Any, Origin | None]] | None = None
) -> Iterator[tuple[Any, Origin | None, Any]]:
    """What can be reached, breadth first: each with the first cut on its path and with its predecessor.

    ``across`` says whether to go on where gradients do not.
    """
    if start is None:
        return
    previous = {} if previous is None else previous
    cut = start if isinstance(start, Origin) and start.reason is not None else None
    if not across and isinstance(start, Origin):
        return
    previous[start] = (None, cut)
    queue = [start]
    for at in queue:
        before, cut = previous[at]
        yield at, cut, before
        for following in _following(at, across):
            if following not in previous:
                here = following if isinstance(following, Origin) and following.reason is not None else None
                previous[following] = (at, cut or here)
                queue.append(following)


def _following(at: Any, across: bool) -> Iterator[Any]:
    if isinstance(at, AccumulateGrad):
        if across and at.variable._origin is not None:
            yield at.variable._origin
    elif isinstance(at, Node):
        for edge in at.next_edges:
            if edge is not None:
                yield edge[0]
        if across:
            yield from getattr(at, "origins", ())
    elif isinstance(at, Origin):
        yield from at.parents
        for origin in map(_alive, at.before):
            if origin is not None:
                yield origin
    elif isinstance(at, Tensor) and across and at._origin is not None:
        yield at._origin


def _alive(reference: "weakref.ref[Any]") -> Any:
    return reference()
