"""Choosing among elements: ``where``, clamping, maximum and minimum, and replacing NaN and infinity."""

from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.output_strides import elementwise, elementwise_of_tensors
from fgrad.mutable.operation.overlap import in_order
from fgrad.mutable.operation.traits import OF_TENSORS, Writing
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, dtype as Dtype, is_half, uint8
from fgrad.mutable.write.inplace import apply_inplace
from fgrad.torch.ops.families import put_method
from fgrad.torch.ops.table.broadcasting import Types, aligned, choose, common, derivative
from fgrad.torch.ops.table.kernels import check_real_gradient
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.numbers import check_computed, check_fits, check_number, plain_number
from fgrad.torch.ops.table.outputs import CAST, FOUND, NOT_TAKEN, exact
from fgrad.torch.ops.table.overloads import Choice, chooser_of, no_match, overload, overloaded, types_of
from fgrad.torch.ops.table.table import (
    NUMBERS,
    TABLE,
    Array,
    Fixed,
    Number,
    Operand,
    composite,
    operation,
)

# -- where -----------------------------------------------------------------------------------------------------------


def _of_values(types: Types, params: dict[str, Any]) -> Dtype:
    return common(types[1:], params)


@overload("where", "WhereBackward0", promote=_of_values, strides=elementwise)
def _where(condition: Fixed, input: Operand, other: Operand) -> Any:
    condition, x, y = aligned(condition, input, other)
    return lax.select(condition.astype(np.bool_), x, y)


@composite(method=False, out=exact("Expected out type to be {want} but got {got}"))
def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """The elements of ``input`` where ``condition`` holds, else of ``other``; alone, the indices where it holds.

    >>> import fgrad.torch as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1., 2.]), 0.)
    tensor([1., 0.])

    Source: `torch.where <https://docs.pytorch.org/docs/stable/generated/torch.where.html>`_.
    """
    if not isinstance(condition, Tensor):
        raise TypeError(no_match("where", types_of((condition, input, other)), _WHERE))
    if input is None and other is None:
        return TABLE["nonzero"].call(condition, as_tuple=True)
    if condition._type.dtype is uint8:
        warn_once(_BYTE_CONDITION)
    elif condition._type.dtype is not bool_:
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition._type.dtype.scalar_name}"
        )
    input, other = plain_number(input), plain_number(other)
    for x in (input, other):
        if not isinstance(x, (Tensor, *NUMBERS)):
            raise TypeError(no_match("where", types_of((condition, input, other)), _WHERE))
    for number, tensor in ((input, other), (other, input)):
        # in half precision what is too large becomes infinite, as in the masks of attention
        if isinstance(tensor, Tensor) and isinstance(number, int | float) and not is_half(tensor._type.dtype.numpy):
            check_fits(number, tensor)
    return _where(condition, input, other, out=out)


_WHERE = (
    "Tensor condition",
    "Tensor condition, Tensor input, Tensor other, *, Tensor out = None",
    "Tensor condition, Number self, Tensor other",
    "Tensor condition, Tensor input, Number other",
    "Tensor condition, Number self, Number other",
)
_BYTE_CONDITION = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of "
    "PyTorch. Use a boolean condition instead."
)


def _where_method(self: Tensor, condition: Any, other: Any) -> Tensor:
    """This tensor's elements where ``condition`` holds, else those of ``other``."""
    return where(condition, self, other)


put_method("where", _where_method)


# -- bounds ----------------------------------------------------------------------------------------------------------


def _clamp_pullback(ct: Any, out: Any, x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    return (
        choose((x >= low) & (x <= high), ct, 0),
        choose((low < high) & (x < low), ct, 0),
        choose((x > high) | (high < low), ct, 0),
    )


@derivative(_clamp_pullback)
def _within(x: Any, low: Any, high: Any) -> Any:
    return lax.min(lax.max(x, low), high)


@derivative(lambda ct, out, x, low: (choose(x >= low, ct, 0), choose(x < low, ct, 0)))
def _at_least(x: Any, low: Any) -> Any:
    return lax.max(x, low)


@derivative(lambda ct, out, x, high: (choose(x <= high, ct, 0), choose(x > high, ct, 0)))
def _at_most(x: Any, high: Any) -> Any:
    return lax.min(x, high)


def _bounded(x: Any, low: Any, high: Any, kernel: str = "") -> Any:
    if kind(x) == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if kernel:
        check_kinds(kernel, "if", x)
    low, high = (b if b is None else b.astype(x.dtype) for b in (low, high))
    if low is None:
        return _at_most(x, high)
    return _at_least(x, low) if high is None else _within(x, low, high)


def _check_bounds(input: Tensor, *bounds: Any) -> None:
    """Raise PyTorch's error for numbers that the type of the result cannot hold."""
    dtype = input._type.dtype
    if dtype.is_floating_point or all(bound.__class__ is int for bound in bounds):
        for bound in bounds:
            check_number(bound, dtype)


@overload("clamp", "ClampBackward1", promote=common, strides=elementwise_of_tensors, gradient_saved_first=True)
def _clamp_numbers(input: Array, min: Number = None, max: Number = None) -> Any:  # type: ignore[assignment]
    kernel = "clamp_min_scalar_cpu" if max is None else "clamp_max_scalar_cpu" if min is None else "clamp_scalar_cpu"
    return _bounded(input, min, max, kernel)


@overload("clamp", "ClampBackward0", overloads=OF_TENSORS, promote=common, strides=elementwise, out=CAST)
def _clamp_tensors(input: Array, min: Array = None, max: Array = None) -> Any:  # type: ignore[assignment]
    return _bounded(input, min, max, "" if min is None or max is None else "clamp_cpu")


_CLAMP = (
    "Tensor input, Tensor min = None, Tensor max = None, *, Tensor out = None",
    "Tensor input, Number min = None, Number max = None, *, Tensor out = None",
)


@overloaded(inplace=True, signatures=_CLAMP, out=FOUND)
def clamp(input: Array, min: Operand = None, max: Operand = None) -> Choice:  # type: ignore[assignment]
    """The elements limited to the range from ``min`` to ``max``, which are numbers or tensors.

    >>> import fgrad.torch as torch
    >>> torch.clamp(torch.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])

    Source: `torch.clamp <https://docs.pytorch.org/docs/stable/generated/torch.clamp.html>`_.
    """
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    tensors = [isinstance(bound, Tensor) for bound in bounds]
    if not any(tensors):
        _check_bounds(input, *bounds)
        return _clamp_numbers, input, min, max
    if all(tensors) and any(bound._type.shape for bound in bounds):
        return _clamp_tensors, input, min, max
    if any(tensors) and not all(tensors) and any(isinstance(bound, Tensor) and bound._type.shape for bound in bounds):
        raise TypeError(no_match("clamp", types_of((input, min, max)), _CLAMP))
    return (_clamp_tensors if all(tensors) else _clamp_numbers), input, min, max


overloaded(inplace=True, name="clip", signatures=_CLAMP)(chooser_of(clamp))


def _bound(name: str) -> tuple[str, ...]:
    return tuple([f"Tensor input, {kind} {name}, *, Tensor out = None" for kind in ("Tensor", "Number")])


@overload("clamp_min", "ClampMinBackward0", promote=common, strides=elementwise_of_tensors, gradient_saved_first=True)
def _clamp_min_number(input: Array, min: Number) -> Any:
    return _bounded(input, min, None, "clamp_min_scalar_cpu")


@overload("clamp_min", "ClampMinBackward1", overloads=OF_TENSORS, promote=common, strides=elementwise)
def _clamp_min_tensor(input: Array, min: Array) -> Any:
    check_kinds("maximum_cpu", "bif", input)
    return _bounded(input, min, None)


@overloaded(inplace=True, signatures=_bound("min"))
def clamp_min(input: Array, min: Operand) -> Choice:
    """The elements, at least ``min``."""
    if isinstance(min, Tensor):
        return _clamp_min_tensor, input, min
    _check_bounds(input, min)
    return _clamp_min_number, input, min


@overload("clamp_max", "ClampMaxBackward0", promote=common, strides=elementwise_of_tensors, gradient_saved_first=True)
def _clamp_max_number(input: Array, max: Number) -> Any:
    return _bounded(input, None, max, "clamp_max_scalar_cpu")


@overload("clamp_max", "ClampMaxBackward1", overloads=OF_TENSORS, promote=common, strides=elementwise)
def _clamp_max_tensor(input: Array, max: Array) -> Any:
    check_kinds("minimum_cpu", "bif", input)
    return _bounded(input, None, max)


@overloaded(inplace=True, signatures=_bound("max"))
def clamp_max(input: Array, max: Operand) -> Choice:
    """The elements, at most ``max``."""
    if isinstance(max, Tensor):
        return _clamp_max_tensor, input, max
    _check_bounds(input, max)
    return _clamp_max_number, input, max


# the gradient of a threshold is one operation in PyTorch, and so is the gradient of that
@derivative(lambda ct, out, x: (choose(out <= 0, 0, ct),))
def _relu(x: Any) -> Any:
    return lax.max(x, lax.full_like(x, 0))


@operation(
    "ReluBackward0",
    strides=elementwise,
    inplace=True,
    backward_node="ThresholdBackwardBackward0",
    gradient_saved_first=True,
    out=NOT_TAKEN,
)
def relu(input: Array) -> Any:
    """The elements, with 0 for the negative ones.

    >>> import fgrad.torch as torch
    >>> torch.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])

    Source: `torch.relu <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html>`_.
    """
    if kind(input) == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if kind(input) == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    return _relu(input)


@overload(
    "threshold",
    "ThresholdBackward0",
    strides=elementwise_of_tensors,
    backward_node="ThresholdBackwardBackward0",
    gradient_saved_first=True,
)
def _threshold(input: Array, threshold: Number, value: Number) -> Any:
    check_kinds("threshold_cpu", "if", input)
    return choose(input <= threshold.astype(input.dtype), value.astype(input.dtype), input)


def _check_threshold(input: Tensor, threshold: Any, value: Any) -> None:
    dtype = input._type.dtype
    if dtype is not bool_ and not dtype.is_complex:  # for which there is another error
        check_computed(threshold, input)
        check_number(value, dtype)


@overloaded(method=False)
def threshold(input: Array, threshold: Number, value: Number) -> Choice:
    """The elements above a threshold, with ``value`` for the others.

    Source: `torch.threshold <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.threshold.html>`_.
    """
    _check_threshold(input, threshold, value)
    return _threshold, input, threshold, value


# twice in the same place is as good as once
_THRESHOLD_WRITTEN = evolve(_threshold.operation, node="ThresholdBackward1", writing=Writing(in_order))


@composite(method=False)
def threshold_(input: Any, threshold: float, value: float) -> Tensor:
    """``threshold`` in place."""
    _check_threshold(input, threshold, value)
    return apply_inplace(_THRESHOLD_WRITTEN, (input, threshold, value))


# -- maximum and minimum ---------------------------------------------------------------------------------------------


def _shared(loses: Any) -> Any:
    """The pull-back of a choice between two elements: at a tie each gets half the gradient."""

    def pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        share = choose(x == y, ct / 2, ct)
        return choose(loses(x, y), 0, share), choose(loses(y, x), 0, share)

    return pullback


@derivative(_shared(lax.lt))
def _maximum(x: Any, y: Any) -> Any:
    return lax.max(x, y)


@derivative(_shared(lax.gt))
def _minimum(x: Any, y: Any) -> Any:
    return lax.min(x, y)


@operation("MaximumBackward0", promote=common, strides=elementwise)
def maximum(input: Array, other: Array) -> Any:
    """The larger of two elements, or NaN if one of them is.

    Source: `torch.maximum <https://docs.pytorch.org/docs/stable/generated/torch.maximum.html>`_.
    """
    if kind(input) == "c":
        raise RuntimeError("maximum not implemented for complex tensors.")
    return _maximum(input, other)


@operation("MinimumBackward0", promote=common, strides=elementwise)
def minimum(input: Array, other: Array) -> Any:
    """The smaller of two elements, or NaN if one of them is.

    Source: `torch.minimum <https://docs.pytorch.org/docs/stable/generated/torch.minimum.html>`_.
    """
    if kind(input) == "c":
        raise RuntimeError("minimum not implemented for complex tensors.")
    return _minimum(input, other)


def _of_number(preferred: Any) -> Any:
    """The pull-back of a choice that avoids NaN; at a tie the first is chosen."""

    def pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        first = preferred(x, y) | jnp.isnan(y)
        return choose(first, ct, 0), choose(first, 0, ct)

    return pullback


@derivative(_of_number(lax.ge))
def _fmax(x: Any, y: Any) -> Any:
    return choose((x >= y) | jnp.isnan(y), x, y)


@derivative(_of_number(lax.le))
def _fmin(x: Any, y: Any) -> Any:
    return choose((x <= y) | jnp.isnan(y), x, y)


@operation("FmaxBackward0", promote=common, strides=elementwise)
def fmax(input: Array, other: Array) -> Any:
    """The larger of two elements, or the other if one is NaN.

    Source: `torch.fmax <https://docs.pytorch.org/docs/stable/generated/torch.fmax.html>`_.
    """
    if kind(input) == "c":
        raise RuntimeError("fmax not implemented for complex tensors.")
    return _fmax(input, other)


@operation("FminBackward0", promote=common, strides=elementwise)
def fmin(input: Array, other: Array) -> Any:
    """The smaller of two elements, or the other if one is NaN.

    Source: `torch.fmin <https://docs.pytorch.org/docs/stable/generated/torch.fmin.html>`_.
    """
    if kind(input) == "c":
        raise RuntimeError("fmin not implemented for complex tensors.")
    return _fmin(input, other)


# -- NaN and infinity ------------------------------------------------------------------------------------------------


@derivative(lambda ct, out, x, *numbers: (choose(jnp.isfinite(x), ct, 0), *[None for _ in numbers]))
def _replaced(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    return choose(jnp.isnan(x), nan, choose(x == np.inf, posinf, choose(x == -np.inf, neginf, x)))


def _numbers_only(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if kind(x) == "c":
        return lax.complex(*[_numbers_only(part, nan, posinf, neginf) for part in (lax.real(x), lax.imag(x))])
    limits = jnp.finfo(x.dtype)
    replacements = zip((nan, posinf, neginf), (0, limits.max, limits.min), strict=True)
    return _replaced(x, *[jnp.asarray(default if n is None else n, x.dtype) for n, default in replacements])


@overload("nan_to_num", "NanToNumBackward0", strides=elementwise_of_tensors)
def _nan_to_num(input: Array, nan: Number = None, posinf: Number = None, neginf: Number = None) -> Any:  # type: ignore[assignment]
    return input if kind(input) in "bi" else _numbers_only(input, nan, posinf, neginf)


@overloaded(inplace=True, out=exact("nan_to_num: dtype of out: {got} should be same as input: {want}"))
def nan_to_num(input: Array, nan: Number = None, posinf: Number = None, neginf: Number = None) -> Choice:  # type: ignore[assignment]
    """The elements, with numbers for NaN (0 by default) and infinities (by default the largest of the type).

    >>> import fgrad.torch as torch
    >>> torch.nan_to_num(torch.tensor([float("nan"), 1.]))
    tensor([0., 1.])

    Source: `torch.nan_to_num <https://docs.pytorch.org/docs/stable/generated/torch.nan_to_num.html>`_.
    """
    check_real_gradient("nan_to_num", input)
    return _nan_to_num, input, nan, posinf, neginf
