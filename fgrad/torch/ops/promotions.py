"""How operands are made of one type: the values of ``promote=`` in the table."""

from typing import Any

from fgrad.torch.core.operation import OperandType, promoted
from fgrad.torch.dtypes import dtype as Dtype, get_default_dtype

Types = tuple[OperandType, ...]


def common(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands."""
    return promoted(types)


def inexact(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands; the default floating type if that is an integer type."""
    found = promoted(types)
    return found if found.is_floating_point or found.is_complex else get_default_dtype()
