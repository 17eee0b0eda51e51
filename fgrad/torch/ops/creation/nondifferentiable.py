"""Operations without a derivative, here as in PyTorch: their results require grad, and backward is an error.

Values that NumPy has computed pass through an operation of the operands.  Its derivative is an error that names the
function; without it gradients would be silently lost.
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
from fgrad.torch.ops.creation.making import tensor_beside


def underived(name: str, node: str, *operands: str, results: int = 1) -> Operation:
    """An operation of these operands, and of the values that it returns as its results."""

    def last_operands(*arrays: Any) -> Any:
        return arrays[-1] if results == 1 else arrays[-results:]

    def refuse(*_: Any) -> Any:
        raise undefined(name, "PyTorch has no derivative of it.")

    value_names = tuple([f"value{i}" for i in range(results)])
    nondifferentiable = frozenset(range(len(operands), len(operands) + results))
    function = last_operands if node == NOT_IMPLEMENTED else define_rule(last_operands, vjp=refuse, jvp=refuse)
    return Operation(name, function, node, (*operands, *value_names), (), nondifferentiable, outputs=())


def given_by(operation: Operation, operands: Sequence[Tensor], *values: np.ndarray, dtype: Dtype) -> Any:
    """Arrays as the results of an operation made by ``underived``."""
    return apply(operation, (*operands, *[tensor_beside(operands[0], value, dtype) for value in values]))
