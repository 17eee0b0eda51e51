"""Which graphs may wait until their results are read, and run together with others: see ``Policy.deferred_size``.

Their operations are elementwise, reductions or movements, which XLA fuses into one pass over memory.  Matrix products,
convolutions, sorting and the like gain nothing from waiting.
"""

from fgrad.graph.graph import Graph
from fgrad.graph.op import Op, Region
from fgrad.run.kernels.elementwise import ELEMENTWISE
from fgrad.run.kernels.kernel import ORDERED

#: by the name of a primitive
_MOVEMENTS = frozenset(
    ("broadcast_in_dim", "copy", "copy_p", "iota", "reshape", "rev", "slice", "squeeze", "stop_gradient", "transpose")
)
_REDUCTIONS = frozenset(("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum"))
_FUSED = _MOVEMENTS | _REDUCTIONS


def may_wait(graph: Graph) -> bool:
    """Whether a graph may wait.

    Narrow floats may not: when XLA fuses them, it does not round intermediate values.
    """
    if not graph.in_types:
        return False
    return all(t.dtype in ORDERED for t in graph.types) and all(_is_fused(node.op) for node in graph.nodes)


def _is_fused(op: Op) -> bool:
    if op.name in ELEMENTWISE or op.name in _FUSED:
        return True
    if op.effects or not isinstance(op.primitive, Region):
        return False
    called = op.primitive.called(op.params)
    return called is not None and all(_is_fused(node.op) for node in called.nodes)
