"""Fixes, tried by running the program with another graph in place of the faulty operation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import ShapedArray, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.questions.blame import trail
from fgrad.questions.culprit import (
    Again,
    Run,
    in_trap,
    is_derived,
    is_softmax,
    is_variance,
    outer_trap,
    shut,
    trap_of,
)
from fgrad.questions.execution import Event, has_rule_of_its_own, numbers
from fgrad.questions.finding import UNTRIED, Mend, where
from fgrad.questions.traps import TRAPS, Trap
from fgrad.record.stager import stage_closed

#: the most traps that are fixed, one after another
MENDS = 6

#: the outcome of a fix that is not enough
NOT_ENOUGH = "Tried: it is not enough here by itself."


def mend_of(run: Run, event: Event, trap: Trap | None, again: Again | None, library: str) -> Mend | None:
    if is_variance(event):
        return Mend("take more elements, or leave out the correction.", False, UNTRIED)
    if event.op is None and event.graph is None:
        return Mend(TRAPS["sub"].advice, False, UNTRIED) if is_softmax(event) else None
    if trap is None:
        return None
    faulty = in_trap(event, trap)
    if faulty.of is not None and not has_rule_of_its_own(faulty.of):
        return None  # an operation of a derivative, which the user did not write
    outcome = UNTRIED
    helps = False
    if again is not None and trap.call and is_derived(event):
        helps, outcome = _tried(
            event, _level(event), _next_level, again, "a slope of 0 there, as this makes it, all is"
        )
    elif again is not None and shut(run, faulty, trap).any():
        finite = "this the value and the gradient are" if len(run.results) > run.outputs else "this the value is"
        helps, outcome = _tried(faulty, trap.guarded(*_operation(faulty)), _next_mended, again, finite, like=run)
        if helps:
            return Mend(_guard_text(run, faulty, trap, library), helps, outcome)
        if trap.bound is not None:
            helps, outcome = _tried(faulty, trap.kept_out(*_operation(faulty)), _next_mended, again, finite)
            if helps:
                return Mend(_bound_text(run, faulty, trap, library), helps, outcome)
    # NaN in backward: the cotangent was 0, since the result was not selected
    backward = is_derived(event) or event.of is not None
    masked = trap.call and backward and np.isnan(numbers(run.execution.values[run.bad()[0][1]])).any()
    text = (_guard_text if masked else _bound_text)(run, faulty, trap, library)
    return Mend(text, helps, outcome) if text else None


#: from a run and its faulty operation to the next operation to fix and its replacement
Following = Callable[[Run, Event], tuple[Event, Graph] | None]


def _tried(
    event: Event, graph: Graph, following: Following, again: Again, finite: str, *, like: Run | None = None
) -> tuple[bool, str]:
    """Whether everything is finite with a graph in place of an operation, and the text about it.

    Arguments:
      event: the operation.
      graph: its replacement.
      following: the next fix, if another trap follows.
      again: runs the program with graphs in place of operations.
      finite: what is finite then, in words.
      like: a run whose outputs the first fix must not change.
    """
    replaced: dict[int, Graph] = {}
    lines: list[str] = []
    replacement: tuple[Event, Graph] | None = event, graph
    for _ in range(MENDS):
        if replacement is None or _key(replacement[0]) in replaced:
            break
        replaced[_key(replacement[0])] = replacement[1]
        lines.append(where(replacement[0].source))
        after = again(replaced)
        if after is None:
            return False, UNTRIED
        if like is not None and len(lines) == 1 and not _same_outputs(like, after):
            break
        bad = after.bad()
        if not bad:
            kept = "" if like is None else ", and the value is what it was"
            others = list(dict.fromkeys([line for line in lines if line != lines[0]]))
            also = f" once the same is done at {' and at '.join(others)}" if others else ""
            return True, f"Checked by running it: with {finite} finite{kept}{also}."
        culprit = trail(after.execution, bad[0][1]).event
        replacement = None if culprit is None else following(after, culprit)
    return False, NOT_ENOUGH


def _next_mended(run: Run, culprit: Event) -> tuple[Event, Graph] | None:
    """An operation that is in a trap, and the fixed one."""
    event = outer_trap(run.execution, culprit)
    trap = trap_of(event)
    inside = in_trap(event, trap)
    if trap is None or not shut(run, inside, trap).any():
        return None
    change = trap.guarded if trap.bound is None else trap.kept_out
    return inside, change(*_operation(inside))


def _next_level(run: Run, culprit: Event) -> tuple[Event, Graph] | None:
    """A derivative that is part of the program, and the same with zero slope in its traps.

    Its operation was differentiated before, so its operand cannot be changed; but either fix makes the slope in the
    trap 0, and that can be done here.
    """
    return (culprit, _level(culprit)) if is_derived(culprit) and trap_of(culprit) is not None else None


def _level(event: Event) -> Graph:
    operation, types = _operation(event)
    return stage_closed(lambda *xs: [_without_slope(y) for y in operation(xs)], types)


def _without_slope(x: Any) -> Any:
    return jnp.where(jnp.isfinite(x), x, jnp.zeros_like(x)) if is_inexact(typeof(x)) else x


def _key(event: Event) -> int:
    """The key under which a run replaces the event's node or graph."""
    return id(event.node if event.graph is None else event.graph)


def _operation(event: Event) -> tuple[Callable[[Sequence[Any]], Sequence[Any]], Sequence[ShapedArray]]:
    """An operation as a function of its operands, with their types."""
    graph, op = event.graph, event.op
    if graph is not None:
        return lambda xs: evaluate(graph, xs), graph.in_types
    assert op is not None
    return op.bind, op.in_types


def _same_outputs(run: Run, after: Run) -> bool:
    pairs = zip(run.results[: run.outputs], after.results[: run.outputs], strict=True)
    values, news = run.execution.values, after.execution.values
    return all(np.array_equal(numbers(values[a]), numbers(news[b]), equal_nan=True) for (_, a), (_, b) in pairs)


def _operand_names(run: Run, event: Event) -> list[str]:
    """The user's names for the operands, or letters."""
    names = [run.names.get(i, "") for i in event.reads] if not is_derived(event) else ["", ""]
    return [name if name and "#" not in name else letter for name, letter in zip(names, "xyzw", strict=False)]


def _call_text(trap: Trap, names: Sequence[str], library: str) -> str:
    x, y = [*names, "y"][:2] if names else ("x", "y")
    return trap.call.format(x=x, y=y, np=library)


def _guard_text(run: Run, event: Event, trap: Trap, library: str) -> str:
    names = _operand_names(run, event)
    chosen = f"{library}.where(ok, {{}}, {trap.safe})"
    inner = [chosen.format(name) if i in trap.operands else name for i, name in enumerate(names)]
    return (
        "choose the operand as well as the result, a double where: "
        f"{library}.where(ok, {_call_text(trap, inner, library)}, ...), where ok says at which elements the result is "
        "wanted. Backward goes through both branches of a where, and 0 * Inf is NaN."
    )


def _bound_text(run: Run, event: Event, trap: Trap, library: str) -> str:
    if not trap.bounded:
        return trap.advice
    names = _operand_names(run, event)
    x, y = [*names, "y"][:2]
    bounded = trap.bounded.format(x=x, y=y, np=library)
    inner = [bounded if i in trap.operands else name for i, name in enumerate(names)]
    text = f"keep the operand out of it: {_call_text(trap, inner, library)}"
    return f"{text}. {trap.advice}" if trap.advice else f"{text}"
