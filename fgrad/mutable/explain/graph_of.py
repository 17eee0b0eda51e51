"""The graph of a tensor, rebuilt from its backward nodes: the functional core's, with all that such a graph has.

NOTE [The graph behind a loss]
A node knows its operation's plan, which holds the operation as a graph, and its edges say which nodes and leaves its
operands came from.  So the forward pass can be put together again, from the leaves to the loss; nothing but types is
needed.  An operand without an edge (data, a label, what was detached) is an input as well.  One that the node has saved
has a name, and is known to be the same tensor wherever it is met; after backward, when what was saved is gone, or where
no derivative reads it, it is an input of its own at each operation: ``other of add``.
"""

import re
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from jax import tree_util

from fgrad.mutable.explain.names import name_of, name_of_node
from fgrad.mutable.operation.operation_node import IntegerNode, OperationNode, RefusedNode
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_function
from fgrad.seam import Builder, Const, FunctionGraph, ShapedArray, Source


def graph_of(tensor: Tensor) -> FunctionGraph:
    """The graph that computed a tensor, as an ``fgrad.Graph`` from the leaves that require grad to the tensor.

    It is called ``graph(leaves, data)``, both dicts by name: the parameters and other leaves, and the tensors without
    history that went in.  ``graph.grad()`` is the gradient with respect to the leaves.  It can be read, compared, drawn
    and written as every graph (``graph.values``, ``graph.diff``, ``graph.to_python``).

    Arguments:
      tensor: a loss, or another tensor with a ``grad_fn``.

    Raises:
      RuntimeError: the tensor has no history.
      TypeError: part of it was made by something that is no operation of the table (a custom ``Function``, a write into
        a view); the message names it.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> x = torch.tensor([3.0, 4.0])
    >>> loss = (w * x).sum()
    >>> graph = torch.graph_of(loss)
    >>> graph.names, len(graph)
    (('w', 'x'), 2)
    >>> graph.grad()({"w": w.detach().numpy()}, {"x": x.numpy()})
    {'w': Array([3., 4.], dtype=float32)}
    """
    root = gradient_function(tensor)
    if root is None:
        raise RuntimeError(
            "graph_of: the tensor has no history: it is a leaf, or was computed without recording. "
            "torch.why_no_grad(tensor) says where the history ends."
        )
    rebuilt = _Rebuilt()
    out = rebuilt.value((root, tensor._output_nr))
    names = rebuilt.leaves.names, rebuilt.data.names
    order = [sorted(range(len(each)), key=each.__getitem__) for each in names]
    inputs = [rebuilt.leaves.numbers[i] for i in order[0]] + [rebuilt.data.numbers[i] for i in order[1]]
    trees = tuple([{each[i]: 0 for i in places} for each, places in zip(names, order, strict=True)])
    called = tuple([each[i] for each, places in zip(names, order, strict=True) for i in places])
    return FunctionGraph(
        rebuilt.builder.finish([out], inputs),
        tree_util.tree_structure((trees, {})),
        tree_util.tree_structure(0),
        called,
        (_plain(name_of(tensor)) or "output",),
    )


def _plain(name: str | None) -> str | None:
    """``weight`` for ``'weight' of 'model'``, as errors have it."""
    found = None if name is None else re.match(r"'(.+?)'(?: of '(.+)')?$", name)
    return found.group(1) if found else name


class _Inputs:
    """Inputs of one kind as they are met: their numbers, and a name of its own for each."""

    def __init__(self, builder: Builder, taken: set[str]):
        self.builder = builder
        self.names: list[str] = []
        self.numbers: list[int] = []
        self.taken = taken
        self._known: dict[Any, int] = {}

    def number(self, key: Any, type: ShapedArray, wanted: str) -> int:
        """The number of the input with a key, made where it is met first; what has no key is met once."""
        found = None if key is None else self._known.get(key)
        if found is None:
            name, times = wanted, 1
            while name in self.taken:
                times += 1
                name = f"{wanted}#{times}"
            self.taken.add(name)
            found = self.builder.input(type)
            self.names.append(name)
            self.numbers.append(found)
            if key is not None:
                self._known[key] = found
        return found


class _Rebuilt:
    """The forward pass as it grows."""

    def __init__(self) -> None:
        self.builder = Builder()
        taken: set[str] = set()
        self.leaves = _Inputs(self.builder, taken)
        self.data = _Inputs(self.builder, taken)
        #: the numbers of the outputs of each node
        self.made: dict[Node, Sequence[int]] = {}

    def value(self, edge: tuple[Node, int]) -> int:
        """The number of what an edge leads to; the operations stand in the order in which they ran."""
        readers: dict[Node, list[Node]] = {edge[0]: []}
        waiting: dict[Node, int] = {}
        stack = [edge[0]]
        while stack:
            node = stack.pop()
            before = {at[0] for at in node.next_edges if at is not None}
            waiting[node] = len(before)
            for at in before:
                if at not in readers:
                    readers[at] = []
                    stack.append(at)
                readers[at].append(node)
        ready = [
            (-1 if isinstance(node, AccumulateGrad) else node.sequence, k, node)
            for k, node in enumerate(waiting)
            if not waiting[node]
        ]
        heapify(ready)
        order = count(len(ready))  # nodes of other threads may have the same number
        while ready:
            _, _, node = heappop(ready)
            self.made[node] = self._run(node)
            for reader in readers[node]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heappush(ready, (reader.sequence, next(order), reader))
        return self.made[edge[0]][edge[1]]

    def _run(self, node: Node) -> Sequence[int]:
        if isinstance(node, AccumulateGrad):
            leaf = node.variable
            type = ShapedArray(leaf._type.shape, leaf._type.dtype.numpy)
            return [self.leaves.number(node, type, _plain(name_of(leaf)) or "leaf")]
        if not isinstance(node, OperationNode) or isinstance(node, IntegerNode | RefusedNode):
            where = f" at {Source(*node.source)}" if node.source is not None else ""
            raise TypeError(
                f"graph_of: {node.name()}{where} is no operation of the table, so its forward pass is not known. Way "
                "out: ask for the graph of what comes after it, from a leaf (detach, requires_grad_)."
            )
        graph = node.plan.graph
        args = [self._operand(node, place, type) for place, type in enumerate(graph.in_types)]
        return self.builder.splice(graph, args, None if node.source is None else Source(*node.source))

    def _operand(self, node: OperationNode, place: int, type: ShapedArray) -> int:
        plan, pullback = node.plan, node.pullback
        operand, name = plan.places[place]
        for (i, _), edge in zip(plan.edges, node.next_edges, strict=False):
            if i == operand and edge is not None:
                return self.made[edge[0]][edge[1]]
        if operand in plan.numbers:
            number = node.numbers[plan.numbers.index(operand)]
            return self.builder.const(Const(np.asarray(number, type.dtype), type))
        saved = node.saved[pullback.inputs.index(place)] if place in pullback.inputs else None
        tensor = saved.tensor if isinstance(saved, SavedTensor) else None
        if tensor is None:
            stored = name_of_node(node)
            return self.data.number(None, type, f"{name} of {stored or plan.operation.name}")
        key = (id(tensor._storage), tensor._counter.value, str(tensor._geometry_of()))
        return self.data.number(key, type, _plain(name_of(tensor)) or f"{name} of {plan.operation.name}")
