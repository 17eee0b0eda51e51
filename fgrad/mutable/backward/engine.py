"""The engine: walks the backward graph from its roots, and adds up, hooks, captures and accumulates gradients.

Longer than most files: it is one loop and what each of its steps does.  The order of nodes, the calls of hooks and
backwards that run as one program stand in files of their own.

NOTE [Hook order]
For each node, in this order: hooks of the tensors that it made, in order of registration; then what retains their
gradients, so that ``.grad`` holds what the hooks returned; then the node's pre-hooks; the node itself; its post-hooks.
A leaf's tensor hooks run before its ``AccumulateGrad``, post-accumulate hooks after ``.grad`` is set.  A gradient that
``autograd.grad`` captures is taken as it comes in if the node has to run too, and after the tensor's hooks if not
(PyTorch: "Backward Hooks execution order", and what 2.13 does).

NOTE [Order of nodes]
Of the nodes that are ready the one made last runs first, and ``AccumulateGrad`` before all.  A node is ready when
every node that sends to it has run.  Nothing recurses: a chain of a million nodes is a loop of a million steps.

Several ``AccumulateGrad`` come in the order in which a binary heap gives equals back.  Python's and libstdc++'s, which
is PyTorch's, sift alike, so nothing but the sequence number is compared.
"""

import heapq
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.backward.fused_backward import described
from fgrad.mutable.backward.run_hooks import post_hooks, pre_hooks, tensor_hooks
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints, contiguous_strides, is_dense
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import OperationNode, zeros
from fgrad.mutable.operation.reduction import ADD, CAST, COPY, SUM_TO
from fgrad.mutable.tensor.node import Edge, Node
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, alias, beside, gradient_function, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.values.device_of_value import elsewhere
from fgrad.seam import here

CAPTURED = (
    "functionalize: backward() inside the function would set the .grad of a tensor from outside. Pass the tensor as an "
    "argument, or say with inputs= which gradients are wanted."
)


_numbers = itertools.count()


class GraphTask:
    """One call of backward: what is waiting, what is wanted, and what is called at its end."""

    __slots__ = (
        "buffers",
        "dependencies",
        "captures",
        "needed",
        "callbacks",
        "keep",
        "number",
        "node",
        "nodes",
        "notes",
        "source",
        "roots",
        "held",
    )

    def __init__(self, keep: bool):
        self.buffers: dict[Node, list[Tensor | None]] = {}
        self.dependencies: dict[Node, int] = {}
        #: for ``inputs=``: (output number, place in the result) of what is captured at a node
        self.captures: dict[Node, list[tuple[int, int]]] | None = None
        #: for ``inputs=``: the nodes that must run
        self.needed: set[Node] | None = None
        self.callbacks: list[Callable[[], Any]] = []
        self.keep: bool = keep
        self.number: int = next(_numbers)
        #: the user's line that called backward
        self.source: Any = here(3)
        self.node: Node | None = None
        #: every node of the graph, for multi-grad hooks
        self.nodes: set[Node] = set()
        #: where gradients start, with these; and in anomaly mode the nodes to let go of at the end
        self.roots: Sequence[tuple[Edge, Tensor | None]] = ()
        self.held: list[Node] = []
        #: what multi-grad hooks note during this backward
        self.notes: dict[Any, Any] = {}

    def runs(self, node: Node) -> bool:
        """Whether a node gets its gradient in this backward."""
        if node not in self.nodes:
            return False
        return self.needed is None or node in self.needed or node in (self.captures or ())


class Ready(float):
    """A node that waits for nothing, as a heap orders it."""

    __slots__ = ("node",)
    node: Node


def push(ready: list[Ready], node: Node) -> None:
    entry = Ready(-node.sequence)
    entry.node = node
    heapq.heappush(ready, entry)


#: how many calls of backward, each from within the last, share a thread
DEEPEST = 16


class _Running(threading.local):
    """The tasks that this thread is in, the innermost last: backward may be called from a hook."""

    tasks: tuple[GraphTask, ...] = ()


running: _Running = _Running()


class _Anomaly:
    """What an error in backward is told of the forward call, in anomaly mode."""

    report: Any = staticmethod(lambda node: None)
    #: where a NaN in this backward comes from, as a text; ``fgrad.mutable.explain.nonfinite`` enters it
    explain: Any = staticmethod(lambda task: "")


anomaly: _Anomaly = _Anomaly()


class _Explanation:
    """What lengthens an error of backward; ``fgrad.mutable.explain.backward_errors`` enters it when it is defined."""

    raised: Any = staticmethod(lambda error, node, asked: None)


explanation: _Explanation = _Explanation()


def run_backward(
    roots: Sequence[tuple[Edge, Tensor | None]],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Edge | None] | None,
    accumulate: bool,
) -> list[Tensor | None]:
    """Send gradients from roots down the graph.

    Arguments:
      roots: an edge and its gradient each.
      inputs: capture (or, with ``accumulate``, accumulate) at these edges only, and run no node that does not lead to
        one; None runs everything.

    Returns:
      With ``inputs`` and not ``accumulate``, the captured gradients.
    """
    if len(running.tasks) >= DEEPEST:
        return on_fresh_stack(lambda: run_backward(roots, keep_graph, create_graph, inputs, accumulate))
    task = GraphTask(keep_graph)
    task.roots = roots
    graph = described(roots) if accumulate and inputs is None and not create_graph else None
    if graph is not None and graph.run(keep_graph, task.source):
        return []
    count_dependencies(task, [edge[0] for edge, _ in roots])
    captured: list[Tensor | None] = []
    if inputs is not None:
        captured = [None] * len(inputs)
        find_needed(task, inputs, accumulate)
    for (node, number), grad in roots:
        type = node.out_types[number]
        if grad is not None and grad._type.dtype is not type.dtype:
            grad = apply(CAST, (grad,), (type.dtype,))
        receive(task, node, number, grad)
    ready: list[Ready] = []
    for node in dict.fromkeys(edge[0] for edge, _ in roots):
        if not task.dependencies.get(node):
            push(ready, node)
    before = running.tasks
    grad_mode, differentiated = modes.grad, modes.differentiated
    try:
        running.tasks = (*before, task)
        modes.grad, modes.differentiated = create_graph, True
        _walk(task, ready, captured)  # a call: see NOTE [Signals]
    finally:
        modes.grad, modes.differentiated = grad_mode, differentiated
        running.tasks = before
        for node in task.held:
            node.release(task.source)
    if graph is not None:
        graph.note()
    return captured


def _walk(task: GraphTask, ready: list[Any], captured: list[Tensor | None]) -> None:
    """Take the nodes that are ready, the latest first, until none is left; then what was asked to be called last."""
    while ready:
        node = heapq.heappop(ready).node
        task.node = node
        try:
            found = step(task, node, task.buffers.pop(node, None), captured)
        except Exception as error:
            explanation.raised(error, node, task.source)
            raise
        for edge, grad in zip(node.next_edges, found, strict=False) if found is not None else ():
            if edge is None:
                continue
            following, number = edge
            if task.needed is not None and following not in task.needed and following not in (task.captures or ()):
                continue
            if grad is not None or following in task.dependencies:
                receive(task, following, number, grad)
            waiting = task.dependencies[following] - 1
            task.dependencies[following] = waiting
            if not waiting:
                push(ready, following)
    for callback in task.callbacks:
        callback()


def on_fresh_stack(run: Callable[[], list[Tensor | None]]) -> list[Tensor | None]:
    """Run on a thread of its own, in this thread's modes, and wait: Python's stack is bounded for each thread.

    PyTorch does the same with backward called from backward (torch/csrc/autograd/engine.cpp, "Reentrant backwards").
    """
    found: list[list[Tensor | None]] = []
    raised: list[BaseException] = []
    settings = dict(vars(modes))

    def work() -> None:
        vars(modes).update(settings)
        try:
            found.append(run())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def count_dependencies(task: GraphTask, roots: Sequence[Node]) -> None:
    """How many edges lead to each node that can be reached."""
    seen = set(roots)
    stack = list(seen)
    dependencies = task.dependencies
    while stack:
        for edge in stack.pop().next_edges:
            if edge is not None:
                following = edge[0]
                dependencies[following] = dependencies.get(following, 0) + 1
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
    task.nodes = seen


def find_needed(task: GraphTask, inputs: Sequence[Edge | None], accumulate: bool) -> None:
    """Which nodes lead to a wanted edge; what is captured at which."""
    captures: dict[Node, list[tuple[int, int]]] = {}
    needed: set[Node] = set()
    for place, edge in enumerate(inputs):
        if edge is None:
            continue
        node, number = edge
        if accumulate:
            needed.add(node)
        else:
            captures.setdefault(node, []).append((number, place))
    targets = needed | set(captures)
    leading: dict[Node, list[Node]] = {}
    for node in task.nodes:
        for edge in node.next_edges:
            if edge is not None:
                leading.setdefault(edge[0], []).append(node)
    stack = [node for node in targets if node in task.nodes]
    while stack:
        for node in leading.get(stack.pop(), ()):
            if node not in needed:
                needed.add(node)
                stack.append(node)
    task.needed, task.captures = needed, captures


def receive(task: GraphTask, node: Node, number: int, grad: Tensor | None) -> None:
    """Add a gradient to those that wait at a node."""
    buffer = task.buffers.get(node)
    if buffer is None:
        buffer = task.buffers[node] = [None] * max(len(node.out_types), number + 1)
    if grad is not None:
        old = buffer[number]
        if old is None:
            buffer[number] = grad
        elif not modes.grad and is_ours(old):
            old._overwrite(apply(ADD, (old, grad))._value(), "add_", None)
        else:
            buffer[number] = apply(ADD, (old, grad))


def is_ours(grad: Tensor) -> bool:
    """Whether nobody but the engine holds a waiting gradient or its memory, so that a sum may be written into it.

    PyTorch adds in place then (torch/csrc/autograd/input_buffer.cpp), which versions of captured gradients show.
    """
    # references to the tensor: the buffer, the caller's variable, the parameter, the argument below
    lone = grad._geometry is None and sys.getrefcount(grad) <= 4 and sys.getrefcount(grad._storage) <= 2
    return lone and not grad._tangents


def step(
    task: GraphTask, node: Node, buffer: list[Tensor | None] | None, captured: list[Tensor | None]
) -> Sequence[Tensor | None] | None:
    """Run one node with its hooks; the gradients for its edges, or None if it does not run."""
    grads: list[Tensor | None] = [None] * len(node.out_types) if buffer is None else buffer
    runs = task.needed is None or node in task.needed
    if not runs:
        grads = tensor_hooks(node, grads)
    if task.captures is not None and node in task.captures:
        for number, place in task.captures[node]:
            captured[place] = grads[number]
    if not runs:
        return None
    grads = tensor_hooks(node, [*grads])
    if node.pre_hooks:
        grads = pre_hooks(node, grads)
    before = modes.evaluating
    try:
        modes.evaluating = node
        if isinstance(node, AccumulateGrad):
            accumulate_grad(node.variable, grads[0])
            found: Sequence[Tensor | None] = ()
        else:
            found = node.apply(grads)
    except Exception:
        anomaly.report(node)
        raise
    finally:
        modes.evaluating = before
    if found:
        found = validated(node, found)
    if node.post_hooks:
        if task.needed is not None and isinstance(node, OperationNode):
            found = asked_for(task, node, found)
        found = post_hooks(node, found, grads)
    if modes.anomaly and modes.check_nan:
        if not task.keep:
            task.held.append(node)  # what it saved tells where a NaN comes from
        check_nan(task, node, found)
    elif not task.keep:
        node.release(task.source)
    return found


def asked_for(task: GraphTask, node: OperationNode, found: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients that somebody wants: PyTorch computes no others, which the node's hooks see.

    Those of a sequence of tensors (``cat``) are computed together.
    """
    wanted = [edge is not None and task.runs(edge[0]) for edge in node.next_edges]
    last = len(node.plan.operation.operands) - 1
    wanted[last:] = [any(wanted[last:])] * len(wanted[last:])
    return [g if w else None for g, w in zip(found, wanted, strict=True)]


def validated(node: Node, found: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Gradients made to fit the tensors that they go to: summed over broadcast axes, in their type."""
    edges = node.next_edges
    if len(found) != len(edges):
        raise RuntimeError(
            f"{node.name()} returned an incorrect number of gradients (expected {len(edges)}, got {len(found)})"
        )
    for i, (edge, grad) in enumerate(zip(edges, found, strict=True)):
        if edge is None or grad is None:
            continue
        type = edge[0].out_types[edge[1]]
        if grad._type is not type:
            found = [*found[:i], fitted(node, i, grad, type), *found[i + 1 :]]
    return found


def fitted(node: Node, place: int, grad: Tensor, type: TensorType) -> Tensor:
    shape = grad._type.shape
    if shape != type.shape:
        if not expands_to(type.shape, shape):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {place} - got {list(shape)} but "
                f"expected shape compatible with {list(type.shape)}"
            )
        grad = apply(SUM_TO, (grad,), (type.shape,))
    return grad if grad._type.dtype is type.dtype else apply(CAST, (grad,), (type.dtype,))


def expands_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another."""
    if len(shape) > len(desired):
        return False
    return all(a in (b, 1) for a, b in zip(reversed(shape), reversed(desired), strict=False))


def accumulate_grad(leaf: Tensor, grad: Tensor | None) -> None:
    """Add a gradient to a leaf's ``.grad``: in place, unless the sum is itself recorded; then run its hooks."""
    if grad is None:
        return
    if modes.level:
        if leaf._level < modes.capture:
            raise RuntimeError(CAPTURED)
        if modes.capturing is not None:
            modes.capturing.meet(leaf)
    if gradient_function(leaf) is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if elsewhere.exist:
        grad = beside(leaf, grad)
    old = leaf._grad
    if not is_tracked(leaf):
        pass  # a leaf that requires grad no more takes none, yet its hooks run
    elif old is None:
        leaf._grad = copied(grad, layout(leaf)) if modes.grad else kept(grad, layout(leaf))
    elif not modes.grad:
        old._overwrite(apply(ADD, (old, grad))._value(), "add_", None)
    else:
        leaf._grad = apply(ADD, (old, grad))
    for hook in list((leaf._post_accumulate_grad_hooks or {}).values()):
        found = hook(leaf)
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{found.__class__.__name__}'")
        if found is not None and found is not leaf:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def layout(leaf: Tensor) -> Ints:
    """The strides of a leaf's ``.grad``: its own if it leaves no gaps, else row-major.

    Source: PyTorch: torch/csrc/autograd/functions/accumulate_grad.h, "Gradient Layout Contract".
    """
    g = leaf._geometry_of()
    return g.strides if is_dense(g.sizes, g.strides) else contiguous_strides(g.sizes)


def copied(grad: Tensor, strides: Ints) -> Tensor:
    """A gradient to keep as ``.grad`` that can be differentiated: a tensor into which it was copied."""
    target = new_tensor(zeros(grad._type)._value(), grad._type, strides)
    made = apply(COPY, (target, grad))
    made._bump("copy_", None)
    return made


def kept(grad: Tensor, strides: Ints) -> Tensor:
    """A gradient to keep as ``.grad``: the tensor that came in if nobody else holds it, else a copy.

    The array is immutable, so that the copy is a new storage only.
    """
    # references: two lists and two variables of the engine, the parameter, the argument below
    if sys.getrefcount(grad) <= 6 and grad._geometry is None and sys.getrefcount(grad._storage) <= 2:
        given = grad._geometry_of()
        if all(n == 1 or s == t for n, s, t in zip(given.sizes, given.strides, strides, strict=True)):
            return alias(grad)
    return new_tensor(grad._value(), grad._type, strides)


def check_nan(task: GraphTask, node: Node, found: Sequence[Tensor | None]) -> None:
    for i, grad in enumerate(found):
        if (
            grad is not None
            and grad._type.inexact
            and bool(np.isnan(np.asarray(grad._value()).astype(np.complex128)).any())
        ):
            anomaly.report(node)
            text = f"Function '{node.name()}' returned nan values in its {i}th output."
            raise RuntimeError("\n\n".join(filter(None, (text, anomaly.explain(task)))))


def call(node: Node, *grads: Any, **named: Any) -> Any:
    """Run a node by itself, without its hooks: gradients of its outputs to gradients of its inputs."""
    if named:
        raise TypeError("keyword arguments are not supported")
    if len(grads) != len(node.out_types):
        raise TypeError(f"expected {len(node.out_types)} arguments, got {len(grads)} instead")
    for i, grad in enumerate(grads):
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"argument {i} is not a Variable")
    if isinstance(node, AccumulateGrad):
        accumulate_grad(node.variable, grads[0])
        return ()
    found = node.apply(grads)
    return found[0] if len(found) == 1 else tuple(found)


Node.__call__ = call  # type: ignore[attr-defined]


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call something when the backward that is running has ended.

    Raises:
      RuntimeError: no backward is running.
    """
    if not running.tasks:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    running.tasks[-1].callbacks.append(callback)
