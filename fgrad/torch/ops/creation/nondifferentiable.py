"""Operations that have no derivative, in PyTorch neither: their results require grad, and backward is an error.

What NumPy has computed goes through an operation of the operands that gives it on, so that the error names who has no
derivative; without it gradients would be lost in silence.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.api.rules import define_rule
from fgrad.errors import undefined
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.ops.creation.creation import made


def underived(name: str, node: str, *operands: str, results: int = 1) -> Operation:
    """The operation of these operands whose results are its last operands."""

    def given(*arrays: Any) -> Any:
        return arrays[-1] if results == 1 else arrays[-results:]

    def refuse(*_: Any) -> Any:
        raise undefined(name, "PyTorch has no derivative of it.")

    values = tuple([f"value{i}" for i in range(results)])
    places = frozenset(range(len(operands), len(operands) + results))
    function = given if node == NOT_IMPLEMENTED else define_rule(given, vjp=refuse, jvp=refuse)
    return Operation(name, function, node, (*operands, *values), (), places, outputs=())


def given_by(operation: Operation, operands: Sequence[Tensor], *values: np.ndarray, dtype: Dtype) -> Any:
    """Arrays as the results of an operation."""
    return apply(operation, (*operands, *[made(value, dtype) for value in values]))
