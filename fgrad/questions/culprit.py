"""The guilty operation of a run, and the trap that it is in."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import frozen

from fgrad.graph.graph import Graph
from fgrad.questions.execution import Event, Execution
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


#: runs the same again with graphs in place of some nodes
Again = Callable[[Mapping[int, Graph]], Run]


def phase_of(event: Event) -> str:
    """In which pass an operation belongs; a node of a graph that is a derivative itself says so by its line."""
    return "backward" if event.of is not None or (event.source is not None and event.source.of) else "forward"


def operation_of(event: Event) -> str:
    """The name of an operation, in the backward pass of the one whose derivative it is."""
    if event.source is not None and event.source.of:
        return event.source.of
    culprit = culprit_of(event)
    assert culprit.op is not None
    return str(culprit.op.params.get("label") or culprit.op.name)


def culprit_of(event: Event) -> Event:
    return event.of or event


def trap_of(event: Event) -> Trap | None:
    """The trap of an operation; of one in a rule that has none itself, that of the operation of the rule."""
    culprit = culprit_of(event)
    assert event.op is not None and culprit.op is not None
    return TRAPS.get(culprit.op.name) or TRAPS.get(event.op.name)


def in_trap(event: Event, trap: Trap | None) -> Event:
    """The event whose operands the trap is about."""
    culprit = culprit_of(event)
    return culprit if trap is not None and culprit.op is not None and TRAPS.get(culprit.op.name) is trap else event


def shut(run: Run, event: Event, trap: Trap) -> np.ndarray:
    """Where a trap shuts on the operands of an event."""
    return np.asarray(trap.shuts(*[run.execution.values[i] for i in event.reads]))
