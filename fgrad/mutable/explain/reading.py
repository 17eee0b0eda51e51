"""What a node's rule reads: for each saved value, the gradients computed from it."""

from fgrad.mutable.explain.wording import name_of_gradient
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.seam import needed_inputs


def gradients_from(node: OperationNode, saved: SavedTensor) -> tuple[int, ...]:
    """The positions, among the operands present, of those whose gradients the rule computes from a saved value.

    Empty for a value that is saved although no derivative reads it, as PyTorch does for some operations.
    """
    index = next((k for k, s in enumerate(node.saved) if s is saved), None)
    if index is None:
        return ()
    graph = node.pullback.routine.graph
    outputs = range(len(graph.outputs))
    return tuple(
        [i for k, i in enumerate(node.pullback.wrt) if needed_inputs(graph, [j == k for j in outputs])[1][index]]
    )


def gradients_text(node: OperationNode, indices: tuple[int, ...]) -> str:
    """The operands at some positions, by PyTorch's names and the user's."""
    edge_of = {index: k for k, (_, index) in enumerate(node.plan.edges)}
    texts: dict[str, None] = {}
    for i in indices:
        operand = node.plan.named_operands[i][1].lstrip("*")
        name = name_of_gradient(node, edge_of[i]) if i in edge_of else None
        texts[repr(operand) if name is None else f"'{operand}' ({name})"] = None
    return " and ".join(texts)
