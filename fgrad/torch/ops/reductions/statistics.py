"""Variances, standard deviations, covariances, and counts of integers."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.operands import number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.values.capacity import check_storage
from fgrad.torch.ops.creation.copying import elements
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.creation.nondifferentiable import given_by, underived
from fgrad.torch.ops.elementwise.complex_numbers import complex
from fgrad.torch.ops.examples import each_example
from fgrad.torch.ops.linalg.products import matmul
from fgrad.torch.ops.reductions.reductions import Dims, average, axes_of, mean, reduced_count, static_dims, sum
from fgrad.torch.ops.table.broadcasting import choose, number_like
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import CAST, NOT_TAKEN
from fgrad.torch.ops.table.overloads import Overload, overload
from fgrad.torch.ops.table.table import Array, Number, SymInt, composite
from fgrad.torch.ops.views.complex_views import imag, real
from fgrad.torch.ops.views.views import reshape

# -- variances -------------------------------------------------------------------------------------------------------


def _moments(input: Any, dim: Dims, correction: Any) -> tuple[Any, Any, Any, Any]:
    """The axes, degrees of freedom, mean and deviations."""
    if kind(input) not in "fc":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    axes = axes_of(dim, input.ndim)
    count = reduced_count(input.shape, axes)
    center = average(input, axes, True)
    correction = lax.convert_element_type(correction, np.float64)
    return axes, lax.sub(number_like(count, correction), correction), center, input - center


def _variance(input: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
    axes, freedom, _, deviations = _moments(input, dim, correction)
    squares = lax.real(deviations * lax.conj(deviations)) if input.dtype.kind == "c" else deviations * deviations
    total = jnp.sum(squares, axes, keepdims=keepdim)
    return lax.div(total, number_like(choose(freedom > 0, freedom, 0), total))


def _variance_pullback(ct: Any, x: Any, dim: Dims, correction: Any, special: bool) -> Any:
    """The cotangent of a variance's operand; ``ct`` has the reduced axes, with size 1."""
    _, freedom, center, deviations = _moments(x, dim, correction)
    if special:
        return ct * choose(lax.eq(x, center + lax.full_like(x, 0)), np.nan, np.inf).astype(x.dtype)
    if x.dtype.kind == "c":
        deviations = lax.conj(deviations)
    return number_like(2.0 / freedom, deviations) * ct * deviations


def _rounded_once(function: Any, x: Any) -> Any:
    """A function of an array, computed in 64 bits as in PyTorch: squares of numbers of 32 bits may be out of range."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    result = function(lax.convert_element_type(x, wide))
    return lax.convert_element_type(result, lax.real(x).dtype if x.dtype.kind == "c" else x.dtype)


def _with_reduced_axes(x: Any, dim: Dims, keepdim: bool, rank: int) -> Any:
    return x if keepdim else lax.expand_dims(x, axes_of(dim, rank))


def _var(input: Any, dim: Dims, correction: Any, keepdim: bool, special: bool) -> Any:
    def pullback(ct: Any, out: Any, x: Any, correction: Any) -> tuple[Any, None]:
        return _variance_pullback(_with_reduced_axes(ct, dim, keepdim, x.ndim), x, dim, correction, special), None

    def forward(x: Any, correction: Any) -> Any:
        return _rounded_once(lambda y: _variance(y, dim, correction, keepdim), x)

    return fgrad.define_rule(forward, vjp=pullback)(input, correction)


def _std(input: Any, dim: Dims, correction: Any, keepdim: bool, special: bool) -> Any:
    def pullback(ct: Any, out: Any, x: Any, correction: Any) -> tuple[Any, None]:
        # the gradient is 0 where the deviation is
        zero = lax.eq(out, lax.full_like(out, 0))
        ct = choose(zero, 0, ct / choose(zero, 1, out * 2))
        return _variance_pullback(_with_reduced_axes(ct, dim, keepdim, x.ndim), x, dim, correction, special), None

    def forward(x: Any, correction: Any) -> Any:
        return _rounded_once(lambda y: lax.sqrt(_variance(y, dim, correction, keepdim)), x)

    return fgrad.define_rule(forward, vjp=pullback)(input, correction)


@overload("var", "VarBackward0")
def _var_of(input: Array, dim: Dims, correction: Number, keepdim: bool, special: bool) -> Any:
    return _var(input, dim, correction, keepdim, special)


@overload("std", "StdBackward0")
def _std_of(input: Array, dim: Dims, correction: Number, keepdim: bool, special: bool) -> Any:
    return _std(input, dim, correction, keepdim, special)


@overload("var_mean", "VarMeanBackward0", outputs=("result0", "result1"))
def _var_mean(input: Array, dim: Dims, correction: Number, keepdim: bool, special: bool) -> Any:
    return _var(input, dim, correction, keepdim, special), average(input, axes_of(dim, input.ndim), keepdim)


@overload("std_mean", "StdMeanBackward0", outputs=("result0", "result1"))
def _std_mean(input: Array, dim: Dims, correction: Number, keepdim: bool, special: bool) -> Any:
    return _std(input, dim, correction, keepdim, special), average(input, axes_of(dim, input.ndim), keepdim)


def _applied(
    function: str, overload: Overload, input: Tensor, dim: Any, unbiased: Any, keepdim: Any, correction: Any
) -> Any:
    """A variance, or what is made of one; in ``var(unbiased)`` the flag is in the position of the axes."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is not None and unbiased is not None:
        raise TypeError(f"{function}() received an invalid combination of arguments: both unbiased and correction")
    correction = number_of(function, "correction", correction)
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = static_dims(dim)
    shape = input._type.shape
    axes = axes_of(dims, len(shape))
    results = math.prod([n for i, n in enumerate(shape) if i not in axes])
    few = input._type.inexact and (reduced_count(shape, axes) if results else 0) - correction <= 0
    if few:
        warn(
            f"{function}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            UserWarning,
        )
    return apply(overload.operation, (input, correction), (dims, bool(keepdim), few and (dims is None or not shape)))


@composite(out=CAST)
def var(
    input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """The variance of all elements or over axes.

    Arguments:
      input: the tensor.
      dim: the axis or axes.
      unbiased: divide by one less than the number of elements (the default).
      keepdim: keep the axes, with size 1.
      correction: divide by the number of elements less this, instead of ``unbiased``.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1., 3.]).var()
    tensor(2.)

    Source: `torch.var <https://docs.pytorch.org/docs/stable/generated/torch.var.html>`_.
    """
    return _applied("var", _var_of, input, dim, unbiased, keepdim, correction)


@composite(out=CAST)
def std(
    input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """The standard deviation of all elements or over axes; arguments as in ``var``.

    Source: `torch.std <https://docs.pytorch.org/docs/stable/generated/torch.std.html>`_.
    """
    return _applied("std", _std_of, input, dim, unbiased, keepdim, correction)


@composite(method=False, out=NOT_TAKEN)
def var_mean(
    input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """The variance and the mean; arguments as in ``var``.

    Source: `torch.var_mean <https://docs.pytorch.org/docs/stable/generated/torch.var_mean.html>`_.
    """
    if not input._type.inexact:
        raise RuntimeError("var_mean only support floating point and complex dtypes")
    return _applied("var_mean", _var_mean, input, dim, unbiased, keepdim, correction)


@composite(method=False, out=NOT_TAKEN)
def std_mean(
    input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean; arguments as in ``var``.

    Source: `torch.std_mean <https://docs.pytorch.org/docs/stable/generated/torch.std_mean.html>`_.
    """
    if not input._type.inexact:
        raise RuntimeError("std_mean only support floating point and complex dtypes")
    return _applied("std_mean", _std_mean, input, dim, unbiased, keepdim, correction)


# -- covariances -----------------------------------------------------------------------------------------------------


def _check_weights(name: str, weights: Tensor, expected: str, count: int) -> None:
    rank, dtype = len(weights._type.shape), weights._type.dtype
    if rank > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {rank} dimensions"
        )
    integral = not (weights._type.inexact or dtype is dtypes.bool_)
    if not (integral if expected == "integral" else dtype.is_floating_point):
        raise RuntimeError(
            f"cov(): expected {name} to have {expected} dtype but got {name} with {dtype.scalar_name} dtype"
        )
    if weights._type.numel != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights._type.numel} != {count}"
        )
    if bool((weights.detach() < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composite(out=NOT_TAKEN)
def cov(input: Array, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariance matrix of variables in rows, with observations in columns.

    Arguments:
      input: the observations; a vector is one variable.
      correction: divide by the number of observations less this.
      fweights: how often each observation counts.
      aweights: the weight of each observation.

    Source: `torch.cov <https://docs.pytorch.org/docs/stable/generated/torch.cov.html>`_.
    """
    shape = input._type.shape
    if len(shape) > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {len(shape)} dimensions"
        )
    if input._type.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if len(shape) == 2 else reshape(input, (1, -1))
    count = rows._type.shape[1]
    if fweights is not None:
        _check_weights("fweights", fweights, "integral", count)
    if aweights is not None:
        _check_weights("aweights", aweights, "floating point", count)
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        center, total = mean(rows.to(rows.dtype if rows._type.inexact else dtypes.get_default_dtype()), 1, True), count
    else:
        total = sum(weights)
        center = (sum(rows * weights, 1) / total).unsqueeze(1)
    centered = rows - center
    if weights is None or correction == 0 or aweights is None:
        norm = total - correction
    else:
        norm = total - correction * sum(weights * aweights) / total
    if norm <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
        )
    norm = norm.clamp(0) if isinstance(norm, Tensor) else max(norm, 0)
    scaled = centered if weights is None else centered * weights
    transposed = scaled.t().conj() if input._type.dtype.is_complex else scaled.t()
    product = matmul(centered, transposed)
    return (product / (norm if isinstance(norm, Tensor) else float(norm))).squeeze()


@composite(out=NOT_TAKEN)
def corrcoef(input: Array) -> Tensor:
    """The correlation coefficients of variables in rows.

    Source: `torch.corrcoef <https://docs.pytorch.org/docs/stable/generated/torch.corrcoef.html>`_.
    """
    if len(input._type.shape) > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input._type.shape)} dimensions"
        )
    coefficients = cov(input)
    if not coefficients._type.shape:
        return coefficients / coefficients
    deviations = coefficients.diagonal().sqrt()
    coefficients = coefficients / deviations.view(-1, 1) / deviations.view(1, -1)
    if not coefficients._type.dtype.is_complex:
        return coefficients.clamp(-1, 1)
    return complex(real(coefficients).clamp(-1, 1), imag(coefficients).clamp(-1, 1))


# -- counts ----------------------------------------------------------------------------------------------------------


_BINCOUNT = underived("bincount", NOT_IMPLEMENTED, "self", "weights")


@composite(out=NOT_TAKEN)
@each_example("aten::bincount")
def bincount(input: Array, weights: Any = None, minlength: SymInt = 0) -> Tensor:
    """How often each integer from 0 on occurs, or the sum of the weights of its occurrences.

    Source: `torch.bincount <https://docs.pytorch.org/docs/stable/generated/torch.bincount.html>`_.
    """
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    values = elements(input)
    check_kinds("bincount_cpu", "i", values)
    if values.ndim != 1 or (values.size and values.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    check_storage((max(int(values.max()) + 1 if values.size else 0, minlength),), dtypes.int64.itemsize)
    if weights is None:
        return tensor_beside(input, np.bincount(values, minlength=minlength), dtypes.int64)
    if weights._type.shape != input._type.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    dtype = weights._type.dtype if weights._type.dtype in (dtypes.float32, dtypes.float64) else dtypes.float64
    return given_by(_BINCOUNT, (input, weights), np.bincount(values, elements(weights), minlength), dtype=dtype)
