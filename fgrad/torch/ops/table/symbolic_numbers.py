"""Functions of numbers that PyTorch's compiler also applies to unknown sizes; here all sizes are known.

Source: `torch.sym_float and its kin <https://docs.pytorch.org/docs/2.13/torch.html#symbolic-numbers>`_.
"""

import math
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.torch.ops.table.dispatch import Dispatch
from fgrad.torch.ops.table.table import composite

_SYMBOLIC = Dispatch(Rule.WRITTEN, "torch")


@composite(method=False, dispatch=_SYMBOLIC)
def sym_float(a: Any) -> float:
    """A number as a float."""
    return float(a)


@composite(method=False, dispatch=_SYMBOLIC)
def sym_int(a: Any) -> int:
    """A number as an integer, rounded towards zero."""
    return int(a)


@composite(method=False, dispatch=_SYMBOLIC)
def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a float if one of them is.

    >>> import fgrad.torch as torch
    >>> torch.sym_max(1, 2.0)
    2.0
    """
    largest = max(a, b)
    return float(largest) if isinstance(a, float) or isinstance(b, float) else largest


@composite(method=False, dispatch=_SYMBOLIC)
def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float if one of them is."""
    smallest = min(a, b)
    return float(smallest) if isinstance(a, float) or isinstance(b, float) else smallest


@composite(method=False, dispatch=_SYMBOLIC)
def sym_not(a: Any) -> bool:
    """The negation of a boolean."""
    return not a


@composite(method=False, dispatch=_SYMBOLIC)
def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """One of two values."""
    return t if b else f


@composite(method=False, dispatch=_SYMBOLIC)
def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


@composite(method=False, dispatch=evolve(_SYMBOLIC, name="_sym_sqrt"))
def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)
