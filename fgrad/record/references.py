"""References that a recording makes, and calls that read and write references; NOTE [References are threaded through].

A reference made while recording is a *cell*: it names the value that it holds now.  One from outside is read and
written there, at once, and keeps numbers only.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import fgrad.graph.discharge  # noqa: F401  (what the primitives do to references is entered there)
from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.graph.references import MAKERS, threaded_call
from fgrad.graph.source import RawSource, here
from fgrad.jaxcore import Tracer as JaxTracer, is_reference, register_type, typeof
from fgrad.record import refusals


class Recording(Protocol):
    """What is asked of a recording here."""

    open: bool
    excluded: Sequence[Any]

    def records(self, args: Sequence[Any], /) -> bool: ...

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any: ...

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None, /) -> list[Any]: ...

    def read_outside(self, reference: Any, /) -> Any: ...

    def write_outside(self, reference: Any, value: Any, /) -> None: ...


class Cell(JaxTracer[Any]):
    """A reference that was made while recording; ``value`` is what it holds now."""

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


# where ``ref.at`` is used, JAX looks for the type of the reference
register_type(Cell, lambda cell: cell.aval)


def _new_cell(recording: Recording, type: Any, value: Any) -> Cell:
    cell = object.__new__(Cell)
    cell._trace = recording
    cell.aval = type
    cell.value = value
    return cell


def reference_call(recording: Recording, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Record a call that makes, reads or writes references."""
    makes = primitive.name in MAKERS
    if recording.excluded and any(x is y for x in args for y in recording.excluded):
        raise errors.passed_and_closed_over()
    if not makes and not recording.records(args) and not any(_own(recording, x) for x in args):
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
    if makes:
        return _new_cell(recording, type, outs[0])
    return outs[:first] if primitive.multiple_results else outs[0]


def _own(recording: Recording, reference: Any) -> bool:
    return type(reference) is Cell and reference._trace is recording


def _read(recording: Recording, reference: Any) -> Any:
    """What a reference holds."""
    if not _own(recording, reference):
        return recording.read_outside(reference)
    if not recording.open:
        raise refusals.leaked(reference)
    return reference.value
