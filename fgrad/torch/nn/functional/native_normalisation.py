"""Normalisations together with the means and the reciprocal standard deviations that they used."""

import math
from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.formats import channels_last
from fgrad.torch.nn.functional.normalisation import _batch_norm, _torch_group_norm, layer_norm
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Float, composite


def _statistics(input: Tensor, axes: Any, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal standard deviation over axes, which stay with size 1."""
    with no_grad():
        input = input.detach()
        mean = input.mean(axes, keepdim=True)
        # var() would warn of an empty batch
        return mean, ((input - mean).square().mean(axes, keepdim=True) + eps).rsqrt()


@composite(method=False)
def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``torch.nn.functional.layer_norm``, the means and the reciprocal standard deviations.

    >>> import fgrad.torch as torch
    >>> torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    output = layer_norm(input, normalized_shape, weight, bias, eps)
    return output, *_statistics(input, tuple(range(-len(normalized_shape), 0)), eps)


@overload("native_group_norm", "NativeGroupNormBackward0", outputs=("mean", "rstd"), in_float32=True)
def _group_statistics(input: Array, eps: Float, shape: Any) -> Any:
    groups = lax.reshape(input, shape)
    return jnp.mean(groups, -1), lax.rsqrt(jnp.var(groups, -1) + eps)


_UNEXPECTED = (
    "Expected {} to be true, but got false.  (Could this error message be improved?  If so, please report an "
    "enhancement request to PyTorch.)"
)


@composite(method=False)
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``torch.nn.functional.group_norm`` of ``N`` instances of ``C`` channels, and the statistics of each group.

    >>> import fgrad.torch as torch
    >>> torch.native_group_norm(torch.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    if not (input.is_contiguous() or (input.dim() == 4 and input.is_contiguous(memory_format=channels_last))):
        raise RuntimeError(_UNEXPECTED.format("X.is_contiguous(memory_format)"))
    if input.numel() != N * C * HxW:
        raise RuntimeError(_UNEXPECTED.format("X.numel() == N * C * HxW"))
    output = _torch_group_norm(input, group, weight, bias, eps)
    return output, *apply(
        _group_statistics.operation, (input, float_of("native_group_norm", "eps", eps)), ((N, group, C // group * HxW),)
    )


@composite(method=False)
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``torch.nn.functional.batch_norm``, and the statistics of each channel; empty tensors outside training.

    >>> import fgrad.torch as torch
    >>> torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.0)[1:]
    (tensor([2.]), tensor([1.]))
    """
    output = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return output, input.detach().new_empty(0), input.detach().new_empty(0)
    shape = input.shape
    flat = input.detach().transpose(0, 1).reshape(shape[1], shape[0] * math.prod(shape[2:]))
    mean, scale = _statistics(flat, -1, eps)
    return output, mean.squeeze(-1), scale.squeeze(-1)
