"""The engine: walks the backward graph from its roots; sums, captures and accumulates gradients, and runs hooks.

NOTE [Hook order]
For each node, in this order: hooks of its output tensors, in order of registration; then ``retain_grad`` of these
gradients, so that ``.grad`` holds what the hooks returned; then the node's pre-hooks; the node itself; its post-hooks.
A leaf's tensor hooks run before its ``AccumulateGrad``, post-accumulate hooks after ``.grad`` is set.  A gradient that
``autograd.grad`` captures is taken before the tensor's hooks if the node has to run too, and after them if not
(PyTorch: "Backward Hooks execution order", and what 2.13 does).

NOTE [Order of nodes]
Of the ready nodes, the most recently created runs first, and ``AccumulateGrad`` before all.  A node is ready when
every node that sends it a gradient has run.  There is no recursion: a chain of a million nodes is a loop.

Several ``AccumulateGrad`` run in the order in which a binary heap pops equal keys.  Python's heap agrees in this with
libstdc++'s, which PyTorch uses, so only the sequence number is compared.
"""

import heapq
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.backward.accumulate import REFERENCES, accumulate_grad, cast, type_at, validated
from fgrad.mutable.backward.fused_backward import fusible_backward
from fgrad.mutable.backward.run_hooks import post_hooks, pre_hooks, tensor_hooks
from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import mismatch
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.reduction import ADD
from fgrad.mutable.ports import NAN_SOURCE, RAISED
from fgrad.mutable.tensor.node import Edge, Node, forward_trace, node_name
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor
from fgrad.mutable.values.batched import unbatched
from fgrad.seam import here

_numbers = itertools.count()


class GraphTask:
    """The state of one call of backward: waiting gradients, requested captures, final callbacks."""

    __slots__ = (
        "buffers",
        "dependencies",
        "captures",
        "needed",
        "callbacks",
        "retain_graph",
        "number",
        "node",
        "nodes",
        "notes",
        "source",
        "roots",
        "released_at_end",
        "modes",
    )

    def __init__(self, retain_graph: bool):
        self.buffers: dict[Node, list[Tensor | None]] = {}
        self.dependencies: dict[Node, int] = {}
        #: for ``inputs=``: (output number, place in the result) of what is captured at a node
        self.captures: dict[Node, list[tuple[int, int]]] | None = None
        #: for ``inputs=``: the nodes that must run
        self.needed: set[Node] | None = None
        self.callbacks: list[Callable[[], Any]] = []
        self.retain_graph: bool = retain_graph
        self.number: int = next(_numbers)
        #: the user's line that called backward
        self.source: Any = here(3)
        self.node: Node | None = None
        #: every node of the graph, for multi-grad hooks
        self.nodes: set[Node] = set()
        #: where gradients start, and their initial values; in anomaly mode also the nodes to release at the end
        self.roots: Sequence[tuple[Edge, Tensor | None]] = ()
        self.released_at_end: list[Node] = []
        #: the modes of the calling thread
        self.modes: dict[str, Any] = vars(modes)
        #: what multi-grad hooks note during this backward
        self.notes: dict[Any, Any] = {}

    def runs(self, node: Node) -> bool:
        """Whether a node gets its gradient in this backward; not its only root, which has begun it."""
        if node not in self.nodes or (len(self.roots) == 1 and self.roots[0][0][0] is node):
            return False
        return self.needed is None or node in self.needed or node in (self.captures or ())


class Ready(float):
    """A ready node, as ordered by the heap."""

    __slots__ = ("node",)
    node: Node


def push(ready: list[Ready], node: Node) -> None:
    entry = Ready(-node._sequence)
    entry.node = node
    heapq.heappush(ready, entry)


#: how deeply reentrant calls of backward may nest on one thread's stack
DEEPEST = 16


class _Running(threading.local):
    """The tasks running on this thread, innermost last: backward may be called from a hook."""

    tasks: tuple[GraphTask, ...] = ()


running: _Running = _Running()


def run_backward(
    roots: Sequence[tuple[Edge, Tensor | None]],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Edge | None] | None,
    accumulate: bool,
) -> list[Tensor | None]:
    """Propagate gradients from the roots through the graph.

    Arguments:
      roots: an edge and its gradient each.
      inputs: capture (or, with ``accumulate``, accumulate) at these edges only, and run only nodes that lead to
        one; None runs everything.

    Returns:
      With ``inputs`` and not ``accumulate``, the captured gradients.
    """
    if len(running.tasks) >= DEEPEST:
        return on_fresh_stack(lambda: run_backward(roots, keep_graph, create_graph, inputs, accumulate))
    task = GraphTask(keep_graph)
    task.roots = roots
    fusible = fusible_backward(roots) if accumulate and inputs is None and not create_graph else None
    if fusible is not None and fusible.run(keep_graph, task.source):
        return []
    count_dependencies(task, [edge[0] for edge, _ in roots])
    captured: list[Tensor | None] = []
    if inputs is not None:
        captured = [None] * len(inputs)
        find_needed(task, inputs, accumulate)
    for edge, grad in roots:
        if grad is not None and grad._type.dtype is not edge[0].out_types[edge[1]].dtype:
            grad = cast(grad, type_at(edge, grad))
        receive(task, *edge, grad)
    ready: list[Ready] = []
    for node in dict.fromkeys(edge[0] for edge, _ in roots):
        if not task.dependencies.get(node):
            push(ready, node)
    before = running.tasks
    grad_mode, differentiated = modes.grad, modes.differentiated
    saved_hooks, open_blocks = modes.saved_hooks, modes.unusual
    try:
        running.tasks = (*before, task)
        task.modes.update(grad=create_graph, differentiated=True)
        _walk(task, ready, captured)  # this is a call: see NOTE [Signals]
    finally:
        running.tasks = before  # before the first call here, after which a signal may be raised
        # a hook may have entered or left a block of hooks on saved tensors
        task.modes.update(grad=grad_mode, differentiated=differentiated, saved_hooks=saved_hooks, unusual=open_blocks)
        for node in task.released_at_end:
            node._release(task.source)
    if fusible is not None:
        fusible.note()
    return captured


def _walk(task: GraphTask, ready: list[Any], captured: list[Tensor | None]) -> None:
    """Run ready nodes, the most recent first, until none is left; then the final callbacks."""
    while ready:
        node = heapq.heappop(ready).node
        task.node = node
        try:
            input_grads = step(task, node, task.buffers.pop(node, None), captured)
        except Exception as error:
            RAISED.call(error, node, task.source)
            raise
        if input_grads is None:
            continue
        sent = list(input_grads)
        del input_grads  # from here on only the buffers refer to the gradients: see ``is_exclusive``
        for k, edge in enumerate(node.next_edges[: len(sent)]):
            grad, sent[k] = sent[k], None
            if edge is None:
                continue
            following, number = edge
            if task.needed is not None and following not in task.needed and following not in (task.captures or ()):
                continue
            if grad is not None or following in task.dependencies:
                receive(task, following, number, grad)
            grad = None
            waiting = task.dependencies[following] - 1
            task.dependencies[following] = waiting
            if not waiting:
                push(ready, following)
    for callback in task.callbacks:
        callback()


def on_fresh_stack(run: Callable[[], list[Tensor | None]]) -> list[Tensor | None]:
    """Run a function on a new thread, in this thread's modes, and wait for it: each thread's stack is bounded.

    PyTorch does the same with backward called from backward (torch/csrc/autograd/engine.cpp, "Reentrant backwards").
    """
    results: list[list[Tensor | None]] = []
    raised: list[BaseException] = []
    settings = dict(vars(modes))

    def work() -> None:
        vars(modes).update(settings)
        try:
            results.append(run())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return results[0]


def count_dependencies(task: GraphTask, roots: Sequence[Node]) -> None:
    """How many edges lead to each node that can be reached."""
    visited = set(roots)
    stack = list(visited)
    dependencies = task.dependencies
    while stack:
        for edge in stack.pop().next_edges:
            if edge is not None:
                following = edge[0]
                dependencies[following] = dependencies.get(following, 0) + 1
                if following not in visited:
                    visited.add(following)
                    stack.append(following)
    task.nodes = visited


def find_needed(task: GraphTask, inputs: Sequence[Edge | None], accumulate: bool) -> None:
    """Find the nodes that lead to a requested edge, and what is captured at each."""
    captures: dict[Node, list[tuple[int, int]]] = {}
    needed: set[Node] = set()
    for index, edge in enumerate(inputs):
        if edge is None:
            continue
        node, number = edge
        if accumulate:
            needed.add(node)
        else:
            captures.setdefault(node, []).append((number, index))
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
    """Add a gradient to a node's input buffer."""
    buffer = task.buffers.get(node)
    if buffer is None:
        count = len(node.out_types)
        buffer = task.buffers[node] = [None] * (count if number < count else number + 1)
    if grad is not None:
        old = buffer[number]
        if old is None:
            buffer[number] = grad
        # the sum may have tangents, and inside of vmap or grad PyTorch's is a new tensor
        elif not (modes.grad or modes.transforms or modes.dual_level >= 0) and is_exclusive(old):
            old._overwrite(apply(ADD, (old, grad))._waiting(), "add_", None)
        else:
            buffer[number] = apply(ADD, (old, grad))


def is_exclusive(grad: Tensor) -> bool:
    """Whether only the engine refers to a buffered gradient and its memory, so that the sum may be written in place.

    PyTorch does so too (torch/csrc/autograd/input_buffer.cpp); the versions of captured gradients show it.
    """
    return grad._geometry is None and sys.getrefcount(grad) <= REFERENCES and sys.getrefcount(grad._storage) <= 2


def step(
    task: GraphTask, node: Node, buffer: list[Tensor | None] | None, captured: list[Tensor | None]
) -> Sequence[Tensor | None] | None:
    """Run one node with its hooks; the gradients for its edges, or None if it does not run."""
    grads: list[Tensor | None] = [None] * len(node.out_types) if buffer is None else buffer
    del buffer  # hooks replace the list: then nothing else refers to its gradients
    runs = task.needed is None or node in task.needed
    if not runs:
        grads = tensor_hooks(node, grads)
    if task.captures is not None and node in task.captures:
        for number, index in task.captures[node]:
            captured[index] = grads[number]
    if not runs:
        return None
    is_leaf = isinstance(node, AccumulateGrad)
    if node.variable._tensor_hooks if is_leaf else node._attached is not None:
        grads = tensor_hooks(node, [*grads])
    hooked = False
    attached = node._attached
    if attached is not None:
        grads = pre_hooks(attached, grads)
        hooked = bool(attached.post_hooks)
    thread_modes = task.modes
    before = thread_modes.get("evaluating")
    try:
        thread_modes["evaluating"] = node
        if is_leaf:
            accumulate_grad(node.variable, grads[0])
            input_grads: Sequence[Tensor | None] = ()
        else:
            input_grads = node.apply(grads)
    except Exception:
        _warn_of_forward(node)
        raise
    finally:
        thread_modes["evaluating"] = before
    if input_grads:
        input_grads = validated(node, input_grads)
    attached = node._attached  # the node may have been given its first hook while it ran
    if attached is not None and attached.post_hooks:
        if task.needed is not None and isinstance(node, OperationNode):
            input_grads = requested_gradients(node, input_grads)
        # as in PyTorch, which keeps no gradients for hooks that are added while the node runs
        input_grads = post_hooks(attached, input_grads, grads if hooked else ())
    if unusual.on and modes.anomaly and modes.check_nan:
        if not task.retain_graph:
            task.released_at_end.append(node)  # its saved values tell where a NaN comes from
        check_nan(task, node, input_grads)
    elif not task.retain_graph:
        node._release(task.source)
    return input_grads


def requested(node: Node) -> Sequence[bool]:
    """For each edge of a node, whether the running backward needs its gradient; all if the user calls the node."""
    task = running.tasks[-1] if running.tasks else None
    return [edge is not None and (task is None or task.runs(edge[0])) for edge in node.next_edges]


def requested_gradients(node: OperationNode, input_grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The requested gradients only: PyTorch computes no others, and the node's hooks see None for the rest.

    Those of a sequence of tensors (``cat``) are computed all together.
    """
    needed = [*requested(node)]
    last = len(node.plan.operation.operands) - 1
    needed[last:] = [any(needed[last:])] * len(needed[last:])
    return [g if w else None for g, w in zip(input_grads, needed, strict=True)]


def check_nan(task: GraphTask, node: Node, input_grads: Sequence[Tensor | None]) -> None:
    for i, grad in enumerate(input_grads):
        if (
            grad is not None
            and grad._type.inexact
            and bool(np.isnan(np.asarray(unbatched(grad._value())).astype(np.complex128)).any())
        ):
            _warn_of_forward(node)
            text = f"Function '{node_name(node)}' returned nan values in its {i}th output."
            raise RuntimeError("\n\n".join(filter(None, (text, NAN_SOURCE.call(task)))))


def call(node: Node, *grads: Any, **named: Any) -> Any:
    """Run a node by itself, without its hooks: gradients of its outputs to gradients of its inputs."""
    if named:
        raise TypeError("keyword arguments are not supported")
    if len(grads) != len(node.out_types):
        raise TypeError(f"expected {len(node.out_types)} arguments, got {len(grads)} instead")
    for i, grad in enumerate(grads):
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"argument {i} is not a Variable")
    for grad, type in zip(grads, node.out_types, strict=True):
        if grad is not None:
            shapes = grad._type.shape, type.shape
            error = mismatch(*reversed(shapes) if isinstance(node, AccumulateGrad) else shapes)
            if error is not None:
                raise error
    if isinstance(node, AccumulateGrad):
        accumulate_grad(node.variable, grads[0])
        return ()
    input_grads = node.apply([g if g is None else cast(g, type) for g, type in zip(grads, node.out_types, strict=True)])
    return input_grads[0] if len(input_grads) == 1 else tuple(input_grads)


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function at the end of the running backward.

    Raises:
      RuntimeError: no backward is running.
    """
    if not running.tasks:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    running.tasks[-1].callbacks.append(callback)


def _warn_of_forward(node: Node) -> None:
    """Anomaly mode: warn with the traceback of a failing node's forward call, and of the call that made that node."""
    if not modes.anomaly:
        return
    texts: list[str] = []
    trace = forward_trace(node)
    if trace is None:
        texts.append(
            f"Error detected in {node_name(node)}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
    else:
        texts.append(
            f"Error detected in {node_name(node)}. Traceback of forward call that caused the error:\n" + "".join(trace)
        )
        parent = node._attach().parent
        caller = None if parent is None else forward_trace(parent)
        if parent is not None and caller is not None:
            texts.append(
                f"Previous calculation was induced by {node_name(parent)}. Traceback of forward call that induced the "
                "previous calculation:\n" + "".join(caller)
            )
    for text in texts:
        try:
            warn(text)
        except Warning:
            traceback.print_exc()  # where a filter makes warnings errors, the node's own error still goes on
