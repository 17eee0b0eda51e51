"""Piecewise linear activations (``relu``, the bounded and the shrinking ones), and compositions of other functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, from_numpy
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.ops.table.broadcasting import choose, derivative
from fgrad.torch.ops.table.dispatch import CLOSED, IN_FUNCTIONAL, OF_NN, OF_TORCH
from fgrad.torch.ops.table.kernels import check_floating, functional, kernel, run_inplace, single, takes
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.outputs import FOUND
from fgrad.torch.ops.table.table import Array, Number, operation_of, writes_out


@functional
def relu(input: Any, inplace: bool = False) -> Tensor:
    """The positive part.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])

    Source: `torch.nn.functional.relu <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html>`_.
    """
    return ops.relu_(input) if inplace else ops.relu(input)


#: ``relu`` in place: the function of ``torch``
relu_: Callable[..., Any] = functional(ops.relu_, dispatch=OF_TORCH)


@functional(dispatch=CLOSED)
def sigmoid(input: Any) -> Tensor:
    """``1 / (1 + exp(-input))``."""
    return input.sigmoid()


@functional(dispatch=CLOSED)
def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


@functional(dispatch=evolve(IN_FUNCTIONAL, name="_threshold"))
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The elements above a threshold, the others replaced by a value."""
    return ops.threshold_(input, threshold, value) if inplace else ops.threshold(input, threshold, value)


#: ``threshold`` in place: the function of ``torch``
threshold_: Callable[..., Any] = functional(ops.threshold_, dispatch=OF_TORCH)


@kernel("HardtanhBackward0", strides=elementwise, backward_node="HardtanhBackwardBackward0", always_saved=("self",))
def _hardtanh(input: Array, min_val: Number, max_val: Number) -> Any:
    if input.dtype == np.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if input.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    return _strictly_within(input, *[cast(bound, from_numpy(input.dtype)) for bound in (min_val, max_val)])


@derivative(lambda ct, out, x, low, high: (choose((x <= low) | (x >= high), 0, ct), None, None))
def _strictly_within(x: Any, low: Any, high: Any) -> Any:
    return lax.min(lax.max(x, low), high)


def _check_limits(input: Any, *limits: Any) -> None:
    dtype = input._type.dtype
    if dtype is bool_ or dtype.is_complex:
        return  # refused by the operation
    if not (dtype.is_floating_point or dtype.is_signed) and min(limits) < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    for limit in limits:
        check_number(limit, dtype)


@functional
@takes("hardtanh(input)")
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements clipped to ``[min_val, max_val]``.

    Source: `torch.nn.functional.hardtanh
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardtanh.html>`_.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    _check_limits(input, min_val, max_val)
    return run_inplace(_hardtanh, input, min_val, max_val) if inplace else _hardtanh(input, min_val, max_val)


@functional(dispatch=OF_NN)
def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place."""
    _check_limits(input, min_val, max_val)
    return run_inplace(_hardtanh, input, min_val, max_val)


@functional
@takes("relu6(input)")
def relu6(input: Any, inplace: bool = False) -> Tensor:
    """``hardtanh`` between 0 and 6."""
    return run_inplace(_hardtanh, input, 0, 6) if inplace else _hardtanh(input, 0, 6)


@kernel("HardsigmoidBackward0", strides=elementwise, backward_node=NOT_IMPLEMENTED, always_saved=("self",))
@single
def _hardsigmoid(input: Array) -> Any:
    check_floating("hardsigmoid_cpu", input)
    outside = choose(input >= 3, 1, choose(input <= -3, 0, lax.stop_gradient(input)))
    return choose((input > -3) & (input < 3), (input + 3) / 6, outside)


@functional(dispatch=CLOSED)
@takes("hardsigmoid(input)")
def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """A piecewise linear sigmoid: ``relu6(input + 3) / 6``."""
    return run_inplace(_hardsigmoid, input) if inplace else _hardsigmoid(input)


@kernel("HardswishBackward0", strides=elementwise, backward_node="HardswishBackwardBackward0", always_saved=("self",))
@single
def _hardswish(input: Array) -> Any:
    check_floating("hardswish_cpu", input)
    bent = (input > -3) & (input < 3)
    inner = choose(bent, input, 0)
    return choose(bent, inner * (inner + 3) / 6, choose(input <= -3, lax.stop_gradient(input * 0), input))


@functional(dispatch=CLOSED)
@takes("hardswish(input)")
def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``."""
    return run_inplace(_hardswish, input) if inplace else _hardswish(input)


@kernel("SoftshrinkBackward0", strides=elementwise, backward_node="SoftshrinkBackwardBackward0", always_saved=("self",))
def _softshrink(input: Array, lambd: Number) -> Any:
    check_floating("softshrink_check", input)
    return choose(jnp.abs(input) <= lambd, 0, choose(input > lambd, input - lambd, input + lambd))


@functional(dispatch=OF_NN)
@writes_out("softshrink", operation_of(_softshrink), FOUND)
@takes("softshrink(input)")
def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """The elements moved towards zero by ``lambd``, and those that would pass it set to zero."""
    dtype = input.dtype
    if dtype.is_floating_point and not 0 <= lambd <= finfo(dtype).max:
        raise RuntimeError(
            f"lambda must be in range [0, {finfo(dtype).max:g}] for input dtype {dtype.scalar_name}, but found "
            f"{lambd:g}"
        )
    return _softshrink(input, lambd)


@functional
def tanhshrink(input: Any) -> Tensor:
    """``input - tanh(input)``."""
    return input - input.tanh()


@functional
def softsign(input: Any) -> Tensor:
    """``input / (1 + |input|)``."""
    return input / (input.abs() + 1)
