"""``grid_sample`` and ``affine_grid``: images sampled at arbitrary points."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.torch.nn.functional.resampling import cubic_weights
from fgrad.torch.ops.creation.spacing import evenly_spaced
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kernels import check_floating, functional, kernel, single, takes
from fgrad.torch.ops.table.table import Array, composite

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
_MODES = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
_PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
_WARNING = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


def _clipped(x: Any, size: int) -> Any:
    """Coordinates clipped to the ends, without derivative there."""
    return choose(x <= 0, 0, choose(x >= size - 1, size - 1, x))


def _reflected(x: Any, low: float, high: float) -> Any:
    """Coordinates reflected at both ends, repeatedly."""
    span = high - low
    if span == 0:
        return x * 0
    distance = choose(x < low, low - x, x - low)
    flips = jnp.floor(distance / span)
    remainder = distance - flips * span
    return choose(flips % 2 == 0, remainder + low, span - remainder + low)


def _pad_coordinates(x: Any, size: int, padding: int, align_corners: bool) -> Any:
    """Coordinates as the padding mode moves them."""
    if padding == REFLECTION:
        x = _reflected(x, 0, size - 1) if align_corners else _reflected(x, -0.5, size - 0.5)
    return x if padding == ZEROS else _clipped(x, size)


def _gather(image: Any, indices: Any, sizes: Ints) -> Any:
    """Elements of flattened images (N, C, ...) at integer indices (N, points) for each axis; zero outside."""
    flat: Any = 0
    within: Any = True
    for index, size in zip(indices, sizes, strict=True):
        within = within & (index >= 0) & (index < size)
        flat = flat * size + jnp.clip(index, 0, size - 1)
    pixels = jnp.take_along_axis(image, flat[:, None, :], 2)
    return choose(within[:, None, :], pixels, 0)


def _named(end: str) -> Callable[..., str]:
    return lambda types, params: f"GridSampler{len(types[0].shape) - 2}D{end}"


@kernel(
    _named("Backward0"),
    backward_node=_named("BackwardBackward0"),
    always_saved=("input", "grid"),
    saved=("input", "grid"),
    outputs=(),
    absent="unread",
)  # fmt: skip
@single
def _grid_sampler(
    input: Array, grid: Array, rank: int, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    _check(input, grid, rank, interpolation_mode)
    check_floating("grid_sampler_2d_cpu_kernel_impl" if input.ndim == 4 else "grid_sampler3d_cpu", input)
    batch, channels, *sizes = input.shape
    points = grid.reshape(batch, math.prod(grid.shape[1:-1]), len(sizes))
    image = input.reshape(batch, channels, math.prod(sizes))
    coordinates = []
    for axis, size in enumerate(sizes):
        at = points[:, :, len(sizes) - 1 - axis]
        scaled = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        coordinates.append(
            scaled if interpolation_mode == BICUBIC else _pad_coordinates(scaled, size, padding_mode, align_corners)
        )
    if interpolation_mode == NEAREST:
        sampled = _gather(image, [jnp.round(x).astype(np.int64) for x in coordinates], tuple(sizes))
    elif interpolation_mode == BILINEAR:
        sampled = _interpolated(image, coordinates, tuple(sizes))
    else:
        sampled = _cubic(image, coordinates, tuple(sizes), padding_mode, align_corners)
    return sampled.reshape(batch, channels, *grid.shape[1:-1])


def _interpolated(image: Any, coordinates: list[Any], sizes: Ints) -> Any:
    """The corners of the cell around each point, each weighted by the part of the cell on its other side."""
    lows = [jnp.floor(x) for x in coordinates]
    total: Any = 0
    for corner in np.ndindex(*(2,) * len(sizes)):
        indices = [low.astype(np.int64) + c for low, c in zip(lows, corner, strict=True)]
        weight: Any = 1
        for x, low, c in zip(coordinates, lows, corner, strict=True):
            weight = weight * (x - low if c else low + 1 - x)
        total = total + _gather(image, indices, sizes) * weight[:, None, :]
    return total


def _cubic(image: Any, coordinates: list[Any], sizes: Ints, padding: int, align_corners: bool) -> Any:
    lows = [jnp.floor(x) for x in coordinates]
    weights = [cubic_weights(x - low, jnp.stack) for x, low in zip(coordinates, lows, strict=True)]
    total: Any = 0
    for i, j in np.ndindex(4, 4):
        taps = [
            _pad_coordinates(low + k - 1, size, padding, align_corners).astype(np.int64)
            for low, k, size in zip(lows, (i, j), sizes, strict=True)
        ]
        total = total + _gather(image, taps, sizes) * (weights[0][:, :, i] * weights[1][:, :, j])[:, None, :]
    return total


def _check(input: Any, grid: Any, rank: int, mode: int) -> None:
    dims = input.ndim - 2
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for i in range(2, input.ndim):
        if not input.shape[i]:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {i} being empty"
            )
    if not input.ndim == rank == grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {rank}D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if dims == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        expected, actual = from_numpy(input.dtype).scalar_name, from_numpy(grid.dtype).scalar_name
        raise RuntimeError(f"expected scalar type {expected} but found {actual}")


@composite(method=False)
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``torch.nn.functional.grid_sample`` with its modes as numbers."""
    rank = 4 if input.dim() == 4 else 5
    return _grid_sampler(input, grid, rank, interpolation_mode, padding_mode, bool(align_corners))


@composite(method=False)
def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``torch.nn.functional.grid_sample`` of images, with its modes as numbers."""
    return _grid_sampler(input, grid, 4, interpolation_mode, padding_mode, bool(align_corners))


@composite(method=False)
def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``torch.nn.functional.grid_sample`` of volumes, with its modes as numbers."""
    return _grid_sampler(input, grid, 5, interpolation_mode, padding_mode, bool(align_corners))


@functional(autocast="fp32")
@takes("grid_sampler(input, grid)")
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Images read at points between -1 and 1.

    Arguments:
      input: of shape (N, C, H, W), or (N, C, D, H, W).
      grid: points, x before y before z in the last axis.
      mode: "bilinear", "nearest", or for images "bicubic".
      padding_mode: the values outside: "zeros", the "border", or a "reflection" of the inside.
      align_corners: whether -1 and 1 are the centres of the elements at the ends, not their outer edges.

    Source: `torch.nn.functional.grid_sample
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html>`_.
    """
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warn(_WARNING)
        align_corners = False
    return grid_sampler(input, grid, _MODES[mode], _PADDINGS[padding_mode], align_corners)


@kernel("AffineGridGeneratorBackward0", saved=("theta",))
def _affine_grid(theta: Array, size: Ints, align_corners: bool) -> Any:
    if theta.shape[0] != size[0]:
        columns = theta.shape[2]
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {columns}] but got: "
            f"[{theta.shape[0]}, {columns}]."
        )
    axes = []
    for n in size[2:]:
        ends = evenly_spaced(-1, 1, n, theta.dtype) if n > 1 else np.zeros(1, theta.dtype)
        axes.append(ends if align_corners else ends * theta.dtype.type(n - 1) / theta.dtype.type(n))
    ones = np.ones(size[2:], theta.dtype)
    points = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), ones], -1).reshape(-1, len(axes) + 1)
    grid = jnp.einsum("pk,njk->npj", points, theta)
    return grid.reshape(theta.shape[0], *size[2:], len(axes))


@composite(method=False)
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Tensor:
    """``torch.nn.functional.affine_grid`` with all arguments given."""
    return _affine_grid(theta, tuple(map(int, size)), bool(align_corners))


@functional
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Tensor:
    """The points that affine maps send the elements of images to, for ``grid_sample``.

    Source: `torch.nn.functional.affine_grid
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html>`_.
    """
    if align_corners is None:
        warn(_WARNING)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    dims = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of affine_grid. See the documentation of affine_grid for details.",
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align_corners)
