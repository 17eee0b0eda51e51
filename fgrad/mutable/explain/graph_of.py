"""The graph of a tensor, rebuilt from its backward nodes as a graph of the functional core.

NOTE [The graph behind a loss]
A node knows its operation's plan, which holds the operation as a graph, and its edges say which nodes and leaves its
operands came from.  So the forward pass can be reconstructed, from the leaves to the loss; only types are needed.  An
operand without an edge (data, a label, a detached tensor) is an input as well.  If the node has saved it, it has a
name, and is recognised as the same tensor wherever it occurs; if not (no derivative reads it, or backward has freed
it), it is a separate input at each operation: ``other of add``.

A write into a view is reconstructed as its backward is: the part of the base, the operation on it, the base with the
new part.  A custom ``Function`` is one operation with its name (``fgrad/graph/named_call.py``).  Each operation keeps
its line and the path of the module that it ran in.
"""

import re
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.explain.names import ModulePaths, name_of, name_of_node
from fgrad.mutable.explain.wording import check_tensor
from fgrad.mutable.operation.as_strided import AS_STRIDED, AS_STRIDED_SCATTER, split_offset
from fgrad.mutable.operation.operation_node import IntegerNode, OperationNode, RefusedNode
from fgrad.mutable.tensor.node import Node, node_name
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_edge, gradient_function
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.write.inplace import CopySlices
from fgrad.seam import Builder, Const, ShapedArray, Source, graph_by_name, intern, named_call


def graph_of(tensor: Tensor) -> Any:
    """The graph that computed a tensor, as an ``fgrad.Graph`` from the leaves that require grad to the tensor.

    It is called ``graph(leaves, data)``, both dicts by name: the parameters and other leaves, and the tensors without
    history that went in.  ``graph.grad()`` is the gradient with respect to the leaves.  It can be read, compared, drawn
    and written as every graph (``graph.values``, ``graph.diff``, ``graph.to_python``).

    Arguments:
      tensor: a loss, or another tensor with a ``grad_fn``.

    A custom ``Function`` is one operation in it.  Such a graph can be read, drawn and differentiated, but not run: of
    the call the node has kept what backward needs, and not the arguments.  ``torch.capture`` records what it does.

    Raises:
      RuntimeError: the tensor has no history.
      TypeError: part of it was made by an operation that has no derivative; the message names it.

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
    check_tensor(tensor, "graph_of")
    root = gradient_function(tensor)
    if root is None:
        raise RuntimeError(
            "graph_of: the tensor has no history: it is a leaf, or was computed without recording. "
            "torch.why_no_grad(tensor) says where the history ends."
        )
    rebuilt = _Rebuilt()
    out = rebuilt.value((root, tensor._output_nr))
    groups, inputs = rebuilt.inputs(out)
    result = name_of(tensor)
    called = "output" if result is None else _Called.of(result).path
    return graph_by_name(rebuilt.builder.finish([out], inputs), groups, called)


@frozen
class _Called:
    """What an input is called: its path, and the module or container that it is in, if any."""

    path: str
    owner: str = ""

    @staticmethod
    def of(name: str) -> "_Called":
        """From ``'weight' of 'model'``, as errors have it."""
        match = re.match(r"'(.+?)'(?: of '(.+)')?$", name)
        return _Called(match.group(1), match.group(2) or "") if match else _Called(name.replace("'", ""))

    @property
    def full_name(self) -> str:
        return f"{self.owner}.{self.path}" if self.owner else self.path


def _unique(called: Sequence[_Called]) -> list[str]:
    """A unique name for each: the path, prefixed by the owner if two are the same."""
    paths = [each.path for each in called]
    owners: dict[str, set[str]] = {}
    for each in called:
        owners.setdefault(each.path, set()).add(each.owner)
    candidates = [each.full_name if len(owners[path]) > 1 else path for each, path in zip(called, paths, strict=True)]
    names: dict[str, None] = {}
    for name in candidates:
        unique, times = name, 1
        while unique in names:
            times += 1
            unique = f"{name}#{times}"
        names[unique] = None
    return list(names)


class _Inputs:
    """Inputs of one kind in order of appearance: their numbers and names."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.called: list[_Called] = []
        self.numbers: list[int] = []
        self._known: dict[Any, int] = {}

    def number(self, key: Any, type: ShapedArray, called: _Called) -> int:
        """The number of the input with this key, created the first time; an input without a key is always new."""
        index = None if key is None else self._known.get(key)
        if index is None:
            index = self.builder.input(type)
            self.called.append(called)
            self.numbers.append(index)
            if key is not None:
                self._known[key] = index
        return index


class _Rebuilt:
    """The forward pass under reconstruction."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.leaves = _Inputs(self.builder)
        self.data = _Inputs(self.builder)
        self.paths = ModulePaths()
        #: the numbers of the outputs of each node
        self.made: dict[Node, Sequence[int]] = {}

    def inputs(self, out: int) -> tuple[list[list[str]], list[int]]:
        """The names of the leaves and of the data that is read, each sorted, and their numbers in this order."""
        rebuilt = self.builder.finish([out])
        read = {self.builder.inputs[i] for node in rebuilt.nodes for i in node.inputs if i < len(self.builder.inputs)}
        data = [k for k, number in enumerate(self.data.numbers) if number in read]
        names = _unique([*self.leaves.called, *[self.data.called[k] for k in data]])
        split = len(self.leaves.called)
        groups, numbers = [], []
        for some, known in (
            (names[:split], self.leaves.numbers),
            (names[split:], [self.data.numbers[k] for k in data]),
        ):
            order = sorted(range(len(some)), key=some.__getitem__)
            groups.append([some[i] for i in order])
            numbers += [known[i] for i in order]
        return groups, numbers

    def value(self, edge: tuple[Node, int]) -> int:
        """The number of the value that an edge leads to; operations are emitted in the order in which they ran."""
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
            (-1 if isinstance(node, AccumulateGrad) else node._sequence, k, node)
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
                    heappush(ready, (reader._sequence, next(order), reader))
        return self.made[edge[0]][edge[1]]

    def _run(self, node: Node) -> Sequence[int]:
        source = self._source(node)
        if isinstance(node, AccumulateGrad):
            return [self._leaf(node.variable)]
        if isinstance(node, OperationNode) and not isinstance(node, IntegerNode | RefusedNode):
            return self._operation(node, source)
        if isinstance(node, CopySlices) and isinstance(node.function, OperationNode):
            return self._write(node, node.function, source)
        if isinstance(node, IntegerNode | RefusedNode):
            where = f" at {source}" if source is not None else ""
            raise TypeError(
                f"graph_of: {node_name(node)}{where} has no derivative. Way out: ask for the graph of what comes after "
                "it, from a leaf (detach, requires_grad_)."
            )
        numbers = [None if edge is None else self.made[edge[0]][edge[1]] for edge in node.next_edges]
        if node.passes_on and None not in numbers:
            return [number for number in numbers if number is not None]
        return self._named_call(node, [number for number in numbers if number is not None], source)

    def _source(self, node: Node) -> Source | None:
        return None if node._source is None else Source(*node._source, module=self.paths.of(node))

    def _leaf(self, leaf: Tensor) -> int:
        name = name_of(leaf)
        called = _Called("leaf") if name is None else _Called.of(name)
        return self.leaves.number(leaf, _type(leaf._type), called)

    def _operation(
        self, node: OperationNode, source: Source | None, known_numbers: Mapping[int, int] | None = None
    ) -> list[int]:
        """Emit an operation of the table; ``known_numbers`` has the numbers of operands that need no lookup."""
        graph = node.plan.graph
        known_numbers = {} if known_numbers is None else known_numbers
        args = [
            known_numbers[node.plan.named_operands[index][0]]
            if node.plan.named_operands[index][0] in known_numbers
            else self._operand(node, index, type)
            for index, type in enumerate(graph.in_types)
        ]
        return self.builder.splice(graph, args, source)

    def _write(self, node: CopySlices, function: OperationNode, source: Source | None) -> list[int]:
        """Emit an in-place operation on a view: the part of the base, its new elements, and the base with these."""
        edge, type = node.next_edges[0], node.out_types[0]
        base = (
            self.data.number(None, _type(type), _Called(f"base of {function.plan.operation.name}"))
            if edge is None
            else self.made[edge[0]][edge[1]]
        )
        start, params = split_offset(node.base, node.view)
        part = AS_STRIDED.planned((type, int), params, None).graph
        at = self.builder.const(Const(np.asarray(start, part.in_types[1].dtype), part.in_types[1]))
        (old,) = self.builder.splice(part, [base, at], source)
        (new,) = self._operation(function, source, {function.plan.edges[0][0]: old})
        put = AS_STRIDED_SCATTER.planned((type, function.plan.out_types[0], int), params, None).graph
        return self.builder.splice(put, [base, new, at], source)

    def _named_call(self, node: Node, args: Sequence[int], source: Source | None) -> Sequence[int]:
        """Emit a node with only its name and types known."""
        edges = [edge for edge in node.next_edges if edge is not None]
        saved: list[Any] = []
        for each in getattr(node, "_saved", ()):
            tensor = each.tensor if isinstance(each, SavedTensor) else None
            if tensor is None:
                continue
            result_edge = gradient_edge(tensor)
            if result_edge in edges:
                saved.append(edges.index(result_edge))
            elif result_edge is not None and result_edge[0] is node:
                saved.append(len(args) + result_edge[1])
            else:
                saved.append(_type(tensor._type))
        results = [_type(type) for type in node.out_types if type is not None]
        params = {"label": node_name(node).removesuffix("Backward"), "results": tuple(results), "saved": tuple(saved)}
        op = intern(named_call, params, [self.builder.types[i] for i in args])
        first = self.builder.emit(op, tuple(args), source)
        results_from = iter(range(first, first + len(results)))
        return [-1 if type is None else next(results_from) for type in node.out_types]

    def _operand(self, node: OperationNode, index: int, type: ShapedArray) -> int:
        plan, pullback = node.plan, node.pullback
        operand, name = plan.named_operands[index]
        for (i, _), edge in zip(plan.edges, node.next_edges, strict=False):
            if i == operand and edge is not None:
                return self.made[edge[0]][edge[1]]
        if operand in plan.numbers:
            number = node.numbers[plan.numbers.index(operand)]
            return self.builder.const(Const(np.asarray(number, type.dtype), type))
        saved = node.saved[pullback.inputs.index(index)] if index in pullback.inputs else None
        tensor = saved.tensor if isinstance(saved, SavedTensor) else None
        if tensor is None:
            stored = name_of_node(node)
            return self.data.number(None, type, _Called(f"{name} of {stored or plan.operation.name}"))
        key = (id(tensor._storage), tensor._counter.value, str(tensor._geometry_of()))
        user_name = name_of(tensor)
        called = _Called(f"{name} of {plan.operation.name}") if user_name is None else _Called.of(user_name)
        return self.data.number(key, type, called)


def _type(type: TensorType) -> ShapedArray:
    return ShapedArray(type.shape, type.dtype.numpy)
