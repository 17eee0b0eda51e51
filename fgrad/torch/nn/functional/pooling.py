"""Pooling over regular windows: the largest element, the mean, and the p-norm."""

import math
from typing import Any, Unpack

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import spatial, spatial_in_two
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy, is_half
from fgrad.torch import ops
from fgrad.torch.nn.functional import windows
from fgrad.torch.nn.functional.sizes import expanded
from fgrad.torch.ops.table.dispatch import OF_NN, OF_TORCH
from fgrad.torch.ops.table.kernels import by_rank, functional, kernel, single, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, RowOptions, composite, operation_of, writes_out

_COUNTS = {1: "one int", 2: "two ints", 3: "three ints"}
_POSITIONS = {"kernel_size": 2, "stride": 3, "padding": 4, "dilation": 5}


def _is_omitted(stride: Any) -> bool:
    return stride is None or (isinstance(stride, tuple | list) and not stride)


def _expanded(value: Any, dims: int, function: str, name: str, single: bool = True) -> Ints:
    values = expanded(value, dims, function, name, _POSITIONS[name])
    if values is None:
        either = (
            "either be a single int, or"
            if name in ("kernel_size", "padding", "dilation")
            else "either be omitted, a single int, or"
        )
        raise RuntimeError(f"{function}: {name} must {either} a tuple of {_COUNTS[dims]}")
    return values


def _check(
    function: str, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Ints:
    """The sizes of the result's spatial axes, or PyTorch's error for what does not fit."""
    dims = len(kernel)
    for k, s, p, d in zip(kernel, stride, padding, dilation, strict=True):
        if s == 0:
            raise RuntimeError("stride should not be zero")
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > int(((k - 1) * d + 1) / 2):
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    settings = (("kernel size", "k", kernel), ("stride", "d", stride), ("dilation", "dilation", dilation))
    for setting, letter, values in settings:
        if min(values) <= 0:
            raise RuntimeError(f"{setting} should be greater than zero, but got {_named(letter, values)}")
    outer = len(shape) - dims - 1
    if dims == 3 and 0 in shape[outer:]:
        caller = "max_pool3d_with_indices_out_cpu_template" if function == "max_pool3d" else function
        raise RuntimeError(
            f"{caller}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
            f"{list(shape)} and non-batch dimension 0 has length zero!"
        )
    if outer not in (0, 1) or 0 in shape[outer:]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(shape)}"
        )
    if any(p > k // 2 for k, p in zip(kernel, padding, strict=True)):
        text = "padW = {1}, padH = {0}, kW = {3}, kH = {2}"
        if dims == 3:
            text = "kT: {3} kW: {5} kH: {4} padT: {0} padW: {2} padH: {1}"
        raise RuntimeError(
            f"pad should be smaller than or equal to half of kernel size, but got {text.format(*padding, *kernel)}"
        )
    sizes = tuple(
        [
            windows.output_size(n, k, s, p, d, ceil_mode)
            for n, k, s, p, d in zip(shape[-dims:], kernel, stride, padding, dilation, strict=True)
        ]
    )
    if min(sizes) < 1:
        channels = shape[-dims - 1]
        text = "x".join(map(str, (channels, *shape[-dims:])))
        raise RuntimeError(
            f"Given input size: ({text}). Calculated output size: ({'x'.join(map(str, (channels, *sizes)))}). "
            "Output size is too small"
        )
    return sizes


def _named(name: str, values: Ints) -> str:
    return " ".join(f"{name}{axis}: {v}" for axis, v in zip("THW"[3 - len(values) :], values, strict=True))


def _settings(
    function: str, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
) -> tuple[Ints, Ints, Ints, Ints]:
    """Kernel, stride, padding and dilation for each axis; the stride is the kernel's size if none is given."""
    kernel = _expanded(kernel_size, dims, function, "kernel_size")
    steps = kernel if _is_omitted(stride) else _expanded(stride, dims, function, "stride")
    return kernel, steps, _expanded(padding, dims, function, "padding"), _expanded(dilation, dims, function, "dilation")


# -- the largest -----------------------------------------------------------------------------------------------------


@kernel(
    by_rank("MaxPool{}DWithIndicesBackward0", "kernel_size"),
    backward_node=by_rank("MaxPool{}DWithIndicesBackwardBackward0", "kernel_size"),
    strides=spatial, outputs=("result0", "result1"), always_saved=("self", "result1"),
)  # fmt: skip
def _max_pool(input: Array, *, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Any:
    dims = len(kernel_size)
    name = f"max_pool{dims}d"
    sizes = _check(name, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    if input.dtype == np.bool_ or input.dtype.kind == "c":
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_numpy(input.dtype).scalar_name}'")
    strided = windows.Strided.of(input.shape[-dims:], sizes, kernel_size, stride, padding, dilation)
    if strided is not None:
        return strided.pooled(input)
    along = [
        windows.regular(n, count, k, s, p, d)
        for n, count, k, s, p, d in zip(input.shape[-dims:], sizes, kernel_size, stride, padding, dilation, strict=True)
    ]
    return pooled(input, windows.table(input.shape[-dims:], along), sizes)


def pooled(input: Any, table: windows.Table, sizes: Ints) -> tuple[Any, Any]:
    """The largest element of each window, and its flat index."""
    outer = input.shape[: input.ndim - len(sizes)]
    if not table.flat_indices.size:  # no windows, or all in the padding
        return jnp.full((*outer, *sizes), windows.lowest(input.dtype)), jnp.zeros((*outer, *sizes), np.int64)
    image = lax.reshape(input, (*outer, math.prod(input.shape[len(outer) :])))
    shaped = table.shaped(sizes)
    indices = shaped.largest(shaped.gather(lax.stop_gradient(image), windows.lowest(input.dtype)))
    # gathered by the indices that are returned, so that backward saves these
    return windows.picked(image, indices), indices


_MAX_POOL = operation_of(_max_pool)


def _max_pooled(
    dims: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    settings = _settings(f"max_pool{dims}d", dims, kernel_size, stride, padding, dilation)
    if len(input._type.shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input")
    return apply(_MAX_POOL, (input,), (*settings, bool(ceil_mode)))


def _int(value: Any, name: str, kinds: str) -> int:
    values = expanded(value, 1, "max_pool1d", name, _POSITIONS[name])
    if values is None:
        raise RuntimeError(f"max_pool1d() {name} must be {kinds} or tuple of ints of size 1 but got size {len(value)}")
    return values[0]


def _along(settings: dict[str, Any], function: str) -> list[int]:
    """Settings of pooling along one axis as integers."""
    values = []
    for name, value in settings.items():
        integers = expanded(value, 1, function, name, _POSITIONS[name])
        if integers is None:
            raise RuntimeError(f"{function}() argument '{name}' should contain one int (got {len(value)})")
        values += integers
    return values


@functional
def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window along the last axis, and its index."""
    rank = len(input._type.shape)
    if rank not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for max_pool1d)"
        )
    settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    if _is_omitted(stride):
        settings["stride"] = kernel_size
    kernel, step, ends, spread = _along(settings, "max_pool1d")
    outputs, indices = apply(
        _MAX_POOL, (input.unsqueeze(-2),), ((1, kernel), (1, step), (0, ends), (1, spread), bool(ceil_mode))
    )
    return outputs.squeeze(-2), indices.squeeze(-2)


def _check_max_pool1d(input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> None:
    """Raise the errors of PyTorch's function that returns no indices."""
    shape = input._type.shape
    if len(shape) not in (2, 3) or 0 in shape[len(shape) - 2 :]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            f"{list(shape)}"
        )
    kernel = _int(kernel_size, "kernel_size", "an int, list of ints")
    step = kernel if _is_omitted(stride) else _int(stride, "stride", "None, an int, list of ints,")
    ends = _int(padding, "padding", "an int, list of ints")
    spread = _int(dilation, "dilation", "an int, list of ints")
    for name, value in (("kernel_size", kernel), ("stride", step), ("dilation", spread)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if ends < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {ends}")
    if ends > kernel // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={ends} and "
            f"kernel_size={kernel}"
        )
    size = windows.output_size(shape[-1], kernel, step, ends, spread, ceil_mode)
    if size <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {size}")


@functional
def max_pool2d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window of images, and its flat index."""
    return _max_pooled(2, input, kernel_size, stride, padding, dilation, ceil_mode)


@functional
def max_pool3d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest element of each window of volumes, and its flat index."""
    return _max_pooled(3, input, kernel_size, stride, padding, dilation, ceil_mode)


@functional
@takes("max_pool1d(input)")
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window along the last axis: see ``max_pool2d``."""
    if not return_indices:
        _check_max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)
        if not input.dtype.is_floating_point:  # PyTorch has a separate kernel where no indices are returned
            raise NotImplementedError(f"\"max_pool1d_impl\" not implemented for '{input.dtype.scalar_name}'")
    results = max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return results if return_indices else results[0]


@functional
@takes("max_pool2d(input)")
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of images.

    Arguments:
      input: of shape (N, C, H, W) or (C, H, W).
      stride: the distance of the windows; the kernel's size if None.
      padding: how far windows reach over the ends, where elements are minus infinity.
      ceil_mode: whether windows that start inside or in the left padding may reach over the right padding.
      return_indices: return also the flat index of each.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.max_pool2d(torch.tensor([[[1., 2.], [4., 3.]]]), 2)
    tensor([[[4.]]])

    Source: `torch.nn.functional.max_pool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html>`_.
    """
    results = _max_pooled(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return results if return_indices else results[0]


def _pools_in_fp32(*args: Any, return_indices: bool = False, **kwargs: Any) -> bool:
    """Whether autocast runs a pool of volumes in float32."""
    return not (len(args) > 6 and args[6]) and not return_indices


@functional(autocast=_pools_in_fp32)
@takes("max_pool3d(input)")
def max_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of volumes: see ``max_pool2d``."""
    results = _max_pooled(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return results if return_indices else results[0]


def _enter_in_torch(name: str, pool: Any, **options: Unpack[RowOptions]) -> None:
    """``torch``'s own functions of these names take no ``return_indices``."""

    def plain(
        input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    plain.__doc__ = pool.__doc__
    composite(method=False, name=name, **options)(plain)


for _pool in (max_pool1d, max_pool2d, max_pool1d_with_indices):
    _enter_in_torch(_pool.__name__, _pool)
_enter_in_torch("max_pool3d", max_pool3d, autocast=_pools_in_fp32)


# -- the mean --------------------------------------------------------------------------------------------------------


@kernel(
    by_rank("AvgPool{}DBackward0", "kernel_size"),
    backward_node=by_rank("AvgPool{}DBackwardBackward0", "kernel_size"),
    strides=spatial_in_two,
    always_saved=("self",),
)
def _avg_pool(
    input: Array, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Any:  # fmt: skip
    dims = len(kernel_size)
    name = f"avg_pool{dims}d"
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    sizes = _check(name, input.shape, kernel_size, stride, padding, (1,) * dims, ceil_mode)
    dtype = from_numpy(input.dtype)
    if (not dtype.is_floating_point and input.dtype != np.int64) or (dims == 3 and is_half(input.dtype)):
        kernel_name = "avg_pool3d_out_frame" if dims == 3 else name
        raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{dtype.scalar_name}'")
    return single(_window_means)(
        input,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        sizes=sizes,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )


def _window_means(
    input: Any, *, kernel_size: Ints, stride: Ints, padding: Ints, sizes: Ints, count_include_pad: bool,
    divisor_override: int | None,
) -> Any:  # fmt: skip
    dims = len(kernel_size)
    input_sizes = input.shape[-dims:]
    ends = [
        (p, max(0, (count - 1) * s + k - n - p))
        for n, count, k, s, p in zip(input_sizes, sizes, kernel_size, stride, padding, strict=True)
    ]
    outer = input.ndim - dims
    start = jnp.zeros((), input.dtype)
    pads = [(0, 0)] * outer + ends
    ones = (1,) * outer
    # the end of the input that no window covers
    total = lax.reduce_window(input, start, lax.add, ones + kernel_size, ones + stride, pads)
    total = total[(Ellipsis, *[slice(0, count) for count in sizes])]
    divisor: Any = divisor_override
    if divisor is None:
        counts = [
            _counts(n, count, k, s, p, count_include_pad)
            for n, count, k, s, p in zip(input_sizes, sizes, kernel_size, stride, padding, strict=True)
        ]
        divisor = math.prod(np.ix_(*counts))
    if input.dtype.kind == "i":
        return lax.div(total, jnp.broadcast_to(jnp.asarray(divisor, input.dtype), total.shape))
    return total / jnp.asarray(divisor, input.dtype)


def _counts(size: int, count: int, kernel: int, stride: int, padding: int, include_pad: bool) -> list[int]:
    """The divisor of each window's sum."""
    starts = [i * stride - padding for i in range(count)]
    if include_pad:
        return [min(s + kernel, size + padding) - s for s in starts]
    return [min(s + kernel, size) - max(s, 0) for s in starts]


_AVG_POOL = operation_of(_avg_pool)


@composite(method=False, out=NOT_TAKEN)
@functional(dispatch=OF_TORCH)
@takes("avg_pool1d(input)")
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window along the last axis: see ``avg_pool2d``."""
    rank = len(input._type.shape)
    if rank not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for avg_pool1d)"
        )
    steps = kernel_size if _is_omitted(stride) else stride
    settings = {"kernel_size": kernel_size, "stride": steps, "padding": padding}
    k, s, p = _along(settings, "avg_pool1d")
    if s == 0:
        raise RuntimeError("stride should not be zero")
    params = ((1, k), (1, s), (0, p), bool(ceil_mode), bool(count_include_pad), None)
    return apply(_AVG_POOL, (input.unsqueeze(-2),), params).squeeze(-2)


def _averaged(
    dims: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:  # fmt: skip
    kernel, steps, ends, _ = _settings(f"avg_pool{dims}d", dims, kernel_size, stride, padding)
    if dims == 3 and len(input._type.shape) not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if dims == 2 and len(input._type.shape) < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got -3)"
        )
    params = (kernel, steps, ends, bool(ceil_mode), bool(count_include_pad), divisor_override)
    return apply(_AVG_POOL, (input,), params)


@functional(dispatch=OF_NN)
@writes_out("avg_pool2d")
@takes("avg_pool2d(input)")
def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of images.

    Arguments:
      count_include_pad: whether the zeros of the padding count.
      divisor_override: what the sums are divided by, in place of the size of the window.

    Source: `torch.nn.functional.avg_pool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html>`_.
    """
    return _averaged(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@functional(autocast="fp32", dispatch=OF_NN)
@writes_out("avg_pool3d")
@takes("avg_pool3d(input)")
def avg_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of volumes: see ``avg_pool2d``."""
    return _averaged(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# -- the norm --------------------------------------------------------------------------------------------------------


def _norm_pool(
    largest: Any, mean: Any, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool, dims: int
) -> Tensor:
    if norm_type == math.inf:
        return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -math.inf:
        return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    out = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    count = math.prod(_expanded(kernel_size, dims, f"avg_pool{dims}d", "kernel_size"))
    return (ops.sign(out) * ops.relu(ops.abs(out))).mul(count).pow(1.0 / norm_type)


@functional
def lp_pool1d(input: Any, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window along the last axis, without absolute values.

    Source: `torch.nn.functional.lp_pool1d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.lp_pool1d.html>`_.
    """
    return _norm_pool(max_pool1d, avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode, 1)


@functional
def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of images: see ``lp_pool1d``."""
    return _norm_pool(max_pool2d, avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode, 2)


@functional
def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of volumes: see ``lp_pool1d``."""
    return _norm_pool(max_pool3d, avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode, 3)
