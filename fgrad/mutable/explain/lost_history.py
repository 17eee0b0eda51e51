"""Second derivatives that a custom Function loses: its backward reads what its forward computed unrecorded.

``forward`` runs with recording off.  Intermediates that it keeps (``ctx.e = e``, or ``save_for_backward(e)``) have no
history, so a backward that reads one treats it as a constant when differentiated.  PyTorch says nothing (see `Double
backward with custom functions <https://docs.pytorch.org/tutorials/intermediate/custom_function_double_backward_tutorial.html>`_).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.explain.names import location
from fgrad.mutable.explain.wording import line_of
from fgrad.mutable.tensor.node import Node, node_name
from fgrad.mutable.tensor.origin import Origin
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor


def warn_of_lost_history(node: Node, saved_tensors: Sequence[Any], results: Sequence[Tensor | None]) -> None:
    """Warn of each intermediate of a custom Function whose derivative is missing from recorded gradients.

    Arguments:
      node: the Function's, whose backward has just run.
      saved_tensors: the tensors kept by ``save_for_backward``; attributes of the context are found there.
      results: the gradients.
    """
    intermediates = [
        (name, x._origin) for name, x in _kept(node, saved_tensors) if x._origin is not None and x._type.inexact
    ]
    if not intermediates:
        return
    read = _origins([x for x in results if x is not None])
    for name, origin in intermediates:
        if origin in read:
            warn(_text(node, name, origin), UserWarning)


def _kept(node: Node, saved_tensors: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in vars(node).items():
        if isinstance(value, Tensor):
            yield f"ctx.{name}", value
    for i, saved in enumerate(saved_tensors):
        if isinstance(saved, SavedTensor) and saved.tensor is not None:
            yield f"ctx.saved_tensors[{i}]", saved.tensor


def _origins(results: Sequence[Tensor]) -> set[Any]:
    """The origins of everything that some gradients were computed from."""
    origins: set[Any] = set()
    stack: list[Any] = [x._node or x._origin for x in results]
    while stack:
        at = stack.pop()
        if at is None or at in origins:
            continue
        origins.add(at)
        if isinstance(at, Origin):
            stack += at.parents
        else:
            stack += getattr(at, "origins", ())
            stack += [edge[0] for edge in at.next_edges if edge is not None]
    return origins


def _text(node: Node, name: str, origin: Origin) -> str:
    lines = [
        f"The backward of {node_name(node)} reads {name}, which its forward computed while nothing is recorded: by "
        f"{origin.operation}, at {location(origin.source)}.",
        *line_of(origin.source),
        "These gradients are to be differentiated again (create_graph=True), and the part that comes through it is "
        "missing.",
        f"The Function was called at {location(node._source)}.",
        *line_of(node._source),
        "Way out: compute it again in backward from the saved inputs; or return it as another output of forward, and "
        "give that output to ctx.save_for_backward.",
    ]
    return "\n".join(lines)
