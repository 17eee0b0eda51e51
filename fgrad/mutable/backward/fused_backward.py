"""Backward as one program, for graphs that recur, as in a training loop.

NOTE [A backward met often is one program]
Node by node, backward costs a program and a handful of Python calls per operation.  A training loop builds the same
graph at every step.  So each structure is counted (the pull-backs in the order of the engine, their
edges, the leaves), and beyond some count the pull-backs run as one program: from the saved arrays, the roots' gradients
and the leaves' old ``.grad`` to their new one.  If NumPy runs the pull-backs, that is a NumPy program at first, which
takes little to make; XLA, which fuses them, takes over as for any graph (NOTE [Rent or buy]).  If XLA runs them, the
program is compiled once the engine has taken as long as that takes.

The user must not notice.  So it falls back to the engine whenever results could differ: hooks,
``retain_grad``, saved-tensor hooks, anomaly mode, ``create_graph``, ``inputs=``, nodes of custom Functions and writes
through views, half precision (whose intermediates XLA keeps wider).  If a saved tensor was written, freed or
detached, the engine runs and raises at the node where PyTorch raises.  How the engine lays out memory (the strides
and the version of a fresh ``.grad``) is recorded when it runs, and reproduced.

If saved values wait (NOTE [Large operations wait]), the whole backward waits with them, as one operation.
"""

import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from attrs import define, frozen
from jax import block_until_ready, lax

from fgrad.mutable.backward.accumulate import Read
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.layout.reading import Reading
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.plan import NOTHING, Plan, Pullback
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Edge, Node, has_hooks, updating_leaf
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.storage import held_value
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, deferred_read, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.values.deferral import Deferred, computed, defer
from fgrad.mutable.values.evaluation import Routine, array_type, recorded
from fgrad.mutable.values.fusion import STRUCTURES_KEPT, Fusion, compiling_price
from fgrad.seam import (
    Builder,
    Cache,
    Graph,
    PaceOf,
    Policy,
    RawSource,
    ShapedArray,
    active,
    backwards,
    operations,
    pieces,
    simplify,
    with_x64,
)

#: the bytes of the narrowest elements whose operations XLA rounds one by one
SINGLE = 4

#: how many nodes a walk visits before it checks whether the backward is too long, so that it need not visit all
CHECKED = 64

#: the seconds for each node that one program saves: the engine's Python
SAVED = 4e-5

#: identifies a structure; flat, since one is built at every backward
Key = tuple[Any, ...]


@frozen
class Step:
    """One node's step of the program: its plan and pull-back, and its edges.

    An edge is the index of the node that follows (or, from ``-1`` down, of a leaf) and the number of its output.
    """

    plan: Plan
    pullback: Pullback
    edges: tuple[tuple[int, int] | None, ...]
    #: how each saved value is read from its storage's array
    saved: tuple[Reading | None, ...]


@define(eq=False)
class Backward:
    """The backward of one structure."""

    met: int = 0
    #: whether it runs as one program, once it was met often enough
    fusion: Fusion | None = None
    #: whether NumPy runs the operations, and at first the program
    on_numpy: bool = False
    #: all of it as one operation, which waits if what it reads does
    waiting: Routine | None = None
    #: the leaves that receive a gradient from the program
    reached: tuple[int, ...] = ()
    #: the strides and the version of each leaf's ``.grad`` as the engine made it
    memory: tuple[tuple[Ints | None, int] | None, ...] = ()
    #: whether this structure can run on the engine only
    refused: bool = False


_backwards: Cache[Key, Backward] = Cache(STRUCTURES_KEPT)

#: an edge and the gradient sent along it
Root = tuple[Edge, Tensor | None]


class FusibleBackward:
    """A backward that is about to run and whose structure can be compiled."""

    __slots__ = ("roots", "nodes", "leaves", "indices", "backward", "policy", "reads", "fresh", "waits", "began")

    def __init__(
        self,
        roots: Sequence[Root],
        nodes: list[OperationNode],
        reads: list[Read],
        indices: dict[Node, int],
        backward: Backward,
        policy: Policy,
    ):
        self.roots: Sequence[Root] = roots
        #: in the order of the engine
        self.nodes: list[OperationNode] = nodes
        self.reads: list[Read] = reads
        self.leaves: list[Tensor] = [read.leaf for read in reads]
        #: the index of each node, from 0 up, and of each leaf, from -1 down
        self.indices: dict[Node, int] = indices
        self.backward: Backward = backward
        #: the one in force
        self.policy: Policy = policy
        #: the leaves whose ``.grad`` was None
        self.fresh: list[bool] = [read.grad is None for read in reads]
        #: whether it waits with what it reads
        self.waits: bool = False
        #: when the engine started
        self.began: float = 0

    def run(self, keep: bool, source: RawSource | None) -> bool:
        """Run it as one program; False, with nothing done, if the engine has to run it."""
        done = self._run(keep, source)
        self.began = perf_counter()
        return done

    def _run(self, keep: bool, source: RawSource | None) -> bool:
        backward = self.backward
        backward.met += 1
        if backward.met <= self.policy.backward_runs or backward.refused or len(backward.memory) != len(self.leaves):
            return False
        values = self._values()
        if values is None:
            return False
        values += [read.grad._waiting() for read in self.reads if read.grad is not None]
        self.waits = any(x.__class__ is Deferred for x in values) and all(
            node.pullback.routine.joins for node in self.nodes
        )
        try:
            gradients = self._put_off(values) if self.waits else self._computed(values)
        except Unfit:
            backward.refused = True
            return False
        if gradients is None:
            return False
        with updating_leaf:
            done = self._accumulate_all(gradients)
        if done and not keep:
            for node in self.nodes:
                node._release(source)
        return done

    def _computed(self, values: Sequence[Any]) -> Sequence[Any] | None:
        """The gradients, by one program; None if the engine is to compute them."""
        fusion = self.backward.fusion
        if fusion is None:
            fusion = self.backward.fusion = self._fusion()
        program = fusion.program(lambda: self._recorded(backwards if self.backward.on_numpy else pieces))
        return None if program is None else fusion.run(program, [computed(x) for x in values])

    def _put_off(self, values: Sequence[Any]) -> Sequence[Any]:
        """The gradients, which wait together."""
        routine = self.backward.waiting
        if routine is None:
            routine = self.backward.waiting = self._recorded(operations)
        return defer(routine, values)

    def _fusion(self) -> Fusion:
        routines = [node.pullback.routine for node in self.nodes]
        self.backward.on_numpy = sum([routine.lost_by_numpy for routine in routines]) <= SAVED * len(routines)
        return Fusion(0 if self.backward.on_numpy else compiling_price(routines))

    def note(self) -> None:
        """After the engine has run: note the time it took and the layout of each new ``.grad``."""
        backward = self.backward
        fusion = backward.fusion
        if fusion is not None and not self.waits:
            if fusion.routine is not None:
                block_until_ready([leaf._grad._value() for leaf in self.leaves if leaf._grad is not None])
            fusion.spend(perf_counter() - self.began)
        if backward.met >= self.policy.backward_runs and not backward.memory:
            backward.memory = tuple([_memory(leaf, fresh) for leaf, fresh in zip(self.leaves, self.fresh, strict=True)])
            if any(leaf._grad is not None and leaf._grad._geometry is not None for leaf in self.leaves):
                backward.refused = True

    def _values(self) -> list[Any] | None:
        """The roots' gradients and the nodes' saved values; None if something was freed or written since."""
        values = [grad._waiting() for _, grad in self.roots]  # type: ignore[union-attr]
        for node in self.nodes:
            if node.released and node.saved:
                return None
            for s in node.saved:
                if s.__class__ is SavedTensor:
                    tensor = s.current()
                    if tensor is None:
                        return None
                    values.append(tensor._waiting() if deferred_read(tensor) is None else held_value(tensor._storage))
                else:
                    values.append(s)
        return values

    def _accumulate_all(self, gradients: Sequence[Any]) -> bool:
        """False, with nothing done, if another thread has changed a ``.grad`` since it was read."""
        if not all(read.is_current() for read in self.reads):
            return False
        for k, value in zip(self.backward.reached, gradients, strict=True):
            self._accumulate(k, value)
        return True

    def _accumulate(self, index: int, value: Any) -> None:
        leaf = self.leaves[index]
        old = leaf._grad
        if old is not None:
            old._overwrite(value, "add_", None)
            return
        memory = self.backward.memory[index]
        assert memory is not None
        strides, version = memory
        grad, now = new_tensor(value, leaf._type, strides), object()
        grad._counter.value = version
        leaf._grad = grad
        changes.fields = now

    def _recorded(self, pace_of: PaceOf) -> Routine:
        """The program of this structure.

        Raises:
          Unfit: only the engine can make some gradient fit, or the program would take too long to compile.
        """
        indices = self.indices
        steps = [
            Step(
                node.plan,
                node.pullback,
                tuple([None if edge is None else (indices[edge[0]], edge[1]) for edge in node.next_edges]),
                tuple([deferred_read(s.tensor) if isinstance(s, SavedTensor) else None for s in node.saved]),  # type: ignore[arg-type]
            )
            for node in self.nodes
        ]
        types: list[ShapedArray] = [grad._type.array for _, grad in self.roots]  # type: ignore[union-attr]
        for step in steps:
            saved_types = step.pullback.routine.graph.in_types[: len(step.saved)]
            types += [
                t if how is None else ShapedArray(how.layout.sizes, t.dtype)
                for t, how in zip(saved_types, step.saved, strict=True)
            ]
        types += [leaf._type.array for leaf, fresh in zip(self.leaves, self.fresh, strict=True) if not fresh]
        leaves = [(leaf._type, fresh) for leaf, fresh in zip(self.leaves, self.fresh, strict=True)]
        recording = Recording(types, [(indices[edge[0]], edge[1]) for edge, _ in self.roots], steps, leaves)
        graph = with_x64(lambda: simplify(recording.graph()))
        routine = Routine(graph, pace_of)
        if len(self.nodes) > self.policy.compiled_backward_nodes and routine.lost_by_numpy > 0:
            raise Unfit
        self.backward.reached = tuple(recording.reached)
        return routine


def _memory(leaf: Tensor, fresh: bool) -> tuple[Ints | None, int] | None:
    """The strides and the version of a ``.grad`` made by the engine."""
    grad = leaf._grad
    return (grad._storage.strides, grad._counter.value) if fresh and grad is not None else None


class Unfit(Exception):
    """The structure can run on the engine only."""


class Recording:
    """The engine's work on one structure as a graph.

    It is put together from the graphs of the pull-backs: to record them again would take ten times as long.
    """

    def __init__(
        self,
        types: Sequence[ShapedArray],
        roots: list[tuple[int, int]],
        steps: Sequence[Step],
        leaves: Sequence[tuple[TensorType, bool]],
    ):
        self.builder: Builder = Builder(types)
        self.roots: list[tuple[int, int]] = roots
        self.steps: Sequence[Step] = steps
        #: the type of each leaf, and whether its ``.grad`` was None
        self.leaves: Sequence[tuple[TensorType, bool]] = leaves
        #: the gradients buffered for each node or leaf, by output number
        self.waiting: dict[tuple[int, int], int] = {}
        #: the leaves that receive a gradient
        self.reached: list[int] = []

    def graph(self) -> Graph:
        """The graph from the roots' gradients, the saved values and the old ``.grad`` to the new ``.grad``.

        Raises:
          Unfit: some gradient has another type than its target, and only the engine can make it fit.
        """
        inputs = self.builder.inputs
        values = iter(inputs)
        for root in self.roots:
            self.receive(root, next(values))
        for index, step in enumerate(self.steps):
            self.run_step(step, index, values)
        sums = []
        for k, (type, fresh) in enumerate(self.leaves):
            before = None if fresh else next(values)
            gradient = self.waiting.get((-1 - k, 0))
            if gradient is not None:
                self.check(gradient, type)
                self.reached.append(k)
                sums.append(gradient if before is None else self.sum(before, gradient))
        return self.builder.finish(sums, inputs)

    def receive(self, index: tuple[int, int], gradient: int) -> None:
        """Add a gradient to the buffer of a node or leaf."""
        old = self.waiting.get(index)
        self.waiting[index] = gradient if old is None else self.sum(old, gradient)

    def sum(self, left: int, right: int) -> int:
        types = self.builder.types
        if (types[left].shape, types[left].dtype) != (types[right].shape, types[right].dtype):
            raise Unfit
        return self.builder.splice(_sum(types[left].shape, types[left].dtype), [left, right])[0]

    def run_step(self, step: Step, index: int, values: Iterator[int]) -> None:
        """Append one node's pull-back, and pass its results on."""
        saved = [self.read(how, next(values)) for how in step.saved]
        plan = step.plan
        gradients_of = {k: self.waiting.pop((index, k), None) for k in plan.inexact}
        received = tuple([k for k, g in gradients_of.items() if g is not None])
        if step.pullback is NOTHING or not received:
            return
        pullback = plan.partial_pullback(step.pullback, received)
        cotangents = []
        for k in pullback.received:
            g, type = gradients_of[k], plan.out_types[k]
            if g is None:
                g = self.builder.splice(_zeros(type.shape, type.dtype.numpy), [])[0]
            self.check(g, type)
            cotangents.append(g)
        operands = pullback.operands_of(step.pullback, [*saved, *cotangents])
        gradients = self.builder.splice(pullback.routine.graph, operands)
        undefined = step.pullback.undefined(list(gradients_of.values()))
        edges = [edge for edge in step.edges if edge is not None]
        for edge, gradient, is_undefined in zip(edges, gradients, undefined, strict=False):
            if not is_undefined:
                self.receive(edge, gradient)

    def read(self, how: Reading | None, value: int) -> int:
        """A saved value, as read from the array of its storage."""
        return value if how is None else self.builder.splice(how.graph, [value])[0]

    def check(self, gradient: int, type: TensorType) -> None:
        """Refuse a gradient whose type differs from its target's: the engine makes it fit."""
        given = self.builder.types[gradient]
        if type.dtype.itemsize < SINGLE or given.shape != type.shape or given.dtype != type.dtype.numpy:
            raise Unfit


#: how many small graphs of each kind are kept
GRAPHS_KEPT = 1 << 10


@lru_cache(GRAPHS_KEPT)
def _sum(shape: Ints, dtype: np.dtype) -> Graph:
    return recorded(lambda x, y: [lax.add(x, y)], [array_type(shape, dtype)] * 2)


@lru_cache(GRAPHS_KEPT)
def _zeros(shape: Ints, dtype: np.dtype) -> Graph:
    return recorded(lambda: [lax.full(shape, 0, dtype)], [])


def fusible_backward(roots: Sequence[Root]) -> FusibleBackward | None:
    """The backward from some roots, if it can run as one program."""
    if modes.anomaly or modes.interceptor is not None or modes.level or modes.capture or modes.dual_level >= 0:
        return None
    if modes.findings is not None or modes.snapshot or modes.release != "2.13":
        return None
    try:
        nodes = _reachable([edge[0] for edge, _ in roots])
        indices: dict[Node, int] = {node: i for i, node in enumerate(nodes)}
        key = _root_key(roots, indices)
        reads: list[Read] = []
        for index, node in enumerate(nodes):
            add_node(key, node, index, indices, reads)
    except Unfit:
        return None
    policy = active()
    if len(nodes) > policy.backward_nodes:
        return None
    sums = [id(read.grad._storage) for read in reads if read.grad is not None]
    if len(set(sums)) < len(sums):
        return None  # accumulating into one gradient would change another
    backward = _backwards.get(tuple(key))
    if backward is None:
        backward = _backwards.enter(tuple(key), Backward(), len(nodes))
    return FusibleBackward(roots, nodes, reads, indices, backward, policy)


def _root_key(roots: Sequence[Root], indices: dict[Node, int]) -> list[Any]:
    """The roots' part of the key: their positions."""
    key: list[Any] = []
    for (node, number), grad in roots:
        if grad is None or grad._geometry is not None or grad._storage.home is not None or node not in indices:
            raise Unfit
        if grad._type is not node.out_types[number]:
            raise Unfit
        key += (indices[node], number)
    return key


def add_node(key: list[Any], node: OperationNode, index: int, indices: dict[Node, int], reads: list[Read]) -> None:
    """Append a node's part to the key; a leaf seen for the first time gets a position."""
    key.append(node.pullback)
    for edge in node.next_edges:
        if edge is None:
            key.append(None)
            continue
        following, number = edge
        at = indices.get(following)
        if at is None:
            read = Read(following.variable)  # type: ignore[attr-defined]
            key += _leaf_key(read, following)
            reads.append(read)
            at = indices[following] = -len(reads)
        elif 0 <= at <= index:
            raise Unfit  # a node made later than one that sends to it: only the engine knows the order
        key += (at, number)
    for k, s in enumerate(node.saved):
        if s.__class__ is SavedTensor and s.tensor is not None and s.tensor._geometry is not None:
            key += (k, deferred_read(s.tensor))


def _reachable(roots: Sequence[Node]) -> list[OperationNode]:
    """The operation nodes below some roots, in the engine's order.

    Raises:
      Unfit: there are nodes of other kinds, or far too many.
    """
    seen: set[Node] = set(roots)
    stack = list(seen)
    nodes: list[OperationNode] = []
    while stack:
        node = stack.pop()
        if node.__class__ is AccumulateGrad:
            continue
        if not node.fusible or has_hooks(node):
            raise Unfit
        nodes.append(node)  # type: ignore[arg-type]
        if len(nodes) % CHECKED == 0 and len(nodes) > active().backward_nodes:
            raise Unfit
        for edge in node.next_edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    nodes.sort(key=operator.attrgetter("_sequence"), reverse=True)
    return nodes


def _leaf_key(read: Read, node: Node) -> tuple[Any, ...]:
    """A leaf's part of the key.

    Raises:
      Unfit: only the engine can accumulate into it.
    """
    leaf, grad = read.leaf, read.grad
    if not leaf._requires_grad or leaf._tensor_hooks or leaf._post_accumulate_grad_hooks or has_hooks(node):
        raise Unfit
    storage = leaf._storage
    if leaf._geometry is not None or storage.home is not None:
        raise Unfit
    if grad is not None and grad._type is not leaf._type:
        raise Unfit
    return leaf._type, storage.strides, grad is None
