"""Where everything in a drawing stands: columns from left to right, units from top to bottom, wires in lanes.

NOTE [Lanes]
A wire between neighbours goes straight down or up.  Every other goes to the side, runs in a lane beside the column of
boxes, and comes back; lanes lie where no box is, so that no wire can cross one.  In a lane there is one wire at any
height; the shortest wires are given the lanes nearest to the boxes.  The page (``page.js``) arranges units in the same
way when something is folded, and a test compares the two.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from fgrad.graph.drawing.folding import Block
from fgrad.graph.drawing.ladder import ARGUMENT, GRADIENT
from fgrad.graph.drawing.units import GAP, Box, Unit, Wired

#: pixels: between lanes, at the edges, for the titles of the columns, for a bracket; of a letter in a title and a note
LANE, MARGIN, HEAD, BRACKET, LETTER, SMALL = 9, 10, 26, 18, 6.75, 5.9
#: between a box and the first lane; how far from the edge of a box a straight wire goes; the radius of a bend
INSET, STRAIGHT, BEND = 12, 14, 4


@frozen
class Columns:
    """The left edge and the width of each column: arguments, forward, rungs, backward, gradients; and the whole."""

    argument: tuple[float, float]
    forward: tuple[float, float]
    pill: tuple[float, float]
    backward: tuple[float, float]
    gradient: tuple[float, float]
    width: float


@frozen
class Route:
    """A piece of a wire: its corners, of which the last is an arrow's point."""

    wire: int
    corners: tuple[tuple[float, float], ...]


@frozen(eq=False)
class Arrangement:
    """The upper edge of each unit that is drawn, the routes of the wires, and the height of the whole."""

    units: tuple[Unit, ...]
    tops: tuple[float, ...]
    routes: tuple[Route, ...]
    lanes: tuple[int, int, int]
    height: float


def columns(units: Sequence[Unit], depth: int, lanes: tuple[int, int, int]) -> Columns:
    """The columns for some units; ``lanes``: how many there are on the left, among the rungs and on the right."""

    def wide(boxes: Sequence[Box | None]) -> float:
        return max([max(len(b.title) * LETTER, len(b.note) * SMALL) + 18 for b in boxes if b is not None], default=0.0)

    def lane_space(count: int) -> float:
        return 2 * INSET + LANE * max(count - 1, 0)

    left = MARGIN + BRACKET * depth
    argument = wide([a for u in units for a, _ in u.pairs])
    labels = max([len(u.below) for u in units], default=0) * SMALL + STRAIGHT + 14
    forward = max(wide([u.forward for u in units]), labels)
    backward = wide([u.backward for u in units])
    if backward:
        backward = max(backward, max([len(u.above) for u in units], default=0) * SMALL + STRAIGHT + 14)
    gradient = wide([g for u in units for _, g in u.pairs])
    pills = max([len(p.text) * SMALL + 16 for u in units for p in u.pills], default=0.0)
    x = left
    a = (x, argument)
    x += argument + lane_space(lanes[0]) if argument or lanes[0] else 0.0
    f = (x, forward)
    x += forward
    p = (x + INSET, pills)
    x += (pills + INSET if pills else 0.0) + (lane_space(lanes[1]) if backward else 0.0)
    b = (x, backward)
    x += backward
    x += lane_space(lanes[2]) if gradient or lanes[2] else 0.0
    return Columns(a, f, p, b, (x, gradient), x + gradient + MARGIN)


def depth_of(tree: Sequence[Block], closed: frozenset[str]) -> int:
    """How many brackets stand side by side at most."""
    return max([1 + depth_of(b.children, closed) if b.children and b.id not in closed else 0 for b in tree], default=0)


def arrange(wiring: Wired, units: Sequence[Unit], space: Columns | None = None) -> Arrangement:
    """Place units from top to bottom; with ``space``, also the wires between them."""
    tops, y = [], float(HEAD)
    for unit in units:
        tops.append(y)
        y += unit.height + GAP
    at = {row: k for k, unit in enumerate(units) for row in range(unit.block.start, unit.block.stop)}
    plans = [_plan(units, tops, at, wiring, k) for k in range(len(wiring.wires))]
    lane_of, counts = _lanes(plans)
    routes: list[Route] = []
    if space is not None:
        for plan in plans:
            routes += _routes(plan, lane_of.get(plan.wire, 0), space)
    return Arrangement(tuple(units), tuple(tops), tuple(routes), counts, y - GAP + MARGIN)


@frozen
class _Plan:
    """How a wire goes.

    ``side``: 0, 1, 2 for left, middle, right; ``y``: where it begins; ``paired``: at an argument; ``beside``: it goes
    to the other column of its unit at once; ``far``: the heights at which it arrives by a lane, and whether at a
    gradient; ``straight``: from where to where it goes to a neighbour.
    """

    wire: int
    side: int
    y: float
    paired: bool
    beside: bool
    far: tuple[tuple[float, bool], ...]
    straight: tuple[float, float] | None


def _plan(units: Sequence[Unit], tops: Sequence[float], at: dict[int, int], wiring: Wired, k: int) -> _Plan:
    wire = wiring.wires[k]
    side = wire.side
    start = at[wiring.pill_row(wire) if side == 1 else wiring.row(wire.start)]
    here, paired = units[start], side == 0 and wire.start[0] == ARGUMENT
    begin = (here.left, here.out, here.right)[side].get(k, here.height / 2)
    step = (1, 0, -1)[side]
    far: dict[tuple[float, bool], None] = {}
    uses_lane, straight = False, None
    for place, i in wire.ends:
        unit = at[wiring.row((place, i))]
        there = units[unit]
        if unit == start:
            uses_lane = uses_lane or side == 1 or paired or place == GRADIENT
        elif unit == start + step and not paired and place != GRADIENT and step:
            straight = (
                (tops[start] + here.height, tops[unit]) if step == 1 else (tops[start], tops[unit] + there.height)
            )
        else:
            port = (there.left, there.middle, there.right)[side].get(k, there.height / 2)
            far[tops[unit] + port, place == GRADIENT] = None
    return _Plan(k, side, tops[start] + begin, paired, uses_lane, tuple(far), straight)


def _lanes(plans: Sequence[_Plan]) -> tuple[dict[int, int], tuple[int, int, int]]:
    """The lane of each wire that needs one, and how many there are on each side."""
    spans = []
    for plan in plans:
        if plan.far:
            heights = [plan.y, *(y for y, _ in plan.far)]
            spans.append((max(heights) - min(heights), min(heights), max(heights), plan))
    lane_of: dict[int, int] = {}
    taken: list[list[list[tuple[float, float]]]] = [[], [], []]
    for _, top, bottom, plan in sorted(spans, key=lambda span: (span[0], span[3].wire)):
        lanes = taken[plan.side]
        free = next((n for n, lane in enumerate(lanes) if all(bottom + 3 < a or b + 3 < top for a, b in lane)), None)
        if free is None:
            free = len(lanes)
            lanes.append([])
        lanes[free].append((top, bottom))
        lane_of[plan.wire] = free
    return lane_of, (len(taken[0]), len(taken[1]), len(taken[2]))


def _routes(plan: _Plan, lane: int, space: Columns) -> Iterator[Route]:
    """The pieces of a wire, of which the one within the unit and those in the lane leave from the same point."""
    y, (left, wide) = plan.y, space.forward
    if plan.side == 1:
        left = space.backward[0]
        begin, lane_at, own = space.pill[0] + space.pill[1], left - INSET - LANE * lane, left
    elif plan.side == 0:
        begin = space.argument[0] + space.argument[1] if plan.paired else left
        lane_at, own = left - INSET - LANE * lane, left
    else:
        left, wide = space.backward
        begin, lane_at, own = left + wide, left + wide + INSET + LANE * lane, space.gradient[0]
    if plan.beside:
        yield Route(plan.wire, ((begin, y), (own, y)))
    for at, outward in plan.far:
        last = space.gradient[0] if outward else begin if plan.side == 2 else left
        yield Route(plan.wire, ((begin, y), (lane_at, y), (lane_at, at), (last, at)))
    if plan.straight is not None:
        x = left + STRAIGHT
        yield Route(plan.wire, ((x, plan.straight[0]), (x, plan.straight[1])))


def path(corners: Sequence[tuple[float, float]]) -> str:
    """The line through some corners, with round bends."""
    text = "M{:.1f} {:.1f}".format(*corners[0])
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        size = min(BEND, _far(before, corner) / 2, _far(corner, after) / 2)
        text += "L{:.1f} {:.1f}".format(*_towards(corner, before, size))
        text += "Q{:.1f} {:.1f} {:.1f} {:.1f}".format(*corner, *_towards(corner, after, size))
    return text + "L{:.1f} {:.1f}".format(*corners[-1])


def head(corners: Sequence[tuple[float, float]]) -> str:
    """The point of the arrow at the end of a line."""
    (x, y), (x0, y0) = corners[-1], corners[-2]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    a, b = (x - 6 * dx - 3 * dy, y - 6 * dy - 3 * dx), (x - 6 * dx + 3 * dy, y - 6 * dy + 3 * dx)
    return "M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z".format(x, y, *a, *b)


def _far(a: tuple[float, float], b: tuple[float, float]) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _towards(a: tuple[float, float], b: tuple[float, float], size: float) -> tuple[float, float]:
    """The point so far from one corner on the way to another."""
    distance = _far(a, b) or 1.0
    return a[0] + (b[0] - a[0]) * size / distance, a[1] + (b[1] - a[1]) * size / distance
