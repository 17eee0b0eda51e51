"""Normalisation by the mean and variance of batches, instances, layers and groups, and by norms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import spatial
from fgrad.mutable.tensor.cut import without_history
from fgrad.mutable.tensor.saved import StopRecomputation
from fgrad.mutable.tensor.tensor import Tensor, alias
from fgrad.mutable.transforms.forward import tangent_of
from fgrad.mutable.transforms.levels import outgrows
from fgrad.mutable.types.dtypes import bfloat16, float16, float32, from_numpy, is_half
from fgrad.mutable.types.limits import finfo
from fgrad.mutable.types.type_names import type_name
from fgrad.torch import ops
from fgrad.torch.nn.functional.moments import affine, normalised
from fgrad.torch.nn.functional.pooling import avg_pool2d, avg_pool3d
from fgrad.torch.ops.elementwise.arithmetic import shifted_by
from fgrad.torch.ops.table.broadcasting import number_like
from fgrad.torch.ops.table.kernels import check_constant, check_floating, functional, kernel, single, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.signature import checked_ints
from fgrad.torch.ops.table.table import Array, Fixed, Float, Number, composite, operation_of
from fgrad.torch.ops.views.padding import pad

# -- batches ---------------------------------------------------------------------------------------------------------


def _check_batch_norm(input: Any, of_channels: dict[str, Any], training: bool) -> None:
    channels = input.shape[1] if input.ndim > 1 else 0
    if not training and of_channels["running_mean"] is None:
        raise RuntimeError("running_mean must be defined in evaluation mode")
    if not training and of_channels["running_var"] is None:
        raise RuntimeError("running_var must be defined in evaluation mode")
    for name in ("running_mean", "running_var", "weight", "bias"):
        parameter = of_channels[name]
        if parameter is not None and parameter.size != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {parameter.size}")
    dtype = from_numpy(input.dtype)
    if not dtype.is_floating_point:
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{dtype.scalar_name}'")
    for parameter in of_channels.values():
        if (
            parameter is not None
            and parameter.dtype != input.dtype
            and not (is_half(input.dtype) and from_numpy(parameter.dtype) is float32)
        ):
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


@kernel(
    "NativeBatchNormBackward0", strides=spatial, outputs=(), backward_node="NativeBatchNormBackwardBackward0",
    saved=("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"),
    always_saved=("input", "weight", "running_mean", "running_var"), absent="unread",
)  # fmt: skip
def _native_batch_norm(
    input: Array, weight: Array = None, bias: Array = None, running_mean: Fixed = None, running_var: Fixed = None,
    momentum: Number = None, *, eps: Float, training: bool,
) -> Any:  # fmt: skip
    of_channels = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check_batch_norm(input, of_channels, training)
    x, weight, bias = _in_single(input), *[None if p is None else _in_single(p) for p in (weight, bias)]
    if not training:
        output = _with_running(x, _in_single(running_mean), _in_single(running_var), weight, bias, eps)
        return lax.convert_element_type(output, input.dtype)
    output, mean, variance = normalised(x, weight, bias, (0, *range(2, x.ndim)), (1,), eps)
    output = lax.convert_element_type(output, input.dtype)
    if running_mean is None:
        return output
    count = input.size // input.shape[1]
    unbiased = lax.mul(variance, number_like(count / max(count - 1, 1), variance))
    return output, _moved(running_mean, mean, momentum), _moved(running_var, unbiased, momentum)


def _in_single(x: Any) -> Any:
    return lax.convert_element_type(x, np.float32) if is_half(x.dtype) else x


def _moved(running: Any, new: Any, momentum: Any) -> Any:
    """Running statistics, moved towards those of a batch."""
    old = _in_single(running)
    share = lax.broadcast(lax.convert_element_type(momentum, old.dtype), old.shape)
    rest = lax.sub(lax.full_like(share, 1), share)
    moved = lax.add(lax.mul(rest, old), lax.mul(share, lax.reshape(new, old.shape)))
    return lax.convert_element_type(moved, running.dtype)


def _with_running(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: Any) -> Any:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = lax.rsqrt(var.reshape(shape) + eps)
    factor = factor if weight is None else factor * weight.reshape(shape)
    return affine((x - mean.reshape(shape)) * factor, None, bias, (1,))


_BATCH_NORM = operation_of(_native_batch_norm)

_SHARED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
    "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
    "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for "
    "resources on how to patch your module to work with vmap"
)


def _batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    if not input.numel():
        # no statistics; the first element of weight and bias represents all, so that their gradients are zeros
        output = input.clone()
        output = output if weight is None else output * weight.select(0, 0)
        return output if bias is None else output + bias.select(0, 0)
    check_constant("native_batch_norm", running_mean=running_mean, running_var=running_var)
    operands, params = (input, weight, bias, running_mean, running_var), (bool(training),)
    eps = float_of("batch_norm", "eps", eps)
    if not training or running_mean is None:
        if modes.duals and tangent_of(input) is not None:
            _check_running_tangents(running_mean, running_var)
        return apply(_BATCH_NORM, (*operands, None, eps), params)
    momentum = float_of("batch_norm", "momentum", momentum)
    read = (input, running_mean, running_var)

    def statistics() -> Sequence[Tensor]:
        with no_grad():
            return apply(_BATCH_NORM, (input, None, None, *read[1:], momentum, eps), params)[1:]

    try:
        output, mean, var = apply(_BATCH_NORM, (*operands, momentum, eps), params)
    except StopRecomputation:
        # what PyTorch saves last is a result, and its kernel has moved the running statistics by then
        _move(running_mean, running_var, *statistics())
        raise
    if outgrows(running_mean, mean._value()) or outgrows(running_var, var._value()):
        if any(outgrows(running, x._value()) for running in (running_mean, running_var) for x in read):
            raise RuntimeError(_SHARED_STATISTICS)
        mean, var = statistics()  # the weight or the bias alone is batched
    _move(running_mean, running_var, mean, var)
    return output


def _move(running_mean: Tensor, running_var: Tensor, mean: Tensor, var: Tensor) -> None:
    # like PyTorch's kernel, this does not bump the version counter
    running_mean._write(without_history(running_mean, mean._value()))
    running_var._write(without_history(running_var, var._value()))


def _check_running_tangents(*running: Any) -> None:
    if any(x is not None and tangent_of(x) is not None for x in running):
        raise RuntimeError(
            "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined"
        )


def _check_running(running_mean: Any, running_var: Any) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


def _check_count(size: Any) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


@functional
@takes("batch_norm(input, weight?, bias?, running_mean?, running_var?)")
def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """The input normalised for each channel, by the batch's own mean and variance or by running ones.

    Arguments:
      running_mean, running_var: used outside training; in training moved towards the batch's, in place.
      momentum: how far they are moved.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])

    Source: `torch.nn.functional.batch_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html>`_.
    """
    if training:
        _check_count(input.size())
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    _check_running(running_mean, running_var)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(method=False, name="batch_norm")
def _torch_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """``torch.nn.functional.batch_norm`` with its arguments in another order."""
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@functional
def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """The input normalised for each channel of each instance.

    Source: `torch.nn.functional.instance_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html>`_.
    """
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


@composite(method=False, name="instance_norm")
def _instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """``torch.nn.functional.instance_norm`` with its arguments in another order."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    shape = input.size()
    batch, channels = shape[0], shape[1]
    of_channels = [None if x is None else x.repeat(batch) for x in (weight, bias)]
    mean, var = [None if x is None else x.repeat(batch) for x in (running_mean, running_var)]
    flat = input.contiguous().view(1, batch * channels, *shape[2:])
    output = _batch_norm(flat, of_channels[0], of_channels[1], mean, var, use_input_stats, momentum, eps)
    for running, moved in ((running_mean, mean), (running_var, var)):
        if running is not None and moved is not None and use_input_stats:
            alias(running).copy_(moved.view(batch, channels).mean(0))
    return output.view(shape)


# -- layers and groups -----------------------------------------------------------------------------------------------


def _check_shapes(input: Any, weight: Any, bias: Any, normalized_shape: Ints, expected: str) -> None:
    shape = list(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != normalized_shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(parameter.shape)} and normalized_shape = {shape}"
            )
    if input.shape[-len(shape) :] != normalized_shape:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [{expected}"
            + "".join([f"{', ' if i else ''}{n}" for i, n in enumerate(shape)])
            + f"], but got input of size{list(input.shape)}"
        )


def _check_mixed(kernel: str, input: Any, *parameters: Any) -> None:
    mixed = any(x is not None and x.dtype != input.dtype for x in parameters)
    if mixed and not from_numpy(input.dtype).is_floating_point:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    check_floating(kernel, input)
    for x in parameters:
        if x is not None and x.dtype != input.dtype and not (is_half(input.dtype) and from_numpy(x.dtype) is float32):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")


@kernel(
    "NativeLayerNormBackward0", outputs=(), backward_node="NativeLayerNormBackwardBackward0",
    saved=("input", "weight", "bias", "eps"), always_saved=("input", "weight", "bias"),
    absent="unread",
)  # fmt: skip
def _native_layer_norm(
    input: Array, weight: Array = None, bias: Array = None, *, eps: Float, normalized_shape: Ints
) -> Any:
    _check_shapes(input, weight, bias, normalized_shape, "*, ")
    _check_mixed("LayerNormKernelImpl", input, weight, bias)
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    return single(lambda x, w, b: normalised(x, w, b, axes, axes, eps)[0])(input, weight, bias)


_LAYER_NORM = operation_of(_native_layer_norm)


def _shape(sizes: Any, function: str) -> Ints:
    if not isinstance(sizes, tuple | list):
        raise TypeError(
            f"{function}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type_name(sizes)}"
        )
    return checked_ints(sizes, function, "normalized_shape", 2)


@functional
@takes("layer_norm(input, _, weight?, bias?)")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-05) -> Tensor:
    """The input normalised over its last axes.

    Source: `torch.nn.functional.layer_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html>`_.
    """
    return apply(
        _LAYER_NORM,
        (input, weight, bias, float_of("layer_norm", "eps", eps)),
        (_shape(normalized_shape, "layer_norm"),),
    )


@composite(method=False, name="layer_norm", out=NOT_TAKEN)
def _torch_layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """The input normalised over its last axes."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@kernel(
    "NativeGroupNormBackward0", strides=spatial, outputs=(), saved=("input", "weight", "bias", "eps"),
    always_saved=("input", "weight"),
)  # fmt: skip
def _native_group_norm(input: Array, weight: Array = None, bias: Array = None, *, eps: Float, group: int) -> Any:
    shape = list(input.shape)
    if shape[1] % group:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape {shape} and "
            f"num_groups={group}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != (shape[1],):
            # the shape that the message names is the weight's for both, as in PyTorch
            named_shape = list(weight.shape) if weight is not None else list(parameter.shape)
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {named_shape} and input of shape {shape}"
            )
    _check_mixed("GroupNormKernelImpl", input, weight, bias)

    def normed(x: Any, w: Any, b: Any) -> Any:
        grouped = lax.reshape(x, (shape[0], group, shape[1] // group, *shape[2:]))
        return lax.reshape(normalised(grouped, w, b, tuple(range(2, grouped.ndim)), (1, 2), eps)[0], x.shape)

    return single(normed)(input, weight, bias)


_GROUP_NORM = operation_of(_native_group_norm)


@composite(method=False, name="group_norm", out=NOT_TAKEN)
def _torch_group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05, cudnn_enabled: bool = True
) -> Tensor:
    """The input normalised for each group of channels."""
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    return apply(_GROUP_NORM, (input, weight, bias, float_of("group_norm", "eps", eps)), (num_groups,))


@functional
@takes("group_norm(_, _, weight?, bias?)")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05) -> Tensor:
    """The input normalised for each group of channels.

    Source: `torch.nn.functional.group_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html>`_.
    """
    rank = input.dim()
    if rank < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {rank}")
    _check_count([input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]])
    return _torch_group_norm(input, num_groups, weight, bias, eps)


# -- norms -----------------------------------------------------------------------------------------------------------


@functional
@composite(method=False)
@takes("rms_norm(input, _, weight?)")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """The input divided by the root of the mean of its squares over the last axes.

    Source: `torch.nn.functional.rms_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html>`_.
    """
    shape = _shape(normalized_shape, "rms_norm")
    _check_shapes(input._type, None if weight is None else weight._type, None, shape, "*")
    if not input._type.inexact:
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{input.dtype.scalar_name}'")
    dtype = input.dtype
    wide = dtype in (float16, bfloat16)
    x = input.to(float32) if wide else input
    least = finfo(x.dtype).eps if eps is None else eps
    scale = ops.rsqrt(shifted_by(x.pow(2).mean(tuple(range(-len(shape), 0)), keepdim=True), least))
    output = x.mul(scale)
    if weight is not None:
        output = output.mul(weight)
    return output.to(dtype) if wide else output


@functional
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """The input divided by a power of the mean square of the channels around each.

    Source: `torch.nn.functional.local_response_norm
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.local_response_norm.html>`_.
    """
    rank = input.dim()
    if rank < 3:
        gap = " " * 26
        raise ValueError(f"Expected 3D or higher dimensionality{gap}input (got {rank} dimensions)")
    if not input.numel():
        return input
    squares = input.mul(input)
    ends = (size // 2, (size - 1) // 2)
    if rank == 3:
        means = avg_pool2d(pad(squares.unsqueeze(1), (0, 0, *ends)), (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        volume = pad(squares.view(sizes[0], 1, sizes[1], sizes[2], -1), (0, 0, 0, 0, *ends))
        means = avg_pool3d(volume, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return input / means.mul(alpha).add(k).pow(beta)


@functional
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    """The input divided by its p-norm along an axis.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])

    Source: `torch.nn.functional.normalize
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html>`_.
    """
    norms = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norms.clamp_min(eps).expand_as(input)
    return ops.div(input, norms.clamp_min_(eps).expand_as(input), out=out)
