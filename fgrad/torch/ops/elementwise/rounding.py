"""Rounding down, up, to nearest and towards zero, and fractional parts."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import FOUND
from fgrad.torch.ops.table.overloads import Choice, add_alias, overload, overloaded
from fgrad.torch.ops.table.table import Array, operation


def _rounded(name: str, x: Any, function: Any) -> Any:
    """``function`` of floating-point numbers; integers unchanged."""
    if kind(x) == "c":
        raise NotImplementedError(f"{name} is not supported for complex inputs")
    check_kinds(f"{name}_vml_cpu", "if", x)
    return x if kind(x) == "i" else function(x)


@operation("FloorBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def floor(input: Array) -> Any:
    """The largest integers not above the elements.

    Source: `torch.floor <https://docs.pytorch.org/docs/stable/generated/torch.floor.html>`_.
    """
    return _rounded("floor", input, lax.floor)


@operation("CeilBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def ceil(input: Array) -> Any:
    """The smallest integers not below the elements.

    Source: `torch.ceil <https://docs.pytorch.org/docs/stable/generated/torch.ceil.html>`_.
    """
    return _rounded("ceil", input, lax.ceil)


@operation("TruncBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def trunc(input: Array) -> Any:
    """The elements without their fractional parts.

    Source: `torch.trunc <https://docs.pytorch.org/docs/stable/generated/torch.trunc.html>`_.
    """
    return _rounded("trunc", input, jnp.trunc)


add_alias("fix", "trunc")


@overload("round", "RoundBackward0", strides=elementwise)
def _round(input: Array) -> Any:
    return _rounded("round", input, lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))


@overload("round", "RoundBackward1", strides=elementwise)
def _round_decimals(input: Array, decimals: int) -> Any:
    check_kinds("round_cpu" if decimals else "round_vml_cpu", "f", input)
    power = np.asarray(10.0 ** abs(decimals), input.dtype)
    scaled = input * power if decimals > 0 else input / power
    rounded = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
    return rounded / power if decimals > 0 else rounded * power


@overloaded(inplace=True, out=FOUND, foreach=True)
def round(input: Array, *, decimals: int | None = None) -> Choice:
    """The nearest integers, at ties the even one; with ``decimals``, the nearest numbers with these.

    >>> import fgrad.torch as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])

    Source: `torch.round <https://docs.pytorch.org/docs/stable/generated/torch.round.html>`_.
    """
    return (_round, input) if decimals is None else (_round_decimals, input, decimals)


@operation("FracBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def frac(input: Array) -> Any:
    """The fractional parts, with the signs of the elements.

    Source: `torch.frac <https://docs.pytorch.org/docs/stable/generated/torch.frac.html>`_.
    """
    check_kinds("frac_cpu", "f", input)
    return input - jnp.trunc(input)
