"""Which graphs may wait until their results are read, and run together with others: see ``Policy.deferred_size``.

They compute each element from few, or move elements: XLA then goes through memory once for all of them.  Products of
matrices, convolutions, sorting and the like take their time in any company.
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
    """Whether a graph may wait: it is all of such operations, and of types of which XLA rounds each intermediate value.

    Of narrow floats it keeps them wider.
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
