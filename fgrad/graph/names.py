"""Names for values: the variables of the user's code, read from the bytecode when needed.

NOTE [The user's names]
A node has the code object and the offset of the user's instruction that ran it.  The bytecode after it shows what
happens to the result: ``h = jnp.tanh(z)`` is followed by a store to ``h``.  So names cost nothing during recording.
The few instructions up to the store are simulated on a small stack of texts; if the result goes into something else
first (another operation, a call), it has no name of its own.
"""

import dis
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any

from fgrad.graph.graph import Graph, Node
from fgrad.graph.source import Source

#: how many instructions after the one that computed a value are read
FOLLOWED = 40
#: the value itself on the stack; its parts are the numbers after it
_RESULT = 0

#: reads of a variable, whatever its scope
_LOADS = frozenset({
    "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF",
})  # fmt: skip
_LOAD_PAIRS = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"})
_STORES = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"})
_SILENT = frozenset({"NOP", "CACHE", "EXTENDED_ARG", "RESUME", "NOT_TAKEN", "PUSH_NULL"})
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL", "RETURN_CONST"})


def stored_name(source: Source) -> str | None:
    """The variable, attribute or item to which a user's statement assigns its value; None if there is none.

    >>> import sys
    >>> def f():
    ...     h = place()
    ...     return h
    >>> def place():
    ...     frame = sys._getframe(1)
    ...     return stored_name(Source(frame.f_code, frame.f_lasti))
    >>> f()
    'h'
    """
    names = stored_names(source)
    return names[0] if len(names) == 1 else None


def stored_names(source: Source) -> tuple[str | None, ...]:
    """The names of the parts into which a statement unpacks a value: one if it is not unpacked, none if it goes into
    something else.

    >>> import sys
    >>> def f():
    ...     mean, scale = place()
    ...     return mean
    >>> def place():
    ...     frame = sys._getframe(1)
    ...     return stored_names(Source(frame.f_code, frame.f_lasti))
    >>> f()
    'mean'
    """
    return _stored_names(source.code, source.offset) if source.names is None else source.names


@lru_cache(1 << 14)
def _stored_names(code: CodeType, offset: int) -> tuple[str | None, ...]:
    instructions = _after(code, offset)
    stack: list[Any] = [_RESULT]
    parts: list[str | None] = []
    for instruction in instructions:
        name = instruction.opname
        value = instruction.argval
        if name in _SILENT:
            continue
        if name == "UNPACK_SEQUENCE" and stack[-1] == _RESULT and not parts:
            stack.pop()
            parts = [None] * value
            stack += reversed(range(1, value + 1))  # part k is the number k
            continue
        stored = _stored(name, value, instruction.arg, stack)
        if stored is None:
            return ()
        for what, text in stored:
            if isinstance(what, int) and what > _RESULT and parts:
                parts[what - 1] = text
            elif what == _RESULT:
                # "_" is not a name, and pytest, which rewrites assertions, has variables of its own
                return () if text == "_" or text.startswith("@") else (text,)
        if parts and not any(isinstance(x, int) for x in stack):
            return tuple(parts)
    return ()


def _after(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """The instructions after the one at an offset, in the order of the code."""
    left = FOLLOWED
    for instruction in dis.get_instructions(code):
        if instruction.offset > offset and left:
            left -= 1
            yield instruction


def _stored(name: str, value: Any, arg: int | None, stack: list[Any]) -> list[tuple[Any, str]] | None:
    """Simulate one instruction: what it stores (and where); None if the simulation cannot continue."""
    if not stack:
        return None
    if name in _STORES:
        return [(stack.pop(), value)]
    if name == "STORE_FAST_STORE_FAST":
        # below the value is an earlier one, which is unknown
        return [(stack.pop() if stack else None, each) for each in value]
    if name == "STORE_FAST_LOAD_FAST":
        stored = [(stack.pop(), value[0])]
        stack.append(value[1])
        return stored
    if name == "STORE_ATTR":
        if len(stack) < 2:
            return None
        owner = stack.pop()
        return [(stack.pop(), f"{owner}.{value}")]
    if name == "STORE_SUBSCR":
        if len(stack) < 3:
            return None
        key, owner = stack.pop(), stack.pop()
        return [(stack.pop(), f"{owner}[{key}]")]
    return [] if _moves(name, value, arg, stack) else None


def _moves(name: str, value: Any, arg: int | None, stack: list[Any]) -> bool:
    """Simulate an instruction that stores nothing; whether the value is still on the stack, unread."""
    if name in _LOADS:
        stack.append(value)
    elif name in _LOAD_PAIRS:
        stack += value
    elif name in _CONSTANTS:
        stack.append(repr(value))
    elif name == "COPY" and arg and arg <= len(stack):
        stack.append(stack[-arg])
    elif name == "SWAP" and arg and arg <= len(stack):
        stack[-1], stack[-arg] = stack[-arg], stack[-1]
    elif name == "POP_TOP" and isinstance(stack[-1], str):
        stack.pop()
    elif name == "LOAD_ATTR" and isinstance(stack[-1], str):
        stack.append(f"{stack.pop()}.{value}")
    elif name in ("BINARY_SUBSCR", "BINARY_OP") and len(stack) > 1 and isinstance(stack[-2], str):
        if name == "BINARY_OP" and "[" not in str(value) and "[" not in _symbol(arg):
            return False
        key = stack.pop()
        stack.append(f"{stack.pop()}[{key}]")
    else:
        return False
    return True


def _symbol(arg: int | None) -> str:
    """The sign of a binary operator: from Python 3.14 on, subscripts are among them."""
    table = getattr(dis, "_nb_ops", ())
    return table[arg][1] if arg is not None and arg < len(table) else ""


def value_names(graph: Graph, inputs: Sequence[str] = ()) -> tuple[str, ...]:
    """A name for every value of a graph, by number, each of them once.

    Inputs have the given names, values the name of the variable that the user's line stores them in; the second value
    of one name is ``h#2``, and what has no name is called by its number: ``%7``.
    """
    names: list[str | None] = [*inputs[: len(graph.in_types)]]
    names += [None] * (len(graph.types) - len(names))
    for values, source in runs(graph):
        names_stored = stored_names(source)
        if names_stored and len(names_stored) <= len(values):
            for number, name in zip(values[-len(names_stored) :], names_stored, strict=True):
                names[number] = name
    counts: dict[str, int] = {}
    unique = []
    for number, name in enumerate(names):
        if name is None:
            unique.append(f"%{number}")
            continue
        counts[name] = counts.get(name, 0) + 1
        unique.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return tuple(unique)


def runs(graph: Graph) -> Iterator[tuple[list[int], Source]]:
    """The values that one instruction of the user's made one after another, and its place.

    A call such as ``jax.nn.softmax(x)`` is several nodes of one instruction; the last of them is its result.  Nodes of
    derivatives are left out: what their line stores is the primal value.
    """
    number = len(graph.in_types) + len(graph.consts)
    nodes: list[tuple[Node, int]] = []
    last: Source | None = None
    for node in graph.nodes:
        source = node.source
        if last is not None and (
            source is None or source.of or (source.code, source.offset) != (last.code, last.offset)
        ):
            yield from _rounds(nodes, last)
            nodes, last = [], None
        if source is not None and not source.of:
            last = source
            nodes.append((node, number))
        number += len(node.op.out_types)
    if last is not None:
        yield from _rounds(nodes, last)


def _rounds(nodes: Sequence[tuple[Node, int]], source: Source) -> Iterator[tuple[list[int], Source]]:
    """The values of one instruction's nodes, by round where a Python loop runs it repeatedly."""
    length = _period([(node.op.name, node.op.out_types) for node, _ in nodes])
    rounds = [nodes[i : i + length] for i in range(0, len(nodes), length)]
    for before, after in pairwise(rounds):
        if not any(_last(before) in node.inputs for node, _ in after):  # a repetition within one call
            rounds = [nodes]
            break
    for each in rounds:
        yield [number + k for node, number in each for k in range(len(node.op.out_types))], source


def _last(nodes: Sequence[tuple[Node, int]]) -> int:
    node, number = nodes[-1]
    return number + len(node.op.out_types) - 1


def _period(what: Sequence[Any]) -> int:
    """The length of the shortest prefix whose repetition gives the sequence."""
    n = len(what)
    return next(p for p in range(1, n + 1) if n % p == 0 and all(what[i] == what[i % p] for i in range(n)))
