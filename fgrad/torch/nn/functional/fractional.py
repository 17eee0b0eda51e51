"""Fractional max pooling: windows at random positions (Graham, "Fractional Max-Pooling")."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.values.evaluation import constant
from fgrad.torch.nn.functional import windows
from fgrad.torch.nn.functional.sizes import expanded
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kernels import by_rank, check_floating, functional, kernel
from fgrad.torch.ops.table.table import Array, Fixed, operation_of
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.uniform import uniform


def _starts(samples: Any, size: int, count: int, kernel: int) -> Any:
    """The starts of the windows along an axis, for each sample: axes (..., window)."""
    last = jnp.full((*samples.shape, 1), size - kernel, np.int64)
    if count == 1:
        return last
    step = np.asarray((size - kernel) / (count - 1), samples.dtype)
    at = samples[..., None]
    steps = ((jnp.arange(count - 1).astype(samples.dtype) + at) * step).astype(np.int64)
    return jnp.concatenate([steps - (at * step).astype(np.int64), last], -1)


@kernel(
    by_rank("FractionalMaxPool{}DBackward0", "output_size"),
    backward_node=by_rank("FractionalMaxPool{}DBackwardBackward0", "output_size"),
    outputs=("result0", "result1"), always_saved=("self", "result1"),
)  # fmt: skip
def _fractional_max_pool(input: Array, random_samples: Fixed, kernel_size: Ints, output_size: Ints) -> Any:
    dims = len(kernel_size)
    check_floating(f"fractional_max_pool{dims}d_out_frame", input)
    if min(output_size) < 0:
        shape = [*input.shape[: input.ndim - dims], *output_size]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(output_size)}: {shape}")
    function = "fractional_max_pool2d" if dims == 2 else "fractional_max_pool3d_out"
    sizes = input.shape[-dims:]
    batched = input.ndim == dims + 2
    for axis in range(1, input.ndim):
        if not input.shape[axis]:
            raise RuntimeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(input.shape)} with dimension {axis} being empty."
            )
    for axis, n, count, k in zip("THW"[3 - dims :], sizes, output_size, kernel_size, strict=True):
        if count + k - 1 > n:
            named = {"T": "time", "H": "height", "W": "width"}[axis]
            raise RuntimeError(f"{function}(): pool {named} {k} too large relative to input {named} {n}")
    image = input if batched else input[None]
    _check_samples(random_samples.shape, image.shape[0], image.shape[1], dims)
    if 0 in output_size:
        shape = (*input.shape[: input.ndim - dims], *output_size)
        return jnp.zeros(shape, input.dtype), jnp.zeros(shape, np.int64)
    samples = random_samples[: image.shape[0]].astype(input.dtype)
    # of two samples the first is for the width; of three, the first is for the time
    order = range(dims) if dims == 3 else reversed(range(dims))
    flat: Any = 0
    for axis, which in enumerate(order):
        starts = _starts(samples[..., which], sizes[axis], output_size[axis], kernel_size[axis])
        indices = starts[..., None] + np.arange(kernel_size[axis])
        shape = [*indices.shape[:2], *[1] * (2 * dims)]
        shape[2 + axis], shape[2 + dims + axis] = output_size[axis], kernel_size[axis]
        flat = flat * sizes[axis] + indices.reshape(shape)
    outer = image.shape[:2]
    covered = flat.reshape(*outer, *output_size, math.prod(kernel_size))
    pixels = image.reshape(*outer, math.prod(sizes))
    at = windows.largest(windows.picked(lax.stop_gradient(pixels), covered))
    # a maximum, because it ends without reshaping: backward saves the result itself
    indices = jnp.max(choose(np.arange(covered.shape[-1]) == at[..., None], covered, -1), -1)
    if not batched:
        indices, pixels = indices[0], pixels[0]
    return windows.picked(pixels, indices), indices


def _check_samples(shape: Ints, batch: int, channels: int, dims: int) -> None:
    problem = None
    if shape[0] < batch:
        problem = "size(0) no less then input batch size."
    elif shape[1] != channels:
        problem = "size(1) equals to input channel size."
    elif shape[2] != dims:
        problem = f"size(2) equals to {dims}; got {shape[2]}."
    if problem is not None:
        raise RuntimeError(f"Expect _random_samples.{problem}")


def _pooled(
    dims: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if dims == 2 and isinstance(output_ratio, tuple | list) and len(output_ratio) > 2:
            raise ValueError("fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints.")
        ratios = output_ratio if isinstance(output_ratio, tuple | list) else (output_ratio,) * dims
        output_size = [int(n * r) for n, r in zip(input.size()[-dims:], ratios, strict=True)]
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        drawn = uniform((batch, input.size(-dims - 1), dims), input.dtype.numpy, default_generator)
        samples = to_device_of(input, new_tensor(constant(drawn), tensor_type(input.dtype, drawn.shape)))
    elif samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    kernel = expanded(kernel_size, dims, name, "kernel_size", 2)
    sizes = expanded(output_size, dims, name, "output_size", 3)
    if kernel is None:
        raise RuntimeError(
            f"{name}: kernel_size must either be a single int or tuple of {'Ints' if dims == 2 else 'three Ints'}"
        )
    if sizes is None:
        raise RuntimeError(
            f"{name}: output_size must either be a single int or tuple of {'Ints' if dims == 2 else 'three Ints'}"
        )
    return apply(operation_of(_fractional_max_pool), (input, samples), (kernel, sizes))


@functional
def fractional_max_pool2d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest elements of windows at random positions of images, and their flat indices."""
    return _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)


@functional
def fractional_max_pool3d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest elements of windows at random positions of volumes, and their flat indices."""
    return _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)


@functional(autocast="fp32")
def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest elements of windows at random positions of images.

    Source: `torch.nn.functional.fractional_max_pool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.fractional_max_pool2d.html>`_.
    """
    results = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return results if return_indices else results[0]


@functional(autocast="fp32")
def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest elements of windows at random positions of volumes: see ``fractional_max_pool2d``."""
    results = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return results if return_indices else results[0]
