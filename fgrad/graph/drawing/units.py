"""The units of a drawing: for each row and each folded block its boxes, their labels, and the ends of wires.

A unit looks the same whatever is folded around it, so folding only moves it.
"""

from collections.abc import Iterator, Sequence

from attrs import field, frozen

from fgrad.graph.drawing.folding import Block, source_of
from fgrad.graph.drawing.joining import joined
from fgrad.graph.drawing.ladder import (
    ARGUMENT,
    BACKWARD,
    FORWARD,
    GRADIENT,
    RESULT,
    SEED,
    End,
    Ladder,
    Wire,
    shorter,
    wires,
)
from fgrad.graph.drawing.wording import (
    LABEL,
    NAME,
    PLAIN,
    TITLE,
    bytes_text,
    called,
    cut,
    derivative_of,
    differentiated,
    operations,
    shortened,
    telling,
)
from fgrad.graph.text import type_text

#: heights in pixels: a box, an argument and its gradient, a rung's label, the end of a wire; and the gap between units
BOX, PAIR, PILL, PORT, GAP = 36, 42, 22, 8, 30
#: the most arguments of a unit that are drawn one by one, how many if there are more, and the most rungs
MOST_ARGUMENTS, FEW_ARGUMENTS, MOST_PILLS = 5, 2, 4
#: the kinds of blocks that are named by their labels
NAMED = frozenset({"function", "module", "repeat", "turn", "more"})


@frozen
class Box:
    """Two lines of text; ``kind``: ``forward``, ``backward``, ``argument``, ``constant``, ``gradient``, ``zero``,
    ``result``, ``seed``, ``passes`` (a backward that has nothing to do) or ``more``; ``hint``: the text in full."""

    kind: str
    title: str
    note: str
    hint: str


@frozen
class Pill:
    """The label of a rung, and the positions of its wires; ``held``: an argument, which is in memory anyway."""

    text: str
    hint: str
    held: bool
    wires: tuple[int, ...]


@frozen(eq=False)
class Unit:
    """A row, a folded block, or a result.

    Attributes:
      forward, backward: the boxes of the two sides.
      pairs: an argument and its gradient each; the last may stand for several.
      pills: the values it saves.
      below: the label of the values for the rows below; ``above``: of the cotangents for the rows above.
      left, right, middle: for wires that end here, the height of their end in each part of the drawing.
      out: the height of the start of a rung, by wire.
    """

    block: Block
    forward: Box | None
    backward: Box | None
    pairs: tuple[tuple[Box | None, Box | None], ...]
    pills: tuple[Pill, ...]
    below: str
    above: str
    left: dict[int, float]
    right: dict[int, float]
    middle: dict[int, float]
    out: dict[int, float]
    height: float

    @property
    def id(self) -> str:
        return self.block.id


@frozen(eq=False)
class Wired:
    """A ladder with its wires, and the row of each of their ends; results follow the rows."""

    ladder: Ladder
    wires: tuple[Wire, ...]
    #: the row next to which each pair of argument and gradient is drawn
    home: tuple[int, ...]
    #: for each row the wires that touch it, by position, and the pairs next to it
    touching: dict[int, list[int]] = field(init=False, factory=dict)
    paired: dict[int, list[int]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for k, wire in enumerate(self.wires):
            for row in sorted({self.row(wire.start), *map(self.row, wire.ends)}):
                self.touching.setdefault(row, []).append(k)
        for k, row in enumerate(self.home):
            self.paired.setdefault(row, []).append(k)

    def near(self, inside: range) -> list[int]:
        """The wires that touch some rows."""
        return sorted({k for row in inside for k in self.touching.get(row, ())})

    def row(self, end: End) -> int:
        """The row of an end."""
        kind, k = end
        if kind in (ARGUMENT, GRADIENT):
            return self.home[k]
        return k + len(self.ladder.rows) if kind in (RESULT, SEED) else k

    def pill_row(self, wire: Wire) -> int:
        """The row of a rung's label: that of its producer; for an argument, the first that reads it."""
        own = self.row(wire.start)
        readers = [self.row(end) for end in wire.ends]
        return own if wire.start[0] == FORWARD or own in readers else min(readers)


def wired(ladder: Ladder) -> Wired:
    """A ladder with its wires; an argument is drawn at the first row that reads it."""
    ladder = shorter(joined(ladder))
    all_wires = wires(ladder)
    readers: dict[int, list[tuple[bool, int]]] = {}
    for w in all_wires:
        if w.start[0] == ARGUMENT:
            rows = [(w.saved, i) for kind, i in w.ends if kind in (FORWARD, BACKWARD)]
            readers.setdefault(w.start[1], []).extend(rows)
        for kind, k in w.ends:
            if kind == GRADIENT and w.start[0] == BACKWARD:
                readers.setdefault(k, []).append((True, w.start[1]))
    # the first row that reads the argument in forward, else in backward, else the row that computes the gradient
    home = [min(readers.get(k, ()), default=(False, 0))[1] for k in range(len(ladder.arguments))]
    return Wired(ladder, all_wires, tuple(home))


def results(wiring: Wired) -> Iterator[Unit]:
    """The units below the rows: each result, and next to it its cotangent."""
    ladder = wiring.ladder
    first = len(ladder.rows)
    for k, pair in enumerate(ladder.results):
        block = Block("result", "", first + k, first + k + 1)
        forward = backward = None
        if pair.value is not None:
            forward = _box("result", pair.name, type_text(ladder.graph.types[pair.value]))
        if pair.partner is not None:
            scalar = ladder.graph.types[pair.partner].shape == ()
            backward = _box("seed", ladder.names[pair.partner], "= 1" if scalar else "given")
        inside = range(block.start, block.stop)
        left, right = _touching(wiring, block)
        # without rows, the arguments are results
        pairs, ports = [boxes for _, boxes in _pairs(wiring, inside)], _pair_ports(wiring, inside)
        sides = _distributed(left, BOX) | ports[0], _distributed(right, BOX) | ports[1]
        height = float(max(BOX, PAIR * len(pairs) - (PAIR - BOX)))
        yield Unit(block, forward, backward, tuple(pairs), (), "", "", *sides, {}, {}, height)


def unit(wiring: Wired, block: Block) -> Unit:
    """The unit of a row or a block."""
    inside = range(block.start, block.stop)
    pairs = list(_pairs(wiring, inside))
    pills = list(_pills(wiring, inside, max(MOST_PILLS, len(pairs) * PAIR // PILL)))
    left, right = _touching(wiring, block)
    # rungs that come from elsewhere
    crossing = [
        k
        for k in wiring.near(inside)
        if (w := wiring.wires[k]).saved
        and wiring.pill_row(w) not in inside
        and any(wiring.row(end) in inside for end in w.ends)
    ]
    pair_width = PAIR * len(pairs)
    height = max(
        float(BOX),
        pair_width - (PAIR - BOX),
        *[pair_width + PORT * (len(some) + 1) for some in (left, right) if some],
        PILL * len(pills) + PORT * (len(crossing) + 1) * bool(crossing),
    )
    # pills are centred, unless wires end below them
    top = 0.0 if crossing and pills else (height - PILL * len(pills)) / 2
    out = {k: top + PILL * (n + 0.5) for n, pill in enumerate(pills) for k in pill.wires}
    ports = _pair_ports(wiring, inside)
    return Unit(
        block,
        _forward_box(wiring, block),
        _backward_box(wiring, block),
        tuple([boxes for _, boxes in pairs]),
        tuple(pills),
        _leaving(wiring, inside, FORWARD),
        _leaving(wiring, inside, BACKWARD) if block.start else "",  # there is nothing above the first
        _distributed(left, height, pair_width) | ports[0],
        _distributed(right, height, pair_width) | ports[1],
        _distributed(crossing, height, PILL * len(pills)),
        out,
        height,
    )


def _distributed(wire_numbers: Sequence[int], height: float, above: float = 0.0) -> dict[int, float]:
    """The ends of some wires, evenly distributed over the height below ``above``."""
    step = (height - above) / (len(wire_numbers) + 1)
    return {k: above + step * (n + 1) for n, k in enumerate(wire_numbers)}


def _touching(wiring: Wired, block: Block) -> tuple[list[int], list[int]]:
    """The wires between a block and others, on the left and on the right side."""
    inside = range(block.start, block.stop)
    by_side: tuple[list[int], list[int]] = [], []
    for k in wiring.near(inside):
        w = wiring.wires[k]
        if w.saved:
            continue
        start, ends = wiring.row(w.start) in inside, [wiring.row(end) in inside for end in w.ends]
        paired = (w.start[0] == ARGUMENT and start) or any(
            end[0] == GRADIENT and is_inside for end, is_inside in zip(w.ends, ends, strict=True)
        )
        if not paired and ((start and not all(ends)) or (not start and any(ends))):
            by_side[w.start[0] in (BACKWARD, SEED)].append(k)
    return by_side


def _pairs(wiring: Wired, inside: range) -> Iterator[tuple[list[int], tuple[Box | None, Box | None]]]:
    """The arguments drawn at a unit, by position, and their boxes; the last may stand for several."""
    ladder = wiring.ladder
    positions = [k for row in inside for k in wiring.paired.get(row, ())]
    shown = positions if len(positions) <= MOST_ARGUMENTS else positions[:FEW_ARGUMENTS]
    for k in shown:
        yield [k], (_argument_box(ladder, k), _gradient_box(ladder, k))
    rest = positions[len(shown) :]
    if rest:
        names = [ladder.names[i] for k in rest if (i := ladder.arguments[k].value) is not None]
        grads = [ladder.arguments[k].name for k in rest if ladder.arguments[k].name]
        boxes = [Box("more", f"{len(some)} more", "", "\n".join(some)) if some else None for some in (names, grads)]
        yield rest, (boxes[0], boxes[1])


def _pair_ports(wiring: Wired, inside: range) -> tuple[dict[int, float], dict[int, float]]:
    """The starts of arguments' wires, and the ends of gradients' wires."""
    ports: tuple[dict[int, float], dict[int, float]] = {}, {}
    for n, (positions, _) in enumerate(_pairs(wiring, inside)):
        for k in wiring.near(inside):
            w = wiring.wires[k]
            if not w.saved and w.start[0] == ARGUMENT and w.start[1] in positions:
                ports[0][k] = n * PAIR + BOX / 2
            if any(kind == GRADIENT and i in positions for kind, i in w.ends):
                ports[1][k] = n * PAIR + BOX / 2
    return ports


def _argument_box(ladder: Ladder, k: int) -> Box | None:
    value = ladder.arguments[k].value
    if value is None:
        return None
    constant = value >= len(ladder.graph.in_types)
    name = "constant" if constant else ladder.names[value]
    return _box("constant" if constant else "argument", name, type_text(ladder.graph.types[value]))


def _gradient_box(ladder: Ladder, k: int) -> Box | None:
    value, name = ladder.arguments[k].partner, ladder.arguments[k].name
    if value is None:
        return _box("zero", name, "= 0") if name else None
    return _box("gradient", name, type_text(ladder.graph.types[value]))


def _box(kind: str, name: str, note: str) -> Box:
    most = LABEL if kind in ("gradient", "seed", "zero") else NAME
    return Box(kind, shortened(name, most), shortened(note, most), f"{name}: {note}")


def _pills(wiring: Wired, inside: range, most: int) -> Iterator[Pill]:
    ladder = wiring.ladder
    saved = [k for k in wiring.near(inside) if wiring.wires[k].saved]
    rungs = [k for k in saved if wiring.pill_row(wiring.wires[k]) in inside]
    sizes = {k: ladder.bytes_of(wiring.wires[k].value) for k in rungs}
    lines = {k: f"{wiring.wires[k].name}: {type_text(ladder.graph.types[wiring.wires[k].value])}" for k in rungs}
    hints = {k: f"{line}, {sizes[k]:,} bytes" for k, line in lines.items()}
    if len(rungs) > most:
        text = f"{len(rungs)} values  {bytes_text(sum(sizes.values()))}"
        yield Pill(text, "\n".join(hints.values()), False, tuple(rungs))
        return
    for k in rungs:
        wire = wiring.wires[k]
        size = bytes_text(sizes[k])
        name = wire.name
        if name.startswith("%") and wire.start[0] == FORWARD:  # a value without a name is labelled by its operation
            name = f"{_kind(ladder, wire)} {name}"
        text = f"{shortened(name, 30 - len(size))}  {size}"
        held = wire.start[0] == ARGUMENT
        yield Pill(text, hints[k] + (", an argument" if held else ""), held, (k,))


def _kind(ladder: Ladder, wire: Wire) -> str:
    """A label for a forward value without a name: by its dtype, or by the operation that computes it."""
    dtype = ladder.graph.types[wire.value].dtype
    if dtype.kind in "iub":
        return "mask" if dtype.kind == "b" else "indices"
    row = ladder.rows[wire.start[1]].forward
    producer = next(k for k in row if wire.value in ladder.outs[k])
    return called(ladder.graph.nodes[producer if producer in telling(ladder, row) else telling(ladder, row)[-1]])


# --------------------------------------------------------------------------------------------------------------------
# the texts of boxes


def _forward_box(wiring: Wired, block: Block) -> Box | None:
    ladder = wiring.ladder
    rows = ladder.rows[block.start : block.stop]
    own = [k for row in rows for k in row.forward if derivative_of(ladder, k) is None]
    nodes = own or [k for row in rows for k in row.forward]
    if not nodes:
        return None
    texts = operations(ladder, nodes)
    where = _where(ladder, block)
    hint = f"{', '.join(ladder.graph.nodes[k].op.name for k in nodes)}\n{where}"
    if block.kind in NAMED:
        title = block.label if block.kind != "more" else f"the same, {block.label}"
        return Box("forward", cut(title, TITLE), _count(texts, len(nodes)), hint)
    return Box("forward", cut(", ".join(texts), TITLE), cut(where, TITLE + 4), hint)


def _backward_box(wiring: Wired, block: Block) -> Box | None:
    ladder = wiring.ladder
    rows = ladder.rows[block.start : block.stop]
    nodes = [k for row in reversed(rows) for k in row.backward]
    if not nodes:
        inside = range(block.start, block.stop)
        if any(wiring.wires[k].start[0] == BACKWARD for k in wiring.near(inside) if wiring.wires[k].start[1] in inside):
            names = dict.fromkeys(name for row in rows for name in differentiated(ladder, row.forward))
            title = cut(", ".join(f"d {name}" for name in names), TITLE)
            return Box("passes", title, "passes it on", f"{title}: the cotangent is passed on as it is")
        return None
    texts = ", ".join(ladder.graph.nodes[k].op.name for k in nodes)
    if block.kind in NAMED:
        title = f"d {block.label}" if block.kind != "more" else f"the same, {block.label}"
        return Box("backward", cut(title, TITLE), _count(texts.split(", "), len(nodes)), texts)
    names = dict.fromkeys(name for row in reversed(rows) for name in differentiated(ladder, row.forward, row.backward))
    shown = [name for name in names if name not in PLAIN] or names
    title = ", ".join(f"d {name}" for name in shown) or texts
    return Box("backward", cut(title, TITLE), cut(texts, TITLE + 4), f"{title}\n{texts}\n{_where(ladder, block)}")


def _count(names: Sequence[str], count: int) -> str:
    """The names of the operations if there is room, else their number."""
    text = ", ".join(names)
    return text if len(text) <= TITLE + 4 else f"{count} operations"


def _where(ladder: Ladder, block: Block) -> str:
    """The text of the user's line if the file can be read, else its position."""
    source = source_of(ladder, block.start)
    return "" if source is None else source.text or str(source).partition(",")[0]


def _leaving(wiring: Wired, inside: range, side: str) -> str:
    """The names of the values that other units on this side read; gradients have boxes of their own."""
    ladder = wiring.ladder
    names: dict[str, str] = {}
    for w in [wiring.wires[k] for k in wiring.near(inside)]:
        if w.saved or w.start[0] != side or w.start[1] not in inside:
            continue
        if all(end[0] == GRADIENT or wiring.row(end) in inside or end[0] == RESULT for end in w.ends):
            continue
        names[w.name] = type_text(ladder.graph.types[w.value])
    if len(names) == 1 and (side == FORWARD or next(iter(names)).startswith("%")):
        ((name, type),) = names.items()
        return cut(f"{shortened(name, TITLE - len(type) - 3)}  {type}", TITLE)
    head = next(iter(names), "").rpartition(" / d ")[0]
    if head and all(name.startswith(f"{head} / d ") for name in names):  # d loss / d q, k
        shown_names = [name.removeprefix(f"{head} / d ") for name in names]
        return cut(f"{head} / d {', '.join(shown_names)}", TITLE)
    shown_names = list(names)
    if len(shown_names) > 2:
        shown_names = [shown_names[0], f"{len(shown_names) - 1} more"]
    return cut(", ".join(shown_names), TITLE)


def values_of(ladder: Ladder, block: Block) -> Iterator[int]:
    """The numbers of the values that a block computes, forward first."""
    outs = ladder.outs
    rows = ladder.rows[block.start : block.stop]
    for row in rows:
        for k in row.forward:
            yield from outs[k]
    for row in reversed(rows):
        for k in row.backward:
            yield from outs[k]
