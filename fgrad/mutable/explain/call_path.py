"""The calls that led to a line that ran many times, reconstructed from the graph.

NOTE [Calls are found again]
Storing the stack with each node would cost every operation a walk up the stack; only anomaly mode pays that.  But the
calls can often be reconstructed.  The nodes of a graph are known in the order in which they ran.  Between two
operations that a function ran itself lie the calls that it made, and its bytecode says which: if every path from one
operation to the other makes the same calls, and as many as the line ran there, each run has its call.

A call is reported as certain only if no other can have led there: each run of the function passes the line once; the
caller uses the function for nothing but these calls, and its other calls there are known; and no node is missing
between the two operations, as it would be after a call whose result is not in the graph.

Between operations of two functions, or of two runs of one, there may have been callers that the graph does not know.
There the call is reported as one that may have led to the line.
"""

import dis
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from types import CodeType

from attrs import frozen

from fgrad.mutable.tensor.node import Node
from fgrad.seam import RawSource, Source, stored_names

#: how many nested calls are looked for
DEEPEST = 8
#: code that is not called by its name
_NOT_CALLED = frozenset({"<module>", "<lambda>", "forward", "__call__"})


@frozen
class Call:
    """A call that led to a line.

    Attributes:
      source: where it was made.
      sure: whether no other call can have led there.
    """

    source: RawSource
    sure: bool


def call_path(node: Node, nodes: Sequence[Node]) -> Iterator[Call]:
    """The calls that led to a node's line, innermost first, as far as they can be determined.

    ``nodes`` are those of its graph.
    """
    ran = sorted([each for each in nodes if each._source is not None], key=lambda each: each._sequence)
    numbers = {each._sequence for each in nodes}
    at = ran.index(node) if node in ran else None
    sure = True
    for _ in range(DEEPEST):
        caller = None if at is None else _caller(ran, at, numbers)
        if caller is None:
            return
        call, at = caller
        sure = sure and call.sure
        yield Call(call.source, sure)


def name_at_call(node: Node, nodes: Sequence[Node]) -> str | None:
    """The variable that a node's result was stored in by the caller, where the node's line returns it."""
    if node._source is None or not _returns(*node._source):
        return None
    call = next(call_path(node, nodes), None)
    names = () if call is None or not call.sure else stored_names(Source(*call.source))
    return names[0] if len(names) == 1 else None


def _caller(ran: Sequence[Node], at: int, numbers: Collection[int]) -> tuple[Call, int] | None:
    """The call that led to a node's function, and the nearest node that the caller ran itself."""
    code, offset = _source(ran[at])
    name = code.co_name
    if name in _NOT_CALLED or _uses(code, name) or _on_each_way(code, None, None, (offset,), None) is None:
        return None
    before = next((i for i in range(at - 1, -1, -1) if _may_call(ran[i], code)), None)
    after = next((i for i in range(at + 1, len(ran)) if _may_call(ran[i], code)), None)
    within = range(0 if before is None else before + 1, len(ran) if after is None else after)
    run = [i for i in within if ran[i]._source == ran[at]._source].index(at)
    runs = sum(ran[i]._source == ran[at]._source for i in within)
    others = frozenset([_source(ran[i])[0].co_name for i in within])

    if before is not None and after is not None:
        calls = _calls_between(ran[before], ran[after], name, others)
        if calls is not None and len(calls) == runs:
            is_complete = all(number in numbers for number in range(ran[before]._sequence, ran[after]._sequence))
            return Call(calls[run], is_complete), before

    earlier = [] if before is None else _calls_beside(ran[before], name, others, is_before=True)
    later = [] if after is None else _calls_beside(ran[after], name, others, is_before=False)
    if earlier is None or later is None or len(earlier) + len(later) != runs:
        return None
    is_earlier = run < len(earlier)
    nearest = before if is_earlier else after
    assert nearest is not None
    return Call([*earlier, *later][run], False), nearest


def _calls_between(before: Node, after: Node, name: str, others: frozenset[str]) -> list[RawSource] | None:
    """The calls of a function that one caller made between two nodes of its own, if they are sure."""
    (caller, start), (last, end) = _source(before), _source(after)
    calls = _calls(caller, start, end, name, others) if caller is last else None
    return None if calls is None else [(caller, call) for call in calls]


def _calls_beside(node: Node, name: str, others: frozenset[str], is_before: bool) -> list[RawSource] | None:
    """The certain calls of a function that a node's caller made after the node, or else before it."""
    caller, offset = _source(node)
    calls = _calls(caller, offset, None, name, others) if is_before else _calls(caller, None, offset, name, others)
    return None if calls is None else [(caller, call) for call in calls]


def _source(node: Node) -> RawSource:
    assert node._source is not None
    return node._source


def _may_call(node: Node, code: CodeType) -> bool:
    caller, _ = _source(node)
    return caller is not code and _uses(caller, code.co_name) > 0


def _calls(
    code: CodeType, start: int | None, end: int | None, name: str, others: frozenset[str]
) -> tuple[int, ...] | None:
    """The calls of a function between two instructions, if every path makes them.

    ``others`` are the functions that ran there, too.
    """
    calls = calls_of(code, name)
    if _uses(code, name) != len(calls):
        return None
    return _on_each_way(
        code, start, end, calls, frozenset([call for other in others for call in calls_of(code, other)])
    )


@lru_cache(1 << 12)
def _on_each_way(
    code: CodeType, start: int | None, end: int | None, marked: tuple[int, ...], lasti: frozenset[int] | None
) -> tuple[int, ...] | None:
    """The marked instructions, in order, on every path from one instruction to another; none if paths differ.

    Arguments:
      code: the code.
      start: an instruction that is not passed again; if None, the path begins where the function does.
      end: an instruction; if None, the path ends where the function returns.
      marked: the instructions.
      lasti: the other calls that a path may pass; if None, it may pass all.
    """
    flow = _ControlFlow(code)
    # while a function is called, a frame is at the last cache of the call
    start, end, *marked_here = [
        at if at is None else max(x for x in flow.index if x <= at) for at in (start, end, *marked)
    ]
    #: for each instruction, the marked ones before it; None where the paths to it differ
    passed: dict[int, tuple[int, ...] | None] = {}
    ended: set[tuple[int, ...] | None] = set()
    first = [0] if start is None else flow.successors(flow.index[start])
    todo: list[tuple[int, tuple[int, ...] | None]] = [(k, ()) for k in first]
    while todo:
        k, path = todo.pop()
        if k in passed:
            if passed[k] is None or passed[k] == path:
                continue
            path = None
        passed[k] = path
        x = flow.instructions[k]
        if x.offset == end or (end is None and x.opname in _RETURN):
            ended.add(path)
        elif x.offset != start:
            todo += [(handler, path) for handler in flow.handlers(x.offset)]
            if x.offset in marked_here:
                path = None if path is None else (*path, x.offset)
            elif lasti is not None and x.opname in _CALL and x.offset not in lasti:
                path = None
            todo += [(after, path) for after in flow.successors(k)]
    return ended.pop() if len(ended) == 1 else None


class _ControlFlow:
    """The control-flow graph of some code."""

    def __init__(self, code: CodeType):
        self.instructions = list(dis.get_instructions(code))
        self.index: dict[int, int] = {x.offset: k for k, x in enumerate(self.instructions)}
        self._exceptions = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    def successors(self, k: int) -> Iterator[int]:
        """The instructions that may follow one normally."""
        x = self.instructions[k]
        if x.opcode in dis.hasjrel or x.opcode in dis.hasjabs:
            yield self.index[x.argval]
        if x.opname not in _NOT_NEXT:
            yield k + 1

    def handlers(self, offset: int) -> Iterator[int]:
        """The instructions that may follow one if it raises."""
        return (self.index[e.target] for e in self._exceptions if e.start <= offset < e.end)


_RETURN = frozenset({"RETURN_VALUE", "RETURN_CONST"})
#: instructions without fall-through
_NOT_NEXT = _RETURN | {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RAISE_VARARGS", "RERAISE"}
#: instructions that call functions they do not name
_CALL = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "YIELD_VALUE", "SEND", "BEFORE_WITH", "LOAD_SPECIAL"})


@lru_cache(1 << 12)
def calls_of(code: CodeType, name: str) -> tuple[int, ...]:
    """The offsets of the calls of a name in some code.

    >>> def layers(x):
    ...     h = layer(x, scale(2))
    ...     return layer(h, 1)
    >>> len(calls_of(layers.__code__, "layer")), len(calls_of(layers.__code__, "scale"))
    (2, 1)
    """
    offsets: list[int] = []
    waiting: list[int] = []  # for each load of the name not yet called: what lies on the stack above it
    for instruction in dis.get_instructions(code):
        opcode, argument = instruction.opcode, instruction.arg
        effect = dis.stack_effect(opcode, argument if opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        waiting = [depth + effect for depth in waiting]
        done = [depth for depth in waiting if depth <= 1]
        if done and instruction.opname.startswith("CALL"):
            offsets.append(instruction.offset)
        if done and not instruction.opname.startswith("PRECALL"):
            waiting = [depth for depth in waiting if depth > 1]
        if _loads(instruction, name):
            waiting.append(1)
    return tuple(offsets)


@lru_cache(1 << 12)
def _uses(code: CodeType, name: str) -> int:
    """How often some code, or code nested in it, loads a name."""
    uses = 0
    for x in dis.get_instructions(code):
        uses += _loads(x, name) or (isinstance(x.argval, tuple) and name in x.argval)
        if isinstance(x.argval, CodeType):
            inner = x.argval
            uses += name in (*inner.co_names, *inner.co_varnames, *inner.co_freevars) or _uses(inner, name) > 0
    return uses


def _loads(x: dis.Instruction, name: str) -> bool:
    return x.opname.startswith("LOAD_") and x.opname not in ("LOAD_CONST", "LOAD_CLOSURE") and x.argval == name


@lru_cache(1 << 12)
def _returns(code: CodeType, offset: int) -> bool:
    """Whether an instruction's result is returned at once."""
    rest = [x.opname for x in dis.get_instructions(code) if x.offset > offset and x.opname not in ("CACHE", "NOP")]
    return bool(rest) and rest[0] == "RETURN_VALUE"
