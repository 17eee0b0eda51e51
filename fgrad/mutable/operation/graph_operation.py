"""Graphs of primitives as operations, for recorded gradients and tangents."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.traits import GRADIENTS, Computing, Gradients
from fgrad.seam import Graph, Op, evaluate

#: PyTorch's node name for the function that corresponds to a primitive, where the names differ
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
    "add_any": "AddBackward0",
    "cumsum": "CumsumBackward0",
    "pow": "PowBackward1",
    "atan2": "Atan2Backward0",
    "conv_general_dilated": "ConvolutionBackward0",
    "concatenate": "CatBackward0",
    "pad": "ConstantPadNdBackward0",
    "rev": "FlipBackward0",
}


def node_name(op: Op) -> str:
    """PyTorch's node name for the function that corresponds to a primitive with these parameters."""
    name = op.name
    if name == "transpose":
        return "TBackward0" if len(op.in_types[0].shape) == 2 else "PermuteBackward0"
    if name == "dot_general":
        return "MmBackward0" if len(op.in_types[0].shape) <= 2 else "BmmBackward0"
    return _NAMES.get(name) or name.title().replace("_", "").replace("-", "") + "Backward0"


def _read(graph: Graph) -> set[int]:
    """The positions of the inputs that a graph reads."""
    return {i for node in graph.nodes for i in node.inputs if i < len(graph.in_types)} | {
        i for i in graph.outputs if i < len(graph.in_types)
    }


@lru_cache(1 << 12)
def graph_operation(
    graph: Graph,
    name: str,
    node: str,
    strides: Callable[..., Ints | None] | None = None,
    gradients: Gradients = GRADIENTS,
) -> Operation:
    """A graph as one operation, with ``strides`` as in ``Computing``.

    Its gradient with respect to inputs that the graph does not read is zeros, as in PyTorch's formulas for operands
    saved for their type alone.
    """
    return Operation(
        name,
        lambda *arrays: tuple(evaluate(graph, arrays)),
        node,
        ("self", "*tensors"),
        outputs=_results(graph),
        computing=Computing(strides=strides),
        gradients=gradients,
    )


@lru_cache(1 << 12)
def graph_operation_on_reads(graph: Graph, name: str, node: str) -> tuple[Operation, tuple[int, ...]]:
    """A graph as an operation on the inputs it reads, and their positions: the others leave no history."""
    count = len(graph.in_types)
    positions = tuple(sorted(_read(graph))) or (count - 1,)

    def run(*arrays: Any) -> Any:
        inputs = dict(zip(positions, arrays, strict=True))
        return tuple(evaluate(graph, [inputs.get(i) for i in range(count)]))

    return Operation(name, run, node, ("self", "*tensors"), outputs=_results(graph)), positions


def _results(graph: Graph) -> tuple[str, ...]:
    return tuple([f"result{i}" for i in range(len(graph.outputs))])
