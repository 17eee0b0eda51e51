"""The result of ``compare``: the values that differ, with their lines, and how well results and gradients agree."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.graph.answer import Answer, Table
from fgrad.graph.source import Source
from fgrad.questions.alignment import distance
from fgrad.questions.call import line_of

#: how many different values are shown
SHOWN = 12


@frozen
class Place:
    """A value of one side.

    Attributes:
      name: the user's name of it, ``d w`` for a gradient, or its number (``%7``).
      operation: the operation that computed it; "argument" for an argument.
      source: the user's line, None if it is not known.
      backward: whether it is part of the backward pass.
      value: the array.
    """

    name: str
    operation: str
    source: Source | None
    backward: bool
    value: Any

    @property
    def line(self) -> str:
        """The file and number of the line."""
        return line_of(self.source)

    @property
    def text(self) -> str:
        """The text of the line."""
        return "" if self.source is None else self.source.text

    def __str__(self) -> str:
        if self.operation == "recorded":
            return f"{self.name}, as it was recorded"
        what = f"{self.name} = {self.operation}" if self.name.startswith("%") else self.name
        kind = "derivative at " if self.backward else ""
        return f"{what}, {kind}{self.line}" + (f": {self.text}" if self.text else "")


@frozen
class Difference:
    """One value that differs beyond rounding.

    Attributes:
      one, two: the value on either side.
      relative: the distance of the two arrays, relative to the second's norm.
      rounding: the distance as a multiple of what rounding explains.
      index: the index of the element that differs most, in the second's array.
      elements: the two numbers there.
    """

    one: Place
    two: Place
    relative: float
    rounding: float
    index: tuple[int, ...]
    elements: tuple[float, float]


@frozen
class Agreement:
    """One result or gradient, on both sides.

    Attributes:
      name: the result's path, or ``d w``.
      relative: the distance of the two arrays, relative to the second's norm.
      equal: whether rounding explains it.
    """

    name: str
    relative: float
    equal: bool


@frozen(repr=False, str=False)
class Comparison(Answer):
    """Where two programs diverge; false if results and gradients agree up to rounding.

    Attributes:
      results: one entry for each result.
      gradients: one for each argument for which both sides have a gradient.
      differences: the values that differ, in the order of computation, forward and then backward.
      starts: the first value of each side without an equal on the other, computed from values with equals; None if
        there is none.
      aligned: how many values of the first side have an equal on the second.
    """

    results: tuple[Agreement, ...]
    gradients: tuple[Agreement, ...]
    differences: tuple[Difference, ...]
    starts: tuple[Place | None, Place | None]
    aligned: int

    @property
    def first(self) -> Difference | None:
        """The first value that differs beyond rounding."""
        return self.differences[0] if self.differences else None

    def findings(self) -> Sequence[Any]:
        return [x for x in (*self.results, *self.gradients) if not x.equal]

    def parts(self) -> Iterable[str | Table]:
        ends = [*self.results, *self.gradients]
        if not self:
            yield (
                f"They agree: {self.aligned} values are equal up to rounding, and so are {len(self.results)} "
                f"result{'s' * (len(self.results) != 1)} and {len(self.gradients)} "
                f"gradient{'s' * (len(self.gradients) != 1)}."
            )
            return
        first = self.first
        if first is not None:
            numbers = " against ".join(f"{x:.9g}" for x in first.elements)
            at = f" at [{', '.join(map(str, first.index))}]" if first.index else ""
            beyond = "" if np.isinf(first.rounding) else f", {first.rounding:.1f} times what rounding explains"
            yield f"The first value that differs{beyond}: {numbers}{at}."
            yield f"  one: {first.one}"
            yield f"  two: {first.two}"
        shown = {(x.name, x.line) for x in (first.one, first.two)} if first is not None else set()
        starts = [x and (x.name, x.line) not in shown and x for x in self.starts]
        if any(starts):
            yield "From equal values, only one of the two computes:"
            for name, place in zip(("one", "two"), starts, strict=True):
                if place:
                    yield f"  {name}: {place}"
        if len(self.differences) > 1:
            yield Table(
                ("one", "two", "relative difference", "line of one", "line of two"),
                [
                    (d.one.name, d.two.name, f"{d.relative:.2g}", d.one.line, d.two.line)
                    for d in _thinned(self.differences)
                ],
                "\nHow it grows:",
            )
        yield Table(
            ("", "relative difference", ""),
            [(x.name, f"{x.relative:.2g}", "equal" if x.equal else "differs") for x in ends],
            "\nResults and gradients:",
        )


def _thinned(differences: Sequence[Difference]) -> Sequence[Difference]:
    """As many as are shown: the first and the last ones, and some of those between."""
    if len(differences) <= SHOWN:
        return differences
    return [differences[round(k * (len(differences) - 1) / (SHOWN - 1))] for k in range(SHOWN)]


def share(gap: float, norm: float) -> float:
    """A distance as a share of a norm."""
    return gap / norm if norm else 0.0 if gap == 0 else float("inf")


def difference(one: Place, a: np.ndarray, two: Place, b: np.ndarray, most: float) -> Difference:
    """What there is to say of two values that differ, of which ``most`` is explained by rounding."""
    shape, a, b = b.shape, a.ravel(), b.ravel()
    gap = distance(a, b)
    with np.errstate(invalid="ignore"):  # Inf minus Inf
        worst = int(np.argmax(np.where(a == b, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf)))) if a.size else 0
    return Difference(
        one,
        two,
        share(gap, float(np.linalg.norm(np.where(np.isfinite(b), b, 0.0)))),
        gap / most if most else float("inf"),
        tuple(map(int, np.unravel_index(worst, shape))) if a.size else (),
        (float(a[worst]), float(b[worst])) if a.size else (0.0, 0.0),
    )
