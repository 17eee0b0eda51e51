"""The node of a compiled call, and the programs of its gradients.

NOTE [Gradients of gradients of a compiled call]
With ``create_graph`` the gradients of a compiled call have a node, too.  Its program is recorded when a backward asks
for it for the first time: the function is recorded again, and the capture continues, as it does for the first backward
(NOTE [Forward and backward]), through the histories of the gradients.  So ``detach`` and custom Functions inside have
their usual effect in each order.  For that a node keeps the arguments of the call and what its program has read.  The
programs of higher orders compute from there, and not from residuals.  Random numbers are drawn again.  If the function
does not do by then what it did at the call, an error says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from fgrad.graph.graph import Graph as FlatGraph
from fgrad.mutable.backward.engine import running
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.node import TWICE, Edge, Node
from fgrad.mutable.tensor.saved import SavedTensor, save
from fgrad.mutable.tensor.tensor import Tensor, gradient_edge, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.seam import RawSource
from fgrad.torch.compiler.execution import Execution
from fgrad.torch.compiler.new_tensors import NewView
from fgrad.torch.compiler.placement import Placement


@define(eq=False)
class Gradients:
    """The gradients of one order.

    Attributes:
      graph: from what a node keeps and the incoming gradients to gradients.
      incoming: the types of the incoming gradients.
      types, strides, versions: of the gradients; None for row-major strides.  A sum of several gradients has been
        written in place, which its version shows.
      same: for each gradient that is an incoming one itself, or an earlier gradient, its index among both.
      placement: where it runs.
      delayed: the message of an error on the way to other leaves, which a backward to all leaves raises.
    """

    graph: FlatGraph
    incoming: list[TensorType]
    types: list[TensorType]
    strides: list[Ints | None]
    versions: list[int]
    same: list[int | None]
    placement: Placement
    delayed: str | None
    execution: Execution = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.execution = Execution(self.graph, placement=self.placement)

    def __call__(self, kept: Sequence[Any], values: Sequence[Any], incoming: Sequence[Tensor]) -> list[Tensor]:
        """The gradients, from what is kept and the values of the incoming gradients."""
        outs = self.execution((), [*kept, *values])
        made = [new_tensor(*each) for each in zip(outs, self.types, self.strides, strict=True)]
        for i, (version, at) in enumerate(zip(self.versions, self.same, strict=True)):
            if at is None or modes.grad:  # with a history, each gets its own
                made[i]._counter.value = version
            else:
                made[i] = incoming[at] if at < len(incoming) else made[at - len(incoming)]
        return made


def _anew(error: Exception) -> Exception:
    """An error like another one, which does not get to hold the frames through which it is raised."""
    made = type(error).__new__(type(error), *error.args)
    made.args, made.__dict__ = error.args, {**vars(error)}
    return made


@frozen(eq=False)
class HigherOrder:
    """The gradients of the gradients of the order before.

    Attributes:
      gradients: from what the call has read and the incoming gradients of all lower orders; or the error that recording
        them has raised, which backward raises.
      results: the indices of those gradients of the order before that have a history.
      reached: for each of them, the targets to which its history leads; none if it ends in an error or in nothing.
      targets: what gets gradients, by indices of the edges of the node of the order before, followed by its incoming
        gradients.
      saved: the indices of the incoming gradients whose versions are checked.
    """

    gradients: Gradients | Exception
    results: list[int]
    reached: list[frozenset[int]]
    targets: list[int]
    saved: list[int]


@define(eq=False)
class BackwardProgram:
    """The second half of a captured call.

    Attributes:
      gradients: from the residuals and the gradients of the results to the gradients of ``targets``.
      results: the indices of the results among the new tensors.
      targets: the indices of the tensors that get gradients.
      residuals: their indices among the outputs of the first half.
      saved: the indices of the tensors from outside whose versions are checked.
      saved_new: those of the new tensors.
      views: those of the new tensors that are views of results, by index (NOTE [Views that outlive a call]).
      higher: the orders from the second on, as far as there are histories.
      order: how many orders have been recorded.
    """

    gradients: Gradients
    results: list[int]
    targets: list[int]
    residuals: list[int]
    saved: list[int]
    saved_new: list[int]
    views: dict[int, NewView]
    higher: list[HigherOrder]
    order: int

    def attach(
        self,
        tensors: Sequence[Tensor],
        new_tensors: Sequence[Tensor],
        outs: Sequence[Any],
        source: RawSource | None,
        call: "DifferentiatedCall",
    ) -> None:
        """Give the results of a call a new node."""
        edges = [gradient_edge(tensors[at]) for at in self.targets]
        residuals = [outs[output] for output in self.residuals]
        node = CompiledFunctionBackward(edges, self.gradients.incoming, self.gradients, residuals, call, 1, source)
        node.saved = [save(tensors[at], "input") for at in self.saved]
        for number, index in enumerate(self.results):
            new_tensors[index]._node, new_tensors[index]._output_nr = node, number
        node.saved += [save(new_tensors[at], "result", output=True) for at in self.saved_new]
        nodes: dict[Node, Node] = {}
        for index, view in self.views.items():
            view.begin(new_tensors[index], new_tensors[view.start.index], nodes)


@frozen(eq=False)
class DifferentiatedCall:
    """A call of a program whose results have a history.

    Attributes:
      values: what the program has read, but for random numbers.
      missing: these numbers, drawn again, by their indices.
      order: finds, or records, the gradients of an order; None if those before have no history.
    """

    values: Sequence[Any]
    missing: Callable[[], Mapping[int, Any]]
    order: Callable[[int], HigherOrder | None]

    def read(self) -> list[Any]:
        """All that the program has read."""
        values = [*self.values]
        for i, value in self.missing().items():
            values[i] = value
        return values


class CompiledFunctionBackward(Node):
    """The node of a compiled call, or of its gradients.

    Attributes:
      gradients: what backward computes, or the error that it raises.
      kept: the residuals of the first order; of a higher one what the call has read, and the incoming gradients of all
        lower orders.
      saved: the tensors whose versions are checked.
    """

    __slots__ = ("gradients", "kept", "saved", "call", "order", "released")

    def __init__(
        self,
        edges: Sequence[Edge | None],
        types: Sequence[TensorType],
        gradients: Gradients | Exception,
        kept: Sequence[Any],
        call: DifferentiatedCall,
        order: int,
        source: RawSource | None,
    ):
        super().__init__(edges, types, source)
        self.gradients: Gradients | Exception = gradients
        self.kept: Sequence[Any] = kept
        self.saved: list[SavedTensor] = []
        self.call: DifferentiatedCall | None = call
        self.order: int = order
        self.released: bool = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        if self.released:
            raise RuntimeError(TWICE)
        saved = [each.operand(self) if modes.grad else each.value(self) for each in self.saved]  # checks their versions
        if isinstance(self.gradients, Exception):
            raise _anew(self.gradients)
        if self.gradients.delayed is not None and not (running.tasks and running.tasks[-1].needed is not None):
            raise RuntimeError(self.gradients.delayed)
        incoming = [zeros(t) if g is None else g for g, t in zip(grads, self.out_types, strict=True)]
        values = [g._value() for g in incoming]
        results = self.gradients(self.kept, values, incoming)
        if modes.grad:
            self._give_history(results, incoming, values, saved)
        return results

    def _give_history(
        self, results: Sequence[Tensor], incoming: Sequence[Tensor], values: Sequence[Any], saved: Sequence[Tensor]
    ) -> None:
        """Give the gradients a node of their own: see NOTE [Gradients of gradients of a compiled call]."""
        call = self.call
        assert call is not None  # else it is released
        higher = call.order(self.order + 1)
        if higher is None:
            return
        sources = [*self.next_edges, *map(gradient_edge, incoming)]
        edges = [sources[i] for i in higher.targets]
        kept = [*(call.read() if self.order == 1 else self.kept), *values]
        types = [results[i]._type for i in higher.results]
        node = CompiledFunctionBackward(edges, types, higher.gradients, kept, call, self.order + 1, self._source)
        node.saved = [save(x, "input") for x in (*saved, *[incoming[i] for i in higher.saved])]
        for number, (index, reached) in enumerate(zip(higher.results, higher.reached, strict=True)):
            if not reached or any(edges[i] is not None for i in reached):
                results[index]._node, results[index]._output_nr = node, number

    def _release(self, source: RawSource | None = None) -> None:
        for saved in self.saved:
            saved.release()
        self.kept, self.call, self.released = (), None, True
