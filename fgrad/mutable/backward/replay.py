"""Backward that is itself recorded: a pull-back run on tensors, so that gradients have a ``grad_fn``.

NOTE [Nodes of gradients]
With ``create_graph`` PyTorch runs the formulas of its derivatives as recorded operations.  Here the formula is the
pull-back's graph: it is played primitive by primitive, each an operation in its own right that is named as PyTorch
names the function that does the same.  Where PyTorch has one operation for a whole formula (``sigmoid_backward``), the
entry of the table says its node's name in ``fused``, and the pull-back runs as one.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.mutable.layout.gradient_views import MOVES, Motion
from fgrad.mutable.operation import operation_node
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.plan import Pullback
from fgrad.mutable.operation.views import ViewOperation, apply_view
from fgrad.mutable.tensor.tensor import Tensor, beside, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.values.evaluation import constant
from fgrad.seam import Const, Graph, Op, evaluate

#: what PyTorch calls the node of the function that does what a primitive does, where the names differ
_NAMES = {
    "reduce_sum": "SumBackward1",
    "broadcast_in_dim": "ExpandBackward0",
    "unstack": "UnbindBackward0",
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


#: primitives whose results are views of gradients; those of others are row-major, so that a transpose of one is a copy
_SHARING = MOVES.keys() - {"transpose"}


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
    read = {i for node in graph.nodes for i in node.inputs} | set(graph.outputs)
    unread = frozenset([i for i in range(len(graph.in_types)) if i not in read])
    return Operation(
        name, lambda *arrays: tuple(evaluate(graph, arrays)), node, ("self", "*tensors"), fixed=unread, outputs=outputs
    )


def tensor_of(value: Any) -> Tensor:
    """A constant as a tensor."""
    array = constant(value)
    made = new_tensor(array, type_of(array))
    made._wrapped_number = not array.ndim
    return made


def _elements(of: Const) -> Any:
    """A graph's constant as an array: JAX leaves the numbers of a loop's body Python's."""
    return of.value if hasattr(of.value, "size") else np.asarray(of.value, of.type.dtype)


def _beside_all(operands: Sequence[Any], other: Tensor) -> Tensor:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    return beside(tensors[0], other) if tensors else other


def play(graph: Graph, operands: Sequence[Any], gradients: Iterable[int] = ()) -> list[Tensor]:
    """Run a graph on tensors, each node a recorded operation; what only moves one of ``gradients`` is a view of it."""
    values: list[Any] = [*operands, *(_beside_all(operands, tensor_of(_elements(c))) for c in graph.consts)]
    shared = set(gradients)
    for node in graph.nodes:
        found = None
        if node.op.name in _SHARING and node.inputs[0] in shared:
            found = _views(node.op, values[node.inputs[0]])
            if found is not None:
                shared.update(range(len(values), len(values) + len(found)))
        values.extend(apply(_of_primitive(node.op), [values[i] for i in node.inputs]) if found is None else found)
    return [values[i] for i in graph.outputs]


def _views(op: Op, tensor: Tensor) -> list[Tensor] | None:
    """The results of a primitive that moves no element as views, None where strides cannot say one of them."""
    geometry = tensor._geometry_of()
    views = [_view_by_primitive(op, k) for k in range(len(op.out_types))]
    if any(view.geometry(geometry) is None for view in views):
        return None
    return [apply_view(view, (tensor,)) for view in views]


@lru_cache(1 << 12)
def _view_by_primitive(op: Op, k: int) -> ViewOperation:
    """A result of a primitive that moves no element, as an operation whose result is a view."""
    return ViewOperation(
        op.name, lambda array: op.bind([array])[k], _node_name(op), ("self",), geometry=Motion(((op, k),))
    )


def _run(node: OperationNode, pullback: Pullback, operands: Sequence[Any]) -> Sequence[Tensor]:
    graph = pullback.routine.graph
    tensors = [x if isinstance(x, Tensor) else tensor_of(x) for x in operands]
    plan = node.plan
    fused = plan.operation.fused
    if callable(fused):
        fused = fused(plan.types, dict(zip(plan.operation.parameters, plan.params, strict=True)))
    if fused is not None:
        return apply(_whole(graph, f"{plan.operation.name}_backward", fused), tensors)
    first = len(tensors) - len(plan.inexact)
    return [_of_nothing(found, tensors) for found in play(graph, tensors, range(first, len(tensors)))]


_TIED = Operation("add", lambda array, empty: array + empty.sum(), "AddBackward0", ("self", "other"))


def _of_nothing(found: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """A gradient, which to PyTorch depends on what its formula reads even where that has no element.

    The rules know better: scattering nothing over zeros is a constant to them.
    """
    for x in operands:
        if not x._type.numel and x._type.inexact and is_tracked(x) and not is_tracked(found):
            return apply(_TIED, (found, x))
    return found


operation_node.replay.run = _run
