"""Exponentials, logarithms and the logistic function."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.broadcasting import choose, common, derivative, in_float, inexact, rounded_once
from fgrad.torch.ops.table.kinds import check_floating, check_kinds, kind
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Float, Number, Operand, operation

# -- exponentials and logarithms -------------------------------------------------------------------------------------


@operation("ExpBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def exp(input: Array) -> Any:
    """The exponential function.

    >>> import fgrad.torch as torch
    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])

    Source: `torch.exp <https://docs.pytorch.org/docs/stable/generated/torch.exp.html>`_.
    """
    return lax.exp(input)


@derivative(lambda ct, out, x: (in_float(lambda y: y * np.asarray(math.log(2), y.dtype), ct * out),))
def _exp2(x: Any) -> Any:
    return in_float(lax.exp2, x)


@operation("Exp2Backward0", promote=inexact, strides=elementwise, inplace=True)
def exp2(input: Array) -> Any:
    """2 to the power of the elements.

    Source: `torch.exp2 <https://docs.pytorch.org/docs/stable/generated/torch.exp2.html>`_.
    """
    return _exp2(input)


_expm1 = rounded_once(lax.expm1, lambda ct, out, x: (ct * (out + 1),))


@operation("Expm1Backward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def expm1(input: Array) -> Any:
    """``exp(x) - 1``, exact near 0.

    Source: `torch.expm1 <https://docs.pytorch.org/docs/stable/generated/torch.expm1.html>`_.
    """
    return _expm1(input)


@operation("LogBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def log(input: Array) -> Any:
    """The natural logarithm.

    >>> import fgrad.torch as torch
    >>> torch.log(torch.tensor([1., 10.]))
    tensor([0.0000, 2.3026])

    Source: `torch.log <https://docs.pytorch.org/docs/stable/generated/torch.log.html>`_.
    """
    return lax.log(input)


def _logarithm(base: float, function: Any) -> Any:
    @derivative(lambda ct, out, x: (ct / in_float(lambda x: x * np.asarray(math.log(base), x.dtype), x),))
    def ruled(x: Any) -> Any:
        return function(x)

    return ruled


_log2 = _logarithm(2.0, lambda x: in_float(jnp.log2, x))
_log10 = _logarithm(10.0, lambda x: in_float(jnp.log10, x))


@operation("Log2Backward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def log2(input: Array) -> Any:
    """The logarithm to base 2.

    Source: `torch.log2 <https://docs.pytorch.org/docs/stable/generated/torch.log2.html>`_.
    """
    return _log2(input)


@operation("Log10Backward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def log10(input: Array) -> Any:
    """The logarithm to base 10.

    Source: `torch.log10 <https://docs.pytorch.org/docs/stable/generated/torch.log10.html>`_.
    """
    return _log10(input)


@operation("Log1PBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def log1p(input: Array) -> Any:
    """``log(1 + x)``, exact near 0.

    Source: `torch.log1p <https://docs.pytorch.org/docs/stable/generated/torch.log1p.html>`_.
    """
    return lax.log1p(input)


def _log_of_sum(x: Any, y: Any, log1p: Any, exp: Any) -> Any:
    difference = x - y
    larger = jnp.maximum(x, y) if kind(x) != "c" else choose(lax.real(difference) >= 0, x, y)
    smaller = -abs(difference) if kind(x) != "c" else choose(lax.real(difference) >= 0, -difference, difference)
    # equal infinities give NaN in the difference; their sum is the result
    return choose(jnp.isnan(difference), x + y, larger + log1p(exp(smaller)))


@derivative(lambda ct, out, x, y: (ct / (1 + jnp.exp(y - x)), ct / (1 + jnp.exp(x - y))))
def _logaddexp(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, lax.log1p, lax.exp)


@derivative(lambda ct, out, x, y: (ct / (1 + jnp.exp2(y - x)), ct / (1 + jnp.exp2(x - y))))
def _logaddexp2(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, lambda z: lax.log1p(z) / np.asarray(math.log(2), z.dtype), lax.exp2)


@operation("LogaddexpBackward0", promote=common, strides=elementwise)
def logaddexp(input: Array, other: Array) -> Any:
    """``log(exp(x) + exp(y))`` without overflow.

    Source: `torch.logaddexp <https://docs.pytorch.org/docs/stable/generated/torch.logaddexp.html>`_.
    """
    check_kinds("logaddexp_cpu", "fc", input)
    return _logaddexp(input, other)


@operation("Logaddexp2Backward0", promote=common, strides=elementwise)
def logaddexp2(input: Array, other: Array) -> Any:
    """``log2(2**x + 2**y)`` without overflow.

    Source: `torch.logaddexp2 <https://docs.pytorch.org/docs/stable/generated/torch.logaddexp2.html>`_.
    """
    check_kinds("logaddexp2_cpu", "f", input)
    return _logaddexp2(input, other)


def times_log(log: Callable[[Any], Any], argument: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """``x * log(y)``, 0 where ``x`` is; ``log`` is the logarithm of ``argument(y)``, whose derivative is 1."""

    def product(x: Any, y: Any) -> Any:
        return choose(jnp.isnan(y), y, choose(x == 0, 0, x * log(y)))

    def linear_pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return linear(ct, y), ct * x / argument(y)

    def pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return choose((x == 0) & (argument(y) <= 0), 0, linear(ct, y)), ct * x / argument(y)

    # linear in ``x``, so that the pull-back has a transpose
    linear = derivative(linear_pullback)(product)
    return derivative(pullback)(product)


def overloads_with_numbers(
    name: str, node: str, function: Callable[[Any, Any], Any], check: Callable[[str, Any], None], **settings: Any
) -> Callable[[Any, Any], Choice]:
    """Enter the overloads of a function of two tensors, of which either may be a number; returns their chooser.

    ``check`` is called with the name of PyTorch's kernel and a tensor operand, ``settings`` are as in ``overload``.
    """
    settings = {"promote": inexact, "strides": elementwise, **settings}

    @overload(name, f"{node}0", name=f"_{name}_tensors", **settings)
    def of_tensors(input: Operand, other: Operand) -> Any:
        check(f"{name}_cpu", input)
        return function(input, other)

    @overload(name, f"{node}1", name=f"_{name}_of_number", wrapped=of_tensors, **settings)
    def of_number(input: Number, other: Array) -> Any:
        check(f"{name}_cpu", other)
        return function(input.astype(other.dtype), other)

    @overload(name, f"{node}2", name=f"_{name}_number", wrapped=of_tensors, **settings)
    def with_number(input: Array, other: Number) -> Any:
        check(f"{name}_cpu", input)
        return function(input, other.astype(input.dtype))

    def chosen(input: Any, other: Any) -> Choice:
        if not isinstance(input, Tensor):
            return of_number, input, other
        return (of_tensors if isinstance(other, Tensor) else with_number), input, other

    return chosen


_choose_xlogy = overloads_with_numbers(
    "xlogy", "XlogyBackward", times_log(jnp.log, lambda y: y), check_floating, overloads=("Tensor", "Scalar_Other")
)
WITH_NUMBERS = (
    "Tensor input, Tensor other, *, Tensor out = None",
    "Number self, Tensor other, *, Tensor out = None",
    "Tensor input, Number other, *, Tensor out = None",
)


@overloaded(inplace=True, signatures=WITH_NUMBERS)
def xlogy(input: Operand, other: Operand) -> Choice:
    """``input * log(other)``, which is 0 where ``input`` is.

    >>> import fgrad.torch as torch
    >>> torch.xlogy(torch.tensor([0., 2.]), torch.tensor([0., 1.]))
    tensor([0., 0.])

    Source: `torch.xlogy <https://docs.pytorch.org/docs/stable/generated/torch.xlogy.html>`_.
    """
    return _choose_xlogy(input, other)


# -- the logistic function -------------------------------------------------------------------------------------------


def _logistic_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    def product(ct: Any, out: Any) -> Any:
        return ct * (1 - out) * out

    # PyTorch's kernel rounds float16 after each step, bfloat16 once
    return (product(ct, out) if out.dtype == np.float16 else in_float(product, ct, out),)


_logistic = rounded_once(lax.logistic, _logistic_pullback)


@operation(
    "SigmoidBackward0",
    promote=inexact,
    strides=elementwise,
    inplace=True,
    backward_node="SigmoidBackwardBackward0",
    foreach=True,
)
def sigmoid(input: Array) -> Any:
    """The logistic function ``1 / (1 + exp(-x))``.

    >>> import fgrad.torch as torch
    >>> torch.sigmoid(torch.tensor([0., 1.]))
    tensor([0.5000, 0.7311])

    Source: `torch.sigmoid <https://docs.pytorch.org/docs/stable/generated/torch.sigmoid.html>`_.
    """
    return _logistic(input)


def _logit_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    return (choose((x >= 0) & (x <= 1), ct / (x * (1 - x)), np.nan),)


@derivative(_logit_pullback)
def _logit(x: Any) -> Any:
    return lax.log(x / (1 - x))


def _logit_within_pullback(ct: Any, out: Any, x: Any, low: Any, high: Any) -> tuple[Any, None, None]:
    return choose((x < low) | (x > high), 0, ct / (x * (1 - x))), None, None


@derivative(_logit_within_pullback)
def _logit_within(x: Any, low: Any, high: Any) -> Any:
    x = jnp.maximum(jnp.minimum(x, high), low)
    return lax.log(x / (1 - x))


@operation("LogitBackward0", promote=inexact, strides=elementwise, inplace=True)
def logit(input: Array, eps: Float = None) -> Any:
    """The inverse of the logistic function; with ``eps``, of the input clamped to ``[eps, 1 - eps]``.

    Source: `torch.logit <https://docs.pytorch.org/docs/stable/generated/torch.logit.html>`_.
    """
    check_kinds("logit_cpu", "f", input)
    return _logit(input) if eps is None else _logit_within(input, *[b.astype(input.dtype) for b in (eps, 1 - eps)])
