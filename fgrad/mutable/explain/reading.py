"""What the rule of a node reads: for each saved value, the gradients that are made from it."""

from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.seam import needed_inputs


def gradients_from(node: OperationNode, saved: SavedTensor) -> tuple[int, ...]:
    """The places, among the operands that are there, of those whose gradients the rule makes from a saved value.

    Empty for a value that is saved though no derivative reads it, as PyTorch has it for some operations.
    """
    place = next((k for k, s in enumerate(node.saved) if s is saved), None)
    if place is None:
        return ()
    graph = node.pullback.routine.graph
    outputs = range(len(graph.outputs))
    return tuple(
        [i for k, i in enumerate(node.pullback.wanted) if needed_inputs(graph, [j == k for j in outputs])[1][place]]
    )


def operand_names(node: OperationNode, places: tuple[int, ...]) -> tuple[str, ...]:
    """What PyTorch calls the operands at some places."""
    names, present = node.plan.operation.operands, node.plan.present
    return tuple(dict.fromkeys(names[min(present[i], len(names) - 1)].lstrip("*") for i in places))
