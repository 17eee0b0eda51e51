"""A ladder as an SVG image: laid out here, with nothing to install."""

import html
from collections.abc import Iterator, Sequence

from fgrad.graph.drawing.folding import Block, Detail, blocks, folded, visible
from fgrad.graph.drawing.ladder import Ladder
from fgrad.graph.drawing.layout import (
    BRACKET,
    GAP,
    MARGIN,
    STRAIGHT,
    Arrangement,
    Columns,
    arrange,
    columns,
    depth_of,
    head,
    path,
)
from fgrad.graph.drawing.turns import turns
from fgrad.graph.drawing.units import BOX, PAIR, PILL, Box, Unit, Wired, results, unit, wired

#: fill, border and text of each kind of box, in light and in dark surroundings
LIGHT = {
    "argument": ("#dbeafe", "#1d4ed8"),
    "constant": ("#f3f4f6", "#6b7280"),
    "forward": ("#ecfdf5", "#047857"),
    "saved": ("#fef9c3", "#a16207"),
    "backward": ("#ffedd5", "#c2410c"),
    "passes": ("#ffffff", "#c2410c"),
    "gradient": ("#fee2e2", "#b91c1c"),
    "zero": ("#ffffff", "#b91c1c"),
    "result": ("#ede9fe", "#6d28d9"),
    "seed": ("#fae8ff", "#a21caf"),
    "more": ("#ffffff", "#6b7280"),
}
DARK = {
    "argument": ("#172554", "#60a5fa"),
    "constant": ("#1f2937", "#9ca3af"),
    "forward": ("#052e26", "#34d399"),
    "saved": ("#3a2e05", "#eab308"),
    "backward": ("#3b1a08", "#fb923c"),
    "passes": ("#0f141b", "#fb923c"),
    "gradient": ("#3f0d12", "#f87171"),
    "zero": ("#0f141b", "#f87171"),
    "result": ("#2a1a4a", "#a78bfa"),
    "seed": ("#3a0b42", "#e879f9"),
    "more": ("#0f141b", "#9ca3af"),
}
#: the space above the image of a loop's turn, where its title stands
APART = 40
TITLES = ("arguments", "forward", "saved", "backward", "gradients")
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def style(scope: str) -> str:
    """The style sheet of a drawing within the element ``scope``."""

    def rules(colours: dict[str, tuple[str, str]], ground: str, ink: str, faint: str) -> Iterator[str]:
        yield f"{scope}{{--ground:{ground};--ink:{ink};--faint:{faint}}}"
        for kind, (fill, line) in colours.items():
            yield f"{scope} .{kind}>rect{{fill:{fill};stroke:{line}}}"
        yield f"{scope} .left path{{stroke:{colours['forward'][1]}}}{scope} .left .head{{fill:{colours['forward'][1]}}}"
        yield f"{scope} .across path{{stroke:{colours['saved'][1]}}}{scope} .across .head{{fill:{colours['saved'][1]}}}"
        yield f"{scope} .right path{{stroke:{colours['backward'][1]}}}"
        yield f"{scope} .right .head{{fill:{colours['backward'][1]}}}"

    light = "".join(rules(LIGHT, "#ffffff", "#111827", "#6b7280"))
    dark = "".join(rules(DARK, "#0f141b", "#e5e7eb", "#9ca3af"))
    shared = {
        "": f"background:var(--ground);font:11px {FONT}",
        " text": "fill:var(--ink)",
        " .ground": "fill:var(--ground)",
        " .note": "font-size:9.5px;fill:var(--faint)",
        " .column": "font-size:9.5px;fill:var(--faint)",
        " .label": "font-size:9.5px",
        " .wire path": "fill:none;stroke-width:1.2",
        " .wire .head": "stroke:none",
        " .bracket path": "fill:none;stroke:var(--faint)",
        **{f" .{kind}>rect": "stroke-dasharray:4 3" for kind in ("passes", "zero", "held", "more")},
    }
    rest = "".join(f"{scope}{where}{{{what}}}" for where, what in shared.items())
    return f"{light}{rest}@media (prefers-color-scheme:dark){{{dark}}}"


def to_svg(ladder: Ladder, detail: Detail | None = None) -> str:
    """The drawing as a stand-alone SVG image; below it one turn of each loop, forward and backward.

    ``detail``: ``operation``, ``line``, ``function`` or ``module``; left out, the finest in which it is not too long.

    >>> import jax
    >>> from fgrad.graph.drawing.ladder import ladder_of
    >>> from fgrad.graph.importing import from_jaxpr
    >>> to_svg(ladder_of(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0))))[:4]
    '<svg'
    """
    images = [("", *_image(ladder, detail)), *[(title, *_image(turn, detail)) for title, turn in turns(ladder)]]
    width, height = max(image[2] for image in images), 0.0
    parts = []
    for title, content, wide, high in images:
        if title:
            height += APART
            parts.append(f'<text class="column" x="{MARGIN}" y="{height - 6:.1f}">{html.escape(title)}</text>')
        parts.append(
            f'<svg y="{height:.1f}" width="{wide:.0f}" height="{high:.0f}">{content}</svg>' if title else content
        )
        height += high
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ladder" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{style(".ladder")}</style>'
        f'<rect class="ground" width="100%" height="100%"/>{"".join(parts)}</svg>'
    )


def _image(ladder: Ladder, detail: Detail | None) -> tuple[str, float, float]:
    """What a ladder's image consists of, its width and its height."""
    wiring = wired(ladder)
    roots = blocks(wiring.ladder)
    closed = folded(roots, detail)
    units = [*[unit(wiring, block) for block in visible(roots, closed)], *results(wiring)]
    space = columns(units, depth_of(roots, closed), arrange(wiring, units).lanes)
    arrangement = arrange(wiring, units, space)
    height = arrangement.height + (14 if wiring.ladder.left_out else 0)
    parts = [
        *titles(space),
        *note(wiring, height),
        *brackets(roots, closed, arrangement),
        *[wire(wiring, route.wire, route.corners) for route in arrangement.routes],
        *[drawn(each, top, space) for each, top in zip(arrangement.units, arrangement.tops, strict=True)],
    ]
    return "\n".join(parts), max(space.width, 60.0), height


def titles(space: Columns) -> Iterator[str]:
    """The titles of the columns that are there."""
    columns_of_titles = (space.argument, space.forward, space.pill, space.backward, space.gradient)
    for title, (x, width) in zip(TITLES, columns_of_titles, strict=True):
        if width and (space.backward[1] or title == "arguments"):
            yield f'<text class="column" x="{x + width / 2:.1f}" y="15" text-anchor="middle">{title}</text>'


def note(wiring: Wired, height: float) -> Iterator[str]:
    """What is not drawn."""
    if wiring.ladder.left_out:
        text = f"{wiring.ladder.left_out:,} more operations are left out in the middle"
        yield f'<text class="column" x="{MARGIN}" y="{height - 5:.1f}">{text}</text>'


def wire(wiring: Wired, k: int, corners: Sequence[tuple[float, float]]) -> str:
    """A piece of a wire."""
    each = wiring.wires[k]
    side = ("left", "across", "right")[each.side]
    return (
        f'<g class="wire {side}" data-wire="{k}"><title>{html.escape(each.name)}</title>'
        f'<path d="{path(corners)}"/><path class="head" d="{head(corners)}"/></g>'
    )


def drawn(each: Unit, top: float, space: Columns) -> str:
    """A unit at its place: its boxes, the labels of its rungs, and those of what it gives to others."""
    parts = [f'<g class="unit" data-unit="{each.id}" transform="translate(0 {top:.1f})">']
    for n, (argument, gradient) in enumerate(each.pairs):
        parts += [_box(argument, space.argument, n * PAIR, BOX), _box(gradient, space.gradient, n * PAIR, BOX)]
    for pill in each.pills:
        y = each.out[pill.wires[0]] - PILL / 2 + 2
        if not pill.held:
            x = space.forward[0] + space.forward[1]
            line = f"M{x:.1f} {y + PILL / 2 - 2:.1f}H{space.pill[0]:.1f}"
            parts.append(f'<g class="wire across"><path d="{line}"/></g>')
        parts.append(
            f'<g class="pill saved{" held" * pill.held}"><title>{html.escape(pill.hint)}</title>'
            f'<rect x="{space.pill[0]:.1f}" y="{y:.1f}" width="{space.pill[1]:.1f}" height="{PILL - 4}" rx="9"/>'
            f'<text class="label" x="{space.pill[0] + space.pill[1] / 2:.1f}" y="{y + 12.5:.1f}" '
            f'text-anchor="middle">{html.escape(pill.text)}</text></g>'
        )
    parts += [_box(each.forward, space.forward, 0, each.height), _box(each.backward, space.backward, 0, each.height)]
    for text, (x, _), y in ((each.below, space.forward, each.height), (each.above, space.backward, -GAP)):
        if text:
            at = f'x="{x + STRAIGHT + 8:.1f}" y="{y + GAP / 2 + 3:.1f}"'
            parts.append(f'<text class="label value" {at}>{html.escape(text)}</text>')
    return "".join([*parts, "</g>"])


def _box(box: Box | None, place: tuple[float, float], y: float, height: float) -> str:
    if box is None:
        return ""
    x, width = place
    middle = y + height / 2
    title = f'<text x="{x + 9:.1f}" y="{middle + (-2 if box.note else 4):.1f}">{html.escape(box.title)}</text>'
    note = f'<text class="note" x="{x + 9:.1f}" y="{middle + 11:.1f}">{html.escape(box.note)}</text>'
    return (
        f'<g class="box {box.kind}"><title>{html.escape(box.hint)}</title><rect x="{x:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="5"/>{title}{note if box.note else ""}</g>'
    )


def brackets(roots: Sequence[Block], closed: frozenset[str], arrangement: Arrangement) -> Iterator[str]:
    """A bracket beside the units of each block that is open."""
    spans = {
        row: (top, top + each.height)
        for each, top in zip(arrangement.units, arrangement.tops, strict=True)
        for row in range(each.block.start, each.block.stop)
    }
    yield from _brackets(roots, closed, spans, 0)


def _brackets(
    siblings: Sequence[Block], closed: frozenset[str], spans: dict[int, tuple[float, float]], depth: int
) -> Iterator[str]:
    for block in siblings:
        if not block.children or block.id in closed:
            continue
        top, bottom, x = spans[block.start][0], spans[block.stop - 1][1], MARGIN + BRACKET * depth + 12
        text = (
            block.label if len(block.label) * 5.9 < bottom - top else block.label[: int((bottom - top) / 5.9) - 1] + "…"
        )
        middle = (top + bottom) / 2
        yield (
            f'<g class="bracket" data-block="{block.id}"><title>{html.escape(block.label)}</title>'
            f'<path d="M{x + 5} {top:.1f}H{x}V{bottom:.1f}H{x + 5}"/><text class="note" text-anchor="middle" '
            f'transform="translate({x - 4} {middle:.1f}) rotate(-90)">{html.escape(text)}</text></g>'
        )
        yield from _brackets(block.children, closed, spans, depth + 1)
