"""Recorded backward: a pull-back run on tensors, so that gradients have a ``grad_fn``.

NOTE [Nodes of gradients]
With ``create_graph`` PyTorch runs the formulas of its derivatives as recorded operations.  Here the formula is the
pull-back's graph: it is replayed primitive by primitive, each a recorded operation with the name that PyTorch gives
the equivalent function.  Where PyTorch has one operation for a whole formula (``sigmoid_backward``), the
table's entry names its node in ``backward_node``, and the pull-back runs as one operation.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, get_args

import numpy as np

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.layout.gradient_views import MOVES, ViewChain
from fgrad.mutable.operation.graph_operation import graph_operation, node_name
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.operation.output_strides import ELEMENTWISE, SPATIAL, elementwise, laid_out_in
from fgrad.mutable.operation.plan import Pullback
from fgrad.mutable.operation.traits import GRADIENTS, Absent, Computing, Gradients
from fgrad.mutable.operation.views import ViewOperation, apply_view
from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.values.evaluation import constant, is_abstract
from fgrad.seam import Const, Graph, Op

#: elementwise primitives, whose results have their operands' memory layout
_ELEMENTWISE = frozenset((
    "add", "add_any", "sub", "mul", "div", "neg", "max", "min", "abs", "sign", "select_n", "conj", "exp",
    "convert_element_type", "log", "sin", "cos", "tanh", "logistic", "sqrt", "rsqrt", "square", "integer_pow", "pow",
))  # fmt: skip


def _of_primitive(op: Op, strides: Ints | None = None) -> Operation:
    """A primitive with its parameters as an operation, and the strides of its result if it is not row-major."""
    operation = op.derived.get(("torch", strides))
    if operation is None:
        names = ("self", "other") if len(op.in_types) == 2 else ("self", "*tensors")
        outputs = ("result",) if len(op.out_types) == 1 else tuple([f"result{i}" for i in range(len(op.out_types))])
        elementwise_strides: Any = elementwise if _goes_by_elements(op) else None
        operation = op.derived["torch", strides] = Operation(
            op.name,
            lambda *arrays: tuple(op.bind(list(arrays))),
            node_name(op),
            names,
            outputs=outputs,
            computing=Computing(strides=elementwise_strides if strides is None else lambda operands, shape: strides),
            gradients=_of_product(op) if op.name == "dot_general" else GRADIENTS,
        )
    return operation


def _goes_by_elements(op: Op) -> bool:
    """Whether a result has its operands' memory layout; powers and the like have rules of their own."""
    shapes = [t.shape for t in (*op.in_types, *op.out_types)]
    return op.name in _ELEMENTWISE or (op.name in _WITH_RULES and len(shapes) == 2 and shapes[0] == shapes[1])


_WITH_RULES = ("custom_jvp", "custom_vjp")


def _of_product(op: Op) -> Gradients:
    """The strides of a product's gradients: those of ``mm`` and ``bmm``, called by PyTorch with transposed operands."""
    ranks = {len(t.shape) for t in (*op.in_types, *op.out_types)}
    if ranks == {2}:
        return Gradients(columns=("self", "other"))
    (of_self, of_other), batch = op.params["dimension_numbers"]
    if ranks != {3} or batch != ((0,), (0,)):
        return GRADIENTS
    transposed = {"self": of_self == (1,), "other": of_other == (2,)}
    return Gradients(strides={name: _columns for name, yes in transposed.items() if yes})


def _columns(types: Sequence[Any], shape: Ints) -> Ints:
    return laid_out_in((0, 2, 1), shape)


def tensor_of(value: Any) -> Tensor:
    """A constant, or a number that is an input of a captured program, as a tensor."""
    array = value if is_abstract(value) else constant(value)
    tensor = new_tensor(array, type_of(array))
    tensor._wrapped_number = not array.ndim
    return tensor


def _elements(of: Const) -> Any:
    """A graph's constant as an array: in loop bodies JAX leaves Python numbers."""
    return of.value if hasattr(of.value, "size") else np.asarray(of.value, of.type.dtype)


def _beside_all(operands: Sequence[Any], other: Tensor) -> Tensor:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    return to_device_of(tensors[0], other) if tensors else other


def play(
    graph: Graph, operands: Sequence[Any], gradients: Iterable[int] = (), strides: Sequence[Ints | None] = ()
) -> list[Tensor]:
    """Run a graph on tensors, each node a recorded operation; movements of one of ``gradients`` become views of it.

    ``strides`` are those of the results that are not views, None for row-major.
    """
    results = frozenset(graph.outputs)
    strides_of = dict(zip(graph.outputs, strides, strict=False))
    values: list[Any] = [*operands, *(_beside_all(operands, tensor_of(_elements(c))) for c in graph.consts)]
    shared = set(gradients)
    for node in graph.nodes:
        outputs = None
        if node.op.name in MOVES and node.inputs[0] in shared:
            outputs = _views(node.op, values[node.inputs[0]])
            if outputs is not None:
                shared.update(range(len(values), len(values) + len(outputs)))
        elif node.op.name == "broadcast_in_dim" and len(values) not in results:
            outputs = _views(node.op, values[node.inputs[0]])
        if outputs is None:
            outputs = apply(_of_primitive(node.op, strides_of.get(len(values))), [values[i] for i in node.inputs])
        values.extend(outputs)
    return [values[i] for i in graph.outputs]


def _views(op: Op, tensor: Tensor) -> list[Tensor] | None:
    """The results of a primitive that moves no data, as views; None where strides cannot express one of them."""
    geometry = tensor._geometry_of()
    views = [_view_by_primitive(op, k) for k in range(len(op.out_types))]
    if any(view.geometry(geometry) is None for view in views):
        return None
    return [apply_view(view, (tensor,)) for view in views]


@lru_cache(1 << 12)
def _view_by_primitive(op: Op, k: int) -> ViewOperation:
    """A result of a primitive that moves no data, as a view operation."""
    return ViewOperation(
        op.name, lambda array: op.bind([array])[k], node_name(op), ("self",), geometry=ViewChain(((op, k),))
    )


def replay(node: OperationNode, pullback: Pullback, operands: Sequence[Any]) -> Sequence[Tensor]:
    """The requested gradients of a node, by recorded operations on its saved values and its results' gradients."""
    plan = node.plan
    if plan.operation.gradients.workspace:
        reading, pullback = pullback, plan.special_pullback(pullback.wrt, pullback.received, False)
        operands = pullback.operands_of(reading, operands)
    graph = pullback.routine.graph
    tensors = [x if isinstance(x, Tensor) else tensor_of(x) for x in operands]
    fused = plan.operation.gradients.backward_node
    if callable(fused):
        fused = fused(plan.types, plan.operation.named(plan.params))
    if fused is not None:
        strides = plan.operation.computing.strides
        if strides in SPATIAL:
            strides = _OF_IMAGES[strides]
        elif strides in ELEMENTWISE:
            strides = elementwise if plan.operation.gradients.saved_first else _of_fused
        else:
            strides = None
        gradients = _OF_BACKWARD[plan.operation.gradients.absent]
        return apply(graph_operation(graph, f"{plan.operation.name}_backward", fused, strides, gradients), tensors)
    first = len(tensors) - len(pullback.received)
    played = play(graph, tensors, range(first, len(tensors)), pullback.strides)
    return [_of_nothing(result, tensors) for result in played]


def _of_fused(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of an elementwise backward: PyTorch's takes the incoming gradient first, ours takes it last."""
    return elementwise([*operands[-1:], *operands[:-1]], shape)


def _of_images(of_images: Callable[..., Ints | None], operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of the backward of an operation on images: those of a saved one, or else of the result's gradient."""
    return of_images(operands[:-1] or operands, shape)


#: functions to the strides of a backward's results, by the function to those of the operation's results
_OF_IMAGES = {of_images: partial(_of_images, of_images) for of_images in SPATIAL}
#: of a backward's own node
_OF_BACKWARD = {absent: Gradients(absent=absent) for absent in get_args(Absent)}
_TIED = Operation("add", lambda array, empty: array + empty.sum(), "AddBackward0", ("self", "other"))


def _of_nothing(gradient: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """A gradient that in PyTorch depends on all that its formula reads, even on tensors without elements.

    For our rules, scattering nothing over zeros is a constant.
    """
    for x in operands:
        if not x._type.numel and x._type.inexact and is_tracked(x) and not is_tracked(gradient):
            return apply(_TIED, (gradient, x))
    return gradient
