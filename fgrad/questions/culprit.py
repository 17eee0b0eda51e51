"""The guilty operation of a run, and the trap that it is in."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import frozen

from fgrad.graph.graph import Graph
from fgrad.graph.source import Source
from fgrad.questions.execution import Event, Execution, Frame
from fgrad.questions.traps import TRAPS, Trap


@frozen(eq=False)
class Run:
    """One execution that is looked through.

    Attributes:
      execution: what was carried out.
      results: what is to be finite: names and cells, outputs before gradients.
      outputs: how many of these are outputs.
      names: what the user calls the value of each cell that has a name.
      given: the cells that came in with the arguments.
    """

    execution: Execution
    results: Sequence[tuple[str, int]]
    outputs: int
    names: Mapping[int, str]
    given: frozenset[int]

    def bad(self) -> list[tuple[str, int]]:
        """The results that are not finite."""
        return [(name, cell) for name, cell in self.results if not self.execution.is_finite(cell)]


#: runs the same again with graphs in place of some nodes; None where not all that comes after can be run again
Again = Callable[[Mapping[int, Graph]], Run | None]


def phase_of(event: Event) -> str:
    """In which pass an operation belongs; a node of a graph that is a derivative itself says so by its line."""
    return "backward" if event.of is not None or (event.source is not None and event.source.of) else "forward"


def operation_of(event: Event) -> str:
    """The name of an operation, in the backward pass of the one whose derivative it is."""
    if event.source is not None and event.source.of:
        return event.source.of
    culprit = culprit_of(event)
    return culprit.frame.called or str(culprit.op and (culprit.op.params.get("label") or culprit.op.name))


def is_derived(event: Event) -> bool:
    """Whether an operation belongs to a derivative that was in the graph already: it says of which operation."""
    return event.of is None and event.source is not None and event.source.of is not None


def culprit_of(event: Event) -> Event:
    """The operation of the forward pass that an event belongs to."""
    return event.of or event


def trap_of(event: Event) -> Trap | None:
    """The trap of an operation; of one in a rule that has none itself, that of the operation of the rule."""
    if is_derived(event) and event.source is not None:
        return TRAPS.get(event.source.of or "")
    culprit = culprit_of(event)
    return _trap(culprit) or _trap(event)


def _trap(event: Event) -> Trap | None:
    return TRAPS.get(event.name) if event.reads else None


def in_trap(event: Event, trap: Trap | None) -> Event:
    """The event whose operands the trap is about."""
    culprit = culprit_of(event)
    return culprit if trap is not None and _trap(culprit) is trap else event


def shut(run: Run, event: Event, trap: Trap) -> np.ndarray:
    """Where a trap shuts on the operands of an event; of a derivative's operation the operands are not known."""
    if is_derived(event):
        return np.zeros((), bool)
    return np.asarray(trap.shuts(*[run.execution.values[i] for i in event.reads]))


def is_shut(run: Execution, event: Event) -> bool:
    """Whether an operation has a trap, and some of its operands are in it."""
    trap = _trap(event)
    return trap is not None and bool(np.asarray(trap.shuts(*[run.values[i] for i in event.reads])).any())


def outer_trap(run: Execution, event: Event) -> Event:
    """The outer operation in place of a part of it, where the outer one is a known trap."""
    outer = event.frame.as_event
    return outer if outer is not None and event.of is None and is_shut(run, outer) else event


def main_event(run: Execution, frame: Frame) -> Event | None:
    """The operation of a frame that its derivative is laid to: itself, or the last one in a trap, else the last."""
    if frame.as_event is not None and is_shut(run, frame.as_event):
        return frame.as_event
    events = list(frame.events.values())
    return next((event for event in reversed(events) if is_shut(run, event)), events[-1] if events else None)


def speaks_of_variance(source: Source) -> bool:
    """Whether a line of the user's computes a variance or standard deviation."""
    return any(name in source.text for name in ("std", "var"))


def is_variance(event: Event) -> bool:
    """Whether an operation is the division of a variance by the number of elements, less the correction."""
    if event.op is None or event.op.name != "div" or event.of is not None:
        return False
    return event.frame.called in ("std", "var") or (event.source is not None and speaks_of_variance(event.source))


def is_softmax(event: Event) -> bool:
    """Whether an operation that is known by its results alone is a softmax."""
    return "softmax" in event.frame.called
