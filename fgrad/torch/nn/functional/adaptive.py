"""Pooling to a given size by adaptive windows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import is_channels_last, spatial_in_two
from fgrad.mutable.tensor.tensor import Tensor, has_own_strides
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.torch.nn.functional import windows
from fgrad.torch.nn.functional.pooling import pooled
from fgrad.torch.nn.functional.sizes import expanded
from fgrad.torch.ops.table.dispatch import OF_TORCH
from fgrad.torch.ops.table.kernels import by_rank, functional, kernel, single, takes
from fgrad.torch.ops.table.table import Array, composite, operation_of


def _check(function: str, input: Any, output_size: Ints, colon: str) -> None:
    dims = len(output_size)
    shape = list(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{function}(): Expected {dims + 1}D or {dims + 2}D tensor, but got{colon} {shape}")
    # the means of images may be those of no channels
    _check_nonempty(function, shape, dims if function == "adaptive_avg_pool2d" else len(shape) - 1)
    dtype = from_numpy(input.dtype)
    # an empty batch runs no kernel, except in three dimensions
    if not dtype.is_floating_point and (dims == 3 or 0 not in shape):
        kernel_name = f"{function}_cpu" if dims == 3 else function
        raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{dtype.scalar_name}'")


def _check_nonempty(function: str, shape: Sequence[int], last: int) -> None:
    """Raise PyTorch's error if one of the last axes has no elements."""
    for axis in range(len(shape) - last, len(shape)):
        if shape[axis] == 0:
            raise RuntimeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(shape)} with dimension {axis} being empty"
            )


def _sizes(input: Any, output_size: Any, dims: int, function: str, misfit: str) -> Ints:
    """The sizes to pool to; None stands for the input's own.  ``misfit`` begins the error for a wrong number."""
    given = dims
    if isinstance(output_size, tuple | list):
        given = len(output_size)
        shape = input._type.shape
        if len(shape) <= given:
            raise ValueError(f"Input dimension should be at least {given + 1}")
        input_sizes = shape[len(shape) - given :]
        output_size = [n if n is not None else d for n, d in zip(output_size, input_sizes, strict=True)]
    sizes = expanded(output_size, dims, function, "output_size", 2)
    if sizes is None or given != dims:
        raise RuntimeError(f"{misfit} must be {dims}")
    return sizes


# -- the mean --------------------------------------------------------------------------------------------------------


@kernel(
    by_rank("AdaptiveAvgPool{}DBackward0", "output_size"),
    backward_node=by_rank("AdaptiveAvgPool{}DBackwardBackward0", "output_size"),
    strides=spatial_in_two,
    always_saved=("self",),
)
@single
def _adaptive_avg_pool(input: Array, output_size: Ints) -> Any:
    dims = len(output_size)
    _check(f"adaptive_avg_pool{dims}d", input, output_size, "")
    if min(output_size) < 0:
        listed = ("{}, {}" if dims == 2 else "{}, {},{}").format(*output_size)
        raise RuntimeError(
            f"adaptive_avg_pool{dims}d: elements of output_size must be greater than or equal to 0 but received "
            "{" + listed + "}"
        )
    if 0 in input.shape:
        return jnp.zeros((*input.shape[:-dims], *output_size), input.dtype)
    for i, count in enumerate(output_size):
        axis = input.ndim - dims + i
        size = input.shape[axis]
        table = windows.table((size,), [windows.adaptive(size, count)])
        covered = table.gather(jnp.moveaxis(input, axis, -1), 0)
        lengths = np.maximum(table.inside.sum(-1), 1).astype(input.dtype)
        input = jnp.moveaxis(covered.sum(-1) / lengths, -1, axis)
    return input


_ADAPTIVE_AVG = operation_of(_adaptive_avg_pool)


def _averaged(input: Tensor, sizes: Ints) -> Tensor:
    if set(sizes) == {1}:
        mean = input.mean(tuple(range(-len(sizes), 0)), keepdim=True)
        if has_own_strides(input) and input.dim() == len(sizes) + 2 and is_channels_last(input._geometry_of()):
            channels = mean.size(1)
            mean.as_strided_(mean.size(), (channels, 1, *[channels] * len(sizes)))
        return mean
    return apply(_ADAPTIVE_AVG, (input,), (sizes,))


@composite(method=False)
@functional(dispatch=OF_TORCH)
@takes("adaptive_avg_pool1d(input)")
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """The means of ``output_size`` windows along the last axis."""
    sizes = _along(input, output_size, "adaptive_avg_pool1d")
    return _averaged(input.unsqueeze(-2), (1, *sizes)).squeeze(-2)


def _along(input: Any, output_size: Any, function: str) -> Ints:
    rank = len(input._type.shape)
    if rank not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {function})"
        )
    sizes = expanded(output_size, 1, function, "output_size", 2)
    if sizes is None:
        raise RuntimeError(f"{function}() argument 'output_size' should contain one int (got {len(output_size)})")
    return sizes


@functional
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """The means of windows of images, ``output_size`` along each axis, as even as possible.

    Source: `torch.nn.functional.adaptive_avg_pool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html>`_.
    """
    return _averaged(input, _sizes(input, output_size, 2, "adaptive_avg_pool2d", "adaptive_avg_pool2d: output_size"))


@functional(autocast="fp32")
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """The means of windows of volumes: see ``adaptive_avg_pool2d``."""
    return _averaged(input, _sizes(input, output_size, 3, "adaptive_avg_pool3d", "adaptive_avg_pool3d: output_size"))


# -- the largest -----------------------------------------------------------------------------------------------------


@kernel(
    by_rank("AdaptiveMaxPool{}DBackward0", "output_size"),
    backward_node=by_rank("AdaptiveMaxPool{}DBackwardBackward0", "output_size"),
    strides=spatial_in_two, outputs=("result0", "result1"), always_saved=("self", "result1"),
)  # fmt: skip
def _adaptive_max_pool(input: Array, output_size: Ints) -> Any:
    dims = len(output_size)
    _check(f"adaptive_max_pool{dims}d", input, output_size, ":")
    if min(output_size) < 0:
        shape = [*input.shape[: input.ndim - dims], *output_size]
        negative = next(n for n in output_size if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {shape}")
    sizes = input.shape[-dims:]
    along = [windows.adaptive(n, count) for n, count in zip(sizes, output_size, strict=True)]
    return pooled(input, windows.table(sizes, along), output_size)


_ADAPTIVE_MAX = operation_of(_adaptive_max_pool)


@functional
def adaptive_max_pool1d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of adaptive windows along the last axis, and their indices."""
    sizes = _along(input, output_size, "adaptive_max_pool1d")
    _check_nonempty("adaptive_max_pool1d", input._type.shape, len(input._type.shape) - 1)
    outputs, indices = apply(_ADAPTIVE_MAX, (input.unsqueeze(-2),), ((1, *sizes),))
    return outputs.squeeze(-2), indices.squeeze(-2)


@composite(method=False, name="adaptive_max_pool1d")
def _adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of adaptive windows along the last axis, and their indices."""
    return adaptive_max_pool1d_with_indices(input, output_size)


@functional
def adaptive_max_pool2d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of adaptive windows of images, and their flat indices."""
    return apply(
        _ADAPTIVE_MAX,
        (input,),
        (
            _sizes(
                input,
                output_size,
                2,
                "adaptive_max_pool2d",
                "adaptive_max_pool2d(): internal error: output_size.size()",
            ),
        ),
    )


@functional
def adaptive_max_pool3d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements of adaptive windows of volumes, and their flat indices."""
    return apply(
        _ADAPTIVE_MAX,
        (input,),
        (
            _sizes(
                input,
                output_size,
                3,
                "adaptive_max_pool3d",
                "adaptive_max_pool3d(): internal error: output_size.size()",
            ),
        ),
    )


@functional
@takes("adaptive_max_pool1d(input)")
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of ``output_size`` windows along the last axis."""
    results = adaptive_max_pool1d_with_indices(input, output_size)
    return results if return_indices else results[0]


@functional
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of windows of images, ``output_size`` along each axis, as even as possible.

    Source: `torch.nn.functional.adaptive_max_pool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_max_pool2d.html>`_.
    """
    results = adaptive_max_pool2d_with_indices(input, output_size)
    return results if return_indices else results[0]


@functional(autocast="fp32")
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of windows of volumes: see ``adaptive_max_pool2d``."""
    results = adaptive_max_pool3d_with_indices(input, output_size)
    return results if return_indices else results[0]
