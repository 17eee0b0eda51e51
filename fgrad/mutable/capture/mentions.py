"""The names that a function's code mentions: variables, and attributes that are read or only called."""

import dis
from collections.abc import Iterator
from types import CodeType
from weakref import WeakKeyDictionary

from attrs import frozen

#: functions that look attributes up by strings
_BY_STRINGS = frozenset(("getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller", "vars", "__dict__"))


@frozen
class Mentions:
    """The names in the code of a function, and of the functions inside it.

    Attributes:
      names: all of them, as they come.
      read: those that may be attributes.
      called: those that may be attributes and are called at once, as in ``x.step()``: methods, not data.
      imported: the modules that are imported there.
    """

    names: tuple[str, ...]
    read: frozenset[str]
    called: frozenset[str]
    imported: frozenset[str]

    @staticmethod
    def of(code: CodeType) -> "Mentions":
        """The names that some code mentions."""
        found = _mentions.get(code)
        if found is None:
            found = _mentions[code] = _mentioned(code)
        return found


#: by code object, weakly
_mentions: WeakKeyDictionary[CodeType, Mentions] = WeakKeyDictionary()


def _mentioned(code: CodeType) -> Mentions:
    names: list[str] = []
    read: set[str] = set()
    called: set[str] = set()
    imported: set[str] = set()
    for each in _codes(code):
        names += each.co_names
        own = set(each.co_names)
        known: set[str] = set()  # whether all uses are calls
        others: set[str] = set()
        for line in dis.get_instructions(each):
            if line.opcode not in dis.hasname:
                continue
            if line.opname == "IMPORT_NAME":
                imported.add(line.argval)
            if line.opname == "LOAD_GLOBAL":
                known.add(line.argval)
            elif _is_call(line):
                known.add(line.argval)
                called.add(line.argval)
            else:
                others.add(line.argval)
        read |= own - (known - others)
        if own & _BY_STRINGS:
            read.update([x for x in each.co_consts if isinstance(x, str) and x.isidentifier()])
    return Mentions(tuple(dict.fromkeys(names)), frozenset(read), frozenset(called), frozenset(imported))


def _is_call(line: dis.Instruction) -> bool:
    """Whether an instruction looks up a method that is called next."""
    if line.opname == "LOAD_METHOD":
        return True
    return line.opname == "LOAD_ATTR" and "NULL|self" in line.argrepr


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)
