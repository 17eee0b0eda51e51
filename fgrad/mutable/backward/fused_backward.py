"""Backward as one program, for graphs that are met again and again: a training loop's.

NOTE [A backward met often is one program]
Node by node, backward is a program and a handful of Python calls for each operation.  A training loop builds the same
graph at every step, and so ``Whole`` counts how often a structure was met (the pull-backs in the order of the engine,
their edges, the leaves), and from some number on it runs the pull-backs as one program, in which XLA fuses them: from
the saved arrays, the roots' gradients and the leaves' old ``.grad`` to their new one.

Nothing that the user could see may depend on it, so what it cannot do like the engine it leaves to the engine: hooks,
``retain_grad``, saved-tensor hooks, anomaly mode, ``create_graph``, ``inputs=``, nodes of custom Functions and writes
through views, narrow floats (whose intermediate values XLA keeps wider).  Where a saved tensor was written, freed or
detached, the engine runs and raises at the node where PyTorch raises.  What the engine does with memory (the strides
and the version of a fresh ``.grad``) is noted when it runs, and done alike.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, frozen
from jax import lax

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints, Reading
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.plan import NOTHING, Pullback
from fgrad.mutable.tensor.node import Edge, Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, new_tensor, unread
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.values.evaluation import Routine, recorded
from fgrad.seam import Cache, RawSource, ShapedArray, active, evaluate, pieces, simplify

#: from so many nodes on it runs node by node for longer, since XLA's time grows with the square of a program's length
MANY = 150
#: graphs of more nodes than this are never compiled whole: XLA's time grows with the square of a program's length
LONGEST = 300
#: the bytes of the narrowest elements whose operations XLA rounds one by one
SINGLE = 4
#: how many structures are kept
KEPT = 1024

#: what tells structures apart: flat, since it is made at every backward
Key = tuple[Any, ...]


@frozen
class Step:
    """One node's place in the program: its pull-back, the outputs that it takes gradients of, and its edges.

    An edge is the place of the node that follows (or, from ``-1`` down, of a leaf) and the number of its output.
    """

    pullback: Pullback
    out_types: tuple[TensorType, ...]
    inexact: tuple[int, ...]
    edges: tuple[tuple[int, int] | None, ...]
    #: for each saved value, how it is read from its storage's array
    saved: tuple[Reading | None, ...]


@define(eq=False)
class Backward:
    """The backward of one structure: how often it was met and, once it is compiled, its program."""

    met: int = 0
    routine: Routine | None = None
    #: the leaves that get a gradient, and of each the strides and the version of a fresh ``.grad``
    reached: tuple[int, ...] = ()
    memory: tuple[tuple[Ints | None, int] | None, ...] = ()
    #: whether something in it can only be done node by node
    refused: bool = False


_backwards: Cache[Key, Backward] = Cache(KEPT)


class Graph:
    """The graph that a backward is about to walk, if its structure is one that could be compiled."""

    __slots__ = ("roots", "nodes", "leaves", "places", "backward", "fresh")

    def __init__(
        self,
        roots: Sequence[tuple[Edge, Tensor | None]],
        nodes: list[OperationNode],
        leaves: list[Tensor],
        places: dict[Node, int],
        backward: Backward,
    ):
        self.roots: Sequence[tuple[Edge, Tensor | None]] = roots
        #: in the order of the engine
        self.nodes: list[OperationNode] = nodes
        self.leaves: list[Tensor] = leaves
        #: where each node stands, from 0 up, and each leaf's, from -1 down
        self.places: dict[Node, int] = places
        self.backward: Backward = backward
        #: the leaves that had no gradient before
        self.fresh: list[bool] = [leaf._grad is None for leaf in leaves]

    def run(self, keep: bool, source: RawSource | None) -> bool:
        """Run it whole; False, with nothing done, if the engine has to."""
        backward = self.backward
        backward.met += 1
        trials = active().backward_runs * (1 + len(self.nodes) // MANY) ** 2
        if backward.met <= trials or backward.refused or len(backward.memory) != len(self.leaves):
            return False
        values = self._values()
        if values is None:
            return False
        if backward.routine is None:
            self._compile()
            if backward.refused:
                return False
        if not backward.routine.ready():  # type: ignore[union-attr]
            return False
        values += [leaf._grad._value() for leaf in self.leaves if leaf._grad is not None]
        for k, value in zip(backward.reached, backward.routine(values), strict=True):  # type: ignore[misc]
            self._accumulate(k, value)
        if not keep:
            for node in self.nodes:
                node.release(source)
        return True

    def note(self) -> None:
        """After the engine has run: note how it laid out what it made."""
        backward = self.backward
        if backward.met >= active().backward_runs and not backward.memory:
            backward.memory = tuple([_memory(leaf, fresh) for leaf, fresh in zip(self.leaves, self.fresh, strict=True)])
            if any(leaf._grad is not None and leaf._grad._geometry is not None for leaf in self.leaves):
                backward.refused = True

    def _values(self) -> list[Any] | None:
        """The gradients of the roots and what the nodes have saved; None if something was freed or written since."""
        values = [grad._value() for _, grad in self.roots]  # type: ignore[union-attr]
        for node in self.nodes:
            if node.released and node.saved:
                return None
            for s in node.saved:
                if s.__class__ is SavedTensor:
                    tensor = s.current()
                    if tensor is None:
                        return None
                    values.append(tensor._value() if unread(tensor) is None else tensor._storage.array)
                else:
                    values.append(s)
        return values

    def _accumulate(self, place: int, value: Any) -> None:
        leaf = self.leaves[place]
        old = leaf._grad
        if old is not None:
            old._overwrite(value, "add_", None)
            return
        memory = self.backward.memory[place]
        assert memory is not None
        strides, version = memory
        leaf._grad = new_tensor(value, leaf._type, strides)
        leaf._grad._counter.value = version

    def _compile(self) -> None:
        """Record the program of this structure."""
        places = self.places
        steps = [
            Step(
                node.pullback,
                tuple(node.plan.out_types),
                node.plan.inexact,
                tuple([None if edge is None else (places[edge[0]], edge[1]) for edge in node.next_edges]),
                tuple([unread(s.tensor) if isinstance(s, SavedTensor) else None for s in node.saved]),  # type: ignore[arg-type]
            )
            for node in self.nodes
        ]
        roots = [(places[edge[0]], edge[1]) for edge, _ in self.roots]
        types: list[ShapedArray] = [grad._type.array for _, grad in self.roots]  # type: ignore[union-attr]
        for step in steps:
            given = step.pullback.routine.graph.in_types[: len(step.saved)]
            types += [
                t if how is None else ShapedArray(how.layout.sizes, t.dtype)
                for t, how in zip(given, step.saved, strict=True)
            ]
        leaves = [leaf._type for leaf in self.leaves]
        backward = self.backward
        reached: list[int] = []

        def function(*flat: Any) -> list[Any]:
            old = iter(flat[len(types) :])
            it = iter(flat[: len(types)])
            waiting: dict[tuple[int, int], Any] = {}
            for root in roots:
                receive(waiting, root, next(it))
            for place, step in enumerate(steps):
                run_step(step, place, it, waiting)
            outs = []
            for k, (type, fresh) in enumerate(zip(leaves, self.fresh, strict=True)):
                before = None if fresh else next(old)
                gradient = waiting.get((-1 - k, 0))
                if gradient is not None:
                    check(gradient, type)
                    reached.append(k)
                    outs.append(gradient if before is None else lax.add(before, gradient))
            return outs

        sums = [type.array for type, fresh in zip(leaves, self.fresh, strict=True) if not fresh]
        try:
            backward.routine = Routine(simplify(recorded(function, [*types, *sums])), pieces)
        except Unfit:
            backward.refused = True
        backward.reached = tuple(reached)


def _memory(leaf: Tensor, fresh: bool) -> tuple[Ints | None, int] | None:
    """The strides and the version of a ``.grad`` that the engine has made."""
    grad = leaf._grad
    return (grad._storage.strides, grad._counter.value) if fresh and grad is not None else None


class Unfit(Exception):
    """A gradient is not of the type of what it goes to: the engine makes it fit."""


def check(gradient: Any, type: TensorType) -> None:
    if type.dtype.itemsize < SINGLE or tuple(gradient.shape) != type.shape or gradient.dtype != type.dtype.numpy:
        raise Unfit


def receive(waiting: dict[tuple[int, int], Any], place: tuple[int, int], gradient: Any) -> None:
    """Add a gradient to those that wait at a place."""
    old = waiting.get(place)
    waiting[place] = gradient if old is None else lax.add(old, gradient)


def run_step(step: Step, place: int, it: Iterator[Any], waiting: dict[tuple[int, int], Any]) -> None:
    """Record one node's pull-back, and send its results on."""
    saved = [next(it) if how is None else how.get(next(it)) for how in step.saved]
    given = [waiting.pop((place, k), None) for k in step.inexact]
    if step.pullback is NOTHING or all(g is None for g in given):
        return
    cotangents = []
    for g, k in zip(given, step.inexact, strict=True):
        type = step.out_types[k]
        if g is None:
            g = lax.full(type.shape, 0, type.dtype.numpy)
        check(g, type)
        cotangents.append(g)
    found = iter(evaluate(step.pullback.routine.graph, [*saved, *cotangents]))
    for edge in step.edges:
        if edge is not None:
            receive(waiting, edge, next(found))


def described(roots: Sequence[tuple[Edge, Tensor | None]]) -> Graph | None:
    """The graph under some roots, if the engine's work on it could be done by one program."""
    if modes.anomaly or modes.interceptor is not None or modes.level or modes.capture or modes.dual_level >= 0:
        return None
    if modes.findings is not None or modes.snapshot or modes.release != "2.13":
        return None
    nodes = _reachable([edge[0] for edge, _ in roots])
    if nodes is None:
        return None
    key: list[Any] = []
    places: dict[Node, int] = {node: i for i, node in enumerate(nodes)}
    for edge, grad in roots:
        if grad is None or grad._geometry is not None or grad._storage.home is not None or edge[0] not in places:
            return None
        if grad._type is not edge[0].out_types[edge[1]]:
            return None
        key += [places[edge[0]], edge[1]]
    leaves: list[Tensor] = []
    for place, node in enumerate(nodes):
        key.append(node.pullback)
        for edge in node.next_edges:
            if edge is None:
                key.append(None)
                continue
            following, number = edge
            at = places.get(following)
            if at is None:
                leaf: Tensor = following.variable  # type: ignore[attr-defined]
                state = _leaf_state(leaf, following)
                if state is None:
                    return None
                leaves.append(leaf)
                at = places[following] = -len(leaves)
                key += state
            elif 0 <= at <= place:
                return None  # a node made later than one that it leads to: the engine knows their order
            key += [at, number]
        for k, s in enumerate(node.saved):
            if s.__class__ is SavedTensor and s.tensor is not None and s.tensor._geometry is not None:
                key += [k, unread(s.tensor)]
    sums = [id(leaf._grad._storage) for leaf in leaves if leaf._grad is not None]
    if len(set(sums)) < len(sums):
        return None  # what is added to one gradient changes another
    found = _backwards.get(tuple(key))
    if found is None:
        found = _backwards.enter(tuple(key), Backward(), len(nodes))
    return Graph(roots, nodes, leaves, places, found)


def _reachable(roots: Sequence[Node]) -> list[OperationNode] | None:
    """The nodes of operations under some roots in the engine's order; None if there are others, or too many."""
    seen: set[Node] = set(roots)
    stack = list(seen)
    nodes: list[OperationNode] = []
    while stack:
        node = stack.pop()
        if node.__class__ is AccumulateGrad:
            continue
        if not node.fusible or _is_hooked(node) or len(nodes) == LONGEST:
            return None
        nodes.append(node)  # type: ignore[arg-type]
        for edge in node.next_edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    nodes.sort(key=operator.attrgetter("sequence"), reverse=True)
    return nodes


def _is_hooked(node: Node) -> bool:
    return bool(node.tensor_hooks or node.retains or node.pre_hooks or node.post_hooks)


def _leaf_state(leaf: Tensor, node: Node) -> tuple[Any, ...] | None:
    """What of a leaf the program depends on; None if only the engine can accumulate into it."""
    if not leaf._requires_grad or leaf._backward_hooks or leaf._post_accumulate_grad_hooks or _is_hooked(node):
        return None
    storage, grad = leaf._storage, leaf._grad
    if leaf._geometry is not None or storage.home is not None:
        return None
    if grad is None:
        return leaf._type, storage.strides, True
    return (leaf._type, storage.strides, False) if grad._type is leaf._type else None
