"""Every call of the mutable layer from a floor to one above it: its type, the caller, and the function that answers.

See NOTE [Ports] in ``fgrad/graph/port.py``; ``tests/test_ports.py`` checks this file against the code.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fgrad.seam import Port

if TYPE_CHECKING:
    from fgrad.mutable.backward.engine import GraphTask
    from fgrad.mutable.operation.operation import Planned
    from fgrad.mutable.operation.operation_node import OperationNode
    from fgrad.mutable.operation.plan import Pullback
    from fgrad.mutable.tensor.node import Node
    from fgrad.mutable.tensor.saved import SavedTensor
    from fgrad.mutable.tensor.tensor import Tensor
    from fgrad.seam import RawSource

# -- semantics ---------------------------------------------------------------------------------------------------------

#: renews the ``grad_fn`` of a view after a write: NOTE [Lazy grad_fn of views]
RENEW: "Port[Callable[[Tensor], None]]" = Port(
    "fgrad.mutable.write.inplace", "renew", asked_by=["fgrad.mutable.tensor.tensor"]
)
#: runs a pull-back on tensors and records it, for the derivative of a derivative
REPLAY: "Port[Callable[[OperationNode, Pullback, Sequence[Any]], Sequence[Tensor]]]" = Port(
    "fgrad.mutable.backward.replay", "replay", asked_by=["fgrad.mutable.operation.operation_node"]
)
#: which gradients the running backward needs of a node's
REQUESTED: "Port[Callable[[Node], Sequence[bool]]]" = Port(
    "fgrad.mutable.backward.engine", "requested", asked_by=["fgrad.mutable.operation.operation_node"]
)
#: runs one node, without its hooks, when the user calls it
CALL_NODE: "Port[Callable[..., Any]]" = Port(
    "fgrad.mutable.backward.engine", "call", asked_by=["fgrad.mutable.tensor.node"]
)
#: in forward mode, gives the results of an operation their tangents
PUSH: "Port[Callable[[Planned, Sequence[Any], Sequence[Tensor]], None]]" = Port(
    "fgrad.mutable.transforms.forward",
    "push",
    asked_by=["fgrad.mutable.operation.operation", "fgrad.mutable.write.inplace"],
)
#: in forward mode, gives a tensor a tangent computed from another's, at a level
CARRY: "Port[Callable[[Tensor, Tensor, int, Callable[[Tensor], Tensor]], None]]" = Port(
    "fgrad.mutable.transforms.forward",
    "carry",
    asked_by=["fgrad.mutable.operation.operation_node", "fgrad.mutable.operation.views"],
)
#: inside ``torch.func``, lifts operands from outside into the levels between
LIFTED: "Port[Callable[[Sequence[Any]], Sequence[Any]]]" = Port(
    "fgrad.mutable.transforms.levels",
    "lifted",
    asked_by=["fgrad.mutable.operation.operation", "fgrad.mutable.write.inplace", "fgrad.mutable.transforms.forward"],
)

#: inside ``torch.func``, raises the error of a write that would leak a value out of it
CHECK_WRITE: "Port[Callable[[Tensor, Any], None]]" = Port(
    "fgrad.mutable.transforms.levels", "check_write", asked_by=["fgrad.mutable.write.inplace"]
)

# -- texts of errors and warnings --------------------------------------------------------------------------------------

#: adds what a public wrapper knows to an error raised through it: the arguments, and the module if it is one
AT_ENTRANCE: "Port[Callable[..., None]]" = Port(
    "fgrad.mutable.explain.calls", "at_entrance", asked_by=["fgrad.mutable.context.torch_function.wrap"]
)
#: the same if no other wrapper is further out
AT_OUTERMOST: "Port[Callable[[Exception, Iterable[Any]], None]]" = Port(
    "fgrad.mutable.explain.calls", "at_outermost", asked_by=["fgrad.mutable.context.entrance"]
)
#: adds a way out to the text of a warning
WARNING: "Port[Callable[[str], str]]" = Port(
    "fgrad.mutable.explain.calls", "warning", asked_by=["fgrad.mutable.context.warning"]
)
#: the error of a saved value that was written since, from PyTorch's text
CHANGED: "Port[Callable[[SavedTensor, Node, str], RuntimeError]]" = Port(
    "fgrad.mutable.explain.explain", "changed", asked_by=["fgrad.mutable.tensor.saved"]
)
#: notes for ``audit`` whether a saved value was written since
AUDIT: "Port[Callable[[SavedTensor, Node], None]]" = Port(
    "fgrad.mutable.explain.audit", "compare_saved", asked_by=["fgrad.mutable.tensor.saved"]
)
#: the error of a second backward through a graph that the first one freed
RELEASED: "Port[Callable[[Node], RuntimeError]]" = Port(
    "fgrad.mutable.explain.explain", "released", asked_by=["fgrad.mutable.operation.operation_node"]
)
#: the error for a gradient that would be of integers: NOTE [Integers with a history]
INTEGER_GRADIENT: "Port[Callable[[Node], RuntimeError]]" = Port(
    "fgrad.mutable.explain.explain", "integer_gradient", asked_by=["fgrad.mutable.operation.operation_node"]
)
#: the error of a write that is not allowed, from PyTorch's text
REFUSED_WRITE: "Port[Callable[[Tensor, str], RuntimeError]]" = Port(
    "fgrad.mutable.explain.explain", "refused_write", asked_by=["fgrad.mutable.write.inplace"]
)
#: adds to an error in backward its node, and the line where the gradient was asked for
RAISED: "Port[Callable[[Exception, Node, RawSource | None], None]]" = Port(
    "fgrad.mutable.explain.backward_errors", "raised", asked_by=["fgrad.mutable.backward.engine"]
)
#: where a NaN in the backward that is running comes from, as a text
NAN_SOURCE: "Port[Callable[[GraphTask], str]]" = Port(
    "fgrad.mutable.explain.nonfinite", "explained", asked_by=["fgrad.mutable.backward.engine"]
)
