"""Special functions: error functions, gamma functions and others.

Those that only ``torch.special`` has are in the table under "special.".
"""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp, scipy as jsp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, dtype as Dtype
from fgrad.torch.ops.elementwise.arithmetic import scaled_by, shifted_by
from fgrad.torch.ops.elementwise.elementary import WITH_NUMBERS, overloads_with_numbers, times_log
from fgrad.torch.ops.families import put_method
from fgrad.torch.ops.table.broadcasting import (
    Types,
    aligned,
    choose,
    common,
    derivative,
    in_float,
    inexact,
    rounded_once,
)
from fgrad.torch.ops.table.kinds import check_floating, check_kinds, check_wide
from fgrad.torch.ops.table.outputs import CAST, cast
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Operand, composite, operation

# -- error functions -------------------------------------------------------------------------------------------------


def _erf_derivative(x: Any) -> Any:
    """The derivative of the error function."""
    return in_float(lambda y: y * np.asarray(2 / math.sqrt(math.pi), y.dtype), lax.exp(-(x * x)))


_erf = rounded_once(lax.erf, lambda ct, out, x: (_erf_derivative(x) * ct,))
_erfc = rounded_once(lax.erfc, lambda ct, out, x: (-_erf_derivative(x) * ct,))


@operation("ErfBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def erf(input: Array) -> Any:
    """The error function.

    Source: `torch.erf <https://docs.pytorch.org/docs/stable/special.html#torch.special.erf>`_.
    """
    check_kinds("erf_vml_cpu", "f", input)
    return _erf(input)


@operation("ErfcBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def erfc(input: Array) -> Any:
    """One minus the error function.

    Source: `torch.erfc <https://docs.pytorch.org/docs/stable/special.html#torch.special.erfc>`_.
    """
    check_kinds("erfc_vml_cpu", "f", input)
    return _erfc(input)


@operation("ErfinvBackward0", promote=inexact, strides=elementwise, inplace=True, outputs=())
def erfinv(input: Array) -> Any:
    """The inverse of the error function.

    Source: `torch.erfinv <https://docs.pytorch.org/docs/stable/special.html#torch.special.erfinv>`_.
    """
    check_kinds("erfinv_vml_cpu", "f", input)
    return lax.erf_inv(input)


def special(name: str, node: str, **settings: Any) -> Any:
    """Enter an operation of ``torch.special``."""
    return operation(
        node,
        name=f"special.{name}",
        promote=inexact,
        strides=elementwise,
        method=False,
        function=False,
        **settings,
    )


@derivative(lambda ct, out, x: ((2 * x * out - 2 / math.sqrt(math.pi)) * ct,))
def _erfcx(x: Any) -> Any:
    return jsp.special.erfcx(x)


@special("erfcx", "SpecialErfcxBackward0")
def erfcx(input: Array) -> Any:
    """``exp(x**2) * erfc(x)``.

    Source: `torch.special.erfcx <https://docs.pytorch.org/docs/stable/special.html#torch.special.erfcx>`_.
    """
    check_wide("erfcx_cpu", input)
    return _erfcx(input)


@composite(method=False, function=False, namespace="special", out=CAST)
def ndtr(input: Array) -> Tensor:
    """The cumulative distribution function of the normal distribution.

    Source: `torch.special.ndtr <https://docs.pytorch.org/docs/stable/special.html#torch.special.ndtr>`_.
    """
    return scaled_by(shifted_by(erf(scaled_by(input, math.sqrt(0.5))), 1.0), 0.5)


@derivative(lambda ct, out, x: (ct * math.sqrt(2 * math.pi) * jnp.exp(out * out / 2),))
def _ndtri(x: Any) -> Any:
    return jsp.special.ndtri(x)


@special("ndtri", "SpecialNdtriBackward0")
def ndtri(input: Array) -> Any:
    """The inverse of the cumulative distribution function of the normal distribution.

    Source: `torch.special.ndtri <https://docs.pytorch.org/docs/stable/special.html#torch.special.ndtri>`_.
    """
    check_wide("ndtri_cpu", input)
    return _ndtri(input)


@derivative(lambda ct, out, x: (ct / math.sqrt(2 * math.pi) * jnp.exp(-(out + x * x / 2)),))
def _log_ndtr(x: Any) -> Any:
    return jsp.special.log_ndtr(x)


@special("log_ndtr", "SpecialLogNdtrBackward0")
def log_ndtr(input: Array) -> Any:
    """The logarithm of the cumulative distribution function of the normal distribution.

    Source: `torch.special.log_ndtr <https://docs.pytorch.org/docs/stable/special.html#torch.special.log_ndtr>`_.
    """
    check_wide("log_ndtr_cpu", input)
    return _log_ndtr(input)


@derivative(lambda ct, out, x: (choose(jnp.isnan(x), x, ct * (-jnp.log(x) - 1)),))
def _entr(x: Any) -> Any:
    return choose(jnp.isnan(x) | (x > 0), -x * jnp.log(x), choose(x == 0, 0, -np.inf))


@special("entr", "SpecialEntrBackward0")
def entr(input: Array) -> Any:
    """The entropy ``-x log(x)``, 0 at 0 and minus infinity below.

    Source: `torch.special.entr <https://docs.pytorch.org/docs/stable/special.html#torch.special.entr>`_.
    """
    check_kinds("entr_cpu", "f", input)
    return _entr(input)


# -- gamma functions -------------------------------------------------------------------------------------------------


@operation("LgammaBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def lgamma(input: Array) -> Any:
    """The logarithm of the absolute value of the gamma function.

    Source: `torch.lgamma <https://docs.pytorch.org/docs/stable/generated/torch.lgamma.html>`_.
    """
    check_kinds("lgamma_vml_cpu", "f", input)
    return _lgamma(input)


@derivative(lambda ct, out, x: (ct * _digamma(x),))
def _lgamma(x: Any) -> Any:
    # in single precision XLA gives 5e-7 at 1, where the logarithm is 0
    return lax.lgamma(x.astype(np.float64)).astype(x.dtype)


@derivative(lambda ct, out, x: (ct * _polygamma(1, x),))
def _digamma(x: Any) -> Any:
    return choose(x == 0, jnp.copysign(np.inf, -x).astype(x.dtype), lax.digamma(x))


@operation("DigammaBackward0", promote=inexact, strides=elementwise, inplace=True)
def digamma(input: Array) -> Any:
    """The derivative of ``lgamma``.

    Source: `torch.digamma <https://docs.pytorch.org/docs/stable/special.html#torch.special.digamma>`_.
    """
    check_kinds("digamma", "f", input)
    return _digamma(input)


def _trigamma(x: Any) -> Any:
    """The derivative of ``digamma``; below 1/2 by reflection, since the series is for positive numbers."""
    low = x < 0.5
    sine = jnp.sin(np.pi * x)
    series = choose(x == np.inf, 0, lax.zeta(lax.full_like(x, 2), choose(low, 1 - x, x)))
    return choose(low, (np.pi / sine) ** 2 - series, series)


def _hurwitz(order: Any, x: Any) -> Any:
    """The Hurwitz zeta function; its derivative with respect to the order is unknown."""

    @derivative(lambda ct, out, order, x: (lax.full_like(order, 0), -ct * order * _hurwitz(order + 1, x)))
    def zeta(order: Any, x: Any) -> Any:
        return in_float(_hurwitz_sum, order, x)

    return zeta(order, x)


def _hurwitz_sum(order: Any, x: Any) -> Any:
    """The terms of the series below 1 one by one, since XLA's sum is not for arguments far below zero.

    Its estimate of the rest is NaN at large orders, where the first term is all of it.
    """
    is_pole = (x <= 0) & (x == jnp.floor(x))
    x = choose(is_pole, 1, x)
    steps = jnp.maximum(jnp.ceil(1 - x), 0)

    def step(state: Any) -> Any:
        partial, k = state
        return partial + choose(k < steps, (x + k) ** -order, 0), k + 1

    start = lax.full_like(x, 0), lax.full((), 0, x.dtype)
    first_terms, _ = lax.while_loop(lambda state: jnp.any(state[1] < steps), step, start)
    x = x + steps
    first, second = x**-order, (x + 1) ** -order
    is_all = second < jnp.finfo(x.dtype).eps * (first_terms + first)
    return choose(is_pole & ~(order < 1), np.inf, first_terms + choose(is_all, first, lax.zeta(order, x)))


def _polygamma(n: int, x: Any) -> Any:
    """The ``n``-th derivative of the digamma function."""
    if n == 0:
        return _digamma(x)

    @derivative(lambda ct, out, x: (ct * _polygamma(n + 1, x),))
    def of_order(x: Any) -> Any:
        if n == 1:
            return in_float(_trigamma, x)
        sign = 1.0 if n % 2 else -1.0
        return sign * math.gamma(n + 1) * _hurwitz(lax.full_like(x, n + 1), x)

    return of_order(x)


def _polygamma_of(input: Array, n: int) -> Any:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    check_kinds({0: "digamma", 1: "trigamma"}.get(n, "polygamma"), "f", input)
    return _polygamma(n, input)


_POLYGAMMA, _POLYGAMMA_INPLACE = [
    overload("polygamma", f"PolygammaBackward{i}", promote=inexact, strides=elementwise)(_polygamma_of)
    for i in range(2)
]


@composite(method=False)
def polygamma(n: int, input: Array, *, out: Any = None) -> Tensor:
    """The ``n``-th derivative of the digamma function.

    >>> import fgrad.torch as torch
    >>> torch.polygamma(1, torch.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])

    Source: `torch.polygamma <https://docs.pytorch.org/docs/stable/special.html#torch.special.polygamma>`_.
    """
    return _POLYGAMMA(input, n, out=out)


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of the digamma function."""
    return polygamma(n, self)


def _polygamma_twin(self: Tensor, n: int) -> Tensor:
    """``polygamma`` in place."""
    return _POLYGAMMA_INPLACE.write(self, n)


put_method("polygamma", _polygamma_method)
put_method("polygamma_", _polygamma_twin)


def _gamma_arguments(x: Any, p: int) -> Any:
    return x[..., None] + (np.arange(p) / 2 - (p - 1) / 2).astype(x.dtype)


def _inexact_of_number(types: Types, params: dict[str, Any]) -> Dtype:
    (of_input,) = types
    if of_input is not None and of_input.dtype is bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    return inexact(types, params)


@operation(
    "MvlgammaBackward0",
    promote=_inexact_of_number,
    strides=elementwise,
    inplace=True,
    out=cast("mvlgamma: result type {want} can't be cast to the desired output type {got}"),
)
def mvlgamma(input: Array, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Source: `torch.mvlgamma <https://docs.pytorch.org/docs/stable/special.html#torch.special.multigammaln>`_.
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    check_kinds("arange_cpu", "f", input)

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        return (ct * jnp.sum(_digamma(_gamma_arguments(x, p)), -1),)

    @derivative(pullback)
    def of_dimension(x: Any) -> Any:
        return jnp.sum(_lgamma(_gamma_arguments(x, p)), -1) + p * (p - 1) / 4 * math.log(math.pi)

    return of_dimension(input)


def _at_limits(function: Any, value_at_zero: int, order: Any, x: Any) -> Any:
    """An incomplete gamma function, including the limits that XLA leaves undefined.

    Source: PyTorch: aten/src/ATen/native/Math.h, calc_igamma
    """
    value = function(order, x)
    undefined = (x < 0) | (jnp.isinf(order) & jnp.isinf(x)) | (order < 0)
    at_zero = (jnp.isinf(order) & ~undefined) | (jnp.isnan(order) & (x == 0))
    at_infinity = ((order == 0) & (x > 0)) | (jnp.isnan(order) & (x == jnp.inf))
    value = choose(jnp.isinf(order) & undefined, jnp.nan, value)
    return choose(at_zero, value_at_zero, choose(at_infinity, 1 - value_at_zero, value))


@operation(
    "IgammaBackward0",
    promote=common,
    strides=elementwise,
    inplace=True,
    outputs=(),
    not_derived={"self": "igamma: input"},
)
def igamma(input: Array, other: Array) -> Any:
    """The regularized lower incomplete gamma function of order ``input`` at ``other``.

    Source: `torch.igamma <https://docs.pytorch.org/docs/stable/special.html#torch.special.gammainc>`_.
    """
    check_kinds("igamma_cpu", "f", input)
    return _at_limits(lax.igamma, 0, *aligned(input, other))


@operation(
    "IgammacBackward0",
    promote=common,
    strides=elementwise,
    inplace=True,
    outputs=(),
    not_derived={"self": "igammac: input"},
)
def igammac(input: Array, other: Array) -> Any:
    """The regularized upper incomplete gamma function of order ``input`` at ``other``.

    Source: `torch.igammac <https://docs.pytorch.org/docs/stable/special.html#torch.special.gammaincc>`_.
    """
    check_kinds("igammac_cpu", "f", input)
    return _at_limits(lax.igammac, 1, *aligned(input, other))


_choose_zeta = overloads_with_numbers(
    "zeta",
    "SpecialZetaBackward",
    lambda x, y: _hurwitz(*aligned(x, y)),
    check_wide,
    outputs=(),
    not_derived={"self": "zeta"},
)


@overloaded(namespace="special", signatures=WITH_NUMBERS)
def zeta(input: Operand, other: Operand) -> Choice:
    """The Hurwitz zeta function of ``input`` at ``other``.

    Source: `torch.special.zeta <https://docs.pytorch.org/docs/stable/special.html#torch.special.zeta>`_.
    """
    return _choose_zeta(input, other)


# -- x log(1 + y) ----------------------------------------------------------------------------------------------------


_choose_xlog1py = overloads_with_numbers(
    "xlog1py", "SpecialXlog1PyBackward", times_log(jnp.log1p, lambda y: y + 1), check_floating
)


@overloaded(namespace="special", signatures=WITH_NUMBERS)
def xlog1py(input: Operand, other: Operand) -> Choice:
    """``input * log(1 + other)``, which is 0 where ``input`` is.

    Source: `torch.special.xlog1py <https://docs.pytorch.org/docs/stable/special.html#torch.special.xlog1py>`_.
    """
    return _choose_xlog1py(input, other)
