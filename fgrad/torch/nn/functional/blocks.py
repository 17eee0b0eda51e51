"""Sliding blocks: images cut into columns and reassembled, and max pooling undone."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.capture import expect_within
from fgrad.mutable.operation.output_strides import spatial
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy, int64
from fgrad.mutable.values.evaluation import elements
from fgrad.torch.nn.functional import windows
from fgrad.torch.nn.functional.sizes import expanded
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kernels import by_rank, check_floating, functional, kernel, takes
from fgrad.torch.ops.table.table import Array, Fixed


def _check_settings(settings: dict[str, Ints]) -> None:
    for name, value in settings.items():
        if name == "padding":
            if min(value) < 0:
                raise RuntimeError(
                    f"padding should be non-negative, but got padding_height: {value[0]} padding_width: {value[1]}"
                )
        elif min(value) <= 0:
            short = "kernel" if name == "kernel_size" else name
            raise RuntimeError(
                f"{name.replace('_', ' ')} should be greater than zero, but got {short}_height: {value[0]} "
                f"{short}_width: {value[1]}"
            )


def _counts(sizes: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Ints:
    return tuple(
        [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
        ]
    )


def _table(sizes: Ints, counts: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> windows.Table:
    """The flat indices of each block's elements: a row for each element of the kernel, a column for each block."""
    along = [
        np.arange(count) * s - p + np.arange(k)[:, None] * d
        for count, k, d, p, s in zip(counts, kernel, dilation, padding, stride, strict=True)
    ]
    rows, columns = along[0][:, None, :, None], along[1][None, :, None, :]
    inside = (rows >= 0) & (rows < sizes[0]) & (columns >= 0) & (columns < sizes[1])
    shape = (kernel[0] * kernel[1], counts[0] * counts[1])
    flat_indices = np.where(inside, rows * sizes[1] + columns, 0)
    return windows.Table(flat_indices.reshape(shape), np.broadcast_to(inside, flat_indices.shape).reshape(shape))


def _check_unsupported(name: str, numpy_dtype: np.dtype[Any]) -> None:
    dtype = from_numpy(numpy_dtype)
    if not (dtype.is_floating_point or dtype.is_complex or dtype.scalar_name == "Bool"):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


@kernel("Im2ColBackward0", backward_node="Col2ImBackward0")
def _im2col(input: Array, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    _check_settings(settings)
    shape = input.shape
    if len(shape) not in (3, 4) or 0 in shape[len(shape) - 3 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(shape)}"
        )
    _check_unsupported("im2col_out_cpu", input.dtype)
    sizes = shape[-2:]
    counts = _counts(sizes, kernel_size, dilation, padding, stride)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {sizes}, kernel_size={kernel_size}, dilation={dilation}, "
            f"padding={padding}, "
            f"calculated shape of the array of sliding blocks as {counts}, but its components must be at least one."
        )
    image = lax.reshape(input, (*shape[:-2], sizes[0] * sizes[1]))
    blocks = _table(sizes, counts, kernel_size, dilation, padding, stride).gather(image, input.dtype.type(0))
    return lax.reshape(blocks, (*shape[:-3], shape[-3] * kernel_size[0] * kernel_size[1], counts[0] * counts[1]))


@kernel("Col2ImBackward0", backward_node="Im2ColBackward0")
def _col2im(input: Array, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    _check_settings({"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride})
    shape = input.shape
    if len(shape) not in (2, 3) or 0 in shape[len(shape) - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    size = kernel_size[0] * kernel_size[1]
    if shape[-2] % size:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[-2]} and kernel_size={kernel_size}."
        )
    counts = _counts(output_size, kernel_size, dilation, padding, stride)
    given = (
        f"Given output_size={output_size}, kernel_size={kernel_size}, dilation={dilation}, padding={padding}, "
        f"stride={stride}"
    )
    if counts[0] * counts[1] != shape[-1]:
        raise RuntimeError(
            f"{given}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{counts[0]} * {counts[1]} = {counts[0] * counts[1]}, but got input.size(2)={shape[-1]}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"{given}, calculated shape of the array of sliding blocks as ({counts[0]}, {counts[1]}), which is too "
            "small (non-positive)"
        )
    _check_unsupported("col2im_out_cpu", input.dtype)
    table = _table(output_size, counts, kernel_size, dilation, padding, stride)
    outer = (*shape[:-2], shape[-2] // size)
    blocks = choose(table.inside, lax.reshape(input, (*outer, size, shape[-1])), 0)
    image = jnp.zeros((*outer, output_size[0] * output_size[1]), input.dtype).at[..., table.flat_indices].add(blocks)
    return lax.reshape(image, (*outer, *output_size))


def _pairs(settings: dict[str, Any], function: str) -> list[Ints]:
    """A number for each axis of the images, for each of the settings, in the order of the kernel in PyTorch."""
    pairs = []
    for position, (name, value) in enumerate(settings.items(), 2):
        pair = expanded(value, 2, function, name, position)
        if pair is None:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
        pairs.append(pair)
    return pairs


@functional
@takes("im2col(input)")
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The blocks under a kernel as it slides over images, each as a column.

    Source: `torch.nn.functional.unfold
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.unfold.html>`_.
    """
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    if input.dim() < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got 2)"
        )
    return _im2col(input, *_pairs(settings, "im2col"))


@functional
@takes("col2im(input)")
def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Images from columns of blocks, added up where they overlap: the transpose of ``unfold``.

    Source: `torch.nn.functional.fold <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.fold.html>`_.
    """
    settings = {
        "output_size": output_size,
        "kernel_size": kernel_size,
        "dilation": dilation,
        "padding": padding,
        "stride": stride,
    }
    return _col2im(input, *_pairs(settings, "col2im"))


# -- maxima put back -------------------------------------------------------------------------------------------------


@kernel(by_rank("MaxUnpool{}DBackward0", "output_size"), strides=spatial)
def _max_unpool(input: Array, indices: Fixed, output_size: Ints) -> Any:
    dims = len(output_size)
    check_floating(f"max_unpool{dims}d", input)
    outer = input.shape[: input.ndim - dims]
    flat_indices = indices.reshape(*outer, math.prod(indices.shape[len(outer) :]))
    size = int(np.prod(output_size))

    def put(values: Any, flat_indices: Any) -> Any:
        flat = values.reshape(flat_indices.shape)
        return jnp.put_along_axis(jnp.zeros((*outer, size), values.dtype), flat_indices, flat, -1, inplace=False)

    def vjp(ct: Any, out: Any, values: Any, flat_indices: Any) -> tuple[Any, None]:
        return jnp.take_along_axis(ct, flat_indices, -1).reshape(values.shape), None

    def jvp(tangents: Any, out: Any, values: Any, flat_indices: Any) -> Any:
        # of several for one index the last wins, as for the values
        return put(tangents[0], flat_indices)

    return define_rule(put, vjp=vjp, jvp=jvp)(input, flat_indices).reshape(*outer, *output_size)


def _unpooled(input: Any, indices: Any, sizes: Ints, stride: Ints) -> Tensor:
    dims = len(sizes)
    if indices.dtype is not int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.scalar_name}")
    if input.dim() not in (dims + 1, dims + 2):
        ranks = "3d or 4d" if dims == 2 else "4d or 5d"
        raise RuntimeError(
            f"Input to max_unpooling{dims}d should be a {ranks} Tensor, but got a tensor with {input.dim()} dimensions."
        )
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    known = elements(indices._value())
    if known is None:
        expect_within(indices, 0, int(np.prod(sizes)))
    else:
        bad = known[(known < 0) | (known >= int(np.prod(sizes)))]
        if bad.size:
            volume = "x".join(map(str, sizes))
            raise RuntimeError(f"Found an invalid max index: {bad.flat[0]} (output volumes are of size {volume})")
    return _max_unpool(input, indices, sizes)


def _sizes(input: Any, kernel: Ints, stride: Ints, padding: Ints, output_size: Any) -> Ints:
    """The sizes to unpool to: those given, if possible; else the least that pooling could have started from."""
    dims = len(kernel)
    pooled = input.size()[-dims:]
    least = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(pooled, kernel, stride, padding, strict=False)]
    if output_size is None:
        sizes = least
    else:
        wanted = output_size[2:] if len(output_size) == dims + 2 else output_size
        if len(wanted) != dims:
            raise ValueError(
                f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
                f"'{len(wanted)}'"
            )
        for d in range(dims):
            low, high = least[d] - stride[d], least[d] + stride[d]
            if not low < wanted[d] < high:
                raise ValueError(f'invalid output_size "{wanted}" (dim {d} must be between {low} and {high})')
        sizes = wanted
    for d, n in enumerate(sizes):
        if n < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={n}"
            )
    return tuple(map(int, sizes))


def _settings(dims: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[Ints, Ints, Ints]:
    def each(value: Any, name: str, position: int) -> Ints:
        return expanded(value, dims, f"max_unpool{dims}d", name, position) or tuple(value)

    kernel = each(kernel_size, "kernel_size", 3)
    steps = kernel if stride is None else each(stride, "stride", 4)
    return kernel, steps, each(padding, "padding", 5)


@functional(autocast="fp32")
def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The maxima of ``max_pool1d`` where they were, and zeros elsewhere."""
    kernel, steps, ends = _settings(1, kernel_size, stride, padding)
    sizes = (*_sizes(input, kernel, steps, ends, output_size), 1)
    return _unpooled(input.unsqueeze(-1), indices.unsqueeze(-1), sizes, steps).squeeze(-1)


@functional(autocast="fp32")
def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The maxima of ``max_pool2d`` where they were, and zeros elsewhere.

    Source: `torch.nn.functional.max_unpool2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool2d.html>`_.
    """
    kernel, steps, ends = _settings(2, kernel_size, stride, padding)
    return _unpooled(input, indices, _sizes(input, kernel, steps, ends, output_size), steps)


@functional(autocast="fp32")
def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The maxima of ``max_pool3d`` where they were, and zeros elsewhere."""
    kernel, steps, ends = _settings(3, kernel_size, stride, padding)
    for name, values in (("output_size, but got", kernel), ("stride, but got:", steps), ("padding, but got:", ends)):
        if len(values) != 3:
            raise RuntimeError(
                f"There should be exactly three elements (depth, height, width) in {name} {len(values)} elements."
            )
    return _unpooled(input, indices, _sizes(input, kernel, steps, ends, output_size), steps)
