"""Graphs as drawings: a ``Picture`` of boxes and typed arrows, and its forms for Graphviz and Mermaid.

``pages.py`` draws it as SVG and HTML.
"""

import itertools
from collections.abc import Iterator, Sequence

from attrs import frozen

from fgrad.graph.graph import Graph, Node
from fgrad.graph.text import const_text, is_scalar, literals_of, node_line, params_text, subgraphs, type_text

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
LABEL_LENGTH = 48
#: how many lines of a run of nodes are kept
RUN_LINES = 40


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


def by_function(graph: Graph, names: Sequence[str] | None = None, limit: int | None = None) -> Picture:
    """One box per run of neighbouring nodes from the same function of the user's code.

    Runs rather than functions, so that no arrow goes backward.
    """
    whole = picture(graph, names, limit)
    drawn = [box.id for box in whole.boxes if box.kind in ("forward", "derivative")]
    nodes = dict(zip(drawn, graph.nodes, strict=False))
    boxes: list[Box] = []
    box_of: dict[str, str] = {}
    for key, group in itertools.groupby(whole.boxes, lambda box: _function(box, nodes.get(box.id))):
        run = list(group)
        if run[0].id in nodes:
            label = f"{key[1]} ({len(run)} node{'s' * (len(run) > 1)})"
            run_box = Box(f"g{len(boxes)}", label, run[0].kind, "\n".join([box.detail for box in run[:RUN_LINES]]))
            boxes.append(run_box)
            box_of.update(dict.fromkeys([box.id for box in run], run_box.id))
        else:
            boxes += run
            box_of.update({box.id: box.id for box in run})
    between: dict[tuple[str, str], list[str]] = {}
    for edge in whole.edges:
        ends = box_of[edge.start], box_of[edge.end]
        if ends[0] != ends[1]:
            between.setdefault(ends, []).append(edge.label)
    edges = [
        Edge(*ends, labels[0] if len(labels) == 1 else f"{len(labels)} values") for ends, labels in between.items()
    ]
    return Picture(tuple(boxes), tuple(edges), (), whole.left_out)


def _function(box: Box, node: Node | None) -> tuple[str, str]:
    return (box.kind, "" if node is None else node.source.function if node.source else "no source")


# --------------------------------------------------------------------------------------------------------------------
# text for other tools


def to_dot(graph: Graph, names: Sequence[str] | None = None) -> str:
    """The drawing in the DOT language of Graphviz; graphs inside a node are clusters beside it.

    >>> import jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> print(to_dot(from_jaxpr(jax.make_jaxpr(lambda x: -x)(1.0)), ["x"]).splitlines()[3])
      v0 [label="x: ~f32[]", tooltip="input %0: ~f32[]", fillcolor="#dbeafe", color="#1d4ed8"];
    """
    head = [
        "digraph {",
        "  rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];',
    ]
    return "\n".join([*head, *_dot(picture(graph, names), "  "), "}"])


def _dot(drawn: Picture, indent: str) -> Iterator[str]:
    for box in drawn.boxes:
        fill, border = COLOURS[box.kind]
        colours = f'fillcolor="{fill}", color="{border}"'
        yield f"{indent}{box.id} [label={_quoted(box.label)}, tooltip={_quoted(box.detail)}, {colours}];"
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
        lines.insert(
            1,
            f"    %% {count} edges: Mermaid draws {MERMAID_EDGES}; raise maxEdges in its configuration, or use to_html",
        )
    lines += [
        f"    classDef {kind} fill:{fill},stroke:{border},color:#111827" for kind, (fill, border) in COLOURS.items()
    ]
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
