"""The values of a graph by the names that the user's code gives them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property

from attrs import frozen

from fgrad.graph.graph import Builder, Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.text import type_text
from fgrad.jaxcore import ShapedArray


@frozen
class Value:
    """A value of a graph.

    Attributes:
      name: the variable that the user's line stores it in, the path of an argument, or ``%7``.
      number: its place in the graph.
      type: shape and dtype.
      node: the operation that made it; None for an input or a constant.
      readers: the operations that read it.
      is_output: whether the graph returns it.
    """

    name: str
    number: int
    type: ShapedArray
    node: Node | None
    readers: tuple[Node, ...]
    is_output: bool

    def __repr__(self) -> str:
        operation = "" if self.node is None else f" = {self.node.op.name}"
        where = "" if self.node is None or self.node.source is None else f"  # {self.node.source}"
        return f"{self.name}: {type_text(self.type)}{operation}{where}"


class Values(Mapping[str, Value]):
    """The values of a graph by name, and by number too; iterating gives the names in order."""

    def __init__(self, graph: Graph, inputs: Sequence[str] = ()):
        self._graph = graph
        self._inputs = inputs

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(value_names(self._graph, self._inputs))}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    @cached_property
    def _makers(self) -> list[Node | None]:
        producers: list[Node | None] = [None] * (len(self._graph.in_types) + len(self._graph.consts))
        for node in self._graph.nodes:
            producers += [node] * len(node.op.out_types)
        return producers

    @cached_property
    def _readers(self) -> list[list[Node]]:
        readers: list[list[Node]] = [[] for _ in self._graph.types]
        for node in self._graph.nodes:
            for number in dict.fromkeys(node.inputs):
                readers[number].append(node)
        return readers

    def number(self, key: str | int) -> int:
        """The number of the value with a name; that of ``%7`` is 7, even if the value has a name.

        Raises:
          KeyError: no value has this name; the message lists similar ones.
        """
        count = len(self._graph.types)
        if isinstance(key, int) and 0 <= key < count:
            return key
        number = self._numbers.get(key) if isinstance(key, str) else None
        if number is None and isinstance(key, str) and key[:1] == "%" and key[1:].isdigit() and int(key[1:]) < count:
            number = int(key[1:])
        if number is None:
            named = [name for name in self._names if not name.startswith("%")]
            like = get_close_matches(str(key), named, 3, 0.4) or named[:12]
            raise KeyError(
                f"no value of the graph is called {key!r}; there are {', '.join(like)} and %0 to %{count - 1}"
            )
        return number

    def __getitem__(self, key: str | int) -> Value:
        number = self.number(key)
        return Value(
            self._names[number],
            number,
            self._graph.types[number],
            self._makers[number],
            tuple(self._readers[number]),
            number in self._graph.outputs,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._graph.types)

    def __repr__(self) -> str:
        return "\n".join(repr(self[name]) for name in self)


Replacement = tuple[Graph, tuple[int, ...]]


def replaced(graph: Graph, replacements: Mapping[int, Replacement]) -> Graph:
    """The graph with some values replaced by graphs of values that come no later.

    Operations and outputs that read a replaced value read the new one; its replacement reads the old one.
    """
    builder = Builder(graph.in_types)
    old = [*builder.inputs, *map(builder.const, graph.consts)]
    new = list(old)

    def swap(first: int) -> None:
        for number in range(first, len(old)):
            if number in replacements:
                replacement, reads = replacements[number]
                (new[number],) = builder.splice(replacement, [old[i] if i == number else new[i] for i in reads])

    swap(0)
    for node in graph.nodes:
        first = builder.emit(node.op, tuple([new[i] for i in node.inputs]), node.source)
        outs = range(first, first + len(node.op.out_types))
        start = len(old)
        old += outs
        new += outs
        swap(start)
    return builder.finish([new[i] for i in graph.outputs])


def replacement_of(graph: Graph, recorded: Callable[..., Graph], number: int, reads: Sequence[int]) -> Replacement:
    """The replacement of a value, for ``replaced``; ``recorded`` records it for the types of the values it reads.

    Raises:
      TypeError: it has another type than the value, or more than one result.
    """
    types = graph.types
    replacement = recorded([types[i] for i in reads])
    got = replacement.out_types
    if len(got) != 1 or (got[0].shape, got[0].dtype) != (types[number].shape, types[number].dtype):
        got_text = ", ".join(map(type_text, got)) or "nothing"
        raise TypeError(
            f"the replacement of a value must have its type: {type_text(types[number])}, and not {got_text}"
        )
    return replacement, tuple(reads)
