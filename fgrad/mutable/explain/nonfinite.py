"""The source of a NaN or Inf in a tensor with a history.

NOTE [What a history knows]
A node saves only what its derivative reads.  From the saved values, the leaves and the result itself, forward is
recomputed as far as possible; where an operand was not saved, the value that a later node has saved is used.  Then
backward runs on these values, without hooks and without writing to any ``.grad``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from fgrad.mutable.backward.accumulate import validated
from fgrad.mutable.backward.engine import GraphTask
from fgrad.mutable.backward.order import order
from fgrad.mutable.context.modes import enable_grad, modes, no_grad
from fgrad.mutable.explain.names import location, module_path, name_of, name_of_node, names_of_results
from fgrad.mutable.explain.wording import check_tensor, operation_of
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.plan import NOTHING
from fgrad.mutable.tensor.node import Edge, Node, node_name
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_edge, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.seam import (
    Event,
    Execution,
    Frame,
    Graph,
    Node as GraphNode,
    Nonfinite,
    Run,
    Source,
    diagnosed,
    main_event,
    quietly,
    with_x64,
)


def nonfinite(loss: Tensor) -> Nonfinite:
    """Find where a NaN or Inf in a tensor, or in the gradients of its sum, comes from.

    No ``.grad`` is written and no hook runs.  Call it before ``backward``, or after one that retains the graph.

    Returns:
      As ``fgrad.nonfinite``: the first operation, forward or backward, that produced it from finite numbers, with its
      line, these numbers, the path from there to the result, and, if forward can be recomputed, a fix that was tried.
      It is false if everything is finite.

    Raises:
      RuntimeError: a backward has freed the saved values.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([4., 0.], requires_grad=True)
    >>> loss = torch.where(x > 0, x.sqrt(), 0.).sum()
    >>> cause = torch.nonfinite(loss)
    >>> cause.phase, cause.operation, cause.places[0].index, cause.mend.checked
    ('backward', 'sqrt', (1,), True)
    >>> x.grad is None
    True
    """
    check_tensor(loss, "nonfinite")
    return with_x64(quietly, _answer, loss, name_of(loss))


def _answer(loss: Tensor, name: str | None) -> Nonfinite:
    called = _bare(name) or "the result"
    edge = gradient_edge(loss)
    if edge is None:
        return _without_history(loss, called)
    history = History([(edge, None)], {edge: loss._value()}, called)
    run = history.run({})
    assert run is not None
    return history.with_details(diagnosed(run, history.run, "torch", f"the values, and the gradient of {called}"))


def explained(task: GraphTask) -> str:
    """Where a NaN in the running backward comes from; empty if that cannot be determined."""
    called = name_of_node(task.roots[0][0][0]) or "the result"

    def explain() -> Nonfinite:
        history = History(task.roots, {}, called)
        run = history.run({})
        assert run is not None
        return history.with_details(diagnosed(run, history.run, "torch", ""))

    try:
        with _unwatched():
            explanation = with_x64(quietly, explain)
    except Exception:  # an error that cannot be explained is raised unchanged
        return ""
    return str(explanation) if explanation else ""


class _unwatched:
    """A block in which operations are not recorded, with anomaly mode off."""

    def __enter__(self) -> None:
        self.before = modes.anomaly, modes.grad
        modes.anomaly, modes.grad = False, False

    def __exit__(self, *raised: Any) -> None:
        modes.anomaly, modes.grad = self.before


def _without_history(loss: Tensor, called: str) -> Nonfinite:
    """What is known of a tensor that no recorded operation made."""
    execution = Execution()
    cell = execution.cell(loss._value())
    run = Run(execution, [(called, cell)], 1, {cell: called}, frozenset([cell]))
    return diagnosed(run, None, "torch", f"{called}, which has no history")


def _bare(name: str | None) -> str | None:
    """A name from a message as a path: ``net.0.weight`` for ``'0.weight' of 'net'``."""
    if name is None:
        return None
    inside, of, outer = name.replace("'", "").partition(" of ")
    return f"{outer}.{inside}" if of and not inside.startswith("a view") else inside + of + outer


def _unknown(values: Sequence[Any]) -> Sequence[Any]:
    raise NotImplementedError("an operation of which only the results are known cannot be run")


class History:
    """The computation of a tensor, ready to be run again."""

    def __init__(self, roots: Sequence[tuple[Edge, Tensor | None]], gradients: dict[Edge, Any], called: str):
        self.called = called
        #: where gradients start; ones by default
        self.roots: Sequence[tuple[Edge, Tensor | None]] = roots
        #: in the engine's order, last first
        self.nodes: list[Node] = order([edge[0] for edge, _ in roots])
        #: the variables that their results were stored in
        self.called_by: dict[Node, str] = names_of_results(self.nodes)
        #: what is known of the outputs of nodes
        self.known: dict[Edge, Any] = gradients
        #: what each operation saved, of its operands (by position) and of its results
        self.operands: dict[Node, dict[int, Any]] = {}
        self.results: dict[Node, dict[int, Any]] = {}
        #: names of operands without history
        self.names: dict[Edge, str] = {}
        #: by name, nodes outside the table whose own backward produced a NaN or Inf
        self.inside: dict[str, Nonfinite] = {}
        #: the graph of each operation, with unshared nodes
        self.graphs: dict[Node, Graph] = {}
        for node in self.nodes:
            if isinstance(node, OperationNode):
                self._read(node)

    def _read(self, node: OperationNode) -> None:
        if node.released and node.saved:
            where = f" by the backward at {location(node.released)}" if isinstance(node.released, tuple) else ""
            raise RuntimeError(
                f"nonfinite reads the values that were saved for backward, and those of {node.plan.operation.name}, "
                f"at {location(node._source)}, were freed{where}. Way out: call it before backward(), or call "
                "backward(retain_graph=True)."
            )
        graph, pullback = node.plan.graph, node.pullback
        # an operation that ran twice has one graph, but two nodes that may be replaced independently
        nodes = tuple([GraphNode(each.op, each.inputs) for each in graph.nodes])
        self.graphs[node] = Graph(graph.in_types, graph.consts, nodes, graph.outputs)
        edges = _edges(node)
        operands = self.operands[node] = dict(zip(_number_positions(node), node.numbers, strict=True))
        results = self.results[node] = {}
        count = len(pullback.inputs)
        for k, saved in enumerate(node.saved):
            value = _saved_value(saved, node)
            if value is None:
                continue
            if k >= count:
                output = pullback.outputs[k - count]
                results[output] = self.known[node, output] = value
                continue
            at = pullback.inputs[k]
            operands[at] = value
            if (edge := edges.get(at)) is not None:
                self.known.setdefault(edge, value)
            elif isinstance(saved, SavedTensor) and saved.tensor is not None:
                self.names[node, at] = _bare(name_of(saved.tensor)) or saved.name
        # a saved result has the value it was saved with, whatever was written since

    def with_details(self, answer: Nonfinite) -> Nonfinite:
        """The answer, with details from inside the responsible node."""
        inner = self.inside.get(answer.operation or "")
        if inner is None or not inner or answer.phase != "backward":
            return answer
        return evolve(
            answer,
            source=inner.source,
            places=inner.places,
            count=inner.count,
            reason=f"{inner.operation}: {inner.reason}" if inner.reason else f"it is made by {inner.operation}",
            mend=inner.mend,
        )

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, replaced: Mapping[int, Graph]) -> Run | None:
        """Run forward and backward; with replaced nodes, None if what follows them cannot be run again."""
        return _HistoryRun(self, replaced).finished()


class _HistoryRun:
    """One run of a history."""

    def __init__(self, history: History, replaced: Mapping[int, Graph]):
        self.history = history
        self.replaced = replaced
        self.execution = Execution((), replaced)
        self.cells: dict[Edge, int] = {}
        self.frames: dict[Node, Frame] = {}
        self.events: dict[Node, Event] = {}
        self.names: dict[int, str] = {}
        self.given: set[int] = set()
        #: the nodes that depend on what was replaced
        self.changed: set[Node] = set()

    def finished(self) -> Run | None:
        """Forward and backward."""
        for node in reversed(self.history.nodes):
            if not self._forward(node):
                return None
        values = self._values()
        gradients = [(f"d {self.history.called} / d {name}", cell) for name, cell in self._backward()]
        return Run(self.execution, [*values, *gradients], len(values), self.names, frozenset(self.given))

    def forward_alone(self) -> Run:
        """Forward, with nothing replaced."""
        for node in reversed(self.history.nodes):
            self._forward(node)
        values = self._values()
        return Run(self.execution, values, len(values), self.names, frozenset(self.given))

    def _values(self) -> list[tuple[str, int]]:
        values: list[tuple[str, int]] = []
        for edge, _ in self.history.roots:
            if edge in self.cells:
                self.names.setdefault(self.cells[edge], self.history.called)
                values.append((self.history.called, self.cells[edge]))
        return values

    def _forward(self, node: Node) -> bool:
        """Run a node's operation, or use its known results; returns whether the results are right."""
        history, execution = self.history, self.execution
        if isinstance(node, AccumulateGrad):
            cell = self.cells[node, 0] = execution.cell(node.variable._value())
            self.names[cell] = _bare(name_of(node.variable)) or "a leaf"
            self.given.add(cell)
            return True
        source = None if node._source is None else Source(*node._source)
        origin: dict[str, Any] = {"called": operation_of(node), "source": source, "scope": module_path(node)}
        frame = Frame(Graph((), (), (), ()), [], **origin)
        if isinstance(node, OperationNode):
            reads = self._reads(node)
            changed = any(edge is not None and edge[0] in self.changed for edge in node.next_edges)
            if changed or self._is_replaced(node):
                self.changed.add(node)
            if None not in reads:
                graph = history.graphs[node]
                outer = Event(None, _unknown, tuple(reads), (), source, frame, None, None, len(execution.events), graph)  # type: ignore[arg-type]
                graph = self.replaced.get(id(graph), graph)
                frame = execution.run(graph, reads, as_event=outer, **origin)  # type: ignore[arg-type]
                outer.frame, outer.writes = frame, tuple(frame.outputs())
                self.frames[node] = frame
                for k, cell in enumerate(frame.outputs()):
                    self.cells[node, k] = cell
                event = main_event(execution, frame)
                if event is not None:
                    self.events[node] = event
                    self._name(node)
                    return True
        number = len(execution.events)
        self.events[node] = event = Event(None, _unknown, (), (), source, frame, None, None, number)
        if node not in self.frames:
            for k in range(len(node.out_types)):
                if (node, k) in history.known:
                    self.cells[node, k] = execution.result(event, history.known[node, k])
            event.writes = tuple([cell for (at, _), cell in self.cells.items() if at is node])
        self._name(node)
        after = any(edge is not None and edge[0] in self.changed for edge in node.next_edges)
        return node in self.frames or not (after or node in self.changed)

    def _is_replaced(self, node: OperationNode) -> bool:
        graph = self.history.graphs[node]
        return id(graph) in self.replaced or any(id(each) in self.replaced for each in graph.nodes)

    def _name(self, node: Node) -> None:
        name = self.history.called_by.get(node)
        if name is not None and (node, 0) in self.cells:
            self.names.setdefault(self.cells[node, 0], name)

    def _reads(self, node: OperationNode) -> list[int | None]:
        """The cells of an operation's operands, None for unknown ones."""
        history, execution = self.history, self.execution
        edges, operands = _edges(node), history.operands[node]
        reads: list[int | None] = []
        for at, type in enumerate(history.graphs[node].in_types):
            edge = edges.get(at)
            cell = None if edge is None else self.cells.get(edge)
            if cell is not None and not (self.replaced or _agrees(execution, cell, operands.get(at))):
                cell = None  # written since, bypassing the version counter
            if cell is None and at in operands:
                value = operands[at]
                cell = execution.cell(
                    np.asarray(value, type.dtype) if isinstance(value, int | float | complex) else value
                )
                name = history.names.get((node, at))
                if name is not None:
                    self.names[cell] = name
                    self.given.add(cell)
            reads.append(cell)
        return reads

    # -- backward ----------------------------------------------------------------------------------------------------

    def _backward(self) -> list[tuple[str, int]]:
        """The gradients of the leaves, with their names."""
        history, execution = self.history, self.execution
        buffers: dict[Edge, int] = {}
        for edge, grad in history.roots:
            type = edge[0].out_types[edge[1]]
            value = np.ones(type.shape, type.dtype.numpy) if grad is None else grad._value()
            buffers[edge] = execution.cell(value)
        gradients: list[tuple[str, int]] = []
        for node in history.nodes:
            grads = [buffers.get((node, k)) for k in range(len(node.out_types))]
            if isinstance(node, AccumulateGrad):
                if grads[0] is not None:
                    gradients.append((self.names[self.cells[node, 0]], grads[0]))
                continue
            if all(grad is None for grad in grads):
                continue
            for edge, cell in zip(node.next_edges, self._pulled(node, grads), strict=False):
                if edge is None or cell is None:
                    continue
                buffer = buffers.get(edge)
                event = self.events[node]
                buffers[edge] = cell if buffer is None else execution.total(buffer, cell, event.frame, event)
        return gradients

    def _pulled(self, node: Node, grads: Sequence[int | None]) -> Sequence[int | None]:
        if not isinstance(node, OperationNode) or not type(node).fusible:
            return self._applied(node, grads)
        plan, pullback, execution = node.plan, node.pullback, self.execution
        if pullback is NOTHING:
            return [None] * len(node.next_edges)
        cotangents = [self._or_zeros(node, k, grads[k]) for k in plan.inexact]
        if self._is_replaced(node):
            frame = self.frames[node]
            seeds = [(frame.graph.outputs[k], cell) for k, cell in zip(plan.inexact, cotangents, strict=True)]
            cts = execution.pull(frame, seeds, list(pullback.wrt))
            input_grads: list[int | None] = [cts.get(at) for at in pullback.wrt]
        else:
            input_grads = list(
                execution.run(pullback.routine.graph, [*self._saved(node), *cotangents], self.events[node]).outputs()
            )
        if len(input_grads) == len(node.next_edges):
            return input_grads
        rest = iter(input_grads)
        return [None if edge is None else next(rest) for edge in node.next_edges]

    def _saved(self, node: OperationNode) -> list[int]:
        """The cells that the pull-back reads: those of forward if they still hold what was saved."""
        history = self.history
        frame = self.frames.get(node)
        edges = _edges(node)
        saved_cells = []
        for at in node.pullback.inputs:
            edge = edges.get(at)
            cell = frame.cells[at] if frame is not None else self.cells.get(edge) if edge is not None else None
            saved_cells.append(self._cell_of(cell, history.operands[node].get(at)))
        for k in node.pullback.outputs:
            saved_cells.append(self._cell_of(self.cells.get((node, k)), history.results[node].get(k)))
        return saved_cells

    def _cell_of(self, cell: int | None, value: Any) -> int:
        if cell is not None and (self.replaced or _agrees(self.execution, cell, value)):
            return cell
        return self.execution.cell(value)

    def _or_zeros(self, node: Node, k: int, cell: int | None) -> int:
        type = node.out_types[k]
        return self.execution.cell(np.zeros(type.shape, type.dtype.numpy)) if cell is None else cell

    def _applied(self, node: Node, grads: Sequence[int | None]) -> Sequence[int | None]:
        """The gradients of a node that is not an operation of the table, such as a custom Function's."""
        values = self.execution.values
        arrays = [None if cell is None else values[cell] for cell in grads]
        tensors = [None if x is None else new_tensor(x, type_of(x)) for x in arrays]
        with no_grad():
            input_grads = validated(node, node.apply(tensors))
        of = self.events[node]
        reads = tuple([cell for cell in grads if cell is not None])
        event = Event(None, _unknown, reads, (), of.source, of.frame, None, of, len(self.execution.events))
        self.execution.events.append(event)
        cells = [None if grad is None else self.execution.result(event, grad._value()) for grad in input_grads]
        event.writes = tuple([cell for cell in cells if cell is not None])
        bad = next((i for i, cell in enumerate(cells) if cell is not None and not self.execution.is_finite(cell)), None)
        if bad is not None and all(map(self.execution.is_finite, reads)):
            self._look_inside(node, tensors, bad)
        return cells

    def _look_inside(self, node: Node, grads: Sequence[Tensor | None], index: int) -> None:
        """Run a node's backward again, recorded, and find the responsible operation in it."""
        for grad in grads:
            if grad is not None:
                grad._requires_grad = grad._type.inexact
        with enable_grad():
            gradient = node.apply(grads)[index]
        edge = None if gradient is None else gradient_edge(gradient)
        if edge is None or gradient is None:
            return
        run = _HistoryRun(History([(edge, None)], {edge: gradient._value()}, "the gradient"), {}).forward_alone()
        self.history.inside[node_name(node)] = diagnosed(run, None, "torch", "")


def _edges(node: OperationNode) -> dict[int, Edge]:
    """The edges of an operation's operands, by position among those present."""
    if len(node.next_edges) != len(node.plan.edges):
        return {}
    pairs = zip(node.plan.edges, node.next_edges, strict=True)
    return {at: edge for (_, at), edge in pairs if edge is not None and at is not None}


def _number_positions(node: OperationNode) -> list[int]:
    """The positions of the operands that are Python numbers."""
    present = node.plan.present
    return [present.index(i) for i in node.plan.numbers] if node.numbers else []


def _saved_value(saved: Any, node: Node) -> Any:
    """The array that was saved; None if it was written since."""
    if not isinstance(saved, SavedTensor):
        return saved
    if saved.array is None and saved.hooks is None:
        tensor = saved.tensor
        return None if tensor is None or tensor._counter.value != saved.version else tensor._value()
    return saved.value(node)


def _agrees(execution: Execution, cell: int, value: Any) -> bool:
    """Whether a cell holds what was saved, if anything was."""
    if value is None or isinstance(value, int | float | complex):
        return True
    computed, other = np.asarray(execution.values[cell]), np.asarray(value)
    return computed is other or (
        computed.shape == other.shape and np.allclose(computed, other, 1e-3, 1e-6, equal_nan=True)
    )
