"""What is different between two graphs, aligned by structure and printed as a unified diff."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

from attrs import field, frozen

from fgrad.graph.alignment import align
from fgrad.graph.answer import Answer, Table
from fgrad.graph.graph import Graph, Node
from fgrad.graph.likeness import ruled_alike
from fgrad.graph.names import value_names
from fgrad.graph.text import const_text, literals_of, params_text, type_text

#: how many equal lines stand around what differs
CONTEXT = 2
COMMENT_COLUMN = 56


@frozen
class Line:
    """An operation (or input, or constant) of one of two graphs, as the comparison prints it.

    ``number`` is that of its first value, -1 for what is returned; ``text`` uses names that the two graphs share.
    """

    number: int
    text: str
    node: Node | None = None

    def __str__(self) -> str:
        where = self.node.source if self.node is not None else None
        return f"{self.text:<{COMMENT_COLUMN}}  # {where}" if where else self.text


@frozen(repr=False)
class Difference(Answer):
    """What ``graph.diff`` found; false where the graphs are equal, or do the same by other functions.

    Attributes:
      removed: the lines of the first graph that have no partner in the second.
      added: the lines of the second that have none in the first.
      changed: pairs of lines at the same place that do not say the same.
      moved: whether the same operations stand in another order, or constants differ in their types alone.
      other_functions: the names of functions with rules of their own that are other functions, but do the same and
        have the same rules; as where one of the graphs is of a program that ``to_python`` has written out.
    """

    removed: tuple[Line, ...]
    added: tuple[Line, ...]
    changed: tuple[tuple[Line, Line], ...]
    moved: bool
    other_functions: tuple[str, ...]
    _lines: tuple[tuple[Line, ...], tuple[Line, ...]] = field(repr=False)

    def findings(self) -> Sequence[Any]:
        differences: list[Any] = [*self.removed, *self.added, *self.changed]
        return differences or (["the order"] if self.moved else [])

    def parts(self) -> Iterable[str | Table]:
        if not self:
            yield "The graphs are equal."
            if self.other_functions:
                names = ", ".join(self.other_functions)
                yield f"Functions with rules of their own are other ones, which do the same by the same rules: {names}."
            return
        if not (self.removed or self.added or self.changed):
            yield "The same operations, in another order or on constants of other types."
            return
        yield f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed"
        one, other = self._lines
        matcher = SequenceMatcher(None, [x.text for x in one], [x.text for x in other], autojunk=False)
        printed = []
        for group in matcher.get_grouped_opcodes(CONTEXT):
            printed.append("@@")
            for kind, a, b, c, d in group:
                if kind == "equal":
                    printed += [f"  {line}" for line in one[a:b]]
                else:
                    printed += [f"- {line}" for line in one[a:b]] + [f"+ {line}" for line in other[c:d]]
        yield "\n".join(printed)


def difference(one: Graph, other: Graph, names: tuple[Sequence[str], Sequence[str]] = ((), ())) -> Difference:
    """What is in one of two graphs and not in the other; ``names`` are those of their inputs.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> one, other = [from_jaxpr(jax.make_jaxpr(lambda x: f(x) * x)(1.0)) for f in (jnp.sin, jnp.cos)]
    >>> [str(line).split("  ")[0] for pair in difference(one, other, (["x"], ["x"])).changed for line in pair]
    ['%1: ~f32[] = sin x', '%1: ~f32[] = cos x']
    """
    alike = () if one == other else ruled_alike(one, other)
    pairs = dict(align(one, other))
    first, second = value_names(one, names[0]), list(value_names(other, names[1]))
    taken = set(first)
    partner = {b: a for a, b in pairs.items()}
    for b, name in enumerate(second):
        second[b] = first[partner[b]] if b in partner else f"{name}'" if name in taken else name
    lines = tuple(_lines(one, first)), tuple(_lines(other, second))
    place = {line.number: line for line in lines[1]}
    paired = {line.number: place.get(pairs.get(line.number, -2)) for line in lines[0] if line.number >= 0}
    changed, removed = [], []
    for line in lines[0]:
        twin = lines[1][-1] if line.number < 0 else paired[line.number]
        if twin is None:
            removed.append(line)
        elif twin.text != line.text and not alike:  # functions that differ in their names alone
            changed.append((line, twin))
    kept = {twin.number for twin in paired.values() if twin is not None}
    added = [line for line in lines[1] if line.number >= 0 and line.number not in kept]
    moved = one != other and not (removed or added or changed or alike)
    return Difference(tuple(removed), tuple(added), tuple(changed), moved, alike or (), lines)


def _lines(graph: Graph, names: Sequence[str]) -> list[Line]:
    literals = literals_of(graph)
    texts = [literals.get(number, name) for number, name in enumerate(names)]
    text_lines = [Line(i, f"{names[i]}: {type_text(t)}") for i, t in enumerate(graph.in_types)]
    number = len(text_lines)
    for const in graph.consts:
        if number not in literals:
            text_lines.append(Line(number, f"{names[number]}: {type_text(const.type)} = const {const_text(const)}"))
        number += 1
    for node in graph.nodes:
        outs = range(number, number + len(node.op.out_types))
        made = ", ".join(f"{names[i]}: {type_text(graph.types[i])}" for i in outs)
        params = params_text(node)
        reads = "".join(f" {texts[i]}" for i in node.inputs)
        text_lines.append(Line(number, f"{made} = {node.op.name}{f'[{params}]' if params else ''}{reads}", node))
        number += len(outs)
    text_lines.append(Line(-1, f"return {', '.join(texts[i] for i in graph.outputs)}".rstrip()))
    return text_lines
