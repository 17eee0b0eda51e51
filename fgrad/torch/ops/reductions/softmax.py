"""``softmax``, ``log_softmax`` and ``_safe_softmax``, whose backward reads only the result."""

from collections.abc import Callable
from typing import Any

from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.creation.copying import converted
from fgrad.torch.ops.reductions.reductions import total
from fgrad.torch.ops.table.broadcasting import choose, in_float
from fgrad.torch.ops.table.kinds import kind
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite, operation
from fgrad.torch.ops.views.views import wrap_dim
from fgrad.torch.random.scalars import not_implemented


def _checked(input: Any, dim: int, function: str) -> int:
    dim = wrap_dim(dim, input.ndim)
    if kind(input) != "f":
        kernel = "lastdim_kernel" if dim == input.ndim - 1 or not input.ndim else "kernel"
        raise not_implemented(f"{function}_{kernel}_impl", input.dtype)
    return dim


def _shifted(x: Any, dim: int) -> Any:
    return x - lax.stop_gradient(lax.expand_dims(lax.reduce_max(x, (dim,)), (dim,))) if x.size and x.ndim else x


@overload("softmax", "SoftmaxBackward0", backward_node="SoftmaxBackwardDataBackward0")
def _softmax(input: Array, dim: int) -> Any:
    dim = _checked(input, dim, "softmax")

    def forward(x: Any) -> Any:
        if not x.ndim:
            return lax.exp(x - x)
        powers = lax.exp(_shifted(x, dim))
        return powers / total(powers, (dim,), keepdims=True)

    return _ruled(forward, dim)(input)


def _ruled(forward: Callable[[Any], Any], dim: int) -> Callable[[Any], Any]:
    """A softmax with the derivative that reads only the result."""

    def pullback(ct: Any, out: Any) -> Any:
        if not out.ndim:
            return (ct - ct * out) * out
        product = ct * out
        return product - out * total(product, (dim,), keepdims=True)

    return fgrad.define_rule(lambda x: in_float(forward, x), vjp=lambda ct, out, x: (in_float(pullback, ct, out),))


@overload("log_softmax", "LogSoftmaxBackward0", backward_node="LogSoftmaxBackwardDataBackward0")
def _log_softmax(input: Array, dim: int) -> Any:
    dim = _checked(input, dim, "log_softmax")

    def forward(x: Any) -> Any:
        if not x.ndim:
            return x - x
        shifted = _shifted(x, dim)
        return shifted - lax.log(total(lax.exp(shifted), (dim,), keepdims=True))

    def pullback(ct: Any, out: Any) -> Any:
        summed = total(ct, (dim,), keepdims=True) if out.ndim else ct
        return ct - lax.exp(out) * summed

    ruled = fgrad.define_rule(lambda x: in_float(forward, x), vjp=lambda ct, out, x: (in_float(pullback, ct, out),))
    return ruled(input)


def safe_weights(scores: Any, axis: int) -> Any:
    """The softmax, and zeros where every score is minus infinity."""
    axis %= scores.ndim
    highest = lax.expand_dims(lax.reduce_max(scores, (axis,)), (axis,))
    none = highest == -jnp.inf
    powers = lax.exp(scores - choose(none, 0, highest))
    return powers / choose(none, 1, total(powers, (axis,), keepdims=True))


@overload("safe_softmax", "SafeSoftmaxBackward0", backward_node="SoftmaxBackwardDataBackward0")
def _safely(input: Array, dim: int) -> Any:
    dim = _checked(input, dim, "softmax")
    return _ruled(lambda x: safe_weights(x, dim) if x.ndim else safe_weights(x[None], 0)[0], dim)(input)


def _of_type(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None or dtype is input._type.dtype else converted(input, dtype, None)


@composite()
def softmax(input: Array, dim: int, dtype: Any = None) -> Tensor:
    """Exponentials divided by their sum along an axis.

    >>> import fgrad.torch as torch
    >>> torch.tensor([0., 0.]).softmax(0)
    tensor([0.5000, 0.5000])

    Source: `torch.softmax <https://docs.pytorch.org/docs/stable/generated/torch.softmax.html>`_.
    """
    return apply(_softmax.operation, (_of_type(input, dtype),), (dim,))


@composite()
def log_softmax(input: Array, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``, computed without dividing.

    Source: `torch.log_softmax <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html>`_.
    """
    return apply(_log_softmax.operation, (_of_type(input, dtype),), (dim,))


@composite(method=False)
def _safe_softmax(input: Array, dim: int, dtype: Any = None) -> Tensor:
    """``softmax``, and zeros where every element is minus infinity."""
    return apply(_safely.operation, (_of_type(input, dtype),), (dim,))


@operation("SoftmaxBackwardDataBackward0", method=False)
def _softmax_backward_data(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Any:
    """The gradient of ``softmax`` in its input, given that in its result."""
    products = grad_output * output
    return products - output * products.sum(dim, keepdims=True)


@operation("LogSoftmaxBackwardDataBackward0", method=False)
def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Any:
    """The gradient of ``log_softmax`` in its input, given that in its result."""
    return grad_output - jnp.exp(output) * grad_output.sum(dim, keepdims=True)
