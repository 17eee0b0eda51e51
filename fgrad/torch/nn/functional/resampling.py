"""``interpolate``: images of another size.

NOTE [Resampling by taps]
Every mode is separable: along each axis an element of the result is a weighted sum of a few elements of the input, its
taps.  What the modes, ``align_corners``, ``antialias`` and scale factors change is only which taps and what weights,
and these depend on sizes alone: they are worked out with NumPy when an operation is planned.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from jax import numpy as jnp

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import spatial
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.mutable.values.capacity import check_storage
from fgrad.torch.nn.functional.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from fgrad.torch.ops.indexing.coordinates import take_known
from fgrad.torch.ops.table.dispatch import CLOSED
from fgrad.torch.ops.table.kernels import functional, kernel, single
from fgrad.torch.ops.table.table import Array, operation_of


@frozen(eq=False)
class Taps:
    """For each element of a resampled axis the indices and weights of its taps, an axis of taps last."""

    indices: np.ndarray
    weights: np.ndarray

    def resampled(self, array: Any, axis: int) -> Any:
        taps = [take_known(array, self.indices[:, i], axis) for i in range(self.indices.shape[1])]
        if len(taps) == 1:
            return taps[0]
        shape = [1] * array.ndim
        shape[axis] = -1
        weights = self.weights
        if array.dtype != np.uint8:
            return sum(tap * jnp.asarray(weights[:, i].reshape(shape), array.dtype) for i, tap in enumerate(taps))
        # in fixed point: with as many fraction bits as let the largest weight fit into 16 bits
        bits = next(n for n in range(22) if int(0.5 + weights.max() * 2 ** (n + 1)) >= 2**15)
        fixed_point = np.trunc(weights * 2**bits + np.copysign(0.5, weights)).astype(np.int32)
        total = sum(tap.astype(np.int32) * jnp.asarray(fixed_point[:, i].reshape(shape)) for i, tap in enumerate(taps))
        return jnp.clip((total + (1 << (bits - 1))) >> bits, 0, 255).astype(np.uint8)


def _step(size: int, count: int, align_corners: bool, factor: float | None, real: Any) -> Any:
    """The spacing of the result's elements in the input (area_pixel_compute_scale)."""
    if align_corners:
        return real(size - 1) / real(count - 1) if count > 1 else real(0)
    return real(1.0 / factor) if factor is not None and factor > 0 else real(size) / real(count)


def _sources(size: int, count: int, align_corners: bool, factor: float | None, real: Any) -> np.ndarray:
    """The coordinates of the result's elements in the input."""
    step = _step(size, count, align_corners, factor, real)
    at = np.arange(count).astype(real)
    return at * step if align_corners else (at + real(0.5)) * step - real(0.5)


def _nearest(size: int, count: int, factor: float | None, exact: bool) -> Taps:
    step = _step(size, count, False, factor, np.float32)
    at = np.arange(count).astype(np.float32)
    indices = np.floor((at + np.float32(0.5)) * step if exact else at * step).astype(np.int64)
    return Taps(np.minimum(indices, size - 1)[:, None], np.ones((count, 1)))


def _linear(size: int, count: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    if size == count and align_corners is False and factor is None:
        return Taps(np.arange(size)[:, None], np.ones((size, 1)))
    source = np.maximum(_sources(size, count, align_corners, factor, real), 0)
    low = np.minimum(source.astype(np.int64), size - 1)
    fraction = np.clip(source - low.astype(real), 0, 1)
    return Taps(np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([1 - fraction, fraction], 1))


def cubic_weights(t: Any, stack: Callable[..., Any]) -> Any:
    """The weights of four taps around a point that lies ``t`` after the second of them."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return stack([far(t + 1), near(t), near(1 - t), far(2 - t)], -1)


def _cubic(size: int, count: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    source = _sources(size, count, align_corners, factor, real)
    low = np.floor(source)
    indices = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    return Taps(np.clip(indices, 0, size - 1), cubic_weights(source - low, np.stack))


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _smooth_cubic(x: np.ndarray) -> np.ndarray:
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x < 1, near, np.where(x < 2, (((x - 5) * x + 8) * x - 4) * a, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


#: how wide a filter is, and the filter
_FILTERS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (2, _triangle),
    "bicubic": (4, _smooth_cubic),
    "lanczos": (6, _lanczos),
}


def _filtered(size: int, count: int, align_corners: bool, factor: float | None, mode: str, real: Any) -> Taps:
    """Taps of a filter as wide as the step, so that no element is skipped."""
    width, filter = _FILTERS[mode]
    step = float(_step(size, count, align_corners, factor, real))
    stretch = max(step, 1.0)
    support = width * 0.5 * stretch
    centres = step * (np.arange(count) + 0.5)
    first = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    stop = np.minimum((centres + support + 0.5).astype(np.int64), size)
    indices = first[:, None] + np.arange(max(int((stop - first).max()), 1))
    inside = indices < stop[:, None]
    weights = np.where(inside, filter((indices - centres[:, None] + 0.5) / stretch), 0)
    total = weights.sum(1, keepdims=True)
    return Taps(np.where(inside, indices, 0), weights / np.where(total == 0, 1, total))


_NAMES = {"nearest": "Nearest", "nearest-exact": "NearestExact", "linear": "Linear", "bilinear": "Bilinear",
          "trilinear": "Trilinear", "bicubic": "Bicubic", "lanczos": "Lanczos"}  # fmt: skip


def _named(end: str) -> Callable[..., str]:
    def name(types: Any, params: dict[str, Any]) -> str:
        smooth = "Aa" if params["antialias"] else ""
        return f"Upsample{_NAMES[params['mode']]}{len(params['output_size'])}D{smooth}{end}"

    return name


@kernel(_named("Backward0"), strides=spatial, outputs=(), backward_node=_named("BackwardBackward0"))
@single
def _upsample(
    input: Array, output_size: Ints, mode: str, align_corners: bool, antialias: bool, scales: tuple[float | None, ...]
) -> Any:
    dims = len(output_size)
    sizes = input.shape[2:]
    if 0 in (*sizes, *output_size) or min(output_size) < 0:
        shown = ", ".join(f"{a}: {n}" for a, n in zip("DHW"[3 - dims :], sizes, strict=True))
        wanted = ", ".join(f"{a}: {n}" for a, n in zip("DHW"[3 - dims :], output_size, strict=True))
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({shown}) output ({wanted})"
        )
    if 0 in input.shape[1:2]:
        raise RuntimeError(
            f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )
    check_storage((*input.shape[:2], *output_size), input.dtype.itemsize)
    dtype = from_numpy(input.dtype)
    nearest = mode.startswith("nearest")
    bytes = input.dtype == np.uint8
    if not dtype.is_floating_point and not (bytes and (nearest or dims == 2)):
        name = "nearest" if nearest else mode
        raise NotImplementedError(f"\"compute_indices_weights_{name}\" not implemented for '{dtype.scalar_name}'")
    real = np.float64 if input.dtype == np.float64 or bytes else np.float32
    # bytes are rounded after each axis, the last axis first
    for i in reversed(range(dims)):
        size, count, factor = sizes[i], output_size[i], scales[i]
        if mode in ("nearest", "nearest-exact"):
            taps = _nearest(size, count, factor, mode == "nearest-exact")
        elif antialias:
            taps = _filtered(size, count, align_corners, factor, mode, real)
        elif mode == "bicubic":
            taps = _cubic(size, count, align_corners, factor, real)
        else:
            taps = _linear(size, count, align_corners, factor, real)
        input = taps.resampled(input, i + 2)
    return input


_RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5}


@functional
def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Sequences, images or volumes of another size.

    Arguments:
      size, scale_factor: the new size, or the factor; exactly one of them.
      mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area", or "lanczos".
      align_corners: whether the centres of the elements at the corners stay where they are, not their outer edges.
      recompute_scale_factor: use the ratio of the sizes, not the factor given.
      antialias: use wider filters where images get smaller.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])

    Source: `torch.nn.functional.interpolate
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html>`_.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif align_corners is None:
        align_corners = False
    rank = input.dim()
    sizes, factors = _wanted(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None:
        sizes = [_scaled(n, f) for n, f in zip(input.size()[2:], factors, strict=True)]
        if recompute_scale_factor or mode == "area":
            factors = None
    if antialias and not (mode in _FILTERS and rank == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if rank in (3, 4, 5) and mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 3]
        return pool(input, sizes)
    if mode == "lanczos" and rank == 4:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    _check_rank(rank, mode)
    scales = (None,) * len(sizes) if factors is None else tuple(map(float, factors))
    params = (tuple(map(int, sizes)), mode, bool(align_corners), bool(antialias), scales)
    return apply(operation_of(_upsample), (input,), params)


def _scaled(size: int, factor: Any) -> int:
    scaled = size * factor
    if not abs(scaled) < 1 << 63:  # nor NaN
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return int(scaled)


def _wanted(input: Any, size: Any, scale_factor: Any) -> tuple[list[int], list[float] | None]:
    """The sizes asked for, and the factors if these were given instead."""
    dims = input.dim() - 2
    sizes = list(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if not isinstance(size, list | tuple):
            size = [size] * dims
        if len(size) != dims:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {sizes} and output size of {size}. Please provide input tensor in (N, C, d1, d2, "
                "...,dK) format and output size in (o1, o2, ...,oK) format."
            )
        if not all(
            isinstance(n, int | np.integer) or (isinstance(n, Tensor) and not n.is_floating_point()) for n in size
        ):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(n) for n in size]}"
            )
        return list(size), None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, list | tuple):
        return sizes, [scale_factor] * dims
    if len(scale_factor) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {sizes} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, "
            "d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    return sizes, list(scale_factor)


def _check_rank(rank: int, mode: str) -> None:
    if mode in _RANKS and rank in (3, 4, 5):
        if rank != _RANKS[mode]:
            raise NotImplementedError(f"Got {rank}D input, but {mode} mode needs {_RANKS[mode]}D input")
        return
    if rank in (3, 4, 5) and (mode in ("nearest", "nearest-exact") or (mode in ("bicubic", "lanczos") and rank == 4)):
        return
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


@functional(dispatch=CLOSED)
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The deprecated name of ``interpolate``."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@functional(dispatch=CLOSED)
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode "nearest"; deprecated."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@functional(dispatch=CLOSED)
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode "bilinear" and aligned corners; deprecated."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(name: str) -> None:
    warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")
