"""Properties of an operation besides its function: how it is computed, its gradients, and its in-place calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.layout.gradient_views import Passing
from fgrad.mutable.operation.joins import Join
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.evaluation import Routine
from fgrad.seam import Graph

#: the routine for operands in the written memory, from the graph and their geometries (None for one that is elsewhere)
Sequential = Callable[[Graph, tuple[Geometry | None, ...]], Routine]

#: which gradients are undefined (None), not zeros: none of them; those that depend on missing incoming ones alone; or
#: these and those that depend on no incoming one at all
Absent = Literal["none", "dependent", "unread"]


@frozen(eq=False)
class Computing:
    """How the results follow from the operands' types and layouts.

    Attributes:
      promote: how the operands' types are promoted: from (operand types, static parameters) to the common type.
      strides: how the strides of the outputs follow from the operands'; None for row-major.
      in_float32: whether half precision (and Python numbers) is computed in float32 and rounded once at the end.
      many: from operands' types and the parameters to the join of this many, or None: see NOTE [Joins of many].
    """

    promote: Callable[..., Dtype | None] | None = None
    strides: Callable[..., Ints | None] | None = None
    in_float32: bool = False
    many: Callable[..., Join | None] | None = None


@frozen(eq=False)
class Gradients:
    """What a node shows, saves and returns beyond what follows from the pull-back.

    Attributes:
      backward_node: the name of the backward's own node (for double backward), if PyTorch runs backward as one
        operation; or a function to it, as in ``Operation.node``.
      always_saved: the operands and outputs that PyTorch saves although the derivative reads only their type.
      auxiliary: the outputs that have no derivative.
      workspace: the outputs that are there for the pull-back alone.  A backward that is itself recorded computes them
        again from the operands, so that it can be differentiated.
      constants: further ``_saved_*`` attributes of every node: names and values.
      views: for gradients that are views though the pull-back does not show it, by the operand's name: from the
        geometry of the result's gradient, the Python numbers and the parameters to the geometry of the operand's.
      strides: by an operand's name, how the strides of its gradient follow from the operands' types.
      saved_first: whether the gradient lies in memory as what is saved, rather than as the result's gradient.
      columns: the matrix operands whose gradients are column-major if they are.
      undefined: from the operands' types and the parameters to whether the gradients are undefined (None), not zero.
      not_derived: by name, the operands without a derivative in PyTorch, and what its error calls that derivative.
      refuse: raises PyTorch's errors if there is no derivative; takes the saved values by name, the outputs' gradients
        (None for an undefined one), and the parameters.
      passing: what a gradient is whose elements are the incoming one's; a leaf's ``.grad`` may be a view.
      absent: which gradients of the backward's own node, or of the node if it has none, are undefined.
    """

    backward_node: str | Callable[..., str] | None = None
    always_saved: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()
    constants: tuple[tuple[str, Any], ...] = ()
    views: Mapping[str, Callable[..., Geometry | None]] = field(factory=dict)
    strides: Mapping[str, Callable[..., Ints | None]] = field(factory=dict)
    saved_first: bool = False
    columns: tuple[str, ...] = ()
    undefined: Callable[..., bool] | None = None
    not_derived: Mapping[str, str] = field(factory=dict)
    refuse: Callable[..., None] | None = None
    passing: Passing = "itself"
    absent: Absent = "dependent"


@frozen(eq=False)
class Writing:
    """How in-place calls are checked and named.

    Attributes:
      overlap: checks the memory of the tensor and the other operands for overlap; None for the usual check.
      overloads: PyTorch's names of the in-place overloads, for a tensor and for a number as last operand; "" if there
        is only one.
      sequence: makes the routine for a kernel that reads an operand in another order than it writes, where they share
        memory.
      unrecorded: whether in-place calls take no part in autograd: leaves may be written, and histories stay.
    """

    overlap: Callable[[Tensor, Sequence[Any]], None] | None = None
    overloads: tuple[str, str] = ("", "")
    sequence: Sequential | None = None
    unrecorded: bool = False

    def overload(self, operands: Sequence[Any]) -> str:
        """PyTorch's name of the in-place overload for these operands."""
        return self.overloads[not isinstance(operands[-1], Tensor)]


#: values of ``Writing.overloads``: one overload each for tensors and numbers, or one for both
BY_OPERAND = ("Tensor", "Scalar")
OF_TENSORS = ("Tensor", "Tensor")
#: the defaults
COMPUTING: Computing = Computing()
GRADIENTS: Gradients = Gradients()
WRITING: Writing = Writing()
