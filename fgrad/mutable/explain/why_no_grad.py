"""``why_no_grad``: why a gradient does not reach a tensor, or which parameters of a module it does not reach."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.explain.history import cuts, leaves, way
from fgrad.mutable.explain.names import location, name_of
from fgrad.mutable.explain.reads import reads
from fgrad.mutable.explain.wording import line_of, operation_of
from fgrad.mutable.tensor.node import node_name
from fgrad.mutable.tensor.origin import LEFT, Origin, Read
from fgrad.mutable.tensor.tensor import Tensor, gradient_function, is_tracked
from fgrad.seam import Answer, RawSource, Table, is_hidden

#: how many reads of elements, leaves and cuts are shown
SHOWN = 4

_REASONS = {
    "detach": "detach() cuts the history off. Leave it out, or differentiate what comes after it.",
    "data": ".data has no history. Use the tensor itself; to write without recording, write inside torch.no_grad().",
    "no_grad": "it ran with recording off (no_grad, inference_mode or set_grad_enabled(False)). Move it out of there.",
    "not differentiable": "its result has no derivative (integers, booleans, indices such as argmax's). Use a "
    "differentiable stand-in: softmax for argmax, a smooth function for a comparison, float results for a cast.",
    "leaf": "it makes a new leaf, which has the values of what it is made from and none of its history. Use the tensor "
    "itself in forward, or make the parameter once and differentiate with respect to it.",
    LEFT: "it was made in a function that torch.func differentiates and left it through a list or a global; it is a "
    "constant from then on. Return it from the function (has_aux=True).",
}


@frozen(repr=False, str=False)
class Why(Answer):
    """Why a gradient does not reach a tensor; false if one does.

    Attributes:
      connected: whether there is a path for the gradient.
      path: the operations from the output backwards, each with its line.
      reason: what breaks the path, and what to do.
      kind: "detach", "data", "no_grad", "not differentiable", "leaf": what cuts the path;
        "read": elements were read into Python or NumPy; "unused"; "integer"; "does not require grad"; "not a leaf":
        there is a gradient, which is not kept in ``.grad``; "connected".
      name: the user's name for the tensor, if one was found.
    """

    connected: bool
    path: tuple[str, ...]
    reason: str
    kind: str
    name: str | None = None

    def findings(self) -> Sequence[str]:
        return () if self.kind == "connected" else (self.reason,)

    def parts(self) -> Iterable[str | Table]:
        yield from [f"  {step}" for step in self.path]
        yield self.reason


@frozen(repr=False, str=False)
class WhyTable(Answer):
    """Whether a gradient reaches each parameter; false if one reaches all.

    Attributes:
      entries: the answers by name, in order.
    """

    entries: dict[str, Why]

    def findings(self) -> Sequence[Why]:
        return [why for why in self.entries.values() if why]

    def __getitem__(self, name: str) -> Why:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def parts(self) -> Iterable[str | Table]:
        if not self.entries:
            yield "There is no parameter to ask about: pass the module that has them, or a tensor."
            return
        rows = []
        reasons: dict[str, None] = {}
        for name, why in self.entries.items():
            first, _, rest = why.reason.partition("\n")
            rows.append((name, "yes" if why.connected else "no", "" if why.kind == "connected" else why.kind, first))
            if why and rest:
                reasons[f"{why.kind}:\n{rest}"] = None
        yield Table(("parameter", "gradient", "why", ""), [row[:3] + (row[3] if row[2] else "",) for row in rows])
        yield from reasons


def why_no_grad(y: Tensor, x: Any = None) -> Why | WhyTable:
    """Explain why there is no gradient: the path from ``y`` back towards ``x``, and where exactly it breaks.

    Arguments:
      y: the loss, or any other tensor.
      x: the tensor without a gradient; or a module, for a table of all its parameters.  By default, the parameters and
        tensors that require grad among the caller's variables.

    Returns:
      An answer that prints the path and the reason; false if a gradient arrives.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> y = (x * 2).detach().sin()
    >>> print(torch.why_no_grad(y, x).reason.split(':')[0])
    The way breaks at detach
    """
    if not isinstance(y, Tensor):
        raise TypeError(f"why_no_grad takes a tensor and, if any, a tensor or module; got {type(y).__name__} first.")
    if x is None:
        return WhyTable({name: _why(y, tensor, f"'{name}'") for name, tensor in _around(y).items()})
    if isinstance(x, Tensor):
        return _why(y, x, name_of(x))
    if not hasattr(x, "named_parameters"):
        raise TypeError(f"why_no_grad takes a tensor or a module as its second argument, not {type(x).__name__}.")
    return WhyTable({name: _why(y, tensor, f"'{name}'") for name, tensor in x.named_parameters()})


def _why(y: Tensor, x: Tensor, name: str | None) -> Why:
    who = "The tensor" if name is None else f"The tensor {name}"
    if x is y:
        return Why(is_tracked(x), (), "They are the same tensor.", "connected" if is_tracked(x) else "unused", name)
    if not x._type.inexact:
        reason = f"{who} is of type {x._type.dtype}, and only floating point and complex tensors have gradients."
        return Why(False, (), reason, "integer", name)
    if not is_tracked(x) and x._origin is None:
        reason = f"{who} does not require grad: call requires_grad_() on it before computing with it."
        return Why(False, (), reason, "does not require grad", name)
    route = way(y, x)
    if route is None:
        return _unconnected(y, x, who, name)
    path = tuple(map(_shown, route.steps))
    if route.cut is not None:
        return Why(False, path, _break(route.cut), route.cut.reason or "leaf", name)
    if not is_tracked(x):
        return Why(False, path, f"{who} has no history itself: {_break(x._origin)}", "does not require grad", name)  # type: ignore[arg-type]
    return _connected(x, path, who, name)


def _connected(x: Tensor, path: tuple[str, ...], who: str, name: str | None) -> Why:
    maker = gradient_function(x)
    if maker is not None and not x._retains_grad:
        reason = (
            f"{who} gets a gradient, but it is not a leaf (made by {operation_of(maker)}, at "
            f"{location(maker._source)}), so its .grad stays None.\nCall retain_grad() on it before backward, or ask "
            "for it by torch.autograd.grad."
        )
        return Why(True, path, reason, "not a leaf", name)
    missing = "" if x._grad is not None else " Its .grad is set by backward()."
    return Why(True, path, f"A gradient does flow from y to x.{missing}", "connected", name)


def _unconnected(y: Tensor, x: Tensor, who: str, name: str | None) -> Why:
    reads_of_numbers = reads(y, x)
    if reads_of_numbers:
        lines = [
            f"{who} was used by its numbers only: {reads_of_numbers[0].how} at {location(reads_of_numbers[0].source)}",
            *line_of(reads_of_numbers[0].source),
            "What is made anew from numbers (torch.tensor(...), from_numpy, item(), tolist()) has no history. Compute "
            "with tensors instead.",
        ]
        if len(reads_of_numbers) > 1:
            lines += ["These read elements of it, or of what was made from it:", *_reads(reads_of_numbers)]
        return Why(False, (), "\n".join(lines), "read", name)
    reason = f"{who} was not used: y was not computed from x by tensors at all."
    names = list(dict.fromkeys([f"{name_of(leaf) or 'a leaf without a name'}" for leaf in leaves(y)]))
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        reason += f"\nThe gradient of y reaches {', '.join(names[:SHOWN])}{more}."
    return Why(False, (), reason, "unused", name)


def _reads(reads_of_numbers: Sequence[Read]) -> Iterator[str]:
    """The lines that read elements, each with its text."""
    for read in reads_of_numbers[:SHOWN]:
        yield f"  {read.how} at {location(read.source)}"
        yield from line_of(read.source)


def _break(cut: Origin) -> str:
    reason = _REASONS.get(cut.reason or "", "its result was made a new leaf.")
    return "\n".join([f"The way breaks at {cut.operation}: {location(cut.source)}", *line_of(cut.source), reason])


def _shown(step: Any) -> str:
    source: RawSource | None = step.source if isinstance(step, Origin) else step._source
    name = step.operation if isinstance(step, Origin) else node_name(step)
    return f"{name}, at {location(source)}"


def _around(y: Tensor) -> dict[str, Tensor]:
    """The parameters and leaves among the variables of the user's frames, by name, and the leaves of ``y``."""
    tensors: dict[str, Tensor] = {}
    visited: set[int] = {id(y)}

    def enter(name: str, tensor: Any) -> None:
        if isinstance(tensor, Tensor) and tensor._requires_grad and tensor._node is None and id(tensor) not in visited:
            visited.add(id(tensor))
            tensors[name] = tensor

    frame = sys._getframe(2)
    while frame is not None:
        if not is_hidden(frame.f_code):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in list(scope.items()):
                    if isinstance(value, Tensor):
                        enter(name, value)
                    elif getattr(type(value), "named_parameters", None) is not None:
                        for inner, parameter in value.named_parameters():
                            enter(f"{name}.{inner}", parameter)
        frame = frame.f_back
    for leaf in leaves(y):
        enter(name_of(leaf) or f"a leaf of shape {list(leaf._type.shape)}", leaf)
    return tensors


# -- texts of errors -------------------------------------------------------------------------------------------------


def no_history(y: Any, text: str) -> str:
    """PyTorch's text for a backward from a tensor without history, followed by why it has none."""
    if not isinstance(y, Tensor):
        return text
    breaks = cuts(y)[:SHOWN]
    if breaks:
        return f"{text}\n\n" + "\n".join(dict.fromkeys(map(_break, breaks)))
    lines = [f"{text}\n\nNothing that it was computed from requires grad"]
    read = reads(y, None)
    if read:
        lines[0] += ", or it was made anew from numbers. These lines read the elements of tensors with history:"
        lines += _reads(read)
    else:
        lines[0] += (
            ": call requires_grad_() on what is to be differentiated before computing with it. If it is a gradient, "
            "give the grad() or backward() that made it create_graph=True."
        )
    return "\n".join(lines)


def not_used(outputs: Sequence[Any], x: Any, text: str) -> str:
    """PyTorch's text for an input that outputs do not depend on, followed by why not."""
    tensors = [y for y in outputs if isinstance(y, Tensor)]
    if not tensors or not isinstance(x, Tensor):
        return text
    return f"{text}\n\n{_why(tensors[0], x, name_of(x))}"
