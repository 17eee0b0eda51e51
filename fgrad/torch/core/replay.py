"""Backward that is itself recorded: a pull-back run on tensors, so that gradients have a ``grad_fn``.

NOTE [Nodes of gradients]
With ``create_graph`` PyTorch runs the formulas of its derivatives as recorded operations.  Here the formula is the
pull-back's graph: it is played primitive by primitive, each an operation in its own right that is named as PyTorch
names the function that does the same.  Where PyTorch has one operation for a whole formula (``sigmoid_backward``), the
entry of the table says its node's name in ``fused``, and the pull-back runs as one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.op import Op
from fgrad.torch.core import operation as operations
from fgrad.torch.core.evaluation import constant
from fgrad.torch.core.operation import Operation, OperationNode, apply
from fgrad.torch.core.plan import Pullback
from fgrad.torch.core.tensor import Tensor, is_tracked, new_tensor
from fgrad.torch.core.types import type_of

#: what PyTorch calls the node of the function that does what a primitive does, where the names differ
_NAMES = {
    "reduce_sum": "SumBackward1",
    "broadcast_in_dim": "ExpandBackward0",
    "reshape": "ViewBackward0",
    "convert_element_type": "ToCopyBackward0",
    "select_n": "WhereBackward0",
    "integer_pow": "PowBackward0",
    "square": "PowBackward0",
    "logistic": "SigmoidBackward0",
    "dynamic_update_slice": "SliceBackward0",
    "gather": "IndexBackward0",
    "scatter-add": "IndexPutBackward0",
    "cumsum": "CumsumBackward0",
    "pow": "PowBackward1",
    "atan2": "Atan2Backward0",
    "conv_general_dilated": "ConvolutionBackward0",
    "concatenate": "CatBackward0",
    "pad": "ConstantPadNdBackward0",
    "rev": "FlipBackward0",
}


def _node_name(op: Op) -> str:
    name = op.name
    if name == "transpose":
        return "TBackward0" if len(op.in_types[0].shape) == 2 else "PermuteBackward0"
    if name == "dot_general":
        return "MmBackward0" if len(op.in_types[0].shape) <= 2 else "BmmBackward0"
    return _NAMES.get(name) or name.title().replace("_", "").replace("-", "") + "Backward0"


def _of_primitive(op: Op) -> Operation:
    """A primitive with its parameters as an operation."""
    found = op.derived.get("torch")
    if found is None:
        names = ("self", "other") if len(op.in_types) == 2 else ("self", "*tensors")
        outputs = ("result",) if len(op.out_types) == 1 else tuple([f"result{i}" for i in range(len(op.out_types))])
        found = op.derived["torch"] = Operation(
            op.name, lambda *arrays: tuple(op.bind(list(arrays))), _node_name(op), names, outputs=outputs
        )
    return found


@lru_cache(1 << 12)
def _whole(graph: Graph, name: str, node: str) -> Operation:
    outputs = tuple([f"result{i}" for i in range(len(graph.outputs))])
    return Operation(name, lambda *arrays: tuple(evaluate(graph, arrays)), node, ("self", "*tensors"), outputs=outputs)


def tensor_of(value: Any) -> Tensor:
    """A constant as a tensor."""
    array = constant(value)
    return new_tensor(array, type_of(array))


def play(graph: Graph, operands: Sequence[Any]) -> list[Tensor]:
    """Run a graph on tensors, each node a recorded operation."""
    values: list[Any] = [*operands, *(tensor_of(c.value) for c in graph.consts)]
    for node in graph.nodes:
        values.extend(apply(_of_primitive(node.op), [values[i] for i in node.inputs]))
    return [values[i] for i in graph.outputs]


def _run(node: OperationNode, pullback: Pullback, operands: Sequence[Any]) -> Sequence[Tensor]:
    graph = pullback.routine.graph
    tensors = [x if isinstance(x, Tensor) else tensor_of(x) for x in operands]
    plan = node.plan
    fused = plan.operation.fused
    if callable(fused):
        fused = fused(plan.types, dict(zip(plan.operation.parameters, plan.params, strict=True)))
    if fused is not None:
        return apply(_whole(graph, f"{plan.operation.name}_backward", fused), tensors)
    return [_of_nothing(found, tensors) for found in play(graph, tensors)]


_TIED = Operation("add", lambda array, empty: array + empty.sum(), "AddBackward0", ("self", "other"))


def _of_nothing(found: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """A gradient, which to PyTorch depends on what its formula reads even where that has no element.

    The rules know better: scattering nothing over zeros is a constant to them.
    """
    for x in operands:
        if not x._type.numel and x._type.inexact and is_tracked(x) and not is_tracked(found):
            return apply(_TIED, (found, x))
    return found


operations.replay.run = _run
