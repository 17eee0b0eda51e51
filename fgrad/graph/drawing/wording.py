"""What the boxes and labels of a drawing say, in a few letters."""

import math
from collections.abc import Iterator, Sequence

from fgrad.graph.drawing.joining import SHAPING, counts_only
from fgrad.graph.drawing.ladder import Ladder
from fgrad.graph.graph import Node
from fgrad.graph.text import literals_of, value_text

#: the longest texts, in letters
TITLE, NAME, LABEL = 30, 30, 44
#: operations that only shape their operand, which are left out of a title that has others
PLAIN = SHAPING | {"convert_element_type", "pjit", "stop_gradient"}
#: the parameters that say what is computed, and not how; the page has the others
TELLING = ("axes", "axis", "dimension", "length", "new_dtype", "y")


def shortened(text: str, most: int) -> str:
    """A text of so many letters at most; of a path the end is kept."""
    if len(text) <= most:
        return text
    head = 12 if text.startswith("d ") else 3
    return text[:head] + "…" + text[len(text) - most + head + 1 :]


def cut(text: str, most: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"


def bytes_text(count: int) -> str:
    """A number of bytes in a few letters.

    >>> bytes_text(80), bytes_text(1 << 10), bytes_text(3 << 19)
    ('80 B', '1.0 KiB', '1.5 MiB')
    """
    if count < 1 << 10:
        return f"{count} B"
    power = min(int(math.log2(count)) // 10, 4)
    return f"{count / (1 << 10 * power):.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def called(node: Node) -> str:
    """The name of a function with its own rule, else of the primitive."""
    label = node.op.params.get("label")
    return label.strip("_") if isinstance(label, str) and label.isidentifier() else node.op.name


def operation_text(node: Node, literals: dict[int, str]) -> str:
    """The primitive, and beside it scalars in their places and the parameters that say what is computed."""
    text = called(node)
    if any(i in literals for i in node.inputs):
        text += f"({', '.join(literals.get(i, '·') for i in node.inputs)})"
    params = ", ".join(_said(name, node.params[name]) for name in TELLING if _tells(node, name))
    return f"{text} [{params}]" if params and len(text) + len(params) + 3 <= TITLE else text


def _said(name: str, value: object) -> str:
    return value_text(value) if name == "new_dtype" else f"{name}={value_text(value)}"


def _tells(node: Node, name: str) -> bool:
    """Whether a parameter is there and says something: a sum over all axes is just a sum."""
    if name not in node.params:
        return False
    return name != "axes" or len(node.params[name]) < len(node.op.in_types[0].shape)


def operations(ladder: Ladder, nodes: Sequence[int]) -> list[str]:
    """What a box calls some operations: those that only shape or count are left out of a text that has others."""
    shown_nodes = [ladder.graph.nodes[k] for k in telling(ladder, nodes)]
    if len(shown_nodes) == 1:
        return [operation_text(shown_nodes[0], literals_of(ladder.graph))]
    return [called(node) for node in shown_nodes]


def telling(ladder: Ladder, nodes: Sequence[int]) -> Sequence[int]:
    """Those of some nodes that say what they are for: neither bookkeeping nor constants, where there are others."""
    graph = ladder.graph
    for plain in (PLAIN, SHAPING):
        named_nodes = [k for k in nodes if graph.nodes[k].op.name not in plain]
        if named_nodes:
            return [k for k in named_nodes if not counts_only(graph, k, ladder.outs[k])] or named_nodes
    return nodes


def derivative_of(ladder: Ladder, k: int) -> str | None:
    source = ladder.graph.nodes[k].source
    return None if source is None else source.of


def differentiated(ladder: Ladder, forward: Sequence[int], backward: Sequence[int] = ()) -> Iterator[str]:
    """The operations that a row's derivatives are of."""
    nodes = ladder.graph.nodes
    own = [k for k in forward if derivative_of(ladder, k) is None] or forward
    names = {nodes[k].op.name: called(nodes[k]) for k in own}
    derived_names = [name for k in backward if (name := derivative_of(ladder, k)) is not None]
    shown = [names.get(name, name) for name in derived_names if name not in PLAIN]
    yield from shown or [called(nodes[k]) for k in telling(ladder, own)] or derived_names
