"""The names that a function's code mentions: variables, and attributes that are read or only called."""

import dis
import gc
from collections.abc import Iterator
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from attrs import frozen

#: names through which attributes are looked up as strings
_BY_STRINGS = frozenset(("getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller", "vars", "__dict__"))

#: names of functions that may use any attribute of an object
_USING_ANY = _BY_STRINGS | {"__getattribute__", "asdict", "astuple", "copy", "deepcopy", "dir", "getmembers", "replace"}


@frozen
class Mentions:
    """The names in the code of a function, and of the functions inside it.

    Attributes:
      names: all of them, in order.
      read: those that may be attributes.
      called: those that may be attributes and are called at once, as in ``x.step()``: methods, not data.
      imported: the imported modules.
      strings: the strings that may be keys.
      uses_any: whether attributes may be used that are not mentioned, since their names are strings or all are copied.
      asks_type: whether ``type`` is called, which sees what ``isinstance`` does not: NOTE [Symbolic numbers].
    """

    names: tuple[str, ...]
    read: frozenset[str]
    called: frozenset[str]
    imported: frozenset[str]
    strings: frozenset[str]
    uses_any: bool
    asks_type: bool

    @staticmethod
    def of(code: CodeType) -> "Mentions":
        """The names that some code mentions."""
        mentions = _mentions.get(code)
        if mentions is None:
            mentions = _mentions[code] = _mentioned(code)
        return mentions


#: by code object, weakly
_mentions: WeakKeyDictionary[CodeType, Mentions] = WeakKeyDictionary()


def names_of(getter: Any) -> Iterator[str]:
    """The names of the attributes that an ``attrgetter`` or a ``methodcaller`` looks up, and other strings in it."""
    for x in getter if isinstance(getter, tuple) else gc.get_referents(getter):
        if isinstance(x, str):
            yield x
        elif isinstance(x, tuple):
            yield from names_of(x)


def _mentioned(code: CodeType) -> Mentions:
    names: list[str] = []
    read: set[str] = set()
    called: set[str] = set()
    imported: set[str] = set()
    strings: set[str] = set()
    uses_any = asks_type = False
    for each in _codes(code):
        names += each.co_names
        code_names = set(each.co_names)
        strings.update([x for x in each.co_consts if isinstance(x, str)])
        only_called: set[str] = set()
        otherwise_used: set[str] = set()
        for instruction in dis.get_instructions(each):
            uses_any |= instruction.opname == "MATCH_CLASS"  # its names are constants
            if instruction.opcode not in dis.hasname:
                continue
            if instruction.opname == "IMPORT_NAME":
                imported.add(instruction.argval)
            if instruction.opname == "LOAD_GLOBAL":
                only_called.add(instruction.argval)
                asks_type |= instruction.argval == "type"
            elif _is_call(instruction):
                only_called.add(instruction.argval)
                called.add(instruction.argval)
            else:
                otherwise_used.add(instruction.argval)
        read |= code_names - (only_called - otherwise_used)
        uses_any |= not _USING_ANY.isdisjoint(code_names)
        if code_names & _BY_STRINGS:
            read.update([x for x in each.co_consts if isinstance(x, str) and x.isidentifier()])
    every = tuple(dict.fromkeys(names))
    return Mentions(
        every,
        frozenset(read),
        frozenset(called),
        frozenset(imported),
        frozenset(strings),
        uses_any,
        asks_type,
    )


def _is_call(instruction: dis.Instruction) -> bool:
    """Whether an instruction looks up a method that is called next."""
    if instruction.opname == "LOAD_METHOD":
        return True
    return instruction.opname == "LOAD_ATTR" and "NULL|self" in instruction.argrepr


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)
