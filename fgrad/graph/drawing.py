"""Graphs as drawings: DOT and Mermaid text, and SVG and HTML files that need nothing installed and no network.

Every form is written from the same ``Picture``: boxes for inputs, constants, nodes and outputs, and typed arrows.
"""

import html
from collections.abc import Iterator, Sequence

from attrs import frozen

from fgrad.graph.graph import Graph, Node
from fgrad.graph.text import const_text, is_scalar, literals_of, node_line, params_text, render, subgraphs, type_text

#: fill and border of each kind of box
COLOURS = {
    "input": ("#dbeafe", "#1d4ed8"),
    "const": ("#f3f4f6", "#6b7280"),
    "forward": ("#ecfdf5", "#047857"),
    "derivative": ("#ffedd5", "#c2410c"),
    "output": ("#ede9fe", "#6d28d9"),
}
#: Mermaid draws no more edges than this unless its configuration is changed
MERMAID_EDGES = 500
#: how many nodes an SVG or HTML drawing shows before it leaves out the rest
DRAWN_NODES = 1500
LABEL_LENGTH = 48


@frozen
class Box:
    """``label``: what stands in the box; ``detail``: the line of the listing; ``kind``: a key of ``COLOURS``."""

    id: str
    label: str
    kind: str
    detail: str


@frozen
class Edge:
    start: str
    end: str
    label: str


@frozen
class Picture:
    """Boxes in an order in which every edge goes forward; ``inner``: pictures of the graphs inside a box."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    inner: tuple[tuple[str, str, "Picture"], ...] = ()
    left_out: int = 0


def picture(graph: Graph, names: Sequence[str] | None = None, limit: int | None = None, prefix: str = "") -> Picture:
    """The picture of a graph, up to ``limit`` of its nodes."""
    boxes: list[Box] = []
    edges: list[Edge] = []
    inner: list[tuple[str, str, Picture]] = []
    made_by: list[str] = []
    literals = literals_of(graph)
    types = graph.types
    for i, kind in enumerate(graph.in_types):
        name = names[i] if names else f"%{i}"
        boxes.append(Box(f"{prefix}v{i}", f"{name}: {type_text(kind)}", "input", f"input %{i}: {type_text(kind)}"))
        made_by.append(boxes[-1].id)
    for const in graph.consts:
        at = len(made_by)
        made_by.append(f"{prefix}v{at}")
        if not is_scalar(const):
            detail = f"%{at}: {type_text(const.type)} = const {const_text(const)}"
            boxes.append(Box(made_by[-1], f"constant {type_text(const.type)}", "const", detail))
    for i, node in enumerate(graph.nodes[:limit]):
        box = Box(f"{prefix}n{i}", _label(node, literals), _kind(node), node_line(node, len(made_by), literals))
        boxes.append(box)
        edges += [Edge(made_by[k], box.id, type_text(types[k])) for k in node.inputs if k not in literals]
        made_by += [box.id] * len(node.op.out_types)
        for name, body in subgraphs(node):
            inner.append((box.id, name, picture(body, None, limit, f"{box.id}_{len(inner)}_")))
    for k, number in enumerate(graph.outputs):
        if number < len(made_by):
            label = f"output {k}" if len(graph.outputs) > 1 else "output"
            label += f" = {literals[number]}" if number in literals else f": {type_text(types[number])}"
            boxes.append(Box(f"{prefix}o{k}", label, "output", f"output {k} is %{number}"))
            if number not in literals:
                edges.append(Edge(made_by[number], boxes[-1].id, type_text(types[number])))
    return Picture(tuple(boxes), tuple(edges), tuple(inner), len(graph.nodes) - len(graph.nodes[:limit]))


def _kind(node: Node) -> str:
    return "derivative" if node.source is not None and node.source.of is not None else "forward"


def _label(node: Node, literals: dict[int, str]) -> str:
    """The primitive, its literal arguments in their places, and what it is the derivative of."""
    text = node.op.name
    if any(i in literals for i in node.inputs):
        text += f"({', '.join(literals.get(i, '·') for i in node.inputs)})"
    params = params_text(node)
    if params and len(text) + len(params) < LABEL_LENGTH - 2:
        text += f" [{params}]"
    return text


def by_function(graph: Graph, names: Sequence[str] | None = None) -> Picture:
    """One box per run of neighbouring nodes from the same function of the user's code.

    Runs rather than functions, so that no arrow goes backward.
    """
    whole = picture(graph, names)
    run_of: dict[str, str] = {}
    boxes: list[Box] = []
    counts: list[int] = []
    last = None
    nodes = iter(graph.nodes)
    for box in whole.boxes:
        if box.kind not in ("forward", "derivative"):
            boxes.append(box)
            counts.append(0)
            run_of[box.id] = box.id
            continue
        node = next(nodes)
        key = (box.kind, node.source.function if node.source else "(no source)")
        if key != last:
            boxes.append(Box(f"g{len(boxes)}", key[1], box.kind, ""))
            counts.append(0)
        last = key
        counts[-1] += 1
        boxes[-1] = Box(boxes[-1].id, boxes[-1].label, box.kind, f"{boxes[-1].detail}{box.detail}\n" if counts[-1] <= 40 else boxes[-1].detail)
        run_of[box.id] = boxes[-1].id
    boxes = [
        Box(b.id, f"{b.label} ({n} node{'s' * (n != 1)})", b.kind, b.detail) if n else b for b, n in zip(boxes, counts, strict=True)
    ]
    between: dict[tuple[str, str], list[str]] = {}
    for edge in whole.edges:
        ends = run_of[edge.start], run_of[edge.end]
        if ends[0] != ends[1]:
            between.setdefault(ends, []).append(edge.label)
    edges = [Edge(a, b, labels[0] if len(labels) == 1 else f"{len(labels)} values") for (a, b), labels in between.items()]
    return Picture(tuple(boxes), tuple(edges))


# --------------------------------------------------------------------------------------------------------------------
# text for other tools


def to_dot(graph: Graph, names: Sequence[str] | None = None) -> str:
    """The drawing in the DOT language of Graphviz; graphs inside a node are clusters beside it.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> print(to_dot(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)), ["x"]).splitlines()[3])
      v0 [label="x: ~f32[]", tooltip="input %0: ~f32[]", fillcolor="#dbeafe", color="#1d4ed8"];
    """
    head = ["digraph {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];']
    return "\n".join([*head, *_dot(picture(graph, names), "  "), "}"])


def _dot(drawn: Picture, indent: str) -> Iterator[str]:
    for box in drawn.boxes:
        fill, border = COLOURS[box.kind]
        yield f'{indent}{box.id} [label={_quoted(box.label)}, tooltip={_quoted(box.detail)}, fillcolor="{fill}", color="{border}"];'
    for edge in drawn.edges:
        yield f"{indent}{edge.start} -> {edge.end} [label={_quoted(edge.label)}, fontsize=9];"
    for k, (owner, name, inner) in enumerate(drawn.inner):
        yield f"{indent}subgraph cluster_{owner}_{k} {{"
        yield f"{indent}  label={_quoted(name)};"
        yield from _dot(inner, indent + "  ")
        yield f"{indent}}}"
        if inner.boxes:
            yield f"{indent}{owner} -> {inner.boxes[0].id} [style=dashed, arrowhead=none, label={_quoted(name)}];"


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def to_mermaid(graph: Graph, names: Sequence[str] | None = None) -> str:
    """The drawing as a Mermaid flowchart, which GitHub and Sphinx show.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> print(to_mermaid(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)), ["x"]).splitlines()[1])
        v0["x: ~f32[]"]:::input
    """
    drawn = picture(graph, names)
    lines = ["flowchart TD", *_mermaid(drawn, "    ")]
    count = sum("-->" in line or "-.-" in line for line in lines)
    if count > MERMAID_EDGES:
        lines.insert(1, f"    %% {count} edges: Mermaid draws {MERMAID_EDGES}; raise maxEdges in its configuration, or use to_html or to_dot")
    lines += [f"    classDef {kind} fill:{fill},stroke:{border},color:#111827" for kind, (fill, border) in COLOURS.items()]
    return "\n".join(lines)


def _mermaid(drawn: Picture, indent: str) -> Iterator[str]:
    for box in drawn.boxes:
        yield f'{indent}{box.id}["{_entities(box.label)}"]:::{box.kind}'
    for edge in drawn.edges:
        yield f'{indent}{edge.start} -->|"{_entities(edge.label)}"| {edge.end}'
    for k, (owner, name, inner) in enumerate(drawn.inner):
        yield f'{indent}subgraph {owner}_s{k}["{_entities(name)}"]'
        yield from _mermaid(inner, indent + "    ")
        yield f"{indent}end"
        yield f"{indent}{owner} -.- {owner}_s{k}"


def _entities(text: str) -> str:
    """Letters and digits as they are, the rest as Mermaid's character codes where they could mean something to it."""
    return "".join(c if c.isalnum() or c in " .,:()[]+-*=~·_/'" else f"#{ord(c)};" for c in text)


# --------------------------------------------------------------------------------------------------------------------
# SVG, laid out here

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
        f'<defs><marker id="{arrow}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs><rect width="100%" height="100%" fill="#ffffff"/>'
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
            f'<g class="edge" data-from="{edge.start}" data-to="{edge.end}"><path d="{path}" fill="none" stroke="#9ca3af" '
            f'marker-end="url(#{arrow})"/><text x="{label[0]:.1f}" y="{label[1]:.1f}" font-size="9" fill="#6b7280">'
            f"{html.escape(edge.label)}</text></g>"
        )
    for box in drawn.boxes:
        (x, y), (fill, border) = places[box.id], COLOURS[box.kind]
        lines.append(
            f'<g class="box" data-id="{box.id}"><title>{html.escape(box.detail)}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{sizes[box.id]:.1f}" height="{HEIGHT}" rx="5" fill="{fill}" stroke="{border}"/><text x="{x + 9:.1f}" '
            f'y="{y + 17:.1f}" fill="#111827">{html.escape(_short(box.label))}</text></g>'
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
            i: sum(places[j][0] + sizes.get(j, 0.0) / 2 for j in before[i]) / len(before[i]) - sizes.get(i, 0.0) / 2 if before[i] else 0.0
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


def to_html(graph: Graph, names: Sequence[str] | None = None, title: str = "graph", limit: int | None = DRAWN_NODES) -> str:
    """One HTML page: the drawing, whole and by function, the graphs inside its nodes, and the listing.

    A click on a box shows its line and what it is connected to.  The page loads nothing from anywhere.
    """
    whole = picture(graph, names, limit)
    views = [("all nodes", whole), ("by function", by_function(graph, names)), *_inside(whole)]
    options = "".join(f'<option value="{i}">{html.escape(name)}</option>' for i, (name, _) in enumerate(views))
    drawings = "".join(
        f'<div class="view"{" hidden" * (i > 0)}>{svg(drawn, f"arrow{i}")}</div>' for i, (_, drawn) in enumerate(views)
    )
    legend = "".join(f'<span style="background:{fill};border-color:{line}">{kind}</span>' for kind, (fill, line) in COLOURS.items())
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
