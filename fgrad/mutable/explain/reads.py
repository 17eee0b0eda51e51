"""Which reads of elements into Python or NumPy have to do with a missing gradient.

NOTE [Which reads count]
What happens to a number in Python leaves no trace, so a read is linked to what was made of it by what can be known.  If
what was read still has its history, that must lead to the tensor in question, and no backward may have passed there
since: then it was only shown.  If it is gone, the read must stand in a function that is running, before what it does
now, or in one that the running ones mention.  Of several functions the one that read last counts.
"""

import sys
from collections import deque
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from fgrad.mutable.explain.history import descends
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.origin import Origin, Read, left
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.seam import RawSource, is_hidden

#: how many of the user's frames, the innermost ones, are asked for the functions that they mention
FRAMES = 3
#: how many such functions are looked into
FUNCTIONS = 256


def reads(x: Tensor | None) -> list[Read]:
    """The reads of what was made from a tensor, or of anything, the last first, each line once."""
    running = list(_running())
    mentioned = _mentioned(running[:FRAMES])
    verdicts: dict[RawSource, Read | None] = {}
    for read in reversed(left):
        source = read.source
        if source is not None and source not in verdicts:
            verdicts[source] = read if _counts(read, x, running, mentioned) else None
    found = [read for read in verdicts.values() if read is not None]
    return [read for read in found if read.source[0] is found[0].source[0]]  # type: ignore[index]


def _counts(read: Read, x: Tensor | None, running: list[FrameType], mentioned: set[CodeType]) -> bool:
    start = read.of if isinstance(read.of, Origin) else read.of()
    if start is not None and _was_differentiated(start):
        return False
    if start is not None and x is not None:
        return descends(start, x)
    code, offset = read.source or (None, 0)
    for frame in running:
        if frame.f_code is code:
            return offset < frame.f_lasti
    return code in mentioned


def _was_differentiated(start: Any) -> bool:
    todo, seen = [start], {start}
    while todo:
        at = todo.pop()
        if isinstance(at, OperationNode) and at.released:
            return True
        for edge in getattr(at, "next_edges", ()):
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                todo.append(edge[0])
    return False


def _running() -> Iterator[FrameType]:
    """The user's frames, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_hidden(frame.f_code):
            yield frame
        frame = frame.f_back


def _mentioned(frames: list[FrameType]) -> set[CodeType]:
    """The code of the functions that some frames name, and of those that these name."""
    found: set[CodeType] = set()
    todo: deque[tuple[CodeType, dict[str, Any]]] = deque()
    for frame in frames:
        todo.append((frame.f_code, {**frame.f_globals, **frame.f_locals}))
    while todo and len(found) < FUNCTIONS:
        code, scope = todo.popleft()
        todo += [(const, scope) for const in code.co_consts if isinstance(const, CodeType) and const not in found]
        found.update([const for const in code.co_consts if isinstance(const, CodeType)])
        for name in (*code.co_names, *code.co_varnames, *code.co_freevars):
            for function in _functions(scope.get(name)):
                if function.__code__ not in found and not is_hidden(function.__code__):
                    found.add(function.__code__)
                    inside = dict(zip(function.__code__.co_freevars, _contents(function), strict=False))
                    todo.append((function.__code__, {**function.__globals__, **inside}))
    return found


def _contents(function: FunctionType) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            found.append(None)
    return found


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions that a call of a value may run: itself, or the methods of its class and of its modules' classes."""
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        yield value
        return
    objects = list(value.modules()) if hasattr(type(value), "named_modules") else [value]
    for cls in {each if isinstance(each, type) else type(each) for each in objects}:
        yield from [each for each in vars(cls).values() if isinstance(each, FunctionType)]
