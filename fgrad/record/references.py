"""Recording calls that create, read and write references; see NOTE [References are threaded through].

A reference created while recording is a *cell*, which has the tracer of its current value.  One from outside is read
and written at once, with concrete values.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import jax

import fgrad.graph.backward_references  # these define rules for references, and so does what they import
import fgrad.graph.forward_references  # noqa: F401
from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.graph.op import Kept
from fgrad.graph.references import (
    MAKERS,
    as_token,
    first_tokens,
    from_token,
    last_tokens,
    threaded_call,
    token_type,
    value_type,
)
from fgrad.graph.source import RawSource, here
from fgrad.jaxcore import Tracer as JaxTracer, register_type, set_trace, typeof, without_consts
from fgrad.jaxtypes import is_reference
from fgrad.record import refusals


class Recording(Protocol):
    """The methods of a recording that are used here."""

    open: bool
    excluded: Sequence[Any]
    used_later: list[Any]

    def records(self, args: Sequence[Any], /) -> bool: ...

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any: ...

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None, /) -> list[Any]: ...

    def read_outside(self, reference: Any, /) -> Any: ...

    def write_outside(self, reference: Any, value: Any, /) -> None: ...

    def accessed(self, reference: Any, /) -> Any: ...

    def may_be_differentiated(self, value: Any, /) -> bool: ...


class Cell(JaxTracer[Any]):
    """A reference that was created while recording.

    ``value`` is its current value, and ``token`` its token, if a backward rule uses it: NOTE [References in backward
    rules].
    """

    __slots__ = ("value", "token")
    _trace: Any
    value: Any
    token: Any

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


def new_cell(recording: Recording, type: Any, value: Any) -> Cell:
    cell = object.__new__(Cell)
    cell._trace = recording
    cell.aval = type
    cell.value = value
    cell.token = None
    return cell


def with_references(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """A call's arguments and parameters, the references that its function closes over being among the former."""
    closed = params["jaxpr"]
    if not any(is_reference(typeof(c)) for c in closed.consts):
        return args, params
    return [*closed.consts, *args], {**params, "jaxpr": without_consts(closed)}


def reference_call(recording: Recording, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Record a call that creates, reads or writes references."""
    creates = primitive.name in MAKERS
    args = [recording.accessed(x) if is_reference(typeof(x)) else x for x in args]
    if recording.excluded and any(x is y for x in args for y in recording.excluded):
        raise errors.passed_and_closed_over()
    if not creates and not recording.records(args) and not any(is_own(recording, x) for x in args):
        return recording.outside(primitive, args, params)
    types = [typeof(x) for x in args]
    threaded = threaded_call(primitive, params, types, args)
    later = [args[i] for i in threaded.later]
    tokens = _first_tokens(recording, later, args) if later else []
    values = [_read(recording, x) if is_reference(t) else x for x, t in zip(args, types, strict=True)]
    outs = recording.splice(threaded.graph, [*values, *tokens], here(3))
    first = len(outs) - len(tokens) - len(threaded.written)
    written = {i: first + k for k, i in enumerate(threaded.written)}
    for i, k in written.items():
        if not is_own(recording, args[i]):
            recording.write_outside(args[i], outs[k])
    if later:
        outs = _ended(recording, later, outs)
    for i, k in written.items():
        if is_own(recording, args[i]):
            args[i].value = outs[k]
    if creates:
        return new_cell(recording, primitive.abstract_eval(*types, **params)[0], outs[0])
    return outs[: len(outs) - len(written)] if primitive.multiple_results else outs[0]


def is_own(recording: Recording, reference: Any) -> bool:
    return type(reference) is Cell and reference._trace is recording


def _read(recording: Recording, reference: Any) -> Any:
    """The value in a reference."""
    if not is_own(recording, reference):
        return recording.read_outside(reference)
    if not recording.open:
        raise refusals.leaked(reference)
    return reference.value


# --------------------------------------------------------------------------------------------------------------------
# the two ends of NOTE [References in backward rules]


def _first_tokens(recording: Recording, references: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The tokens of references before a call with these arguments."""
    new: dict[int, Any] = {}
    values = [x for x in args if not is_reference(typeof(x)) and recording.may_be_differentiated(x)]
    with set_trace(recording):
        outside = [r for r in references if not is_own(recording, r)]
        if outside:
            new.update(zip(map(id, outside), _begin(tuple(map(Kept, outside)), values), strict=True))
        own = [r for r in references if is_own(recording, r) and r.token is None]
        if own:
            for reference, token in zip(own, first_tokens(list(map(_first_token, own)), values), strict=True):
                reference.token = token
            recording.used_later.extend(own)
    return [r.token if is_own(recording, r) else new[id(r)] for r in references]


def _ended(recording: Recording, references: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """The results of a call without its last tokens, with which the backward pass begins."""
    first = len(outs) - len(references)
    results = list(outs[:first])
    outside: list[Any] = []
    tokens: list[Any] = []
    for reference, token in zip(references, outs[first:], strict=True):
        if is_own(recording, reference):
            reference.token = token
        else:
            outside.append(reference)
            tokens.append(token)
    if not outside:
        return results
    differentiated = [k for k, x in enumerate(results) if recording.may_be_differentiated(x)]
    with set_trace(recording):
        ended = _end(tuple(map(Kept, outside)), tokens, [results[k] for k in differentiated])
    return _with(results, differentiated, ended)


def _with(values: Sequence[Any], positions: Sequence[int], new: Sequence[Any]) -> list[Any]:
    """The values with those at some positions replaced."""
    replaced = dict(zip(positions, new, strict=True))
    return [replaced.get(k, x) for k, x in enumerate(values)]


def with_last_tokens(recording: Recording, outs: Sequence[Any]) -> Sequence[Any]:
    """The results of a recording in which backward rules use references that were created there."""
    differentiated = [k for k, x in enumerate(outs) if recording.may_be_differentiated(x)]
    used = recording.used_later
    with set_trace(recording):
        ended = last_tokens([r.token for r in used], [r.value for r in used], [outs[k] for k in differentiated])
    return _with(outs, differentiated, ended)


def _first_token(reference: Any) -> Any:
    type = token_type(typeof(reference))
    return jax.numpy.zeros(type.shape, type.dtype)


# their references are static arguments, so that calls of these do not themselves count as using a reference


def _begin_call(references: Sequence[Kept], values: list[Any]) -> list[Any]:
    return [_first_token(kept.value) for kept in references]


def _begin_bwd(references: Sequence[Kept], _: None, cts: list[Any]) -> Any:
    for kept, ct in zip(references, cts, strict=True):
        kept.value[...] = from_token(ct, value_type(typeof(kept.value)))
    return (None,)


_begin = jax.custom_vjp(_begin_call, nondiff_argnums=(0,))
_begin.defvjp(lambda references, values: (_begin_call(references, values), None), _begin_bwd)


def _end_call(references: Sequence[Kept], tokens: list[Any], outs: list[Any]) -> list[Any]:
    return outs


def _end_bwd(references: Sequence[Kept], _: None, cts: Any) -> Any:
    return [as_token(kept.value[...]) for kept in references], cts


_end = jax.custom_vjp(_end_call, nondiff_argnums=(0,))
_end.defvjp(lambda references, tokens, outs: (outs, None), _end_bwd)
