"""Ladders in the languages of other tools: Graphviz's DOT, and Mermaid."""

import itertools
from collections.abc import Iterator, Sequence

from attrs import frozen

from fgrad.graph.drawing.folding import Detail, blocks, folded, visible
from fgrad.graph.drawing.ladder import ARGUMENT, FORWARD, GRADIENT, RESULT, SEED, End, Ladder, Wire, ladder_of
from fgrad.graph.drawing.svg import LIGHT
from fgrad.graph.drawing.units import Box, Unit, Wired, results, unit, wired
from fgrad.graph.drawing.wording import bytes_text
from fgrad.graph.text import subgraphs, type_text

#: Mermaid draws no more edges than this unless its configuration is changed
MERMAID_EDGES = 500


@frozen
class Edge:
    """An arrow between two boxes; ``side``: 0 for forward, 1 for what is saved, 2 for backward."""

    start: str
    end: str
    label: str
    side: int


@frozen
class Picture:
    """Boxes with their ids, rows of ids that stand side by side, arrows, and the pictures of graphs inside nodes."""

    boxes: tuple[tuple[str, Box], ...]
    rows: tuple[tuple[str, ...], ...]
    edges: tuple[Edge, ...]
    inner: tuple[tuple[str, str, "Picture"], ...]


def picture(ladder: Ladder, detail: Detail | None = None, prefix: str = "") -> Picture:
    """The boxes and arrows of a drawing; one arrow between two boxes, whatever goes along it."""
    wiring = wired(ladder)
    roots = blocks(wiring.ladder)
    units = [*[unit(wiring, block) for block in visible(roots, folded(roots, detail))], *results(wiring)]
    rows = [list(_boxes(each, f"{prefix}{k}")) for k, each in enumerate(units)]
    ids = _Ids(wiring, units, prefix)
    return Picture(
        tuple([box for row in rows for box in row]),
        tuple([tuple([name for name, _ in row]) for row in rows]),
        tuple(_edges(wiring, ids)),
        tuple(_inner_pictures(wiring.ladder, ids, detail)),
    )


class _Ids:
    """The ids of boxes, by what stands in them."""

    def __init__(self, wiring: Wired, units: Sequence[Unit], prefix: str):
        self.wiring, self.prefix = wiring, prefix
        #: the number of the unit that shows a row, and of the box in it that shows an argument or a gradient
        self.units: dict[int, int] = {}
        self.slots: dict[int, str] = {}
        for k, each in enumerate(units):
            rows = range(each.block.start, each.block.stop)
            self.units.update(dict.fromkeys(rows, k))
            for n, i in enumerate([i for row in rows for i in wiring.paired.get(row, ())]):
                self.slots[i] = f"{k}_{min(n, len(each.pairs) - 1)}"

    def of_row(self, row: int, is_forward: bool) -> str:
        return f"{'f' if is_forward else 'b'}{self.prefix}{self.units[row]}"

    def of_end(self, end: End) -> str:
        kind, i = end
        if kind in (ARGUMENT, GRADIENT):
            return f"{kind[0]}{self.prefix}{self.slots[i]}"
        return self.of_row(self.wiring.row(end), kind in (FORWARD, RESULT))


def _edges(wiring: Wired, ids: _Ids) -> Iterator[Edge]:
    """The arrows between different boxes."""
    bundles: dict[tuple[str, str, int], dict[int, Wire]] = {}
    for k, wire in enumerate(wiring.wires):
        start = ids.of_end(wire.start)
        for end in map(ids.of_end, wire.ends):
            if start != end:
                bundles.setdefault((start, end, wire.side), {})[k] = wire
    for (start, end, side), wires in bundles.items():
        yield Edge(start, end, _label(wiring.ladder, list(wires.values()), side), side)


def _label(ladder: Ladder, wires: Sequence[Wire], side: int) -> str:
    """What an arrow says of the values that go along it."""
    first = wires[0]
    text = first.name if len(wires) == 1 else f"{len(wires)} values"
    if side == 1:
        return f"{text}, {bytes_text(sum([ladder.bytes_of(w.value) for w in wires]))}"
    if len(wires) == 1 and side == 0 and first.start[0] == FORWARD:
        return f"{text}: {type_text(ladder.graph.types[first.value])}"
    in_box = first.start[0] in (ARGUMENT, SEED) or first.ends[0][0] == GRADIENT
    return "" if in_box else text


def _inner_pictures(ladder: Ladder, ids: _Ids, detail: Detail | None) -> Iterator[tuple[str, str, Picture]]:
    """For each graph inside a node: the id of the node's box, a title, and the picture."""
    forward = {k: r for r, row in enumerate(ladder.rows) for k in row.forward}
    row_of = {k: r for r, row in enumerate(ladder.rows) for k in row.backward} | forward
    count = itertools.count()
    for k, node in enumerate(ladder.graph.nodes):
        if k in row_of:
            owner = ids.of_row(row_of[k], k in forward)
            for name, body in subgraphs(node):
                yield owner, f"{node.op.name}: {name}", picture(ladder_of(body), detail, f"{ids.prefix}{next(count)}i")


def _boxes(each: Unit, name: str) -> Iterator[tuple[str, Box]]:
    for n, (argument, _) in enumerate(each.pairs):
        if argument is not None:
            yield f"a{name}_{n}", argument
    for side, box in (("f", each.forward), ("b", each.backward)):
        if box is not None:
            yield f"{side}{name}", box
    for n, (_, gradient) in enumerate(each.pairs):
        if gradient is not None:
            yield f"g{name}_{n}", gradient


def to_dot(ladder: Ladder, detail: Detail | None = None) -> str:
    """The drawing in the DOT language of Graphviz; graphs inside a node are clusters beside it.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> print(to_dot(ladder_of(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)), ["x"])).splitlines()[3])
      a0_0 [label="x\\n~f32[]", tooltip="x: ~f32[]", fillcolor="#dbeafe", color="#1d4ed8"];
    """
    start = [
        "digraph {",
        "  rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=11];',
    ]
    return "\n".join([*start, *_dot(picture(ladder, detail), "  "), "}"])


def _dot(drawn: Picture, indent: str) -> Iterator[str]:
    for name, box in drawn.boxes:
        fill, border = LIGHT[box.kind]
        label = "\n".join([box.title, box.note]) if box.note else box.title
        colours = f'fillcolor="{fill}", color="{border}"'
        yield f"{indent}{name} [label={_quoted(label)}, tooltip={_quoted(box.hint)}, {colours}];"
    for row in drawn.rows:
        if len(row) > 1:
            yield f"{indent}{{ rank=same; {'; '.join(row)}; }}"
    for edge in drawn.edges:
        # the forward pass alone says what stands above what
        more = ("", ", constraint=false, style=dashed", ", constraint=false")[edge.side]
        yield f"{indent}{edge.start} -> {edge.end} [label={_quoted(edge.label)}, fontsize=9{more}];"
    for k, (owner, name, inner) in enumerate(drawn.inner):
        yield f"{indent}subgraph cluster_{owner}_{k} {{"
        yield f"{indent}  label={_quoted(name)};"
        yield from _dot(inner, indent + "  ")
        yield f"{indent}}}"
        if inner.boxes:
            yield f"{indent}{owner} -> {inner.boxes[0][0]} [style=dotted, arrowhead=none];"


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def to_mermaid(ladder: Ladder, detail: Detail | None = None) -> str:
    """The drawing as a Mermaid flowchart, which GitHub and Sphinx show.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> print(to_mermaid(ladder_of(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)), ["x"])).splitlines()[1])
        a0_0["x<br>~f32[]"]:::argument
    """
    drawn = picture(ladder, detail)
    lines = ["flowchart TD", *_mermaid(drawn, "    ")]
    count = sum("-->" in line or "-.->" in line for line in lines)
    if count > MERMAID_EDGES:
        note = f"{count} edges: Mermaid draws {MERMAID_EDGES}; raise maxEdges in its configuration, or use to_html"
        lines.insert(1, f"    %% {note}")
    used = {line.rpartition(":::")[2] for line in lines if ":::" in line}
    lines += [
        f"    classDef {kind} fill:{fill},stroke:{border},color:#111827"
        for kind, (fill, border) in LIGHT.items()
        if kind in used
    ]
    return "\n".join(lines)


def _mermaid(drawn: Picture, indent: str) -> Iterator[str]:
    for name, box in drawn.boxes:
        label = "<br>".join([_entities(text) for text in (box.title, box.note) if text])
        yield f'{indent}{name}["{label}"]:::{box.kind}'
    for edge in drawn.edges:
        arrow = "-.->" if edge.side == 1 else "-->"
        label = f'|"{_entities(edge.label)}"|' if edge.label else ""
        yield f"{indent}{edge.start} {arrow}{label} {edge.end}"
    for k, (owner, name, inner) in enumerate(drawn.inner):
        yield f'{indent}subgraph {owner}_s{k}["{_entities(name)}"]'
        yield from _mermaid(inner, indent + "    ")
        yield f"{indent}end"
        yield f"{indent}{owner} -.- {owner}_s{k}"


def _entities(text: str) -> str:
    """Letters and digits as they are, the rest as Mermaid's character codes where they could mean something to it."""
    return "".join(c if c.isalnum() or c in " .,:()[]+-*=~·_/'" else f"#{ord(c)};" for c in text)
