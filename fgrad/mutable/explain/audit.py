"""``audit``: where PyTorch would raise, or would give a gradient other than the mathematical one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.modes import modes
from fgrad.mutable.explain.names import location, name_of
from fgrad.mutable.operation.capture import flatten
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Node, node_name
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.values.evaluation import concrete
from fgrad.seam import Answer, Table


@frozen
class Finding:
    """An operation at which PyTorch would not give the mathematical gradient.

    Attributes:
      kind: "raises": PyTorch's backward would raise.  "silent": it would continue with a changed value.
      operation: the operation whose derivative reads the value.
      line: where it was run.
      value: which of its values: an operand's name, "result", or what a custom Function keeps ("ctx.y").
      tensor: the user's name of the tensor, if one was found.
      writes: the counted writes since then, as texts.
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
        reading = f"{what}: {self.operation}, at {self.line}, reads '{self.value}'{named}"
        if self.writes:
            return f"{reading}, which was written by " + "; ".join(self.writes)
        return f"{reading}, which was written past the version counter (through .data, or kept on ctx by itself)"


@frozen
class Difference:
    """How far the result of PyTorch's rule is from the right one.

    Attributes:
      name: which result or gradient: "the result", "result[0]", "w.grad".
      largest: the largest difference of two elements.
      relative: the distance of the two, as a share of the right one's norm.
    """

    name: str
    largest: float
    relative: float

    def __str__(self) -> str:
        return f"{self.name} differs by up to {self.largest:.3g} ({self.relative:.2g} of its norm)"


@frozen(repr=False, str=False)
class Audit(Answer):
    """What ``audit`` found; false where PyTorch's gradient is the mathematical one.

    Attributes:
      result: the right one, of the program run with saved values kept.
      found: the findings; an audit is also a sequence of them.
      error: the error that the program raises under PyTorch's rule.
      differences: the results that differ under PyTorch's rule, if it raised no error.
    """

    result: Any
    found: tuple[Finding, ...]
    error: Exception | None
    differences: tuple[Difference, ...] = ()

    def findings(self) -> Sequence[Finding]:
        return self.found

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def parts(self) -> Iterable[str | Table]:
        yield from map(str, self.found)
        if not self.found:
            yield "nothing to object to"
        for difference in self.differences:
            yield f"By PyTorch's rule {difference}."


def audit(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Audit:
    """Run a program by both rules for writes, and list where PyTorch's gradient is not the mathematical one.

    The program is run twice, first by PyTorch's rule and then with saved values kept.  It should make its tensors
    itself, and draw random numbers only from a generator that it seeds.

    Arguments:
      f: the program; ``args`` and ``kwargs`` are its arguments.  Its results are compared, and so are the gradients of
        tensors and modules among the arguments; these get their old ``.grad`` back afterwards.

    >>> import fgrad.torch as torch
    >>> def program():
    ...     x = torch.tensor([1., 2.], requires_grad=True)
    ...     y = x.sigmoid()
    ...     y.data.zero_()
    ...     y.sum().backward()
    ...     return x.grad
    >>> report = torch.audit(program)
    >>> report.result, [finding.kind for finding in report]
    (tensor([0.1966, 0.1050]), ['silent'])
    >>> print(report.differences[0])
    the result differs by up to 0.197 (1 of its norm)
    """
    if not callable(f):
        raise TypeError(f"audit takes a function that runs the program, and its arguments; not {type(f).__name__}.")
    error: Exception | None = None
    before = modes.snapshot, modes.findings
    outcomes: list[dict[str, np.ndarray]] = []
    tensors = _given(args, kwargs)
    gradients = {name: tensor._grad for name, tensor in tensors.items()}
    try:
        modes.snapshot, modes.findings = False, None
        try:
            outcomes.append(_outcome(lambda: f(*args, **kwargs), tensors)[1])
        except Exception as raised:
            error = raised
        findings: dict[Finding, None] = {}
        modes.snapshot, modes.findings = True, findings
        result, outcome = _outcome(lambda: f(*args, **kwargs), tensors)
    finally:
        modes.snapshot, modes.findings = before
        for name, tensor in tensors.items():
            tensor._grad = gradients[name]
        changes.fields = object()
    differences = () if error is not None else tuple(_differences(outcomes[0], outcome))
    return Audit(result, tuple(findings), error, differences)


# -- differences -----------------------------------------------------------------------------------------------------


def _given(args: Any, kwargs: Any) -> dict[str, Tensor]:
    """The tensors and parameters among the arguments, by name."""
    tensors = {}
    for i, leaf in enumerate(flatten((args, kwargs))[0]):
        named = leaf.named_parameters() if hasattr(type(leaf), "named_parameters") else [(f"args[{i}]", leaf)]
        tensors |= {name: tensor for name, tensor in named if isinstance(tensor, Tensor)}
    return tensors


def _outcome(run: Callable[[], Any], tensors: dict[str, Tensor]) -> tuple[Any, dict[str, np.ndarray]]:
    """The result of a run, and its arrays: those it returned, and the gradients of its arguments."""
    for tensor in tensors.values():
        tensor._grad = None
    changes.fields = object()
    result = run()
    leaves = flatten(result)[0]
    names = ["the result"] if len(leaves) == 1 else [f"result[{i}]" for i in range(len(leaves))]
    named = {name: x for name, x in zip(names, leaves, strict=True) if isinstance(x, Tensor)}
    named |= {f"{name}.grad": tensor._grad for name, tensor in tensors.items() if tensor._grad is not None}
    return result, {name: np.array(concrete(tensor._value())) for name, tensor in named.items()}


def _differences(ruled: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> Iterator[Difference]:
    for name, b in right.items():
        a = ruled.get(name)
        if a is None or a.shape != b.shape or np.array_equal(a, b, equal_nan=b.dtype.kind in "fc"):
            continue
        gap = np.abs(a.astype(np.complex128) - b)
        norm = float(np.linalg.norm(b.astype(np.complex128)))
        yield Difference(name, float(gap.max()), float(np.linalg.norm(gap)) / norm if norm else float("inf"))


# -- writes to saved values ------------------------------------------------------------------------------------------


def compare_saved(saved_tensor: SavedTensor, node: Node) -> None:
    """Note a finding if a saved tensor was written since."""
    tensor = saved_tensor.tensor
    if tensor is not None:
        _compare(tensor, saved_tensor.array, saved_tensor.version, saved_tensor.name, node, True)


def _compare(tensor: Tensor, array: Any, version: int, value: str, node: Node, checked: bool) -> None:
    """Note a finding if a tensor no longer holds this array; ``checked`` says whether PyTorch checks its version."""
    if tensor._counter.value == version and _same(tensor._value(), array):
        return
    writes = [w for w in tensor._counter.last_writes() if w.version > version]
    finding = Finding(
        "raises" if checked and tensor._counter.value != version else "silent",
        node.plan.operation.name if isinstance(node, OperationNode) else node_name(node),
        location(node._source),
        value,
        name_of(tensor),
        tuple([f"{w.operation} at {location(w.source)}" for w in writes]),
    )
    modes.findings[finding] = None


def _same(value: Any, array: Any) -> bool:
    """Whether two arrays are equal bit by bit: a write may leave the values unchanged."""
    return value is array or concrete(value).tobytes() == concrete(array).tobytes()


def tensors_on_context(context: Any) -> list[tuple[str, Tensor, Any, int]]:
    """The tensors that the user's forward stored as attributes of a context, with their arrays and versions."""
    kept_tensors = []
    for name, value in vars(context).items():
        if isinstance(value, Tensor) and name not in _OWN:
            kept_tensors.append((name, value, value._value(), value._counter.value))
    return kept_tensors


#: a context's own attributes
_OWN = frozenset(("to_save", "saved_for_forward", "dirty_tensors", "non_differentiable"))


def restore_context(context: Any, kept_tensors: Sequence[tuple[str, Tensor, Any, int]]) -> None:
    """Note which tensors on a context were written since, and restore the old values for backward."""
    for name, tensor, array, version in kept_tensors:
        if getattr(context, name, None) is tensor:
            _compare(tensor, array, version, f"ctx.{name}", context, False)
            if not _same(tensor._value(), array):
                setattr(context, name, new_tensor(array, tensor._type))
