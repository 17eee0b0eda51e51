"""Ladders in the languages of other tools: Graphviz's DOT, and Mermaid."""

from collections.abc import Iterator

from attrs import frozen

from fgrad.graph.drawing.folding import Detail, blocks, folded, visible
from fgrad.graph.drawing.ladder import ARGUMENT, FORWARD, GRADIENT, RESULT, SEED, End, Ladder, ladder_of
from fgrad.graph.drawing.svg import LIGHT
from fgrad.graph.drawing.units import Box, Unit, results, unit, wired
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
    ladder = wiring.ladder
    roots = blocks(ladder)
    units = [*[unit(wiring, block) for block in visible(roots, folded(roots, detail))], *results(wiring)]
    at = {row: k for k, each in enumerate(units) for row in range(each.block.start, each.block.stop)}
    boxes: list[tuple[str, Box]] = []
    rows = []
    for k, each in enumerate(units):
        mine = list(_boxes(each, f"{prefix}{k}"))
        boxes += mine
        rows.append(tuple([name for name, _ in mine]))
    slots = {
        i: f"{k}_{min(n, len(each.pairs) - 1)}"
        for k, each in enumerate(units)
        for n, i in enumerate(
            [i for row in range(each.block.start, each.block.stop) for i in wiring.paired.get(row, ())]
        )
    }

    def place(end: End) -> str:
        kind, i = end
        if kind in (ARGUMENT, GRADIENT):
            return f"{kind[0]}{prefix}{slots[i]}"
        return f"{'f' if kind in (FORWARD, RESULT) else 'b'}{prefix}{at[wiring.row(end)]}"

    labels: dict[tuple[str, str, int], list[int]] = {}
    for k, wire in enumerate(wiring.wires):
        for end in wire.ends:
            ends = place(wire.start), place(end)
            if ends[0] != ends[1]:
                labels.setdefault((*ends, wire.side), []).append(k)
    edges = []
    for (start, end, side), several in labels.items():
        wires = [wiring.wires[k] for k in dict.fromkeys(several)]
        size = sum(ladder.bytes_of(w.value) for w in wires)
        text = wires[0].name if len(wires) == 1 else f"{len(wires)} values"
        if side == 1:
            text += f", {bytes_text(size)}"
        elif len(wires) == 1 and side == 0 and wires[0].start[0] == FORWARD:
            text += f": {type_text(ladder.graph.types[wires[0].value])}"
        elif wires[0].start[0] in (ARGUMENT, SEED) or wires[0].ends[0][0] == GRADIENT:
            text = ""  # the box says it
        edges.append(Edge(start, end, text, side))
    row_of = {k: r for r, row in enumerate(ladder.rows) for k in (*row.forward, *row.backward)}
    inner = []
    for k, node in enumerate(ladder.graph.nodes):
        if k not in row_of:
            continue
        side = "f" if k in ladder.rows[row_of[k]].forward else "b"
        for name, body in subgraphs(node):
            owner = f"{side}{prefix}{at[row_of[k]]}"
            inner.append((owner, f"{node.op.name}: {name}", picture(ladder_of(body), detail, f"{prefix}{len(inner)}i")))
    return Picture(tuple(boxes), tuple(rows), tuple(edges), tuple(inner))


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
