"""The operation of a primitive with foreign rules, where it is to be transposed; see NOTE [Foreign rules]."""

from collections.abc import Sequence
from typing import Any

from fgrad.graph.op import Op, Region, intern
from fgrad.jaxcore import ShapedArray


class ForeignLinear(Region):
    """An operation that is linear in some of its inputs.

    Parameters: ``op``, the operation; ``linear``, for each input whether it is linear in that.
    """

    name = "foreign_linear"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        return params["op"].bind(args)

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["op"].out_types

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["op"].effects


foreign_linear: ForeignLinear = ForeignLinear()


def linear_in(op: Op, linear: Sequence[bool]) -> Op:
    """An operation, as one that is linear in the inputs that ``linear`` marks."""
    return intern(foreign_linear, {"op": op, "linear": tuple(linear)}, op.in_types)
