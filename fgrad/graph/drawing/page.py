"""A ladder as a self-contained HTML page with zoom, search, folding, and details on click."""

import html
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fgrad.graph.drawing import layout
from fgrad.graph.drawing.folding import FOLDED, Block, Detail, blocks, closed_at, folded, source_of, visible
from fgrad.graph.drawing.ladder import ARGUMENT, GRADIENT, Ladder, ladder_of
from fgrad.graph.drawing.layout import Columns, arrange, columns, depth_of
from fgrad.graph.drawing.svg import drawn, style, titles, to_svg
from fgrad.graph.drawing.turns import turns
from fgrad.graph.drawing.units import GAP, Unit, Wired, results, unit, values_of, wired
from fgrad.graph.drawing.wording import bytes_text
from fgrad.graph.text import literals_of, node_line, render, subgraphs, type_text

HERE = Path(__file__).parent
SIZES = ("HEAD", "MARGIN", "BRACKET", "LANE", "INSET", "STRAIGHT", "BEND")
#: how many of the values of a block are described
SHOWN = 40


def to_html(
    ladder: Ladder,
    title: str = "graph",
    detail: Detail | None = None,
    rules: Mapping[str, str] | None = None,
    numbers: Mapping[int, str] | None = None,
) -> str:
    """One page with the drawing, the graphs inside its nodes, and the listing.

    Arguments:
      detail: the initial level of detail: ``operation``, ``line``, ``function`` or ``module``.
      rules: descriptions of the primitives' derivatives.
      numbers: summaries of values.
    """
    wiring = wired(ladder)
    ladder = wiring.ladder
    roots = blocks(ladder)
    closed = folded(roots, detail)
    units = {block.id: unit(wiring, block) for top in roots for block in top.walk()}
    ends = list(results(wiring))
    space = room(wiring, roots, units, ends, closed)
    data = _data(wiring, roots, units, ends, closed, space, _Details(wiring, rules or {}, numbers or {}))
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" id="drawing" class="ladder"><style>{style(".ladder")}</style>',
        '<rect class="ground" width="100%" height="100%"/>',
        *titles(space),
        '<g class="brackets"></g><g class="wires"></g>',
        *[drawn(each, 0.0, space) for each in (*units.values(), *ends)],
        "</svg>",
    ]
    inside = [(title, to_svg(turn)) for title, turn in turns(ladder)]
    inside += [
        (f"{node.op.name}: {name}", to_svg(ladder_of(body)))
        for node in ladder.graph.nodes
        for name, body in subgraphs(node)
    ]
    bodies = [f"<details><summary>{html.escape(name)}</summary>{image}</details>" for name, image in inside]
    levels = "".join(f"<option>{kind}</option>" for kind in data["levels"])
    names = [*ladder.names[: len(ladder.graph.in_types)]]
    return _PAGE.format(
        title=html.escape(title),
        css=(HERE / "page.css").read_text(),
        levels=levels,
        picture="\n".join(picture),
        bodies="".join(bodies),
        listing=html.escape(render(ladder.graph, names)),
        # nothing in the data may end the script
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        script=(HERE / "page.js").read_text(),
    )


def room(
    wiring: Wired, roots: tuple[Block, ...], units: Mapping[str, Unit], ends: list[Unit], closed: frozenset[str]
) -> Columns:
    """Columns wide enough for all units, and for the lanes of the most common states of folding."""
    depth = depth_of(roots, frozenset())
    return columns(list(units.values()) + ends, depth, _lanes(wiring, roots, units, ends, closed))


def _lanes(
    wiring: Wired, roots: tuple[Block, ...], units: Mapping[str, Unit], ends: list[Unit], closed: frozenset[str]
) -> tuple[int, int, int]:
    states = [closed, *[closed_at(roots, kind) for kind in FOLDED]]
    counts = [arrange(wiring, [*[units[b.id] for b in visible(roots, state)], *ends]).lanes for state in states]
    left, middle, right = (max(counts_of_column) for counts_of_column in zip(*counts, strict=True))
    return left, middle, right


def _data(
    wiring: Wired,
    roots: tuple[Block, ...],
    units: Mapping[str, Unit],
    ends: list[Unit],
    closed: frozenset[str],
    space: Columns,
    details: "_Details",
) -> dict[str, Any]:
    """The data of the script."""
    columns_of = ("argument", "forward", "pill", "backward", "gradient", "width")
    return {
        "sizes": {"GAP": GAP, **{name: getattr(layout, name) for name in SIZES}},
        "columns": {name: getattr(space, name) for name in columns_of},
        "lanes": _lanes(wiring, roots, units, ends, closed),
        "tree": [_tree(block) for block in roots],
        "results": [_tree(each.block) for each in ends],
        "closed": sorted(closed),
        "levels": {kind: sorted(closed_at(roots, kind)) for kind in FOLDED},
        "units": {each.id: _unit(each) for each in (*units.values(), *ends)},
        "wires": [_wire(wiring, k) for k in range(len(wiring.wires))],
        "details": {each.id: list(details.of(each)) for each in (*units.values(), *ends)},
        "rows": [
            {"row": each.block.start, "text": " ".join(text for part in details.of(each) for text in part).lower()}
            for each in (*units.values(), *ends)
            if not each.block.children
        ],
    }


def _tree(block: Block) -> dict[str, Any]:
    children = [_tree(child) for child in block.children]
    return {"id": block.id, "label": block.label, "start": block.start, "stop": block.stop, "children": children}


def _unit(each: Unit) -> dict[str, Any]:
    ports = {"left": each.left, "right": each.right, "middle": each.middle, "out": each.out}
    return {"start": each.block.start, "stop": each.block.stop, "height": each.height, **ports}


def _wire(wiring: Wired, k: int) -> dict[str, Any]:
    wire = wiring.wires[k]
    return {
        "name": wire.name,
        "side": wire.side,
        "paired": wire.start[0] == ARGUMENT and not wire.saved,
        "row": wiring.pill_row(wire) if wire.saved else wiring.row(wire.start),
        "from": wiring.row(wire.start),
        "ends": [[end[0] == GRADIENT, wiring.row(end)] for end in wire.ends],
    }


class _Details:
    """The details that a click on a unit shows: titles and texts."""

    def __init__(self, wiring: Wired, rules: Mapping[str, str], numbers: Mapping[int, str]):
        self.wiring = wiring
        self.ladder: Ladder = wiring.ladder
        self.rules = rules
        self.numbers = numbers
        self._literals = literals_of(self.ladder.graph)
        self._number: dict[int, int] = {}
        number = len(self.ladder.graph.in_types) + len(self.ladder.graph.consts)
        for k, node in enumerate(self.ladder.graph.nodes):
            self._number[k] = number
            number += len(node.op.out_types)

    def of(self, each: Unit) -> Iterator[tuple[str, str]]:
        block, ladder = each.block, self.ladder
        if block.kind == "result":
            pair = ladder.results[block.start - len(ladder.rows)]
            for title, value in (("result", pair.value), ("its cotangent", pair.partner)):
                if value is not None:
                    yield title, self._value(value)
            return
        source = source_of(ladder, block.start)
        if block.label:
            yield "block", block.label
        if source is not None:
            yield "line", f"{source.file}:{source.line}, in {source.function}\n{source.text}".rstrip()
        rows = ladder.rows[block.start : block.stop]
        for title, nodes in (
            ("forward", [k for row in rows for k in row.forward]),
            ("backward", [k for row in reversed(rows) for k in row.backward]),
        ):
            if nodes:
                yield title, self._lines([self._line(k) for k in nodes])
        names = dict.fromkeys(ladder.graph.nodes[k].op.name for row in rows for k in row.forward)
        rules = [f"{name}: {self.rules[name]}" for name in names if name in self.rules]
        if rules:
            yield "rule", "\n".join(rules)
        pills = [pill.hint for pill in each.pills]
        if pills:
            yield "saved", "\n".join(pills)
        values = [*self._arguments(block), *values_of(ladder, block)]
        yield "values", self._lines([self._value(i) for i in values])

    def _arguments(self, block: Block) -> Iterator[int]:
        for row in range(block.start, block.stop):
            for k in self.wiring.paired.get(row, ()):
                value = self.ladder.arguments[k].value
                if value is not None:
                    yield value

    def _line(self, k: int) -> str:
        return node_line(self.ladder.graph.nodes[k], self._number[k], self._literals, source=False)

    def _value(self, value: int) -> str:
        type = self.ladder.graph.types[value]
        text = f"{self.ladder.names[value]}: {type_text(type)}, {bytes_text(self.ladder.bytes_of(value))}"
        return f"{text}\n    {self.numbers[value]}" if value in self.numbers else text

    def _lines(self, lines: list[str]) -> str:
        more = len(lines) - SHOWN
        return "\n".join([*lines[:SHOWN], *[f"... {more} more"] * (more > 0)])


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>
{css}</style></head><body>
<header><b>{title}</b>
<label>detail <select id="level"><option value="" disabled selected>folded</option>{levels}</select></label>
<input id="search" type="search" placeholder="search" aria-label="search"><span id="count"></span>
<button id="out" aria-label="smaller">&minus;</button><span id="zoom"></span>
<button id="in" aria-label="larger">+</button>
<button id="fit">fit</button></header>
<main>
{picture}
{bodies}
<details><summary>listing</summary><pre>{listing}</pre></details>
</main>
<aside id="detail"></aside>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script></body></html>
"""
