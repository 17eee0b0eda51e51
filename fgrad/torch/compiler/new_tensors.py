"""The tensors that each call of a program makes.

NOTE [Views that outlive a call]
A network may return a view of what it has computed (``h.squeeze(1)``, ``h.chunk(2)``), or of a parameter.  The program
computes the base, and each call makes the view anew.  If its history leads through that of the base, so does that of
the new view: the base's history is the compiled call, or what it was before the call, and the view gets a node that
reads its elements there, as a view does whose base has been written (NOTE [Lazy grad_fn of views]).
"""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.node import Node, copy_node, node_name
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, ViewOf, alias, new_tensor
from fgrad.mutable.types.symbolic import SymbolicNumber
from fgrad.mutable.write.inplace import begin_at_base
from fgrad.torch.compiler.values import ExternalRef, NewRef


class NotReplayable(Exception):
    """A call has effects that cannot be replayed without running the function."""


@frozen(eq=False)
class NewTensor:
    """A tensor that each call makes: with a storage of its own, or that of an earlier one."""

    output: int | None
    like: Tensor
    #: the indices of the new tensors whose storage and whose counter it shares
    storage: int | None
    counter: int | None

    def make(self, outs: Sequence[Any], earlier: Sequence[Tensor]) -> Tensor:
        like = self.like
        if self.storage is None:
            tensor = new_tensor(outs[self.output], like._type, like._storage.strides)  # type: ignore[index]
        else:
            tensor = new_tensor(None, like._type)
            tensor._storage = earlier[self.storage]._storage
        tensor._geometry = like._geometry
        if self.counter is not None:
            tensor._counter = earlier[self.counter]._counter
        else:
            tensor._counter.value = like._counter.value
        if like._requires_grad:
            tensor._requires_grad = True
        if like._node is not None:
            tensor._node, tensor._output_nr = copy_node(like._node), like._output_nr
        return tensor

    @property
    def memory(self) -> Any:
        """Equal for two that lie in memory in the same way."""
        return self.like._storage.strides, self.like._geometry, self.storage, self.counter

    @property
    def bases(self) -> tuple[int | None, ...]:
        """The indices of the new tensors whose storage or counter it shares."""
        return self.storage, self.counter


@frozen(eq=False)
class NewView:
    """A view that each call makes (NOTE [Views that outlive a call])."""

    like: Tensor
    base: ExternalRef | NewRef
    #: whether its history begins at the base
    has_history: bool
    #: a view is no output, but its base's storage
    output: None = None

    def make(self, base: Tensor) -> Tensor:
        """The view of a tensor, without the history that a compiled call gives to its base later."""
        like = self.like
        tensor = alias(base)
        tensor._type, tensor._geometry, tensor._view = like._type, like._geometry, _view_of(base, like._view)
        if self.has_history and isinstance(self.base, ExternalRef):
            begin_at_base(tensor)
        elif like._node is not None:
            tensor._node, tensor._output_nr = copy_node(like._node), like._output_nr
        return tensor

    @property
    def begins_at_new(self) -> bool:
        """Whether its history begins at a base that the call makes, too."""
        return self.has_history and isinstance(self.base, NewRef)

    @property
    def memory(self) -> Any:
        return self.like._geometry, type(self.base), self.base.index, self.has_history

    @property
    def bases(self) -> tuple[int | None, ...]:
        return (self.base.index,) if isinstance(self.base, NewRef) else ()


def _view_of(base: Tensor, like: ViewOf | None) -> ViewOf | None:
    """What a view of a tensor knows, as another view knows it of another base."""
    if like is None:
        return None
    version, parent = base._counter.value, _view_of(base, like.parent)
    of = like.operation, like.source, None, like.geometry
    return ViewOf(base, like.creation, version, *of, parent, like.depth)


def check_plain(tensor: Tensor) -> None:
    """Raise ``NotReplayable`` if a new tensor is more than a storage, a type, a geometry and a released history."""
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
    if tensor._node is not None:
        _check_released(tensor._node)


def check_own(tensor: Tensor, capture: Capture) -> None:
    """Raise ``NotReplayable`` if a new tensor that is no view has memory that is more than an array."""
    if tensor._storage.home is not None or tensor._storage.memory is not None:
        raise NotReplayable("the function makes a tensor whose memory is resized or exported")
    if tensor._storage in capture.storages or tensor._counter in capture.counters:
        raise NotReplayable("the function makes another handle on a tensor from outside")


def check_view(tensor: Tensor, view: ViewOf) -> None:
    """Raise ``NotReplayable`` if a view is more than some elements of its base, in their type."""
    base = view.base
    read, stored = tensor._geometry_of(), base._geometry_of()
    if (read.dtype, read.conj, read.neg) != (stored.dtype, stored.conj, stored.neg):
        raise NotReplayable("the function makes a view that outlives it, of other elements than its base's")
    if view.creation == "custom" or view.dual is not None:
        raise NotReplayable("the function makes a view in a custom Function, or a dual tensor")
    if tensor._counter is not base._counter or tensor._storage is not base._storage:
        raise NotReplayable("the function makes a view whose base has got other memory")


def _check_released(node: Node) -> None:
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
