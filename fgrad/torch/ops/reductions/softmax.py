"""``softmax`` and ``log_softmax``, whose backward reads only the result."""

from typing import Any

from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.creation.copying import converted
from fgrad.torch.ops.reductions.reductions import total
from fgrad.torch.ops.table.broadcasting import in_float
from fgrad.torch.ops.table.kinds import kind
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.ops.views.views import wrap_dim
from fgrad.torch.random.scalars import not_implemented


def _checked(input: Any, dim: int, function: str) -> int:
    dim = wrap_dim(dim, input.ndim)
    if kind(input) != "f":
        kernel = "lastdim_kernel" if dim == input.ndim - 1 or not input.ndim else "kernel"
        raise not_implemented(f"{function}_{kernel}_impl", input.dtype)
    return dim


def _shifted(x: Any, dim: int) -> Any:
    return x - lax.stop_gradient(jnp.max(x, dim, keepdims=True)) if x.size and x.ndim else x


@overload("softmax", "SoftmaxBackward0", backward_node="SoftmaxBackwardDataBackward0")
def _softmax(input: Array, dim: int) -> Any:
    dim = _checked(input, dim, "softmax")

    def forward(x: Any) -> Any:
        if not x.ndim:
            return lax.exp(x - x)
        powers = lax.exp(_shifted(x, dim))
        return powers / total(powers, (dim,), keepdims=True)

    def pullback(ct: Any, out: Any) -> Any:
        if not out.ndim:
            return (ct - ct * out) * out
        product = ct * out
        return product - out * total(product, (dim,), keepdims=True)

    ruled = fgrad.define_rule(lambda x: in_float(forward, x), vjp=lambda ct, out, x: (in_float(pullback, ct, out),))
    return ruled(input)


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
