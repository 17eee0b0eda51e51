"""The answer for a non-finite value: the operation, its operands, the path to the result, and a fix."""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from fgrad.graph.answer import Answer, Table
from fgrad.graph.source import Source

#: how many faulty elements are named, and how many steps of a path shown
PLACES, STEPS = 4, 10

#: the outcome of a fix that could not be tried
UNTRIED = "This was not tried here."


@frozen
class Place:
    """One element of an operand of the faulty operation.

    Attributes:
      name: the user's name of the operand.
      index: the index of the element.
      value: the number.
    """

    name: str
    index: tuple[int, ...]
    value: Any

    def __str__(self) -> str:
        index = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.name}{index} = {self.value}"


@frozen
class Step:
    """One operation on the path from the faulty one to the result.

    Attributes:
      name: the user's name of its result, empty if it has none.
      operation: the operation; in the backward pass, the one whose derivative it is.
      phase: "forward" or "backward".
      source: the user's line.
    """

    name: str
    operation: str
    phase: str
    source: Source | None

    def __str__(self) -> str:
        what = self.operation if self.phase == "forward" else f"derivative of {self.operation}"
        return f"{what}{f' -> {self.name}' if self.name else ''}, at {where(self.source)}"


@frozen
class Mend:
    """What to write instead.

    Attributes:
      text: the expression, or the advice.
      checked: whether it was tried here and everything is finite with it.
      outcome: the outcome of trying it.
    """

    text: str
    checked: bool
    outcome: str


@frozen(repr=False, str=False)
class Nonfinite(Answer):
    """Where a NaN or Inf comes from.  False if everything is finite.

    Attributes:
      results: the outputs and gradients that are not finite.
      kind: "NaN" or "Inf": what the first of these has.
      phase: "forward" or "backward", in which it arose; "argument" or "constant" if it came from outside.
      operation: the operation that produced it; in the backward pass, the one whose derivative did.
      name: the user's name of the operation's result, or of the argument.
      source: the user's line.
      places: the first of the operands' elements from which it arose.
      count: how many elements it arose in.
      module: the path of the module in which the operation ran, if any.
      loops: the line of each loop around the operation, with the index of the step.
      reason: what is wrong with these numbers there.
      chain: the operations from there to the result.
      mend: what to write instead; None if nothing is known.
      looked_at: what was examined.
    """

    results: tuple[str, ...] = ()
    kind: str = ""
    phase: str = ""
    operation: str | None = None
    name: str | None = None
    source: Source | None = None
    places: tuple[Place, ...] = ()
    count: int = 0
    module: str = ""
    loops: tuple[tuple[Source | None, int], ...] = ()
    reason: str = ""
    chain: tuple[Step, ...] = ()
    mend: Mend | None = None
    looked_at: str = ""

    @property
    def line(self) -> str | None:
        """The user's line: file and number."""
        return None if self.source is None else f"{self.source.file}:{self.source.line}"

    def findings(self) -> Sequence[str]:
        return self.results

    def parts(self) -> Iterator[str | Table]:
        if not self.results:
            yield f"All is finite: {self.looked_at}."
            return
        first, *others = dict.fromkeys(self.results)
        yield f"{self.kind} in {first}" + (f" (and in {', '.join(others)})" if others else "")
        text = "" if self.source is None else self.source.text
        yield f"{self._first()}{':' if text else '.'}"
        if text:
            yield f"    {text}"
        if self.module:
            yield f"  in the module {self.module}"
        for source, step in self.loops:
            yield f"  in step {step} of the loop at {where(source)}"
        if self.places:
            more = f"  (at {self.count} places)" if self.count > 1 else ""
            yield f"  of {', '.join(map(str, self.places))}{more}"
        if self.reason:
            yield f"Why: {self.reason}."
        if len(self.chain) > 1:
            yield "From there to the result:"
            yield from [f"  {step}" for step in _shortened(self.chain)]
        if self.mend is not None:
            yield f"Way out: {self.mend.text}"
            yield f"  {self.mend.outcome}"

    def _first(self) -> str:
        at = where(self.source)
        named = f" (the value {self.name})" if self.name else ""
        match self.phase:
            case "argument":
                return f"It came in with the argument {self.name}"
            case "constant":
                return f"It came in with {self.name}, used at {at}"
            case "backward":
                return f"It arose in backward, in the derivative of {self.operation}{named}, at {at}"
        return f"It arose in forward, in {self.operation}{named}, at {at}"


def where(source: Source | None) -> str:
    """A line of the user's code: file, number and function."""
    return "an unknown line" if source is None else f"{source.file}:{source.line}, in {source.function}"


def _shortened(chain: Sequence[Step]) -> list[str]:
    steps = list(map(str, chain))
    if len(steps) <= STEPS:
        return steps
    half = STEPS // 2
    return [*steps[:half], f"... {len(steps) - 2 * half} more ...", *steps[-half:]]
