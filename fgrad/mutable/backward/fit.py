"""Gradients made to fit the tensors that they go to: summed over broadcast axes, in their type."""

from collections.abc import Sequence

from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.reduction import CAST, SUM_TO
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.tensor.tensor_type import TensorType


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
