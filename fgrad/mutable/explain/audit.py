"""``audit``: where PyTorch would raise, or would give another gradient than the mathematical one."""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import modes
from fgrad.mutable.explain.names import name_of, place
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor import saved
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.saved import SavedTensor


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
