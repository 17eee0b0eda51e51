"""Questions to a program: where would PyTorch raise or be wrong (``audit``), and why is there no gradient."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import Mode, modes
from fgrad.mutable.explain.names import name_of, place
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor import saved
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.origin import Origin, left
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_function, is_tracked
from fgrad.seam import RawSource


class inplace(Mode):
    """What a write does to values that backward needs: PyTorch's rule, or none at all.

    Called, it sets the mode of the thread; as a context manager or decorator it sets it for a block.

    Arguments:
      mode: "strict": as PyTorch, backward raises if a saved value was written since; the default.  "snapshot": saved
        values are kept as they were, so that the gradient is simply right.  No copies are made for it.

    Raises:
      ValueError: another mode.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> with torch.inplace("snapshot"):
    ...     y = x.exp()
    ...     z = y.sum()
    ...     y += 1
    ...     z.backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, mode: str):
        if mode not in ("strict", "snapshot"):
            raise ValueError(f'inplace() takes "strict" or "snapshot", not {mode!r}.')
        self.mode = mode
        self.close: Any = partial(vars(modes).update, snapshot=modes.snapshot)
        modes.snapshot = mode == "snapshot"

    def clone(self) -> "inplace":
        return inplace(self.mode)

    def __enter__(self) -> None:
        modes.snapshot = self.mode == "snapshot"


class compat(Mode):
    """Which release of PyTorch is emulated where they differ: "2.13", the default, or "1.x".

    Under "1.x" the errors and warnings have the words of that time (the leaf error's, the hint of the in-place error),
    and ``zero_grad`` leaves zeros instead of None.

    >>> import fgrad.torch as torch
    >>> with torch.compat("1.x"):
    ...     torch.empty(0).grad
    """

    def __init__(self, release: str):
        if release not in ("2.13", "1.x"):
            raise ValueError(f'compat() takes "2.13" or "1.x", not {release!r}.')
        self.release = release
        self.close: Any = partial(vars(modes).update, release=modes.release)
        modes.release = release

    def clone(self) -> "compat":
        return compat(self.release)

    def __enter__(self) -> None:
        modes.release = self.release


# -- audit -----------------------------------------------------------------------------------------------------------


@frozen
class Finding:
    """One place where PyTorch would not give the mathematical gradient.

    Attributes:
      kind: "raises": PyTorch's backward would refuse.  "silent": it would go on with a changed value.
      operation: the operation whose derivative reads the value.
      line: where it was run.
      value: which of its values: an operand's name, or "result".
      tensor: the user's name of the tensor, if one was found.
      writes: what wrote it since and was counted, a text each.
    """

    kind: str
    operation: str
    line: str
    value: str
    tensor: str | None
    writes: tuple[str, ...]

    def __str__(self) -> str:
        what = "backward would raise" if self.kind == "raises" else "backward would silently use a changed value"
        named = f" ({self.tensor})" if self.tensor else ""
        found = f"{what}: {self.operation}, at {self.line}, reads '{self.value}'{named}"
        if self.writes:
            return f"{found}, which was written by " + "; ".join(self.writes)
        return f"{found}, which was written past the version counter (through .data)"


@frozen
class Audit:
    """What ``audit`` found: the result of the program, the findings, and the error PyTorch's rule would end it with."""

    result: Any
    findings: tuple[Finding, ...]
    error: Exception | None

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "nothing to object to"


def audit(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Audit:
    """Run a program by both rules for writes, and list each place where PyTorch's gradient is not the mathematical one.

    The program is run twice, first by PyTorch's rule and then with saved values kept; it should make its tensors
    itself.

    Arguments:
      f: the program; ``args`` and ``kwargs`` are its arguments.

    >>> import fgrad.torch as torch
    >>> def program():
    ...     x = torch.tensor([1., 2.], requires_grad=True)
    ...     y = x.sigmoid()
    ...     y.data.zero_()
    ...     y.sum().backward()
    ...     return x.grad
    >>> found = torch.audit(program)
    >>> found.result, [finding.kind for finding in found]
    (tensor([0.1966, 0.1050]), ['silent'])
    """
    error: Exception | None = None
    before = modes.snapshot, modes.findings
    try:
        modes.snapshot, modes.findings = False, None
        try:
            f(*args, **kwargs)
        except Exception as found:
            error = found
        findings: dict[Finding, None] = {}
        modes.snapshot, modes.findings = True, findings
        result = f(*args, **kwargs)
    finally:
        modes.snapshot, modes.findings = before
    return Audit(result, tuple(findings), error)


def _audit(saved_tensor: SavedTensor, node: Node) -> None:
    tensor = saved_tensor.tensor
    if tensor is None or (tensor._counter.value == saved_tensor.version and tensor._value() is saved_tensor.array):
        return
    counted = tensor._counter.value != saved_tensor.version
    writes = [w for w in tensor._counter.writes or () if w.version > saved_tensor.version]
    finding = Finding(
        "raises" if counted else "silent",
        node.plan.operation.name if isinstance(node, OperationNode) else node.name(),
        place(node.source),
        saved_tensor.name,
        name_of(tensor),
        tuple([f"{w.operation} at {place(w.source)}" for w in writes]),
    )
    modes.findings[finding] = None


saved.explanation.audit = _audit


# -- why_no_grad -----------------------------------------------------------------------------------------------------

#: how many reads of elements are shown
SHOWN = 4

_REASONS = {
    "detach": "detach() cuts the history off. Leave it out, or differentiate what comes after it.",
    "data": ".data has no history. Use the tensor itself; to write without recording, write inside torch.no_grad().",
    "no_grad": "it ran with recording off (no_grad, inference_mode or set_grad_enabled(False)). Move it out of there.",
    "not differentiable": "its result has no derivative (integers, booleans, indices such as argmax's). Use a "
    "differentiable stand-in: softmax for argmax, a smooth function for a comparison, float results for a cast.",
}


@frozen
class Why:
    """Why a gradient does not reach a tensor: the way from the output, and the edge where it breaks.

    Attributes:
      connected: whether there is a way after all.
      path: the operations from the output on, each with its line.
      reason: what breaks the way, and what to do.
    """

    connected: bool
    path: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return "\n".join([*[f"  {step}" for step in self.path], self.reason])


def why_no_grad(y: Tensor, x: Tensor) -> Why:
    """The way from ``y`` towards ``x``, and where exactly it breaks.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> y = (x * 2).detach().sin()
    >>> print(torch.why_no_grad(y, x).reason.split(':')[0])
    The way breaks at detach
    """
    if x is y:
        return Why(is_tracked(x), (), "They are the same tensor.")
    if not x._type.inexact:
        return Why(
            False, (), f"x is of type {x._type.dtype}, and only floating point and complex tensors have gradients."
        )
    wanted = _targets(x)
    if not wanted and not is_tracked(x):
        return Why(False, (), "x does not require grad: call x.requires_grad_() before computing with it.")
    start: Any = gradient_function(y) if is_tracked(y) else y._origin
    if start is None:
        start = y
    found = _search(start, x, wanted)
    if found is not None:
        return found
    lines = list(dict.fromkeys(f"  {how} at {place(source)}" for how, source in reversed(left)))[:SHOWN]
    reason = (
        "y was not computed from x by tensors at all: no operation on the way back from y has read x. A tensor "
        "made anew "
        "from numbers (torch.tensor(...), .item(), .numpy(), tolist()) has no history."
    )
    if lines:
        reason += "\nLast, these read the elements of tensors with history:\n" + "\n".join(lines)
    return Why(False, (), reason)


def _targets(x: Tensor) -> set[Any]:
    node = gradient_function(x)
    return {node} if node is not None else set()


def _search(start: Any, x: Tensor, wanted: set[Any]) -> Why | None:
    """Walk back from a node or an origin until ``x``; breadth first, so that the shortest way is shown."""
    came: dict[Any, Any] = {start: None}
    queue = [start]
    broken: dict[Any, Origin] = {}
    for at in queue:
        if isinstance(at, Node) and (at in wanted or (isinstance(at, AccumulateGrad) and at.variable is x)):
            return _found(at, came, broken)
        if isinstance(at, Origin) and any(_is_target(ref(), x, wanted) for ref in at.before):
            broken.setdefault(at, at)
            return _found(at, came, broken)
        for following, cut in _steps(at):
            if following not in came:
                came[following] = at
                if cut is not None:
                    broken[following] = cut
                elif at in broken:
                    broken[following] = broken[at]
                queue.append(following)
    return None


def _is_target(found: Any, x: Tensor, wanted: set[Any]) -> bool:
    return found is x or (isinstance(found, Node) and found in wanted)


def _steps(at: Any) -> Iterator[tuple[Any, Origin | None]]:
    """Where the way goes on from a node or an origin, and the origin that broke it there, if one did."""
    if isinstance(at, AccumulateGrad):
        if at.variable._origin is not None:
            yield at.variable._origin, at.variable._origin
    elif isinstance(at, Node):
        for edge in at.next_edges:
            if edge is not None:
                yield edge[0], None
        for origin in getattr(at, "origins", ()):
            yield origin, _break(origin)
    elif isinstance(at, Origin):
        for parent in at.parents:
            yield parent, _break(parent)
    elif isinstance(at, Tensor) and at._origin is not None:
        yield at._origin, _break(at._origin)


def _break(origin: Origin) -> Origin | None:
    return origin if origin.reason is not None else None


def _found(at: Any, came: dict[Any, Any], broken: dict[Any, Origin]) -> Why:
    path: list[str] = []
    cut = broken.get(at)
    step = at
    while step is not None:
        if not isinstance(step, AccumulateGrad):
            path.append(_shown(step))
        step = came[step]
    path.reverse()
    if cut is None:
        return Why(True, tuple(path), "A gradient does flow from y to x.")
    reason = _REASONS.get(cut.reason or "", "its result was made a new leaf.")
    return Why(False, tuple(path), f"The way breaks at {cut.operation}: {place(cut.source)}\n{reason}")


def _shown(step: Any) -> str:
    source: RawSource | None = step.source
    name = step.operation if isinstance(step, Origin) else step.name()
    return f"{name}, at {place(source)}"
