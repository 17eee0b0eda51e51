"""Layers with the batch normalisation after them as one layer, for inference."""

import copy
from typing import Any

from fgrad.torch import ops
from fgrad.torch.nn.parameter import Parameter


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution and the batch normalisation after it as one new convolution; both must be in eval mode.

    Raises:
      AssertionError: one of them is training, or there are no running statistics.

    >>> import fgrad.torch as torch
    >>> conv, bn = torch.nn.Conv1d(1, 2, 3).eval(), torch.nn.BatchNorm1d(2).eval()
    >>> torch.nn.utils.fuse_conv_bn_eval(conv, bn)
    Conv1d(1, 2, kernel_size=(3,), stride=(1,))

    Source: `torch.nn.utils.fuse_conv_bn_eval
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.fuse_conv_bn_eval.html>`_.
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution that normalises its outputs by running statistics.

    Source: `torch.nn.utils.fuse_conv_bn_weights
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.fuse_conv_bn_weights.html>`_.
    """
    weight_dtype = conv_w.dtype
    bias_dtype = weight_dtype if conv_b is None else conv_b.dtype
    conv_b = ops.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = ops.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = ops.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = ops.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * (bn_w * scale).reshape(shape + [1] * (conv_w.dim() - 2))
    bias = (conv_b - bn_rm) * scale * bn_w + bn_b
    return (
        Parameter(weight.to(weight_dtype), conv_w.requires_grad),
        Parameter(bias.to(bias_dtype), conv_b.requires_grad),
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer and the batch normalisation after it as one new linear layer; both must be in eval mode.

    Raises:
      AssertionError: one of them is training, there are no running statistics, or the numbers of features differ.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.fuse_linear_bn_eval(torch.nn.Linear(3, 2).eval(), torch.nn.BatchNorm1d(2).eval())
    Linear(in_features=3, out_features=2, bias=True)

    Source: `torch.nn.utils.fuse_linear_bn_eval
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.fuse_linear_bn_eval.html>`_.
    """
    _check_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer that normalises its outputs by running statistics.

    Source: `torch.nn.utils.fuse_linear_bn_weights
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.fuse_linear_bn_weights.html>`_.
    """
    weight_dtype = linear_w.dtype
    bias_dtype = weight_dtype if linear_b is None else linear_b.dtype
    linear_b = ops.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * ops.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(weight_dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(bias_dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)


def _check_eval(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _check_statistics(bn: Any) -> None:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
