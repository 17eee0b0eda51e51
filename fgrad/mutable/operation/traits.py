"""What is said of an operation besides its function: how it is computed, its gradients, and its in-place calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.operation.joins import Join
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype


@frozen(eq=False)
class Computing:
    """How the results follow from the operands' types and layouts.

    Attributes:
      promote: how the operands' types are made one: from (operand types, static parameters) to the type.
      strides: how the strides of the outputs follow from the operands'; None for row-major.
      single: whether half precision is computed in single precision, Python numbers too, and rounded once at the end.
      many: from operands' types and the parameters to how so many are joined, or None: see NOTE [Joins of many].
    """

    promote: Callable[..., Dtype | None] | None = None
    strides: Callable[..., Ints | None] | None = None
    single: bool = False
    many: Callable[..., Join | None] | None = None


@frozen(eq=False)
class Gradients:
    """What a node shows, saves and gives besides what follows from the pull-back.

    Attributes:
      fused: the node's name of the gradient of the gradient, where PyTorch runs backward as one operation of its own;
        a function as of ``Operation.node`` gives it too.
      kept: the operands and outputs that PyTorch saves though the derivative reads nothing of them but their type.
      auxiliary: the outputs that have no derivative.
      constants: what ``_saved_*`` shows, besides, of every node of it: names and values.
      views: by an operand's name, from the geometry of the result's gradient, the Python numbers and the parameters to
        the geometry of the operand's, which is a view of it, where the pull-back does not show that.
      strides: by an operand's name, how the strides of its gradient follow from the operands' types.
      columns: the operands, matrices, whose gradients lie in memory column by column if they do themselves.
      undefined: from the operands' types and the parameters to whether the gradients are undefined (None), not zero.
      refuse: raises PyTorch's errors for gradients that an operation has no derivative for: of what was saved, by name,
        the outputs' gradients (None for one that is undefined), and the parameters.
    """

    fused: str | Callable[..., str] | None = None
    kept: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()
    constants: tuple[tuple[str, Any], ...] = ()
    views: Mapping[str, Callable[..., Geometry | None]] = field(factory=dict)
    strides: Mapping[str, Callable[..., Ints | None]] = field(factory=dict)
    columns: tuple[str, ...] = ()
    undefined: Callable[..., bool] | None = None
    refuse: Callable[..., None] | None = None


@frozen(eq=False)
class Writing:
    """What is said of in-place calls.

    Attributes:
      overlap: what is checked of the memory of the tensor and the other operands; None for the usual.
      overloads: what PyTorch calls the in-place function of this operation, if the last operand is a tensor and if it
        is a number; "" if it has one alone.
    """

    overlap: Callable[[Tensor, Sequence[Any]], None] | None = None
    overloads: tuple[str, str] = ("", "")

    def overload(self, operands: Sequence[Any]) -> str:
        """What PyTorch calls the in-place function that these operands are given to."""
        return self.overloads[not isinstance(operands[-1], Tensor)]


#: of ``Writing.overloads``: one for tensors and one for numbers, or one for both
BY_OPERAND = ("Tensor", "Scalar")
OF_TENSORS = ("Tensor", "Tensor")
#: operations of which nothing is said
COMPUTING: Computing = Computing()
GRADIENTS: Gradients = Gradients()
WRITING: Writing = Writing()
