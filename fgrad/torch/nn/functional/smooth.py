"""Smooth activations: the ``elu`` family, ``gelu``, ``silu``, ``softplus`` and their kin."""

import math
from collections.abc import Callable
from typing import Any

from jax import lax, nn, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.operation.operands import number_of
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_NN, OF_TORCH, Dispatch
from fgrad.torch.ops.table.kernels import (
    check_floating,
    check_real_gradient,
    functional,
    kernel,
    refusing,
    run_inplace,
    single,
    takes,
)
from fgrad.torch.ops.table.numbers import check_settings
from fgrad.torch.ops.table.outputs import FOUND, SCALAR_TYPE
from fgrad.torch.ops.table.signature import checked_int
from fgrad.torch.ops.table.table import Array, Number, composite, operation_of, writes_out
from fgrad.torch.ops.views.views import wrap_dim

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _exponential(input: Any, alpha: Any, scale: float, input_scale: Any) -> Any:
    check_floating("elu_cpu", input)
    negative = input < 0
    below = jnp.expm1(choose(negative, input, 0) * input_scale) * (alpha * scale)
    return choose(negative, below, input * scale)


@kernel("EluBackward0", strides=elementwise, backward_node="EluBackwardBackward0", always_saved=("self",))
@single
def _elu(input: Array, alpha: Number, scale: float, input_scale: float) -> Any:
    return _by_input(scale, lambda alpha: input_scale)(input, alpha)


@kernel("CeluBackward0", strides=elementwise, backward_node="EluBackwardBackward0", always_saved=("self",))
@single
def _celu(input: Array, alpha: Number) -> Any:
    return _by_input(1.0, _inverse)(input, alpha)


@kernel("EluBackward1", strides=elementwise, backward_node="EluBackwardBackward0", always_saved=("result",))
@single
def _elu_written(input: Array, alpha: Number, scale: float, input_scale: float) -> Any:
    return _by_result(scale, lambda alpha: input_scale)(input, alpha)


@kernel("CeluBackward1", strides=elementwise, backward_node="EluBackwardBackward0", always_saved=("result",))
@single
def _celu_written(input: Array, alpha: Number) -> Any:
    return _by_result(1.0, _inverse)(input, alpha)


_NEGATIVE = (
    "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by "
    "calling in-place forward function with a negative slope, please call out-of-place version instead."
)
#: by kernel, the same for negative slopes
_REFUSING = {written: refusing(written, _NEGATIVE) for written in (_elu_written, _celu_written)}


def _written(kernel: Callable[..., Any], input: Any, alpha: Any, *scales: Any) -> Tensor:
    if not alpha >= 0:
        return _REFUSING[kernel](input, alpha, *scales)
    return run_inplace(kernel, input, alpha, *scales)


def _inverse(alpha: Any) -> Any:
    return 1.0 / alpha


def _by_input(scale: float, input_scale: Callable[[Any], Any]) -> Callable[..., Any]:
    """``_exponential`` with a derivative that reads the input: one by the result is rounded to 0 far below 0."""

    def vjp(ct: Any, out: Any, x: Any, alpha: Any) -> Any:
        negative, inner = x <= 0, input_scale(alpha)
        # at 0 the second derivative is 0, as in PyTorch
        below = jnp.exp(choose(x < 0, x, 0) * inner) * (alpha * scale * inner)
        return ct * choose(negative, below, scale), None

    return define_rule(lambda x, alpha: _exponential(x, alpha, scale, input_scale(alpha)), vjp=vjp)


def _by_result(scale: float, input_scale: Callable[[Any], Any]) -> Callable[..., Any]:
    """``_exponential`` with a derivative that reads only the result, as an in-place call overwrites the input."""

    def vjp(ct: Any, out: Any, x: Any, alpha: Any) -> Any:
        # at 0 the second derivative is 0, as in PyTorch
        below = ct * input_scale(alpha) * (choose(out < 0, out, 0) + alpha * scale)
        return choose(out <= 0, below, ct * scale), None

    return define_rule(lambda x, alpha: _exponential(x, alpha, scale, input_scale(alpha)), vjp=vjp)


@functional
@takes("elu(input)")
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements, the negative ones as ``alpha * (exp(x) - 1)``.

    Source: `torch.nn.functional.elu <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.elu.html>`_.
    """
    if inplace:
        return elu_(input, alpha)
    check_settings(input, alpha)
    return _elu(input, alpha, 1, 1)


@functional(dispatch=OF_NN)
@takes("elu_(input)")
def elu_(input: Any, alpha: float = 1.0) -> Tensor:
    """``elu`` in place."""
    check_settings(input, alpha)
    return _written(_elu_written, input, alpha, 1, 1)


@composite(method=False, name="selu")
def _selu(input: Any) -> Tensor:
    """``elu`` scaled so that layers of it normalise themselves."""
    return _elu(input, SELU_ALPHA, SELU_SCALE, 1)


@composite(method=False)
@functional(dispatch=OF_TORCH)
def selu_(input: Any) -> Tensor:
    """``selu`` in place."""
    return run_inplace(_elu_written, input, SELU_ALPHA, SELU_SCALE, 1)


@functional
@takes("selu(input)")
def selu(input: Any, inplace: bool = False) -> Tensor:
    """``elu`` scaled so that layers of it normalise themselves."""
    return selu_(input) if inplace else _selu(input)


def _check_celu(input: Any, alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    check_settings(input, alpha, 1.0 / alpha)


@composite(method=False, name="celu")
def _celu_of(input: Any, alpha: float = 1.0) -> Tensor:
    """The elements, the negative ones as ``alpha * (exp(x / alpha) - 1)``."""
    _check_celu(input, alpha)
    return _celu(input, alpha)


@composite(method=False)
@functional(dispatch=OF_TORCH)
def celu_(input: Any, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    _check_celu(input, alpha)
    return _written(_celu_written, input, alpha)


@functional
@takes("celu(input)")
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The elements, the negative ones as ``alpha * (exp(x / alpha) - 1)``."""
    return celu_(input, alpha) if inplace else _celu_of(input, alpha)


@kernel("GeluBackward0", strides=elementwise, backward_node="GeluBackwardBackward0", always_saved=("self",))
@single
def _gelu(input: Array, approximate: str) -> Any:
    check_floating("GeluKernelImpl", input)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)
        return 0.5 * input * (1 + jnp.tanh(inner))
    return input * 0.5 * (1 + lax.erf(input * math.sqrt(0.5)))


@functional(dispatch=OF_NN)
@writes_out("gelu", operation_of(_gelu), FOUND)
@takes("gelu(input)")
def gelu(input: Any, approximate: str = "none") -> Tensor:
    """The elements, each times the normal distribution function of it.

    Source: `torch.nn.functional.gelu <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html>`_.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _gelu(input, approximate)


@kernel("SiluBackward0", strides=elementwise, always_saved=("self",))
@single
def _silu(input: Array) -> Any:
    if input.dtype.kind != "c":
        check_floating("silu_cpu", input)
    return input * nn.sigmoid(input)


@functional
@takes("silu(input)")
def silu(input: Any, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    check_real_gradient("silu", input)
    return run_inplace(_silu, input) if inplace else _silu(input)


@kernel("MishBackward0", strides=elementwise, always_saved=("self",))
@single
def _mish(input: Array) -> Any:
    check_floating("mish_cpu", input)
    return input * jnp.tanh(jnp.logaddexp(input, 0))


@functional
@takes("mish(input)")
def mish(input: Any, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return run_inplace(_mish, input) if inplace else _mish(input)


@kernel("SoftplusBackward0", strides=elementwise, backward_node="SoftplusBackwardBackward0", always_saved=("self",))
@single
def _softplus(input: Array, beta: Number, threshold: Number, special: bool) -> Any:
    check_floating("softplus_cpu", input)
    return _softplus_by_one(input, threshold) if special else _softplus_by(input, threshold, beta)


def _softplus_of(x: Any, threshold: Any, beta: Any = None) -> Any:
    scaled = x if beta is None else x * beta
    straight = scaled > threshold
    bent = jnp.log1p(jnp.exp(choose(straight, 0, scaled)))
    return choose(straight, x, bent if beta is None else bent / beta)


def _softplus_slope(x: Any, threshold: Any, beta: Any = None) -> Any:
    scaled = x if beta is None else x * beta
    straight = scaled > threshold
    power = jnp.exp(choose(straight, 0, scaled))
    return choose(straight, 1, power / (power + 1))


_softplus_by = define_rule(
    _softplus_of, vjp=lambda ct, out, x, threshold, beta: (ct * _softplus_slope(x, threshold, beta), None, None)
)
_softplus_by_one = define_rule(
    lambda x, threshold: _softplus_of(x, threshold),
    vjp=lambda ct, out, x, threshold: (ct * _softplus_slope(x, threshold), None),
)


@functional(dispatch=OF_NN)
@writes_out("softplus", operation_of(_softplus), FOUND)
@takes("softplus(input)")
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, and the input itself where ``beta * input`` is above the threshold."""
    check_settings(input, beta, threshold)
    beta = number_of("softplus", "beta", beta)
    return _softplus(input, beta, threshold, beta == 1)


@kernel("LogSigmoidBackward0", backward_node="LogSigmoidBackwardBackward0", always_saved=("self",))
@single
def _log_sigmoid(input: Array) -> Any:
    check_floating("log_sigmoid_cpu", input)
    negative = input < 0
    return choose(negative, input, 0) - jnp.log1p(jnp.exp(choose(negative, input, -input)))


@functional(dispatch=Dispatch(module="torch.nn", name="log_sigmoid"))
@writes_out("log_sigmoid", operation_of(_log_sigmoid), SCALAR_TYPE, "log_sigmoid_forward")
@takes("log_sigmoid(input)")
def logsigmoid(input: Any) -> Tensor:
    """``log(sigmoid(input))``, also where the sigmoid is next to zero."""
    return _log_sigmoid(input)


@kernel("GluBackward0", backward_node="GluBackwardBackward0", always_saved=("self",))
@single
def _glu(input: Array, dim: int) -> Any:
    check_floating("glu_cpu", input)
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    left, right = jnp.split(input, 2, dim)
    return left * nn.sigmoid(right)


@functional
def glu(input: Any, dim: int = -1) -> Tensor:
    """The first half of the elements along an axis times the sigmoid of the second half."""
    rank = input.dim()
    if rank == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _glu(input, wrap_dim(checked_int(dim, "glu", "dim", 2, symbolic=False), rank))
