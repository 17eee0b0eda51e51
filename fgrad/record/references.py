"""Recording calls that create, read and write references; see NOTE [References are threaded through].

A reference created while recording is a *cell*, which has the tracer of its current value.  One from outside is read
and written at once, with concrete values.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import fgrad.graph.discharge  # noqa: F401  (it defines the rules for references)
from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.graph.references import MAKERS, threaded_call
from fgrad.graph.source import RawSource, here
from fgrad.jaxcore import Tracer as JaxTracer, is_reference, register_type, typeof
from fgrad.record import refusals


class Recording(Protocol):
    """The methods of a recording that are used here."""

    open: bool
    excluded: Sequence[Any]

    def records(self, args: Sequence[Any], /) -> bool: ...

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any: ...

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None, /) -> list[Any]: ...

    def read_outside(self, reference: Any, /) -> Any: ...

    def write_outside(self, reference: Any, value: Any, /) -> None: ...


class Cell(JaxTracer[Any]):
    """A reference that was created while recording; ``value`` is its current value."""

    __slots__ = ("value",)
    _trace: Any
    value: Any

    #: no operation made it
    source = None

    def _contents(self) -> list[tuple[str, Any]]:
        return [("value", self.value)]

    def full_lower(self) -> "Cell":
        if not self._trace.open:
            raise refusals.leaked(self)
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>"


# for ``ref.at`` JAX looks up the type of the reference
register_type(Cell, lambda cell: cell.aval)


def _new_cell(recording: Recording, type: Any, value: Any) -> Cell:
    cell = object.__new__(Cell)
    cell._trace = recording
    cell.aval = type
    cell.value = value
    return cell


def reference_call(recording: Recording, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Record a call that creates, reads or writes references."""
    creates = primitive.name in MAKERS
    if recording.excluded and any(x is y for x in args for y in recording.excluded):
        raise errors.passed_and_closed_over()
    if not creates and not recording.records(args) and not any(_own(recording, x) for x in args):
        return recording.outside(primitive, args, params)
    types = [typeof(x) for x in args]
    type = primitive.abstract_eval(*types, **params)[0]
    threaded = threaded_call(primitive, params, types, args)
    values = [_read(recording, x) if is_reference(t) else x for x, t in zip(args, types, strict=True)]
    outs = recording.splice(threaded.graph, values, here(3))
    first = len(outs) - len(threaded.written)
    for i, value in zip(threaded.written, outs[first:], strict=True):
        if _own(recording, args[i]):
            args[i].value = value
        else:
            recording.write_outside(args[i], value)
    if creates:
        return _new_cell(recording, type, outs[0])
    return outs[:first] if primitive.multiple_results else outs[0]


def _own(recording: Recording, reference: Any) -> bool:
    return type(reference) is Cell and reference._trace is recording


def _read(recording: Recording, reference: Any) -> Any:
    """The value in a reference."""
    if not _own(recording, reference):
        return recording.read_outside(reference)
    if not recording.open:
        raise refusals.leaked(reference)
    return reference.value
