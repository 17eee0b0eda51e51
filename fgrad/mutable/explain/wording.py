"""Nodes and lines in words: the operation, its line and module, the text of the line."""

from collections.abc import Iterator, Sequence

from fgrad.mutable.backward.engine import running
from fgrad.mutable.explain.call_path import call_path, name_at_call
from fgrad.mutable.explain.names import location, module_path, name_of, name_of_node
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.node import Node, forward_trace, node_name
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor
from fgrad.mutable.write.inplace import CopySlices
from fgrad.seam import RawSource, Source

#: how many nameless nodes (a transposed weight's) are skipped in search of a name
PASSED_OVER = 3


def operation_of(node: Node) -> str:
    """The operation behind a node, as the user called it."""
    return node.plan.operation.name if isinstance(node, OperationNode) else node_name(node)


def place_of(node: Node) -> str:
    """The line of a node's operation, with the module that it ran in."""
    module = module_path(node)
    return f"{location(node._source)}{f' (module {module})' if module else ''}"


def line_of(source: RawSource | None) -> list[str]:
    """The text of a line, indented, if its file can be read."""
    text = "" if source is None else Source(*source).text
    return [f"    {text}"] if text else []


def forward_of(node: Node) -> Iterator[str]:
    """The text of a node's line; if it ran many times, also which run it is and the calls that led there."""
    yield from line_of(node._source)
    runs = sorted(_runs(node), key=lambda each: each._sequence)
    if len(runs) > 1:
        yield f"    (run {runs.index(node) + 1} of the {len(runs)} of this line in the graph)"
    trace = forward_trace(node)
    if trace is not None:
        yield "  called by:"
        for entry in trace:
            yield from [f"  {line}" for line in entry.splitlines()]
    elif len(runs) > 1:
        for call in call_path(node, _running()):
            yield f"  {'called' if call.sure else 'may have been called'} at {location(call.source)}"
            yield from line_of(call.source)


def name_of_result(node: Node) -> str | None:
    """The variable that the result of a node was stored in, by its line or, where that returns it, by the caller."""
    return name_of_node(node) or name_at_call(node, _running())


def _running() -> Sequence[Node]:
    """The nodes of the running backward."""
    return list(running.tasks[-1].nodes) if running.tasks else ()


def _runs(node: Node) -> list[Node]:
    """The nodes of the running backward made by the same instruction and operation."""
    return [each for each in _running() if each._source == node._source and type(each) is type(node)]


def name_of_gradient(node: Node, edge: int) -> str | None:
    """The user's name for the tensor whose gradient a node sends along an edge."""
    following = node.next_edges[edge]
    for _ in range(PASSED_OVER):
        if following is None:
            return None
        target = following[0]
        if isinstance(target, AccumulateGrad):
            return name_of(target.variable)
        # intermediates of the same instruction have no name: the instruction's name is its result's
        name = None if target._source == node._source else name_of_node(target)
        if name is not None:
            return f"'{name}'"
        edges = [each for each in target.next_edges if each is not None]
        following = edges[0] if len(edges) == 1 else None
    return None


def made_by(tensor: Tensor) -> Node | None:
    """The node that made a tensor, before it was written through views; None for a leaf."""
    node = tensor._node
    while isinstance(node, CopySlices):
        edge = node.next_edges[0]
        node = None if edge is None else edge[0]
    return None if isinstance(node, AccumulateGrad) else node


def check_tensor(value: object, what: str) -> None:
    """Require a tensor as the thing asked about.

    Raises:
      TypeError: it is not a tensor; the message says what it is, and what to ask instead.
    """
    if isinstance(value, Tensor):
        return
    way = ""
    if hasattr(type(value), "named_parameters"):
        way = " Way out: call the module, and ask about a loss that is computed from its result."
    elif hasattr(value, "dtype") and hasattr(value, "shape"):
        way = " Way out: for functions of arrays the questions are in fgrad, and take the function first."
    elif callable(value):
        way = " Way out: call it, and ask about its result; for functions of arrays the questions are in fgrad."
    raise TypeError(f"{what} takes a tensor, such as a loss, and not {type(value).__name__}.{way}")
