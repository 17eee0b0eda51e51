"""Comparisons, and tests of single elements."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise, elementwise_of_tensors
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete
from fgrad.torch.ops.table.broadcasting import aligned, common
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import BOOLEAN, NOT_TAKEN
from fgrad.torch.ops.table.overloads import Choice, chooser_of, overload, overloaded
from fgrad.torch.ops.table.table import TABLE, Array, Number, Operand, composite, operation

_SIGNATURES = (
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, Number other, *, Tensor out = None",
)


def _comparison(name: str, compare: Any, kinds: str) -> tuple[Any, Any]:
    """The overloads of a comparison, with a tensor and with a number."""
    settings: dict[str, Any] = {"overloads": BY_OPERAND, "promote": common, "strides": elementwise}

    @overload(name, f"{name.title()}Backward1", name=f"_{name}_tensor", **settings)
    def with_tensor(input: Array, other: Array) -> Any:
        check_kinds(f"{name}_cpu", kinds, input)
        return compare(*aligned(input, other))

    @overload(name, f"{name.title()}Backward0", name=f"_{name}_number", **settings)
    def with_number(input: Array, other: Number) -> Any:
        check_kinds(f"{name}_cpu", kinds, input)
        return compare(input, lax.full_like(input, other.astype(input.dtype)))

    return with_tensor, with_number


_eq = _comparison("eq", lax.eq, "bifc")


@overloaded(inplace=True, signatures=_SIGNATURES)
def eq(input: Array, other: Operand) -> Choice:
    """Whether elements are equal.

    Source: `torch.eq <https://docs.pytorch.org/docs/stable/generated/torch.eq.html>`_.
    """
    return _eq[not isinstance(other, Tensor)], input, other


_ne = _comparison("ne", lax.ne, "bifc")


@overloaded(inplace=True, signatures=_SIGNATURES)
def ne(input: Array, other: Operand) -> Choice:
    """Whether elements differ.

    Source: `torch.ne <https://docs.pytorch.org/docs/stable/generated/torch.ne.html>`_.
    """
    return _ne[not isinstance(other, Tensor)], input, other


_lt = _comparison("lt", lax.lt, "bif")


@overloaded(inplace=True, signatures=_SIGNATURES)
def lt(input: Array, other: Operand) -> Choice:
    """Whether ``input`` is less.

    Source: `torch.lt <https://docs.pytorch.org/docs/stable/generated/torch.lt.html>`_.
    """
    return _lt[not isinstance(other, Tensor)], input, other


_le = _comparison("le", lax.le, "bif")


@overloaded(inplace=True, signatures=_SIGNATURES)
def le(input: Array, other: Operand) -> Choice:
    """Whether ``input`` is less or equal.

    Source: `torch.le <https://docs.pytorch.org/docs/stable/generated/torch.le.html>`_.
    """
    return _le[not isinstance(other, Tensor)], input, other


_gt = _comparison("gt", lax.gt, "bif")


@overloaded(inplace=True, signatures=_SIGNATURES)
def gt(input: Array, other: Operand) -> Choice:
    """Whether ``input`` is greater.

    Source: `torch.gt <https://docs.pytorch.org/docs/stable/generated/torch.gt.html>`_.
    """
    return _gt[not isinstance(other, Tensor)], input, other


_ge = _comparison("ge", lax.ge, "bif")


@overloaded(inplace=True, signatures=_SIGNATURES)
def ge(input: Array, other: Operand) -> Choice:
    """Whether ``input`` is greater or equal.

    Source: `torch.ge <https://docs.pytorch.org/docs/stable/generated/torch.ge.html>`_.
    """
    return _ge[not isinstance(other, Tensor)], input, other


for _name, _of in (
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
):
    overloaded(inplace=True, name=_name, signatures=_SIGNATURES)(chooser_of(TABLE[_of].call))


@composite()
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements.

    Source: `torch.equal <https://docs.pytorch.org/docs/stable/generated/torch.equal.html>`_.
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type_name(other)}")
    if input._type.shape != other._type.shape:
        return False
    return bool(concrete(eq(input, other)._value()).all())


# -- closeness -------------------------------------------------------------------------------------------------------


@operation(strides=elementwise_of_tensors, method=False, function=False)
def _isclose(input: Array, other: Array, rtol: Number, atol: Number, equal_nan: bool) -> Any:
    x, y = aligned(input, other)
    if kind(x) == "b":
        return x == y
    close = x == y
    if equal_nan and kind(x) in "fc":
        close = close | (jnp.isnan(x) & jnp.isnan(y))
    wide = x if kind(x) in "fc" else x.astype(np.float64)
    other = y.astype(wide.dtype)
    allowed = atol + abs(rtol * other)
    distance = abs(wide - other)
    return close | (jnp.isfinite(distance) & (distance <= allowed))


@composite(out=NOT_TAKEN)
def isclose(input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether elements differ by at most ``atol + rtol * abs(other)``.

    Source: `torch.isclose <https://docs.pytorch.org/docs/stable/generated/torch.isclose.html>`_.
    """
    if input._type.dtype is not other._type.dtype:
        raise RuntimeError(f"{input._type.dtype.scalar_name} did not match {other._type.dtype.scalar_name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    return _isclose(input, other, float(rtol), float(atol), equal_nan)


@composite()
def allclose(input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as by ``isclose``.

    Source: `torch.allclose <https://docs.pytorch.org/docs/stable/generated/torch.allclose.html>`_.
    """
    return bool(concrete(isclose(input, other, rtol, atol, equal_nan)._value()).all())


# -- tests of single elements ----------------------------------------------------------------------------------------


@operation(strides=elementwise, out=NOT_TAKEN)
def isnan(input: Array) -> Any:
    """Whether elements are NaN.

    Source: `torch.isnan <https://docs.pytorch.org/docs/stable/generated/torch.isnan.html>`_.
    """
    return jnp.isnan(input)


@operation(strides=elementwise, out=NOT_TAKEN)
def isinf(input: Array) -> Any:
    """Whether elements are infinite.

    Source: `torch.isinf <https://docs.pytorch.org/docs/stable/generated/torch.isinf.html>`_.
    """
    return jnp.isinf(input)


@operation(strides=elementwise, out=NOT_TAKEN)
def isfinite(input: Array) -> Any:
    """Whether elements are finite numbers.

    Source: `torch.isfinite <https://docs.pytorch.org/docs/stable/generated/torch.isfinite.html>`_.
    """
    return jnp.isfinite(input)


def _check_real(name: str, x: Any) -> None:
    if kind(x) == "c":
        raise RuntimeError(f"{name} does not support complex inputs.")


@operation(strides=elementwise, out=BOOLEAN)
def isposinf(input: Array) -> Any:
    """Whether elements are positive infinity.

    Source: `torch.isposinf <https://docs.pytorch.org/docs/stable/generated/torch.isposinf.html>`_.
    """
    _check_real("isposinf", input)
    return input == math.inf if kind(input) == "f" else lax.full_like(input, False, np.bool_)


@operation(strides=elementwise, out=BOOLEAN)
def isneginf(input: Array) -> Any:
    """Whether elements are negative infinity.

    Source: `torch.isneginf <https://docs.pytorch.org/docs/stable/generated/torch.isneginf.html>`_.
    """
    _check_real("isneginf", input)
    return input == -math.inf if kind(input) == "f" else lax.full_like(input, False, np.bool_)


@operation(strides=elementwise, out=NOT_TAKEN)
def isreal(input: Array) -> Any:
    """Whether elements have no imaginary part.

    Source: `torch.isreal <https://docs.pytorch.org/docs/stable/generated/torch.isreal.html>`_.
    """
    return lax.imag(input) == 0 if kind(input) == "c" else lax.full_like(input, True, np.bool_)


@composite()
def is_nonzero(input: Any) -> bool:
    """Whether the only element is not zero.

    Source: `torch.is_nonzero <https://docs.pytorch.org/docs/stable/generated/torch.is_nonzero.html>`_.
    """
    return bool(input)
