"""Which values of two programs are the same: aligned by their elements, up to rounding, and not by their operations.

NOTE [Alignment by value]
Two programs that compute the same are rarely written alike: one has a loop where the other has a matrix product, one
has an axis for heads, one takes the mean in two steps.  But their values agree again at the next line.  So two values
are aligned if their elements are equal up to rounding (``rounding.py``), in the same order or, for another shape of
equal size, in any order.  Values of forward and backward are aligned separately.

Differences are found from the ends: from a result or a gradient without an equal, back through values that have none
either, up to values with equals.  There the programs diverge.  The values in between are paired in order, preferring
small distances and equal names or operations.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define

from fgrad.jaxtypes import is_inexact
from fgrad.questions.programs import Side, as_numbers
from fgrad.questions.rounding import precision, spread

#: two values are equal if they differ by at most this many times the measured rounding
ALLOWED = 4
#: and this many units in the last place
UNITS = 4
#: the most pairs of different values that are compared
MOST_PAIRS = 100_000
#: the likeness that two values need to be paired, if any have it
NEAR = 0.3


@define(eq=False)
class Measured:
    """A side with the data for comparing its values."""

    side: Side
    numbers: list[np.ndarray]
    norms: list[float]
    spreads: list[float]

    def units(self, i: int) -> float:
        """The precision of a value's type."""
        return precision(self.side.graph.types[i])


def measured(side: Side, half: bool) -> Measured:
    """Measure the values of a side; for ``half`` see ``spread``."""
    numbers = [as_numbers(x) for x in side.values]
    norms = [float(np.linalg.norm(np.where(np.isfinite(x), x, 0.0))) for x in numbers]
    return Measured(side, numbers, norms, spread(side.graph, side.inputs, side.values, half))


def tolerance(one: Measured, i: int, two: Measured, j: int) -> float:
    """By how much two values may differ."""
    units = min(one.units(i), two.units(j))
    return ALLOWED * max(one.spreads[i], two.spreads[j]) + UNITS * units * max(one.norms[i], two.norms[j])


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The Euclidean distance of two arrays of one shape; infinite if only one has a NaN or Inf somewhere."""
    with np.errstate(all="ignore"):
        gap = float(np.linalg.norm(a - b))
    if np.isfinite(gap):
        return gap
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
        return float("inf")
    return float(np.linalg.norm(a[finite] - b[finite]))


def are_equal(one: Measured, i: int, two: Measured, j: int) -> bool:
    """Whether two values are equal up to rounding, perhaps in another order of elements."""
    a, b = one.numbers[i], two.numbers[j]
    if a.size != b.size:
        return False
    most = tolerance(one, i, two, j)
    if distance(a.ravel(), b.ravel()) <= most:
        return True
    return a.size > 1 and a.shape != b.shape and distance(np.sort(a, axis=None), np.sort(b, axis=None)) <= most


@define(eq=False)
class Alignment:
    """For values of each side their equals on the other."""

    there: dict[int, int]
    back: dict[int, int]


def align(one: Measured, two: Measured) -> Alignment:
    """Align the values of two sides."""
    there = _counterparts(one, two)
    from_two = _counterparts(two, one)
    return Alignment(there, from_two)


def _counterparts(one: Measured, two: Measured) -> dict[int, int]:
    """For each value of one side its equal on the other: that with its name, or the likeliest by position."""
    by_size: dict[int, list[tuple[float, int]]] = {}
    for j, array in enumerate(two.numbers):
        by_size.setdefault(array.size, []).append((two.norms[j], j))
    for entries in by_size.values():
        entries.sort()
    count, others = len(one.numbers), len(two.numbers)
    counterparts: dict[int, int] = {}
    for i, array in enumerate(one.numbers):
        entries = by_size.get(array.size, [])
        norm = one.norms[i]
        # the norms of equal values are at least as close as the values
        reach = ALLOWED * one.spreads[i] + UNITS * one.units(i) * norm
        reach = 2 * max([reach, *[ALLOWED * two.spreads[j] for _, j in _near(entries, norm, 1e-3 * norm)]])
        candidates = [j for _, j in _near(entries, norm, reach) if (i in one.side.forward) == (j in two.side.forward)]
        # the likeliest first, which is usually equal
        candidates.sort(
            key=lambda j: (
                one.side.names[i] != two.side.names[j],
                one.numbers[i].shape != two.numbers[j].shape,
                abs(i / count - j / others),
            )
        )
        equal = next((j for j in candidates if are_equal(one, i, two, j)), None)
        if equal is not None:
            counterparts[i] = equal
    return counterparts


def _near(entries: list[tuple[float, int]], norm: float, reach: float) -> list[tuple[float, int]]:
    return entries[bisect_left(entries, (norm - reach, -1)) : bisect_left(entries, (norm + reach, 1 << 62))]


def divergent(side: Side, aligned: dict[int, int], ends: Sequence[int]) -> list[int]:
    """The values without an equal from which some ends are computed, including these, in order.

    Integers and booleans that depend on no argument (sizes, masks) are left out.
    """
    makers = side.makers()
    relevant = _relevant(side)
    reached = set(ends)
    todo = list(reached)
    while todo:
        node = makers[todo.pop()]
        for i in node.inputs if node is not None else ():
            if i not in aligned and i not in reached and i in relevant and makers[i] is not None:
                reached.add(i)
                todo.append(i)
    return sorted(reached)


def _relevant(side: Side) -> set[int]:
    """The values that are inexact or depend on arguments."""
    relevant = set(range(side.arguments))
    number = len(side.graph.in_types) + len(side.graph.consts)
    for node in side.graph.nodes:
        count = len(node.op.out_types)
        if not relevant.isdisjoint(node.inputs):
            relevant.update(range(number, number + count))
        number += count
    return relevant | {i for i, type in enumerate(side.graph.types) if is_inexact(type)}


def paired(one: Measured, first: Sequence[int], two: Measured, second: Sequence[int]) -> list[tuple[int, int]]:
    """Pair different values, in order, preferring small distances and equal names and operations."""
    if len(first) * len(second) > MOST_PAIRS:
        # of very many, the last ones: the first differences are found from the starts
        first, second = first[-(MOST_PAIRS // len(second) or 1) :], second[-MOST_PAIRS:]
    makers = one.side.makers(), two.side.makers()
    scores = {(a, b): _likeness(one, i, two, j, makers) for a, i in enumerate(first) for b, j in enumerate(second)}
    similar = {pair: score for pair, score in scores.items() if score >= NEAR}
    best = _best(similar, len(first), len(second)) or _best(scores, len(first), len(second))
    return [(first[a], second[b]) for a, b in best]


def _best(scores: dict[tuple[int, int], float], rows: int, columns: int) -> list[tuple[int, int]]:
    """The pairs, in order on both sides, with the largest total score."""
    totals = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for a in range(rows - 1, -1, -1):
        for b in range(columns - 1, -1, -1):
            score = scores.get((a, b))
            totals[a][b] = max(totals[a + 1][b], totals[a][b + 1], totals[a + 1][b + 1] + score if score else 0.0)
    pairs, a, b = [], 0, 0
    while a < rows and b < columns:
        if scores.get((a, b)) and totals[a][b] == totals[a + 1][b + 1] + scores[a, b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        elif totals[a][b] == totals[a + 1][b]:
            a += 1
        else:
            b += 1
    return pairs


def _likeness(one: Measured, i: int, two: Measured, j: int, makers: Any) -> float:
    """The likeness of two different values: by name, by distance (in powers of ten), by operation."""
    a, b = one.numbers[i].ravel(), two.numbers[j].ravel()
    if a.size != b.size or (i in one.side.forward) != (j in two.side.forward):
        return 0.0
    names = one.side.names[i], two.side.names[j]
    score = 0.0
    if not any(name.startswith("%") for name in names):
        score = 1.0 if names[0] == names[1] else 0.2
    nodes = makers[0][i], makers[1][j]
    if None not in nodes and nodes[0].op.name == nodes[1].op.name:
        score += 0.1
    larger = max(one.norms[i], two.norms[j])
    if larger and abs(one.norms[i] - two.norms[j]) < 0.5 * larger:
        share = distance(a, b) / larger
        score += min(max(-np.log10(share or 1.0), 0.0), 6.0) / 6
    return score
