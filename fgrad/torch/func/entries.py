"""Levels of reverse mode in the tape: how ``grad`` and ``vjp`` differentiate inside of other transformations.

NOTE [Entries]
``grad`` runs its function on aliases of its inputs, each of which looks like a leaf and has an *entry* in the tape: a
node that passes gradients on to the input.  Differentiating is a run of the engine from the result to the entries, and
no further.  Each call makes new aliases, so an inner ``grad`` cannot mistake an outer one's variable for its own.  A
result is cut from the tape if nothing outside can differentiate it: if no path leads from it to a leaf or to a level
that is still open.  Only if there is such a path is the backward recorded.  The same holds for tensors that leave
through a list or a global: they are constants when the call is over.  What the call itself needs later, as the function
that ``vjp`` returns does, it keeps as handles of its own.
"""

import weakref
from collections.abc import Sequence
from typing import Any

from fgrad.mutable.backward import engine
from fgrad.mutable.context.modes import ITSELF, Scope, modes
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.node import Edge, Node, next_sequence, node_name
from fgrad.mutable.tensor.origin import LEFT, origin_of
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, alias, gradient_edge, is_tracked
from fgrad.mutable.transforms.forward import carry
from fgrad.mutable.transforms.levels import brought_in, check_write, deriving
from fgrad.torch.trees import map_leaves

SAVED_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)


class Unvaried:
    """The arguments that a function is not differentiated with respect to, as it gets them: it may write them.

    It gets other handles on the same memory.  Tensors with a history outside stay as they are, and may not be written.
    """

    def __init__(self) -> None:
        #: each with its handle, and its version and elements before
        self.entered: list[tuple[Tensor, Tensor, int, Any]] = []

    def enter(self, tree: Any) -> Any:
        """The arguments for the inside of the innermost level."""
        return map_leaves(self._enter, tree)

    def _enter(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or is_tracked(x):
            return x
        handle = alias(x)
        handle._level = modes.level
        if modes.differentiating:
            modes.differentiating[-1].made.append(weakref.ref(handle))
        _carry_tangents(x, handle)
        self.entered.append((x, handle, x._counter.value, x._storage.array))
        return handle

    def write_back(self) -> None:
        """Give the arguments the history of what was written to them; called after the level.

        Raises:
          RuntimeError: what was written is batched, and the argument is not.
        """
        for x, handle, version, before in self.entered:
            written = x._counter.value
            if written == version:
                continue
            value, x._storage.array = x._storage.array, before
            check_write(x, value)
            x._storage.array = value
            if is_tracked(handle) or modes.dual_level >= 0:
                x.copy_(handle)
                x._counter.value = written  # the memory is the same, and the write has been counted


class Entry(Node):
    """The input of a level of reverse mode: passes gradients on to the outside."""

    __slots__ = ("level",)

    def __init__(self, level: "GradLevel", tensor: Tensor, edge: Edge | None):
        super().__init__((edge,), (tensor._type,), None)
        self.level: GradLevel = level

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return grads


class GradLevel(Scope):
    """One call of ``grad`` or ``vjp``: open while the function runs.

    Attributes:
      recording: whether operations outside are recorded, so that results may have a history.
      start: every node of this level has a greater sequence number, every older one a smaller.
    """

    as_value = ITSELF

    def values(self) -> dict[str, Any]:
        if modes.saved_hooks:
            raise RuntimeError(SAVED_HOOKS)
        self.recording: bool = modes.grad
        self.start: int = next_sequence()
        #: nodes from which no path leads outside
        self.dead: set[Node] = set()
        #: the tensors made inside
        self.made: list[weakref.ref[Tensor]] = []
        level = deriving()
        self.number: int = level["level"]
        return {
            "grad": True,
            "inference": False,
            "transforms": (*modes.transforms, self),
            "differentiating": (*modes.differentiating, self),
            "saved_hooks_disabled": SAVED_HOOKS,
            **level,
        }

    def enter(self, x: Any) -> Tensor:
        """An alias of an input, to differentiate with respect to.

        Raises:
          ValueError: the input is not a tensor.
          RuntimeError: its dtype is not differentiable.
        """
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if not x._type.inexact:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        x = brought_in(x)
        handle = alias(x)
        handle._level = modes.level
        handle._inference = False
        entry = Entry(self, x, _edge_of(x))
        handle._requires_grad = True
        handle._accumulator = lambda: entry
        self.made.append(weakref.ref(handle))
        _carry_tangents(x, handle)
        return handle

    def leads_out(self, tensor: Tensor) -> bool:
        """Whether something outside can differentiate a tensor."""
        edge = _edge_of(tensor) if self.recording else None
        return edge is not None and self._reaches_outside(edge[0], set())

    def _reaches_outside(self, start: Node, known: set[Node]) -> bool:
        """Whether a path leads from a node to the outside; it is added to those of which that is known."""
        visited = {start} - self.dead
        stack = list(visited)
        while stack:
            node = stack.pop()
            if node in known or self._is_outside(node):
                known.add(start)
                return True
            for following in node.next_edges:
                if following is not None and following[0] not in visited and following[0] not in self.dead:
                    visited.add(following[0])
                    stack.append(following[0])
        self.dead |= visited
        return False

    def _is_outside(self, node: Node) -> bool:
        if isinstance(node, Entry):
            return node.level is not self and node.level in modes.differentiating
        if isinstance(node, AccumulateGrad):
            return node.variable._level < self.number
        return node._sequence < self.start

    def cut(self, kept: Sequence[Tensor] = ()) -> list[Tensor]:
        """Make constants of the tensors made inside that nothing outside can differentiate, as the call ends.

        Returns:
          Other handles on those in ``kept``, with their history.
        """
        histories = [(x, _edge_of(x)) for x in kept]
        known: set[Node] = set()
        left = [(x, edge) for ref in self.made if (x := ref()) is not None and (edge := _edge_of(x)) is not None]
        for x, edge in sorted(left, key=lambda pair: pair[1][0]._sequence):
            if not self._reaches_outside(edge[0], known):
                x._node, x._requires_grad, x._accumulator = None, False, None
                x._origin = origin_of(node_name(edge[0]), edge[0]._source, LEFT, (), ())
            elif modes.differentiating[:-1]:
                modes.differentiating[-2].made.append(weakref.ref(x))
        return [_handle(x, edge) for x, edge in histories]

    def reaches(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on an entered input."""
        edge = _edge_of(tensor)
        stack = [] if edge is None else [edge[0]]
        visited = set(stack)
        while stack:
            node = stack.pop()
            if isinstance(node, Entry) and node.level is self:
                return True
            for following in node.next_edges:
                if following is not None and following[0] not in visited:
                    visited.add(following[0])
                    stack.append(following[0])
        return False

    def leave(self, x: Any) -> Any:
        """A result for the outside: without history if nothing there can differentiate it."""
        if not isinstance(x, Tensor) or not is_tracked(x):
            return x
        edge = gradient_edge(x)
        entered = edge is not None and isinstance(edge[0], Entry) and edge[0].level is self
        out = self.leads_out(x)
        if out and not entered:
            return x
        return _handle(x, edge if out else None)

    def gradients(
        self,
        outputs: Sequence[Tensor],
        entered: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
        retain_graph: bool,
        create_graph: bool,
    ) -> list[Tensor]:
        """The gradients of outputs with respect to entered inputs, zeros where they do not depend on them."""
        edges = [gradient_edge(x) for x in entered]
        roots = [
            (edge, ct)
            for x, ct in zip(outputs, cotangents, strict=True)
            if is_tracked(x) and (edge := gradient_edge(x)) is not None
        ]
        inference, modes.inference = modes.inference, False
        try:
            grads = engine.run_backward(roots, retain_graph, create_graph, edges, False)
            return [zeros(x._type) if g is None else g for g, x in zip(grads, entered, strict=True)]
        finally:
            modes.inference = inference


def _edge_of(tensor: Tensor) -> Edge | None:
    """Where the gradient of a tensor goes, if it has a history."""
    return gradient_edge(tensor) if is_tracked(tensor) else None


def _handle(tensor: Tensor, edge: Edge | None) -> Tensor:
    """Another handle on a tensor, with that history."""
    handle = alias(tensor)
    if edge is not None:
        handle._node, handle._output_nr = edge
    _carry_tangents(tensor, handle)
    return handle


def _carry_tangents(tensor: Tensor, handle: Tensor) -> None:
    for level in range(modes.dual_level + 1):
        carry(tensor, handle, level, lambda tangent: tangent)
