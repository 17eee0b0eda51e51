"""Data flow of a Python number in the user's code: from the instruction that read it to the lines that used it.

NOTE [Numbers are followed by name]
A number in Python carries no history, but the bytecode of the functions around says where it can go: an instruction's
result is stored in a variable, which a later statement loads to make another one.  So a number is followed by names:
local variables within their function, others (globals, attributes, results of functions) wherever they are met.  The
order of statements is not looked at, nor is what a name is bound to; that is enough to tell a number that was computed
with from one that was printed.
"""

import dis
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from attrs import frozen

from fgrad.seam import RawSource

#: methods that put their argument into a container
_FILL = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})

#: stands for the result of a comprehension while it is built
_COMPREHENSION = "[]"


def local(code: CodeType, name: str) -> Hashable:
    """The key of a local variable, which belongs to its function."""
    return id(code), name


@frozen
class Statement:
    """A span of bytecode that ends where a value is stored, returned, dropped or branched on.

    Attributes:
      code: the code that it is part of.
      end: the offset of its last instruction.
      loads: the names it reads.
      stores: the names it writes; if it returns, the function's name and its code.
    """

    code: CodeType
    end: int
    loads: frozenset[Hashable]
    stores: frozenset[Hashable]


def statement_at(source: RawSource) -> Statement | None:
    """The statement that an instruction belongs to."""
    code, offset = source
    return next((each for each in _statements(code) if offset <= each.end), None)


def reaches(source: RawSource, lines: Iterable[RawSource], among: Mapping[CodeType, Iterable[Hashable]]) -> bool:
    """Whether an instruction's result can flow into one of some lines.

    Arguments:
      source: the instruction.
      lines: the lines it may reach.
      among: the functions it may pass through, each with the further names under which it is called.

    >>> def program():
    ...     size, shown = read()
    ...     print(shown)
    ...     twice = 2 * size
    ...     return other, twice
    >>> calls = {x.argval: (program.__code__, x.offset) for x in dis.get_instructions(program)}
    >>> reaches(calls["read"], [calls["twice"]], {}), reaches(calls["print"], [calls["twice"]], {})
    (True, False)
    """
    start = statement_at(source)
    if start is None:
        return False
    ends = [each for each in map(statement_at, lines) if each is not None]
    if start in ends:
        return True
    statements = [each for code in {source[0], *among, *[x.code for x in ends]} for each in _statements(code)]
    locations: set[Hashable] = set(start.stores)
    grown = -1
    while len(locations) != grown:
        grown = len(locations)
        for code in locations.intersection(among):
            locations.update(among[code])  # type: ignore[index]
        for each in statements:
            if not locations.isdisjoint(each.loads):
                locations |= each.stores
    return any(not locations.isdisjoint(each.loads) for each in ends)


@lru_cache(1 << 12)
def _statements(code: CodeType) -> tuple[Statement, ...]:
    statements: list[Statement] = []
    reader = _Reader(code)
    joined = False  # whether the last statement ended with a store: an adjacent store unpacks the same value
    for offset, name, value in _instructions(code):
        fresh = reader.is_empty
        if not reader.read(name, value):
            continue
        if joined and fresh and statements:
            last = statements.pop()
            statements.append(Statement(code, offset, last.loads | reader.loads, last.stores | reader.stores))
        else:
            statements.append(Statement(code, offset, frozenset(reader.loads), frozenset(reader.stores)))
        joined = name.startswith("STORE_")
        reader = _Reader(code)
    return tuple(statements)


def _instructions(code: CodeType) -> Iterator[tuple[int, str, Any]]:
    """Each instruction's offset, name and argument; one that loads or stores two variables counts as two."""
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if "_FAST" in name and isinstance(value, tuple):
            first, second = value
            yield instruction.offset, "STORE_FAST" if name.startswith("STORE") else "LOAD_FAST", first
            yield instruction.offset, "STORE_FAST" if name.endswith("STORE_FAST") else "LOAD_FAST", second
        else:
            yield instruction.offset, name, value


class _Reader:
    """What one statement has loaded and stored so far."""

    def __init__(self, code: CodeType):
        self.code = code
        self.loads: set[Hashable] = set()
        self.stores: set[Hashable] = set()
        self.is_empty = True
        self._last: list[Hashable] = []  # the names loaded, in order
        self._fills: Hashable = None  # the container that a method of it fills
        self._ends_loop = False  # whether the last instruction ended a loop

    def read(self, name: str, value: Any) -> bool:
        """Process an instruction; returns whether it ends the statement."""
        after_loop, self._ends_loop = self._ends_loop, name == "END_FOR"
        if after_loop and name == "POP_TOP":  # Python 3.13 drops the iterator this way
            return False
        if name == "STORE_SUBSCR":
            self.stores.update(self._last[-2:])  # the container and the key
            return True
        if name.startswith(("LOAD_", "STORE_")) and isinstance(value, str):
            return self._variable(name, value)
        if isinstance(value, CodeType):  # a comprehension or a function that is made here
            self._load(value)
        if name in ("LIST_APPEND", "SET_ADD", "MAP_ADD"):  # from Python 3.12 on a comprehension is part of its function
            self.stores.add(local(self.code, _COMPREHENSION))
        if name == "END_FOR":
            self._load(local(self.code, _COMPREHENSION))
        if name.startswith(("RETURN_", "YIELD_")):
            self.stores.update((self.code, self.code.co_name))
            return True
        if name == "POP_TOP" and self._fills is not None:
            self.stores.add(self._fills)
        if name not in ("CACHE", "EXTENDED_ARG", "NOP", "UNPACK_SEQUENCE", "POP_TOP"):
            self.is_empty = False
        return name == "POP_TOP" or name.startswith("POP_JUMP")

    def _variable(self, name: str, value: str) -> bool:
        key = local(self.code, value) if "_FAST" in name else value
        if name.startswith("STORE_"):
            self.stores.add(key)
            return True
        if name in ("LOAD_ATTR", "LOAD_METHOD") and value in _FILL and self._last:
            self._fills = self._last[-1]
        self._load(key)
        return False

    def _load(self, key: Hashable) -> None:
        self.is_empty = False
        self.loads.add(key)
        self._last.append(key)
