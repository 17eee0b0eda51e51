"""Activations with another slope for negative numbers: ``leaky_relu``, ``prelu``, ``rrelu``."""

import math
from typing import Any

import numpy as np

from fgrad.api.rules import define_rule
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.ops.random.random import source_of
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_NN, OF_TORCH
from fgrad.torch.ops.table.kernels import check_floating, functional, kernel, refusing, run_inplace, single, takes
from fgrad.torch.ops.table.numbers import check_settings
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, Fixed, Number, composite


def _leaky(input: Any, slope: Any) -> Any:
    check_floating("leaky_relu_cpu", input)
    return choose(input > 0, input, input * slope)


_leaky_by_input = define_rule(_leaky, vjp=lambda ct, out, x, slope: (ct * choose(x > 0, 1, slope), None))
#: as an in-place call overwrites the input
_leaky_by_result = define_rule(_leaky, vjp=lambda ct, out, x, slope: (ct * choose(out > 0, 1, slope), None))


@kernel(
    "LeakyReluBackward0",
    strides=elementwise,
    backward_node="LeakyReluBackwardBackward0",
    always_saved=("self",),
    gradient_saved_first=True,
)
@single
def _leaky_relu(input: Array, negative_slope: Number) -> Any:
    return _leaky_by_input(input, negative_slope)


@kernel("LeakyReluBackward1", strides=elementwise, backward_node="LeakyReluBackwardBackward0", always_saved=("result",))
@single
def _leaky_relu_written(input: Array, negative_slope: Number) -> Any:
    return _leaky_by_result(input, negative_slope)


_NEGATIVE = (
    "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is caused "
    "by calling in-place forward function with a negative slope, please call out-of-place version instead. File an "
    "issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward calculation "
    "with negative slope"
)
_with_negative_slope = refusing(_leaky_relu_written, _NEGATIVE)


def _middle(lower: Any, upper: Any) -> Any:
    return (lower * 1.0 + upper) / 2  # a boolean counts as a number


@functional
@takes("leaky_relu(input)")
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The elements, the negative ones times ``negative_slope``.

    Source: `torch.nn.functional.leaky_relu
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.leaky_relu.html>`_.
    """
    if inplace:
        return leaky_relu_(input, negative_slope)
    check_settings(input, negative_slope)
    return _leaky_relu(input, negative_slope)


@functional(dispatch=OF_NN)
def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place."""
    check_settings(input, negative_slope)
    if not negative_slope >= 0:
        return _with_negative_slope(input, negative_slope)
    return run_inplace(_leaky_relu_written, input, negative_slope)


@kernel(
    "RreluWithNoiseBackward0",
    strides=elementwise,
    backward_node="RreluWithNoiseBackwardBackward0",
    always_saved=("self", "noise"),
)
@single
def _rrelu_with_noise(input: Array, noise: Fixed, lower: Number, upper: Number, training: bool) -> Any:
    if training:
        return input * noise
    return _leaky_by_input(input, _middle(lower, upper))


@kernel("RreluWithNoiseBackward1", strides=elementwise, always_saved=("result", "noise"))
@single
def _rrelu_with_noise_written(input: Array, noise: Fixed, lower: Number, upper: Number, training: bool) -> Any:
    return input * noise if training else _leaky_by_result(input, _middle(lower, upper))


_rrelu_with_negative_slope = refusing(_rrelu_with_noise_written, _NEGATIVE)


def _noise(input: Tensor, lower: float, upper: float, training: bool, generator: Any = None) -> Tensor:
    """The random slopes of ``rrelu``: drawn for the elements that are not positive, one for the others."""
    if not lower <= upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    check_floating("leaky_relu_cpu" if not training else "rrelu_with_noise_out_cpu", input._value())
    if not training:
        check_settings(input, (lower + upper) / 2)
    values = concrete(input._value())
    noise = np.zeros(values.shape, values.dtype)
    if training:
        noise[...] = 1
        drawn = np.asarray(values <= 0)
        slopes = source_of(generator).doubles(int(drawn.sum())) * (upper - lower) + lower
        noise[drawn] = slopes.astype(values.dtype)
    return to_device_of(input, new_tensor(constant(noise), input._type))


@composite(method=False, name="rrelu", out=NOT_TAKEN)
def _rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """The elements, the negative ones times random slopes, or outside training the mean slope."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    return _rrelu_with_noise(input, _noise(input, lower, upper, training, generator), lower, upper, training)


@composite(method=False)
@functional(dispatch=OF_TORCH)
def rrelu_(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """``rrelu`` in place."""
    noise = _noise(input, lower, upper, training, generator)
    if not training and lower + upper < 0:
        return _rrelu_with_negative_slope(input, noise, lower, upper, training)
    return run_inplace(_rrelu_with_noise_written, input, noise, lower, upper, training)


@functional
@takes("rrelu(input)")
def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """The elements, the negative ones times random slopes, or outside training the mean slope.

    Source: `torch.nn.functional.rrelu
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rrelu.html>`_.
    """
    return rrelu_(input, lower, upper, training) if inplace else _rrelu(input, lower, upper, training)
