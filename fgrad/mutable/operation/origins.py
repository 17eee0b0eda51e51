"""Noting where results without history came from: see NOTE [Origins]."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.origin import Origin, origin_of
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.seam import RawSource


def note_origin(
    operation: str, operands: Sequence[Any], results: Sequence[Tensor], source: RawSource | None, reason: str = ""
) -> None:
    """Note the origin of results without history: see NOTE [Origins]."""
    tracked: list[Any] = []
    parents: list[Origin] = []
    for x in operands:
        if isinstance(x, Tensor):
            if is_tracked(x):
                tracked.append(_node_or_leaf(x))
            elif x._origin is not None:
                parents.append(x._origin)
    if not reason and tracked:
        reason = "not differentiable" if modes.grad else "no_grad"
    origin = origin_of(operation, source, reason or None, tracked, parents)
    for result in results:
        result._origin = origin


def _node_or_leaf(tensor: Tensor) -> Any:
    """The node of a tensor with history, or the leaf itself; for a view without a node, its base's."""
    if tensor._node is None and not tensor._requires_grad and tensor._view is not None:
        return _node_or_leaf(tensor._view.base)
    return tensor._node or tensor
