"""The gradients of a captured call, recorded by going on with the capture.

NOTE [Forward and backward]
If a result has a history, or a tensor that the function leaves in an attribute, the capture continues: the engine sends
a traced gradient through that history, to the tensors from outside that require grad.  So ``detach``, ``no_grad`` and
custom Functions inside have their usual effect.  The recording is split where it begins to depend on the gradients of
the results; the first half is the forward program, and what the second half reads of it are the residuals.  The new
node also saves those tensors that the nodes of the history have saved and that outlive the call, so that a write to one
before backward raises the error that it raises uncompiled.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from fgrad.errors import CaptureError
from fgrad.mutable.backward.engine import run_backward
from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Edge, Node, copy_node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, accumulator, gradient_edge, gradient_function, is_tracked, new_tensor
from fgrad.mutable.values.device_of_value import accelerator_of
from fgrad.mutable.write.copying import kept_strides
from fgrad.torch.autograd.delayed_errors import DelayedError
from fgrad.torch.compiler.new_tensors import Chain, NotReplayable, chain_of


@frozen(eq=False)
class Derivative:
    """The gradients of one order of a captured call.

    Those of a higher order are the gradients of ``results``, some gradients of the order before.

    Attributes:
      results: the tensors with a history whose gradients come in.
      at: their indices among the gradients of the order before.
      cotangents: their traced gradients.
      targets: the tensors from outside, and cotangents of lower orders, that get gradients.
      gradients: theirs; none if there is an error.
      values, strides, versions: of the gradients, traced; None for row-major strides.
      same: for each gradient that is a tensor of the cotangents, or an earlier gradient, its index among both.
      reached: for each result of a higher order, the indices of the targets to which its history leads.
      memory: the storages and version counters of all tensors that the history has saved.
      error: what the engine has raised in place of the gradients of a higher order.
      delayed: the message of an error on the way to other leaves, which a backward to all leaves raises.
    """

    results: list[Tensor]
    at: list[int]
    cotangents: list[Tensor]
    targets: list[Tensor]
    gradients: list[Tensor]
    values: list[Any]
    strides: list[Ints | None]
    versions: list[int]
    same: list[int | None]
    reached: list[frozenset[int]]
    memory: dict[Any, None]
    error: Exception | None
    delayed: str | None

    def saves(self, x: Tensor) -> bool:
        """Whether the history has saved a tensor, or one that shares its elements."""
        return (x._storage, x._counter) in self.memory


@define(eq=False)
class Cut:
    """Tensors from outside that are cut off from their history.

    A stand-in replaces the node of each, so that it is still not a leaf.  A backward inside the function that reaches a
    stand-in would have to continue outside, which no program can.

    Attributes:
      tensors: the tensors, with their nodes.
      stand_ins: by node.
    """

    tensors: dict[Tensor, Node] = field(factory=dict)
    stand_ins: dict[Node, Node] = field(factory=dict)

    def apply(self, capture: Capture) -> None:
        """Cut off all that the function can reach."""
        for tensor in capture.snapshot.tensors:
            node = tensor._node
            if node is None:
                continue
            self.tensors[tensor] = node
            if node not in self.stand_ins:
                self.stand_ins[node] = _stand_in(node, capture)
            tensor._node = self.stand_ins[node]
        changes.fields = object()

    def undo(self) -> None:
        """Restore the nodes of those tensors that still have their stand-ins."""
        for tensor, node in self.tensors.items():
            if tensor._node is self.stand_ins[node]:
                tensor._node = node
        changes.fields = object()


def _stand_in(node: Node, capture: Capture) -> Node:
    """A node that looks like another, but cannot run, and calls none of its hooks."""

    def apply(self: Node, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise capture.refusal("a backward inside goes through a history from outside")

    copy = copy_node(node)
    copy._attached = None
    copy.__class__ = type(type(node).__name__, (type(node),), {"__slots__": (), "apply": apply})
    return copy


def derivatives_of(
    capture: Capture, results: Sequence[Tensor], cut: Cut, order: int
) -> tuple[list[Derivative], dict[Tensor, Chain]]:
    """The gradients of those tensors that have a live history, up to some order; this consumes the history.

    There are fewer if the gradients of an order have no history.  The gradient of a view is one of its base, if that is
    new, too; the histories of views up to their bases are returned as well.
    """
    outside = set(cut.stand_ins.values())
    views = [x for x in dict.fromkeys(results) if _is_live_view(x, capture, outside)]
    copies: dict[Node, Node] = {}
    places: dict[Edge, Tensor] = {(x._node, x._output_nr): x for x in cut.tensors}  # type: ignore[misc]
    chains = {x: chain_of(x, x._view.base, copies, places) for x in views}  # type: ignore[union-attr]
    bases = [base for x in views if (base := x._view.base) not in capture.snapshot.tensors]  # type: ignore[union-attr]
    live = _live(capture, [*[x for x in results if x not in chains], *bases], outside)
    if not set(bases).issubset(live):
        raise NotReplayable("the function makes a view of a leaf that it makes")
    if not live:
        return [], chains
    for node in outside:
        node.next_edges = ()  # backward ends here
    targets = [x for x in capture.snapshot.tensors if is_tracked(x) and x._type.inexact]
    found = [_derivative(capture, live, [], targets, outside, order > 1)]
    while len(found) < order:
        before = found[-1]
        at = [i for i, x in enumerate(before.gradients) if is_tracked(x)]
        if not at:
            break
        results, targets = [before.gradients[i] for i in at], [*before.targets, *before.cotangents]
        found.append(_derivative(capture, results, at, targets, outside, len(found) + 1 < order))
    for x in live:
        x._node = None
    return found, chains


def _derivative(
    capture: Capture, results: list[Tensor], at: list[int], targets: list[Tensor], outside: set[Node], again: bool
) -> Derivative:
    """The gradients of some tensors, with a history of their own if they are to be differentiated again."""
    cotangents = [new_tensor(capture.tape.input(x._type.array, accelerator_of(x._value())), x._type) for x in results]
    if again:
        for x in cotangents:
            x._node, x._output_nr = Node((), [x._type], None), 0
            outside.add(x._node)
    edges = [gradient_edge(x) for x in targets]
    sources = [gradient_edge(x) for x in results]
    memory = _saved_memory([node for node, _ in sources], outside)  # type: ignore[misc]
    reached = [_reached(edge, edges, outside) for edge in sources] if at else []  # type: ignore[arg-type]
    gradients: list[Tensor | None] = []
    error = None
    try:
        gradients = run_backward([*zip(sources, cotangents, strict=True)], again, again, edges, False)  # type: ignore[arg-type]
    except Exception as raised:
        if not at or isinstance(raised, CaptureError | NotReplayable):
            raise
        error = raised.with_traceback(None)  # a traceback would keep the capture
    have = [i for i, g in enumerate(gradients) if g is not None]
    if error is not None:
        have = sorted(set[int]().union(*reached))
    made = [g for g in gradients if g is not None]
    return Derivative(
        results,
        at,
        cotangents,
        [targets[i] for i in have],
        made,
        [g._value() for g in made],
        [kept_strides(g) for g in made],
        [g._counter.value for g in made],
        [next((k for k, x in enumerate((*cotangents, *made[:i])) if x is g), None) for i, g in enumerate(made)],
        [frozenset([have.index(i) for i in each if i in have]) for each in reached],
        memory,
        error,
        _delayed([node for node, _ in sources], outside),  # type: ignore[misc]
    )


def _delayed(nodes: Sequence[Node], outside: set[Node]) -> str | None:
    """The message of an error in a history, if there is one."""
    return next((node.message for node in _history(nodes, outside) if isinstance(node, DelayedError)), None)


def _reached(source: Edge, targets: Sequence[Edge | None], outside: set[Node]) -> set[int]:
    """The indices of the targets to which a history leads."""
    passed = {source, *[edge for node in _history([source[0]], outside) for edge in node.next_edges]}
    return {i for i, edge in enumerate(targets) if edge in passed}


def check_leaves(capture: Capture, results: Sequence[Tensor], cut: Cut) -> None:
    """Raise ``NotReplayable`` if a later backward would give a gradient to a leaf that is made inside."""
    made = [x for x in results if x._node is None and x._requires_grad and x not in capture.snapshot.tensors]
    if not made:
        return
    outside = set(cut.stand_ins.values())
    nodes = [x._node for x in _live(capture, results, outside)]
    history = {*_history(nodes, outside)}  # type: ignore[arg-type]
    if any(accumulator(x) in history for x in made):
        raise NotReplayable(
            "the function makes a leaf that requires grad, and a result with a history that leads to it"
        )


def _live(capture: Capture, results: Sequence[Tensor], outside: set[Node]) -> list[Tensor]:
    """The tensors that have a history made inside through which a backward can pass."""
    made = [x for x in dict.fromkeys(results) if x._node is not None and x._level >= capture.level]
    return [x for x in made if not _is_over(x._node, outside)]  # type: ignore[arg-type]


def _is_live_view(x: Tensor, capture: Capture, outside: set[Node]) -> bool:
    """Whether a tensor is a view that is made inside, with a history through which a backward can pass."""
    if x._view is None or x in capture.snapshot.tensors:
        return False
    node = gradient_function(x)
    return node is not None and not _is_over(node, outside)


def _saved_memory(nodes: Sequence[Node], outside: set[Node]) -> dict[Any, None]:
    """The storages and version counters of the tensors that a history has saved, in order."""
    saved = [x for node in _history(nodes, outside) for x in getattr(node, "saved", ()) if isinstance(x, SavedTensor)]
    return dict.fromkeys([(x.tensor._storage, x.tensor._counter) for x in saved if x.tensor is not None])


def _is_over(node: Node, outside: set[Node]) -> bool:
    """Whether a backward has consumed a history, so that another one is an error."""
    return any(getattr(each, "released", False) for each in _history([node], outside))


def _history(nodes: Sequence[Node], outside: set[Node]) -> Iterator[Node]:
    """Nodes and all their predecessors, except those from outside."""
    stack, visited = list(nodes), {*nodes, *outside}
    while stack:
        node = stack.pop()
        yield node
        for edge in node.next_edges:
            if edge is not None and edge[0] not in visited:
                visited.add(edge[0])
                stack.append(edge[0])
