"""Compiled functions whose results can be differentiated: a forward program, one node, and a backward program.

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

from fgrad.graph.graph import Graph as FlatGraph
from fgrad.mutable.backward.engine import run_backward
from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import TWICE, Edge, Node, copy_node
from fgrad.mutable.tensor.saved import SavedTensor, save
from fgrad.mutable.tensor.tensor import Tensor, accumulator, gradient_edge, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.values.device_of_value import accelerator_of
from fgrad.mutable.write.copying import kept_strides
from fgrad.seam import RawSource
from fgrad.torch.compiler.effects import NotReplayable
from fgrad.torch.compiler.execution import Execution
from fgrad.torch.compiler.placement import Placement

DOUBLE = "torch.compile with aot_autograd does not currently support double backward"


@frozen(eq=False)
class Derivative:
    """The gradients of a captured call, as traced values.

    Attributes:
      results: the results, and what else outlives the call, that have a history, in order.
      cotangents: their traced gradients.
      targets: the tensors from outside that get gradients.
      gradients, strides: of the targets; None for row-major strides.
      saved: the tensors from outside that the history has saved.
      saved_memory: the storages and version counters of all tensors that it has saved.
    """

    results: list[Tensor]
    cotangents: list[Any]
    targets: list[Tensor]
    gradients: list[Any]
    strides: list[Ints | None]
    saved: list[Tensor]
    saved_memory: set[Any]


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
    copy.tensor_hooks = copy._retains = copy.pre_hooks = copy.post_hooks = None
    copy.__class__ = type(type(node).__name__, (type(node),), {"__slots__": (), "apply": apply})
    return copy


def derivative_of(capture: Capture, results: Sequence[Tensor], cut: Cut) -> Derivative | None:
    """The gradients of those tensors that have a live history, or None if none has.  This consumes the history."""
    outside = set(cut.stand_ins.values())
    live = _live(capture, results, outside)
    if not live:
        return None
    for node in outside:
        node.next_edges = ()  # backward ends here
    memory = _saved_memory([x._node for x in live], outside)  # type: ignore[misc]
    external = {(x._storage, x._counter): x for x in reversed(capture.snapshot.tensors)}
    targets = [x for x in capture.snapshot.tensors if is_tracked(x) and x._type.inexact]
    edges: list[Edge | None] = [gradient_edge(x) for x in targets]
    cotangents = [new_tensor(capture.tape.input(x._type.array, accelerator_of(x._value())), x._type) for x in live]
    roots = [(gradient_edge(x), c) for x, c in zip(live, cotangents, strict=True)]
    gradients = run_backward(roots, False, False, edges, False)  # type: ignore[arg-type]
    for x in live:
        x._node = None
    pairs = [(x, g) for x, g in zip(targets, gradients, strict=True) if g is not None]
    return Derivative(
        live,
        [c._storage.array for c in cotangents],
        [x for x, _ in pairs],
        [g._value() for _, g in pairs],
        [kept_strides(g) for _, g in pairs],
        [external[x] for x in memory if x in external],
        set(memory),
    )


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


@define(eq=False)
class BackwardProgram:
    """The second half of a captured call.

    Attributes:
      graph: from the residuals and the gradients of the results to the gradients of ``targets``.
      results: the indices of the results among the new tensors.
      types: of the results.
      targets: the indices of the tensors that get gradients.
      gradient_types, strides: of their gradients.
      residuals: their indices among the outputs of the first half.
      saved: the indices of the tensors from outside whose versions are checked.
      saved_new: those of the new tensors.
      placement: where it runs.
    """

    graph: FlatGraph
    results: list[int]
    types: list[TensorType]
    targets: list[int]
    gradient_types: list[TensorType]
    strides: list[Ints | None]
    residuals: list[int]
    saved: list[int]
    saved_new: list[int]
    placement: Placement
    execution: Execution = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.execution = Execution(self.graph, placement=self.placement)

    def attach(
        self, tensors: Sequence[Tensor], new_tensors: Sequence[Tensor], outs: Sequence[Any], source: RawSource | None
    ) -> None:
        """Give the results of a call a new node."""
        edges = [gradient_edge(tensors[at]) for at in self.targets]
        node = CompiledFunctionBackward(edges, self.types, source)
        node.program = self
        node.residuals = [outs[output] for output in self.residuals]
        node.saved = [save(tensors[at], "input") for at in self.saved]
        for number, index in enumerate(self.results):
            new_tensors[index]._node, new_tensors[index]._output_nr = node, number
        node.saved += [save(new_tensors[at], "result", output=True) for at in self.saved_new]


class CompiledFunctionBackward(Node):
    """The node of a compiled call."""

    __slots__ = ("program", "saved", "residuals", "released")

    program: BackwardProgram
    residuals: list[Any]
    saved: list[SavedTensor]

    def __init__(self, edges: Sequence[Edge | None], types: Sequence[TensorType], source: RawSource | None):
        super().__init__(edges, types, source)
        self.released = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        if self.released:
            raise RuntimeError(TWICE)
        if modes.grad:
            raise RuntimeError(DOUBLE)
        program = self.program
        for saved in self.saved:
            saved.value(self)  # checks its version
        cotangents = [(zeros(t) if g is None else g)._value() for g, t in zip(grads, program.types, strict=True)]
        values = [*self.residuals, *cotangents]
        outs = program.execution((), values)
        return [new_tensor(*each) for each in zip(outs, program.gradient_types, program.strides, strict=True)]

    def _release(self, source: RawSource | None = None) -> None:
        for saved in self.saved:
            saved.release()
        self.residuals, self.released = [], True
