"""Where a non-finite value comes from, for one run."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fgrad.graph.source import Source
from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact
from fgrad.questions.blame import Trail, trail
from fgrad.questions.culprit import (
    Again,
    Run,
    culprit_of,
    in_trap,
    is_derived,
    is_softmax,
    is_variance,
    operation_of,
    outer_trap,
    phase_of,
    shut,
    speaks_of_variance,
    trap_of,
)
from fgrad.questions.execution import Event, numbers
from fgrad.questions.finding import PLACES, UNTRIED, Mend, Nonfinite, Place, Step
from fgrad.questions.mending import mend_of
from fgrad.questions.traps import Trap


def diagnosed(run: Run, again: Again | None, library: str, looked_at: str) -> Nonfinite:
    """Where the first non-finite result comes from."""
    bad = run.bad()
    if not bad:
        return Nonfinite(looked_at=looked_at)
    execution, names = run.execution, run.names
    way_back = trail(execution, bad[0][1])
    common = {
        "results": tuple([name for name, _ in bad]),
        "kind": "NaN" if np.isnan(numbers(execution.values[bad[0][1]])).any() else "Inf",
        "chain": tuple(_chain(run, way_back)),
        "looked_at": looked_at,
    }
    if way_back.event is None:
        return Nonfinite(**common, **_from_outside(run, way_back))  # type: ignore[arg-type]
    event = outer_trap(execution, way_back.event)
    culprit = culprit_of(event)
    trap = trap_of(event)
    shown_places, count = _places(run, event, trap)
    return Nonfinite(
        **common,  # type: ignore[arg-type]
        phase=phase_of(event),
        operation=operation_of(event),
        name=names.get(culprit.writes[0]) if culprit.writes else None,
        source=event.source or culprit.source,
        places=shown_places,
        count=count,
        module=culprit.frame.scope,
        loops=tuple(_loops(culprit)),
        reason=_reason(run, event, trap, way_back),
        mend=mend_of(run, event, trap, again, library),
    )


def _places(run: Run, event: Event, trap: Trap | None) -> tuple[tuple[Place, ...], int]:
    """The operands at the faulty indices, and how many of these there are."""
    faulty = in_trap(event, trap)
    values = run.execution.values
    wrong = ~np.isfinite(numbers(values[event.writes[0]]))
    if trap is not None:
        closed = shut(run, faulty, trap)
        wrong = closed if closed.any() else wrong
    shown: list[Place] = []
    for i in dict.fromkeys(faulty.reads):
        if not is_inexact(typeof(values[i])):
            continue
        array = numbers(values[i])
        name = run.names.get(i) or _unnamed(run, i)
        if array.shape == wrong.shape:
            shown += [Place(name, index, array[index].item()) for index in _indices(wrong)]
        elif array.size == 1:
            shown.append(Place(name, (), array.item()))
        elif array.size:
            index = np.unravel_index(int(np.nanargmax(np.abs(np.where(np.isnan(array), 0, array)))), array.shape)
            shown.append(Place(f"the largest of {name}: {name}", tuple(map(int, index)), array[index].item()))
    return tuple(shown[: PLACES * 2]), int(wrong.sum())


def _indices(wrong: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(map(int, index)) for index in np.argwhere(wrong)[:PLACES]]


def _unnamed(run: Run, cell: int) -> str:
    """A description of a value without a name: the operation that computed it."""
    event = run.execution.makers[cell]
    if event is None:
        return "a constant"
    if event.op is None and event.reads:
        return _unnamed(run, event.reads[0])
    return f"{operation_of(event)}(...)"


def _loops(event: Event) -> Iterator[tuple[Source | None, int]]:
    """The loops around an event, the innermost first."""
    frame = event.frame
    while frame.above is not None:
        above, position = frame.above
        if frame.step is not None:
            yield above.graph.nodes[position].source, frame.step
        frame = above


def _reason(run: Run, event: Event, trap: Trap | None, way_back: Trail) -> str:
    if event.op is None and event.graph is None and is_softmax(event):
        return "what went in was not kept; it is NaN in a row whose elements are all -Inf, as where all are masked"
    if event.op is None and event.graph is None:
        return "what went in was not kept, so this is the first place where it is seen"
    if trap is None:
        return (
            "its operands are finite, and its result is not" if not way_back.infinities else "infinities went into it"
        )
    backward = is_derived(event) or (phase_of(event) == "backward" and in_trap(event, trap) is not event)
    text = trap.backward if backward else trap.forward
    faulty = in_trap(event, trap)
    if faulty.name == "sqrt" and backward and _producer(run, faulty.reads[0]) == "reduce_sum":
        text += " (this is the norm of a vector of zeros)"
    if is_variance(faulty):
        text += " (a variance with a correction divides by one less than the number of elements, which is 0 for one)"
    return text


def _producer(run: Run, cell: int) -> str | None:
    """The operation that computed a value, before broadcasts and reshapes."""
    event = run.execution.makers[cell]
    while event is not None and (event.op is None or event.op.name in ("broadcast_in_dim", "reshape", "squeeze")):
        event = run.execution.makers[event.reads[0]]
    return None if event is None or event.op is None else event.op.name


def _chain(run: Run, way_back: Trail) -> Iterator[Step]:
    last = None
    for cell in way_back.cells:
        event = run.execution.makers[cell]
        if event is None or (event.op is None and not event.frame.called):
            continue
        name = run.names.get(cell) or ""
        phase = phase_of(event)
        step = Step(name, operation_of(event), phase, event.source or culprit_of(event).source)
        key = (phase, step.operation, step.source and step.source.line)
        if key != last or name:
            yield step
        last = key


def _from_outside(run: Run, way_back: Trail) -> dict[str, Any]:
    """The fields for a value that came from outside."""
    start = way_back.cells[0]
    array = numbers(run.execution.values[start])
    wrong = ~np.isfinite(array)
    name = run.names.get(start) or "a constant"
    shown = [Place(name, index, array[index].item()) for index in _indices(wrong)]
    fields: dict[str, Any] = {"name": name, "places": tuple(shown), "count": int(wrong.sum())}
    if start in run.given:
        return {**fields, "phase": "argument"}
    events = [run.execution.makers[cell] for cell in way_back.cells[1:]]
    source = next((event.source for event in events if event is not None and event.source is not None), None)
    fields |= {"phase": "constant", "source": source}
    if source is not None and speaks_of_variance(source):
        fields["reason"] = "a variance of so few elements is not defined with this correction (ddof): the result is NaN"
        fields["mend"] = Mend("take more elements, or leave out the correction (ddof=0).", False, UNTRIED)
    return fields
