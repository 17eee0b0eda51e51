"""Drawings that need nothing installed and no network: SVG images and HTML pages, laid out here."""

import html
from collections.abc import Iterator, Sequence

from fgrad.graph.drawing import COLOURS, LABEL_LENGTH, Picture, by_function, picture
from fgrad.graph.graph import Graph
from fgrad.graph.text import render

#: how many nodes a drawing shows before it leaves out the rest
DRAWN_NODES = 1500
GAP_X, GAP_Y, HEIGHT, MARGIN, LETTER = 24, 44, 26, 16, 6.7
#: an edge over more layers than this is drawn straight through them
ROUTED_LAYERS = 40


def to_svg(graph: Graph, names: Sequence[str] | None = None, limit: int | None = DRAWN_NODES) -> str:
    """The drawing as a stand-alone SVG image.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> to_svg(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)))[:4]
    '<svg'
    """
    return svg(picture(graph, names, limit))


def svg(drawn: Picture, arrow: str = "arrow") -> str:
    """Boxes in layers, each below all that it depends on and under the middle of what it reads.

    ``arrow`` names the arrow head: one name for each drawing on a page.
    """
    sizes = {box.id: len(_short(box.label)) * LETTER + 18 for box in drawn.boxes}
    places, routes, width, height = _layout(drawn, sizes)
    note = f"{drawn.left_out:,} more nodes are left out" if drawn.left_out else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">'
        f'<defs><marker id="{arrow}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs>'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{MARGIN}" y="12" fill="#6b7280">{note}</text>'
    )
    lines = [head]
    for edge, route in zip(drawn.edges, routes, strict=True):
        points = [places[i] for i in route]
        points = [(x + sizes.get(i, 0.0) / 2, y) for i, (x, y) in zip(route, points, strict=True)]
        x, y = points[0][0], points[0][1] + HEIGHT
        path = f"M{x:.1f} {y:.1f}"
        label = ((x + points[1][0]) / 2 + 3, (y + points[1][1]) / 2)
        for x2, y2 in points[1:]:
            middle = (y + y2) / 2
            path += f"C{x:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
            x, y = x2, y2
        lines.append(
            f'<g class="edge" data-from="{edge.start}" data-to="{edge.end}"><path d="{path}" fill="none" '
            f'stroke="#9ca3af" marker-end="url(#{arrow})"/>'
            f'<text x="{label[0]:.1f}" y="{label[1]:.1f}" font-size="9" fill="#6b7280">'
            f"{html.escape(edge.label)}</text></g>"
        )
    for box in drawn.boxes:
        (x, y), (fill, border) = places[box.id], COLOURS[box.kind]
        lines.append(
            f'<g class="box" data-id="{box.id}"><title>{html.escape(box.detail)}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{sizes[box.id]:.1f}" height="{HEIGHT}" rx="5" fill="{fill}" stroke="{border}"/>'
            f'<text x="{x + 9:.1f}" y="{y + 17:.1f}" fill="#111827">{html.escape(_short(box.label))}</text></g>'
        )
    return "\n".join([*lines, "</svg>"])


def _short(label: str) -> str:
    return label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 3] + "..."


def _layout(
    drawn: Picture, sizes: dict[str, float]
) -> tuple[dict[str, tuple[float, float]], list[list[str]], float, float]:
    """The upper left corner of each box, the way of each edge, and the size of the whole.

    An edge over several layers goes by a point in each, which is placed as a box without width would be; ways are
    lists of boxes and such points.
    """
    starts: dict[str, list[int]] = {box.id: [] for box in drawn.boxes}
    for k, edge in enumerate(drawn.edges):
        starts[edge.end].append(k)
    layer: dict[str, int] = {}
    rows: list[list[str]] = []
    before: dict[str, list[str]] = {}
    routes: list[list[str]] = [[] for _ in drawn.edges]
    for box in drawn.boxes:
        at = layer[box.id] = 1 + max([layer[drawn.edges[k].start] for k in starts[box.id]], default=-1)
        rows += [[] for _ in range(at + 1 - len(rows))]
        before[box.id] = []
        for k in starts[box.id]:
            last = drawn.edges[k].start
            routes[k].append(last)
            between = range(layer[last] + 1, at)
            for row in between if len(between) <= ROUTED_LAYERS else ():
                point = f"{k}/{row}"
                rows[row].append(point)
                before[point] = [last]
                routes[k].append(point)
                last = point
            routes[k].append(box.id)
            before[box.id].append(last)
        rows[at].append(box.id)
    places: dict[str, tuple[float, float]] = {}
    for at, row in enumerate(rows):
        # each box wants to be under the mean of what it reads
        wishes = {
            i: sum(places[j][0] + sizes.get(j, 0.0) / 2 for j in before[i]) / len(before[i]) - sizes.get(i, 0.0) / 2
            if before[i]
            else 0.0
            for i in row
        }
        right = -float("inf") if at else 0.0
        for i in sorted(row, key=wishes.__getitem__):
            x = max(wishes[i], right)
            places[i] = (x, MARGIN + 8 + at * (HEIGHT + GAP_Y))
            right = x + sizes.get(i, 0.0) + GAP_X
    left = min([x for x, _ in places.values()], default=0.0) - MARGIN
    places = {i: (x - left, y) for i, (x, y) in places.items()}
    width = max([x + sizes.get(i, 0.0) for i, (x, _) in places.items()], default=200.0) + MARGIN
    return places, routes, max(width, 200.0), len(rows) * (HEIGHT + GAP_Y) + 2 * MARGIN


# --------------------------------------------------------------------------------------------------------------------
# HTML


def to_html(
    graph: Graph, names: Sequence[str] | None = None, title: str = "graph", limit: int | None = DRAWN_NODES
) -> str:
    """One HTML page: the drawing, whole and by function, the graphs inside its nodes, and the listing.

    A click on a box shows its line and what it is connected to.  The page loads nothing from anywhere.
    """
    whole = picture(graph, names, limit)
    views = [("all nodes", whole), ("by function", by_function(graph, names, limit)), *_inside(whole)]
    options = "".join(f'<option value="{i}">{html.escape(name)}</option>' for i, (name, _) in enumerate(views))
    drawings = "".join(
        f'<div class="view"{" hidden" * (i > 0)}>{svg(drawn, f"arrow{i}")}</div>' for i, (_, drawn) in enumerate(views)
    )
    legend = "".join(
        f'<span style="background:{fill};border-color:{line}">{kind}</span>' for kind, (fill, line) in COLOURS.items()
    )
    listing = html.escape(render(graph, names, limit=limit))
    return _PAGE.format(title=html.escape(title), options=options, legend=legend, drawings=drawings, listing=listing)


def _inside(drawn: Picture) -> Iterator[tuple[str, Picture]]:
    labels = {box.id: box.label for box in drawn.boxes}
    for owner, name, inner in drawn.inner:
        yield f"{owner} {labels[owner]}: {name}", inner
        yield from _inside(inner)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 13px ui-monospace, Menlo, Consolas, monospace; margin: 0; color: #111827; }}
header {{ position: sticky; top: 0; background: #f9fafb; border-bottom: 1px solid #e5e7eb; padding: 8px 16px; }}
header span {{ border: 1px solid; border-radius: 4px; padding: 1px 6px; margin-left: 6px; }}
#detail {{ white-space: pre-wrap; margin: 6px 0 0; min-height: 1.2em; max-height: 9em; overflow: auto; }}
.view {{ overflow: auto; }} .box {{ cursor: pointer; }} .faded {{ opacity: 0.15; }} details {{ padding: 8px 16px; }}
</style></head><body>
<header><b>{title}</b> <select id="choice">{options}</select>{legend}<pre id="detail">click on a box</pre></header>
{drawings}
<details><summary>listing</summary><pre>{listing}</pre></details>
<script>
const all = (root, what) => [...root.querySelectorAll(what)];
document.getElementById("choice").onchange = (event) =>
  all(document, ".view").forEach((view, i) => {{ view.hidden = i != event.target.value; }});
all(document, ".view").forEach((view) => {{
  view.onclick = (event) => {{
    const box = event.target.closest(".box");
    const near = new Set(box ? [box.dataset.id] : []);
    all(view, ".edge").forEach((edge) => {{
      const {{ from, to }} = edge.dataset;
      const touches = box && (from == box.dataset.id || to == box.dataset.id);
      if (touches) {{ near.add(from); near.add(to); }}
      edge.classList.toggle("faded", Boolean(box) && !touches);
    }});
    all(view, ".box").forEach((other) => other.classList.toggle("faded", Boolean(box) && !near.has(other.dataset.id)));
    document.getElementById("detail").textContent = box ? box.querySelector("title").textContent : "click on a box";
  }};
}});
</script></body></html>
"""
