"""``why_zero``: which gradients are zero, and why."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.api.arguments import check_function
from fgrad.graph.answer import Answer, Table
from fgrad.graph.graph import Graph
from fgrad.graph.names import value_names
from fgrad.graph.source import Source
from fgrad.jaxtypes import is_inexact
from fgrad.passes.local import tangent_type
from fgrad.questions.call import Call, called, evaluated, line_of, with_gradients
from fgrad.questions.movement import Note, Walk, nonzero

#: how many reasons are shown for one argument
SHOWN = 3
#: of several reasons at one line, the first of these is the best explanation
_ORDER = ("saturated", "masked", "cut", "cancels")


@frozen
class Reason:
    """One operation at which a gradient ends.

    Attributes:
      kind: "cut" (the operation has no derivative), "masked" (other elements were selected, or it was multiplied by
        zero), "saturated" (the slope is zero there) or "cancels" (contributions add up to zero).
      operation: the operation's name.
      text: what happens there, in words.
      source: the user's line, None if it is not known.
      count: how many elements end there.
    """

    kind: str
    operation: str
    text: str
    source: Source | None
    count: int

    def __str__(self) -> str:
        return f"{self.text}, at {line_of(self.source)}" if self.source else self.text


@frozen
class ZeroGradient:
    """One argument whose gradient is zero or has zeros.

    Attributes:
      name: the argument's path: ``params['w']``.
      kind: "unused", "integer", or that of the first reason: "cut", "masked", "saturated", "cancels".
      zeros: how many elements of the gradient are zero.
      size: how many there are.
      reasons: where the gradient ends, the most frequent reason first.
    """

    name: str
    kind: str
    zeros: int
    size: int
    reasons: tuple[Reason, ...]

    @property
    def partial(self) -> bool:
        """Whether some elements of the gradient are not zero."""
        return self.zeros < self.size


@frozen(repr=False, str=False)
class ZeroGradients(Answer):
    """The arguments whose gradients are zero, and why; false if no gradient has a zero.

    Attributes:
      leaves: the arguments concerned, in order.
      checked: how many arguments there are.
    """

    leaves: tuple[ZeroGradient, ...]
    checked: int

    def findings(self) -> Sequence[ZeroGradient]:
        return self.leaves

    def __getitem__(self, name: str) -> ZeroGradient:
        """The entry of an argument, by its path."""
        for leaf in self.leaves:
            if leaf.name == name:
                return leaf
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def parts(self) -> Iterable[str | Table]:
        if not self.leaves:
            yield f"No gradient is zero, of {self.checked} argument{'s' * (self.checked != 1)}."
            return
        rows = []
        for leaf in self.leaves:
            texts = [str(reason) for reason in leaf.reasons[:SHOWN]] or [_PLAIN[leaf.kind]]
            more = len(leaf.reasons) - SHOWN
            texts += [f"and at {more} more places"] if more > 0 else []
            zeros = f"{leaf.zeros} of {leaf.size}" if leaf.partial else "all"
            rows += [(leaf.name, zeros, leaf.kind, texts[0]), *[("", "", "", text) for text in texts[1:]]]
        yield Table(("gradient of", "zeros", "why", "where"), rows)


_PLAIN = {
    "unused": "the result does not depend on it",
    "integer": "integers and truth values have no gradient",
    "cancels": "what comes back from its uses adds up to zero",
    "saturated": "the product of the slopes on the way is too small for the type",
}


def why_zero(fun: Callable[..., Any]) -> Callable[..., ZeroGradients]:
    """A function of the same arguments that says which of their gradients are zero, and why.

    Arguments:
      fun: takes pytrees of arrays and returns a scalar, or other results, whose weighted sum is differentiated.

    Returns:
      A function whose result has each argument whose gradient is zero or has zeros, with the reason: unused; cut, where
      and by what; integer; masked by a selection or a factor of zero; saturated; or contributions that cancel.

    Raises:
      ArgumentTypeError: an argument is not made of arrays.

    >>> import fgrad, jax.numpy as jnp
    >>> def loss(w, scale, x):
    ...     return jnp.sum(jnp.tanh(w * 100.0 + x))
    >>> zero = fgrad.why_zero(loss)(jnp.ones(3), 2.0, 1)
    >>> [(leaf.name, leaf.kind) for leaf in zero]
    [('w', 'saturated'), ('scale', 'unused'), ('x', 'integer')]
    """
    check_function(fun, "why_zero")

    def question(*args: Any, **kwargs: Any) -> ZeroGradients:
        call = called(fun, args, kwargs, "why_zero")
        joint = with_gradients(call)
        outs = evaluated(joint.graph, call.values)
        cotangents = {number: outs[k] for number, k in joint.cotangents.items()}
        alive = {number for number, ct in cotangents.items() if nonzero(ct)}
        names = value_names(call.graph, call.names)
        zeros = []
        for i, name in enumerate(call.names):
            type = call.graph.in_types[i]
            if not is_inexact(type):
                zeros.append(ZeroGradient(name, "integer", type.size, type.size, ()))
                continue
            zero = np.asarray(cotangents[i]) == 0 if i in cotangents else np.ones(type.shape, bool)
            if zero.any():
                zeros.append(_explained(call, i, zero, Walk(names, alive)))
        return ZeroGradients(tuple(zeros), len(call.names))

    return question


def _explained(call: Call, i: int, zero: np.ndarray, walk: Walk) -> ZeroGradient:
    graph, values, name = call.graph, call.values, call.names[i]
    zeros, size = int(zero.sum()), int(zero.size)
    if not _is_read(graph, i):
        return ZeroGradient(name, "unused", zeros, size, ())
    type = tangent_type(graph.in_types[i])
    random = np.random.default_rng(0).uniform(0.5, 1.5, zero.shape)
    moved = np.asarray(np.where(zero, random, 0.0), type.dtype)
    outs = walk.run(graph, values, {i: moved})
    reasons = _ranked(list(walk.notes.values()) or walk.rules)
    moves = any(t is not None and nonzero(t) for t in outs)
    kind = reasons[0].kind if reasons else "saturated" if moves else "cancels"
    return ZeroGradient(name, kind, zeros, size, reasons)


def _is_read(graph: Graph, i: int) -> bool:
    """Whether a value is a result or some operation reads it."""
    return i in graph.outputs or any(i in node.inputs for node in graph.nodes)


def _ranked(notes: Sequence[Note]) -> tuple[Reason, ...]:
    """The reasons, the most frequent first, and for each instruction only the best one."""
    # if the operation's results have no gradient either, the reason is farther on
    notes = [note for note in notes if note.alive] or notes
    best: dict[Any, Reason] = {}
    for note in notes:
        reason = Reason(note.kind, note.operation, note.text, note.source, note.count)
        position = note.source and (note.source.code, note.source.offset)
        previous = best.get(position)
        if previous is None or _ORDER.index(reason.kind) < _ORDER.index(previous.kind):
            best[position] = reason
    return tuple(sorted(best.values(), key=lambda r: (r.kind == "cancels", -r.count)))
