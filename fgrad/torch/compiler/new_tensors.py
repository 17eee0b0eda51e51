"""The tensors that each call of a program makes.

NOTE [Views that outlive a call]
A network may return a view of what it has computed (``h.squeeze(1)``, ``h.chunk(2)``), or of a parameter.  The program
computes the base, and each call makes the view anew.  If its history leads through that of the base, the nodes up to
there are copied: the base's history is the compiled call, or what it was before the call.  The history of a view of a
view from outside leads through that of the latter.

What shares memory with a tensor and is no view of it, as ``detach()`` and ``.data`` give, is a new tensor with the
other's storage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.node import Edge, Node, copy_node, has_hooks, next_sequence, node_name
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, ViewOf, alias, gradient_edge, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.types.symbolic import SymbolicNumber
from fgrad.mutable.values.evaluation import is_abstract
from fgrad.torch.compiler.values import ExternalRef, NewRef


class NotReplayable(Exception):
    """A call has effects that cannot be replayed without running the function."""


@frozen(eq=False)
class NewTensor:
    """A tensor that each call makes: with a storage of its own, that of an earlier one, or of one from outside."""

    output: int | None
    like: Tensor
    #: the tensors whose storage and whose counter it shares
    storage: ExternalRef | NewRef | None
    counter: ExternalRef | NewRef | None

    def make(self, tensors: Sequence[Tensor], outs: Sequence[Any], earlier: Sequence[Tensor]) -> Tensor:
        like = self.like
        if self.storage is None:
            tensor = new_tensor(outs[self.output], like._type, like._storage.strides)  # type: ignore[index]
        else:
            tensor = new_tensor(None, like._type)
            tensor._storage = self.storage(tensors, earlier, ())._storage
        tensor._geometry = like._geometry
        if self.counter is not None:
            tensor._counter = self.counter(tensors, earlier, ())._counter
        else:
            tensor._counter.value = like._counter.value
        if like._requires_grad:
            tensor._requires_grad = True
        if like._node is not None:
            tensor._node, tensor._output_nr = copy_node(like._node), like._output_nr
        return tensor

    @property
    def signature(self) -> Any:
        """Equal for two that are made in the same way."""
        like, shared = self.like, [x and (type(x), x.index) for x in self.bases]
        memory = (like._storage.strides, like._geometry, *shared, None if self.counter else like._counter.value)
        return self.output, like._type, memory, like._requires_grad, like._node is None

    @property
    def bases(self) -> tuple[ExternalRef | NewRef | None, ...]:
        """The tensors whose storage or counter it shares."""
        return self.storage, self.counter


@frozen(eq=False)
class Chain:
    """A part of the history of a view.

    Attributes:
      nodes: from its own to the one before that of ``start``, and which of their outputs.
      start: its base, or a view from outside.
    """

    nodes: Sequence[tuple[Node, int]]
    start: Tensor


@frozen(eq=False)
class NewView:
    """A view that each call makes (NOTE [Views that outlive a call]).

    Attributes:
      base: what it is a view of.
      type, geometry: the view's.
      view: what it knows of itself, without its base.
      chain: the nodes of its history up to that of ``start``; None if it has none that a backward can pass through.
      start: its base, or a view from outside.
      over: its node, and which output it is, if backward has passed through it.
      behind: how many versions the base has had since its node was found.
    """

    base: ExternalRef | NewRef
    type: TensorType
    geometry: Geometry | None
    view: ViewOf
    chain: Sequence[tuple[Node, int]] | None
    start: ExternalRef | NewRef
    over: tuple[Node, int] | None
    behind: int
    #: a view is no output, but its base's storage
    output: None = None

    @staticmethod
    def of(
        tensor: Tensor, view: ViewOf, base: ExternalRef | NewRef, chain: Chain | None, start: ExternalRef | NewRef
    ) -> "NewView":
        """What makes views like one that was recorded, of which nothing stays alive."""
        over = None if tensor._node is None or chain is not None else (copy_node(tensor._node), tensor._output_nr)
        nodes = None if chain is None else chain.nodes
        behind = tensor._counter.value - view.version
        return NewView(base, tensor._type, tensor._geometry, _view_of(None, view), nodes, start, over, behind)

    def make(self, base: Tensor, start: Tensor, nodes: dict[Node, Node]) -> Tensor:
        """The view of a tensor; one of a new tensor gets its history when that has its own.

        It has to be counted once the base has its version.  ``nodes`` are those that the call has made, by those that
        were recorded.
        """
        tensor = alias(base)
        tensor._type, tensor._geometry, tensor._view = self.type, self.geometry, _view_of(base, self.view)
        if self.chain is not None and isinstance(self.start, ExternalRef):
            self.begin(tensor, start, nodes)
        elif self.over is not None:
            tensor._node, tensor._output_nr = copy_node(self.over[0]), self.over[1]
        return tensor

    def count(self, tensor: Tensor) -> None:
        """Note at which version of its base a view's node was found."""
        tensor._view.version = tensor._counter.value - self.behind  # type: ignore[union-attr]

    def begin(self, tensor: Tensor, start: Tensor, nodes: dict[Node, Node]) -> None:
        """Give the view a history that begins at that of a tensor."""
        edge = gradient_edge(start)
        for node, number in reversed(self.chain or ()):
            made = nodes.get(node)
            if made is None:
                made = nodes[node] = copy_node(node)
                made.next_edges, made._sequence = [edge, *node.next_edges[1:]], next_sequence()
            edge = made, number
        tensor._node, tensor._output_nr = edge  # type: ignore[misc]

    @property
    def begins_at_new(self) -> bool:
        """Whether its history begins at a base that the call makes, too."""
        return self.chain is not None and isinstance(self.start, NewRef)

    @property
    def signature(self) -> Any:
        """Equal for two that are made in the same way."""
        chain = None if self.chain is None else tuple([(node_name(node), number) for node, number in self.chain])
        tensors = [(type(x), x.index) for x in (self.base, self.start)]
        return self.type, self.geometry, *tensors, chain, self.over is None, self.behind

    @property
    def bases(self) -> tuple[ExternalRef | NewRef | None, ...]:
        return (self.base,)


def chain_of(view: Tensor, base: Tensor, copies: dict[Node, Node], outside: Mapping[Edge, Tensor]) -> Chain:
    """The history of a view up to that of its base or of a view from outside, as copies of its nodes that lead nowhere.

    Arguments:
      outside: the tensors from outside that have a history, by where it begins.

    Raises:
      NotReplayable: it does not begin there, or has hooks.
    """
    end, edge = gradient_edge(base), gradient_edge(view)
    chain = list[tuple[Node, int]]()
    while edge != end:
        if edge is not None and edge in outside:
            return Chain(chain, outside[edge])
        node, number = (None, 0) if edge is None else edge
        if not isinstance(node, OperationNode) or not _is_of_view(node):
            raise NotReplayable("the function makes a view whose history is not that of a view of its base")
        if node not in copies:
            copies[node] = copy_node(node)
            copies[node].next_edges = [None] * len(node.next_edges)
        chain.append((copies[node], number))
        edge = node.next_edges[0]
    return Chain(chain, base)


def _is_of_view(node: OperationNode) -> bool:
    """Whether a node has one edge and has saved nothing but plain numbers, and has no hooks."""
    is_plain = not any(isinstance(x, SavedTensor | SymbolicNumber) or is_abstract(x) for x in node.saved)
    return is_plain and not has_hooks(node) and not any(edge is not None for edge in node.next_edges[1:])


def _view_of(base: Tensor | None, like: ViewOf) -> ViewOf:
    """What a view of a tensor knows, as another view knows it of another base; without a base, what makes such."""
    parent = None if like.parent is None else _view_of(base, like.parent)
    of = like.operation, like.source, None, like.geometry
    return ViewOf(base, like.creation, 0, *of, parent, like.depth)  # type: ignore[arg-type]


def check_plain(tensor: Tensor) -> None:
    """Raise ``NotReplayable`` if a new tensor is more than a storage, a type, a geometry and a history."""
    if type(tensor) is not Tensor:
        raise NotReplayable("the function makes a tensor of another class that outlives it")
    if tensor._inference:
        raise NotReplayable("the function makes an inference tensor that outlives it")
    if tensor._geometry is not None and isinstance(tensor._geometry.offset, SymbolicNumber):
        raise NotReplayable("the function makes a tensor at a place that differs from call to call")
    if set(fields_of(tensor)) - set(Tensor.__annotations__) or tensor._tensor_hooks or tensor._tangents:
        raise NotReplayable("the function makes a tensor with attributes, hooks or tangents")
    if tensor._grad is not None:
        raise NotReplayable("the function makes a tensor with a gradient")


def check_own(tensor: Tensor, capture: Capture) -> None:
    """Raise ``NotReplayable`` if a new tensor has memory of its own that is more than an array."""
    if tensor._storage.home is not None or tensor._storage.memory is not None:
        raise NotReplayable("the function makes a tensor whose memory is resized or exported")
    if tensor._storage in capture.storages:
        raise NotReplayable("the function makes another handle on a tensor from outside that no walk finds")


def check_view(tensor: Tensor, view: ViewOf) -> None:
    """Raise ``NotReplayable`` if a view is more than some elements of its base, in their type."""
    base = view.base
    if view.creation == "custom" or view.dual is not None:
        raise NotReplayable("the function makes a view in a custom Function, or a dual tensor")
    if tensor._counter is not base._counter or tensor._storage is not base._storage:
        raise NotReplayable("the function makes a view whose base has got other memory")


def check_released(node: Node) -> None:
    """Raise ``NotReplayable`` if a backward can still pass through a node: its saved values are traced."""
    stack, visited = [node], {node}
    while stack:
        each = stack.pop()
        if not isinstance(each, OperationNode | AccumulateGrad):
            raise NotReplayable(f"a result has a history that can be differentiated again ({node_name(each)})")
        if (
            isinstance(each, OperationNode)
            and not each.released
            and any(isinstance(s, SavedTensor) for s in each.saved)
        ):
            raise NotReplayable("a result has a history that can be differentiated again")
        for edge in each.next_edges:
            if edge is not None and edge[0] not in visited:
                visited.add(edge[0])
                stack.append(edge[0])
