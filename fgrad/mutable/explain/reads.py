"""Which reads of elements into Python or NumPy explain a missing gradient.

NOTE [Which reads count]
A read counts if the number can have flowed into the tensor in question: by the names of variables, to a line that
computed it, or to the line of the question (NOTE [Numbers are followed by name]).  It must have been read in the
functions of these lines, in one that they can call, or in the top-level code of a script or notebook: other code may
use the same names.  If the tensor that was read still has its history, that must lead to the tensor whose gradient is
missing, and no backward may have run through it since: otherwise the number was only displayed.  Of several functions
the one that read last counts.
"""

import sys
from collections import deque
from collections.abc import Hashable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from fgrad.mutable.explain.flow import local, reaches
from fgrad.mutable.explain.history import descends, lines
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.origin import Origin, Read, left
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.seam import RawSource, is_hidden

#: how many of the user's innermost frames are searched for the functions they mention
FRAMES = 3
#: how many of these functions are searched
FUNCTIONS = 256
#: methods that run when an object is called
_CALLED = frozenset({"forward", "__call__"})


def reads(y: Tensor, x: Tensor | None) -> list[Read]:
    """The reads of values made from a tensor (or of any) that flowed into another, latest first, each line once.

    Arguments:
      y: what was computed.
      x: the tensor without a gradient; None for any read.
    """
    running = list(_running())
    ends = [*lines(y), *[(frame.f_code, frame.f_lasti) for frame in running]]
    among: dict[CodeType, set[Hashable]] = {frame.f_code: set() for frame in running} | _mentioned(running[:FRAMES])
    near = among.keys() | {code for code, _ in ends}
    verdicts: dict[RawSource, Read | None] = {}
    for read in reversed(left):
        source = read.source
        if source is None or source in verdicts:
            continue
        if source[0] in near or source[0].co_qualname.startswith("<"):  # <module>, or a comprehension in one
            verdicts[source] = read if _concerns(read, x) and reaches(source, ends, among) else None
    decisive = [read for read in verdicts.values() if read is not None]
    return [read for read in decisive if read.source[0] is decisive[0].source[0]]  # type: ignore[index]


def _concerns(read: Read, x: Tensor | None) -> bool:
    """Whether the value read may have been made from a tensor, and was not merely displayed."""
    start = read.of if isinstance(read.of, Origin) else read.of()
    if start is None:
        return True
    return not _was_differentiated(start) and (x is None or descends(start, x))


def _was_differentiated(start: Any) -> bool:
    todo, visited = [start], {start}
    while todo:
        at = todo.pop()
        if isinstance(at, OperationNode) and at.released:
            return True
        for edge in getattr(at, "next_edges", ()):
            if edge is not None and edge[0] not in visited:
                visited.add(edge[0])
                todo.append(edge[0])
    return False


def _running() -> Iterator[FrameType]:
    """The user's frames, innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_hidden(frame.f_code):
            yield frame
        frame = frame.f_back


def _mentioned(frames: list[FrameType]) -> dict[CodeType, set[Hashable]]:
    """The code of the functions that some frames mention, and of those that these mention, with the names."""
    names_of_code: dict[CodeType, set[Hashable]] = {}
    todo: deque[tuple[CodeType, dict[str, Any]]] = deque()
    for frame in frames:
        todo.append((frame.f_code, {**frame.f_globals, **frame.f_locals}))
    while todo and len(names_of_code) < FUNCTIONS:
        code, scope = todo.popleft()
        inner = [const for const in code.co_consts if isinstance(const, CodeType) and const not in names_of_code]
        todo += [(const, scope) for const in inner]
        names_of_code.update({const: set() for const in inner})
        for name in (*code.co_names, *code.co_varnames, *code.co_freevars):
            value = scope.get(name)
            for function in _functions(value):
                if is_hidden(function.__code__):
                    continue
                if function.__code__ not in names_of_code:
                    names_of_code[function.__code__] = set()
                    inside = dict(zip(function.__code__.co_freevars, _contents(function), strict=False))
                    todo.append((function.__code__, {**function.__globals__, **inside}))
                if value is function or function.__name__ in _CALLED:
                    names_of_code[function.__code__].update((name, local(code, name)))
    return names_of_code


def _contents(function: FunctionType) -> list[Any]:
    contents = []
    for cell in function.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:  # an empty cell
            contents.append(None)
    return contents


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions that calling a value may run: itself, or the methods of its class and of its modules' classes."""
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        yield value
        return
    objects = list(value.modules()) if hasattr(type(value), "named_modules") else [value]
    for cls in {each if isinstance(each, type) else type(each) for each in objects}:
        yield from [each for each in vars(cls).values() if isinstance(each, FunctionType)]
