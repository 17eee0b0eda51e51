"""Convolutions and their transposes, of one, two and three spatial axes."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import spatial
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import float32, from_numpy, native_name
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.nn.functional.sizes import expanded
from fgrad.torch.ops.elementwise.arithmetic import scaled_by
from fgrad.torch.ops.table.dispatch import OF_TORCH
from fgrad.torch.ops.table.kernels import functional, kernel, single, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import no_match
from fgrad.torch.ops.table.signature import spread_ints
from fgrad.torch.ops.table.table import Array, composite, operation_of
from fgrad.torch.ops.views.complex_views import view_as_real
from fgrad.torch.ops.views.padding import constant_pad_nd
from fgrad.torch.random.scalars import cpp_name


def _check_types(input: Any, weight: Any, bias: Any, transposed: bool, groups: int) -> None:
    """Raise PyTorch's error for operands of several dtypes, which depends on the library that would run."""
    types = [None if x is None else from_numpy(x.dtype) for x in (input, weight, bias)]
    of_input, of_weight, of_bias = types
    if not transposed and of_bias not in (None, of_input):
        raise RuntimeError(
            f"Input type ({cpp_name(input.dtype)}) and bias type ({cpp_name(bias.dtype)}) should be the same"
        )
    for name, dtype in (("weight", of_weight), ("bias", of_bias)):
        if dtype in (None, of_input):
            continue
        assert of_input is not None and dtype is not None
        differ = f"Input type ({native_name(of_input)}) and {name} type ({native_name(dtype)}) should be the same"
        if of_input.is_complex:
            raise RuntimeError(differ)
        large = groups > 1 or min(weight.shape[-2:]) > 3 or input.shape[0] > 1 or math.prod(input.shape[:4]) > 20480
        if of_input is float32 and large:
            raise RuntimeError(f"{differ} or input should be a MKLDNN tensor and {name} is a dense tensor")
        if name == "weight":
            raise RuntimeError(f"expected scalar type {of_input.scalar_name} but found {dtype.scalar_name}")


def _check_numbers(stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints, groups: int) -> None:
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError("dilation should be greater than zero")


def _check(input: Any, weight: Any, bias: Any, padding: Ints, dilation: Ints, transposed: bool, groups: int) -> None:
    """Raise PyTorch's errors for operands that do not fit (aten/src/ATen/native/Convolution.cpp)."""
    _check_ranks(input.shape, weight.shape, " ")
    dtype = from_numpy(input.dtype)
    if input.dtype == np.bool_ or (transposed and input.dtype.kind in "iu" and input.dtype != np.int64):
        dims = max(len(input.shape) - 2, 2)
        name = f"slow_conv_transpose{dims}d_out_cpu" if transposed else "slow_conv2d_cpu"
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
    shape, sizes = list(input.shape), list(weight.shape)
    if sizes[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{sizes} instead"
        )
    if sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{sizes}] instead"
        )
    channels = sizes[0] if transposed else sizes[1] * groups
    if shape[1] != channels:
        kind = f"transposed={groups}" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {kind}, weight of size {sizes}, expected input{shape} to have {channels} channels, but got "
            f"{shape[1]} channels instead"
        )
    outputs = sizes[1] * groups if transposed else sizes[0]
    if bias is not None and bias.shape != (outputs,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {sizes}, expected bias to be 1-dimensional "
            f"with {outputs} elements, but got bias of size {list(bias.shape)} instead"
        )
    if not transposed:
        padded = [n + 2 * p for n, p in zip(shape[2:], padding, strict=True)]
        kernels = [d * (k - 1) + 1 for k, d in zip(sizes[2:], dilation, strict=True)]
        if any(n < k for n, k in zip(padded, kernels, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
                f"({' x '.join(map(str, kernels))}). Kernel size can't be greater than actual input size"
            )


def _check_ranks(shape: Ints, weight: Ints, gap: str = "") -> None:
    rank = len(weight)
    if len(shape) != rank:
        raise RuntimeError(
            f"Expected {rank}-dimensional input for {rank}-dimensional weight{gap}{list(weight)}, but got "
            f"{len(shape)}-dimensional input of size {list(shape)} instead"
        )


def _check_output_padding(stride: Ints, dilation: Ints, output_padding: Ints) -> None:
    if any(o >= s and o >= d for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        axes = ("depth", "height", "width")[-max(len(stride), 2) :]

        def shown(name: str, values: Ints) -> str:
            values = values if len(values) > 1 else values * 2
            return " ".join(f"{name}_{axis}: {v}" for axis, v in zip(axes, values, strict=True))

        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"{shown('output_padding', output_padding)} {shown('stride', stride)} {shown('dilation', dilation)}"
        )


@kernel(
    "ConvolutionBackward0", strides=spatial, backward_node="ConvolutionBackwardBackward0",
    saved=("input", "weight", "bias"), always_saved=("input", "weight"), absent="unread",
)  # fmt: skip
def _convolution(
    input: Array, weight: Array, bias: Array = None, *, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    output_padding: Ints, groups: int,
) -> Any:  # fmt: skip
    _check_types(input, weight, bias, transposed, groups)
    _check_numbers(stride, padding, dilation, output_padding, groups)
    _check(input, weight, bias, padding, dilation, transposed, groups)
    if transposed:
        _check_output_padding(stride, dilation, output_padding)
    return single(_convolved)(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolved(
    input: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    output_padding: Ints, groups: int,
) -> Any:  # fmt: skip
    dims = input.ndim - 2
    spatial_axes = "DHW"[3 - dims :]
    numbers = (f"NC{spatial_axes}", f"OI{spatial_axes}", f"NC{spatial_axes}")
    if transposed:
        inputs, outputs, *kernel_size = weight.shape
        by_group = lax.reshape(weight, (groups, inputs // groups, outputs, *kernel_size))
        weight = lax.reshape(jnp.swapaxes(by_group, 1, 2), (groups * outputs, inputs // groups, *kernel_size))
        weight = lax.rev(weight, tuple(range(2, dims + 2)))
        reach = [d * (k - 1) for k, d in zip(kernel_size, dilation, strict=True)]
        ends = [(r - p, r - p + o) for r, p, o in zip(reach, padding, output_padding, strict=True)]
        output = lax.conv_general_dilated(
            input, weight, (1,) * dims, ends, lhs_dilation=stride, rhs_dilation=dilation, dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip
    else:
        output = lax.conv_general_dilated(
            input, weight, stride, [(p, p) for p in padding], rhs_dilation=dilation, dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip
    return output if bias is None else output + bias.astype(output.dtype).reshape((-1,) + (1,) * dims)


_CONVOLUTION = operation_of(_convolution)


def run_convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    output_padding: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """The convolution; PyTorch computes a complex one as three real ones."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    if not input.is_complex():
        return apply(_CONVOLUTION, (input, weight, bias), settings)
    types = [None if x is None else x._type.array for x in (input, weight, bias)]
    _check_types(types[0], types[1], types[2], transposed, groups)
    x, w = _parts(input), _parts(weight)
    of_real = of_both = None
    if bias is not None:
        of_real, imaginary = _parts(bias)
        of_both = of_real + imaginary
    real = apply(_CONVOLUTION, (x[0], w[0], of_real), settings)
    crossed = apply(_CONVOLUTION, (x[1], w[1], None), settings)
    both = apply(_CONVOLUTION, (x[0] + x[1], w[0] + w[1], of_both), settings)
    return real - crossed + scaled_by(both - real - crossed, 1j)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    pairs = view_as_real(x.resolve_conj())
    return pairs.select(-1, 0), pairs.select(-1, 1)


def _expanded(value: Any, dims: int, of_weight: int, function: str, name: str, position: int) -> Ints:
    """One number for each spatial axis of the weight, from one for each of the function's ``dims`` or one for all."""
    values = spread_ints((value,), function, name, position)
    values = values if isinstance(value, tuple | list) else values * dims
    result = values * of_weight if len(values) == 1 else values if len(values) == of_weight else None
    if result is None:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {of_weight} values to match the convolution "
            f"dimensions, but got {name}={[*values]}"
        )
    return result


def _batched(input: Any, weight: Any, function: str, dims: int) -> bool:
    """Whether the input has a batch axis; PyTorch's errors for operands of other ranks."""
    rank = len(input._type.shape)
    if rank not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {function}, but got input of size: "
            f"{list(input._type.shape)}"
        )
    if len(weight._type.shape) < 3:
        raise RuntimeError("weight should have at least three dimensions")
    return rank == dims + 2


def _conv(
    function: str, dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor) and isinstance(bias, Tensor | None)):
        raise _operand_type_error(function, input, weight, bias, stride, padding, dilation, groups)
    batched = _batched(input, weight, function, dims)
    x = input if batched else input.unsqueeze(0)
    of_weight = len(weight._type.shape) - 2
    if padding == "same":
        _check_same(x._type.shape, weight._type.shape, function, stride, dilation)
    elif isinstance(padding, str) and padding != "valid":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    steps = _expanded(stride, dims, of_weight, function, "stride", 4)
    spread = _expanded(dilation, dims, of_weight, function, "dilation", 6)
    if padding == "same":
        x, ends = _same_padding(x, weight, spread)
    else:
        ends = _expanded(0 if padding == "valid" else padding, dims, of_weight, function, "padding", 5)
    output = run_convolution(x, weight, bias, steps, ends, spread, False, (0,) * of_weight, groups)
    return output if batched else output.squeeze(0)


def _operand_type_error(function: str, *args: Any) -> TypeError:
    """PyTorch's error for operands that are not tensors: it lists the arguments that are not the defaults."""
    defaults = (None, 1, 0, 1, 1)
    count = max([i for i, default in enumerate(defaults, 1) if args[i + 1] is not default], default=0)
    start = "Tensor input, Tensor weight, Tensor bias = None, tuple of ints stride = 1, "
    end = ", tuple of ints dilation = 1, int groups = 1"
    signatures = (f"{start}tuple of ints padding = 0{end}", f'{start}str padding = "valid"{end}')
    return TypeError(no_match(function, ", ".join(map(type_name, args[: 2 + count])), signatures))


def _check_same(shape: Ints, weight: Ints, function: str, stride: Any, dilation: Any) -> None:
    """Raise PyTorch's errors for ``padding="same"``."""
    _check_ranks(shape, weight)
    steps = expanded(stride, len(weight) - 2, function, "stride", 4)
    if steps is None:
        raise RuntimeError(f"stride cannot broadcast to {len(weight) - 2} dimensions")
    if expanded(dilation, len(weight) - 2, function, "dilation", 6) is None:
        raise RuntimeError(f"dilation cannot broadcast to {len(weight) - 2} dimensions")
    if any(s != 1 for s in steps):
        raise RuntimeError("padding='same' is not supported for strided convolutions")


def _same_padding(x: Tensor, weight: Tensor, dilation: Ints) -> tuple[Tensor, Ints]:
    """The input, padded where the two ends differ, and the padding that the convolution itself does."""
    totals = [d * (k - 1) for k, d in zip(weight._type.shape[2:], dilation, strict=True)]
    if any(total % 2 for total in totals):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the "
            "input be created",
        )
        x = constant_pad_nd(x, [n for total in reversed(totals) for n in (0, total % 2)])
    return x, tuple([total // 2 for total in totals])


def _transposed(
    function: str, dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    batched = _batched(input, weight, function, dims)
    x = input if batched else input.unsqueeze(0)
    settings = {
        "stride": (stride, 4),
        "padding": (padding, 5),
        "dilation": (dilation, 8),
        "output_padding": (output_padding, 6),
    }
    of_weight = len(weight._type.shape) - 2
    steps, ends, spread, more = [
        _expanded(value, dims, of_weight, function, name, at) for name, (value, at) in settings.items()
    ]
    output = run_convolution(x, weight, bias, steps, ends, spread, True, more, groups)
    return output if batched else output.squeeze(0)


@composite(method=False, autocast="lower_precision_fp", out=NOT_TAKEN)
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The convolution along one axis: see ``conv2d``."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast="lower_precision_fp", out=NOT_TAKEN)
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The convolution (correlation) of images with kernels.

    Arguments:
      input: of shape (N, C, H, W), or (C, H, W).
      weight: of shape (outputs, C / groups, kernel height, kernel width).
      bias: a number for each output.
      padding: zeros at both ends of the axes; or "valid" (none), or "same" (the size stays).

    Raises:
      RuntimeError: the shapes or types do not fit.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])

    Source: `torch.nn.functional.conv2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html>`_.
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast="lower_precision_fp")
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """The convolution along three axes: see ``conv2d``."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast="lower_precision_fp", out=NOT_TAKEN)
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
@takes("conv_transpose1d(input, weight, bias?)")
def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of ``conv1d``: see ``conv_transpose2d``."""
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(method=False, autocast="lower_precision_fp", out=NOT_TAKEN)
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
@takes("conv_transpose2d(input, weight, bias?)")
def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of ``conv2d`` as a linear map of its input; the weight has shape (C, outputs / groups, ...).

    Source: `torch.nn.functional.conv_transpose2d
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose2d.html>`_.
    """
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(method=False, autocast="lower_precision_fp")
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
@takes("conv_transpose3d(input, weight, bias?)")
def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of ``conv3d``: see ``conv_transpose2d``."""
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@kernel("ConvTbcBackward0", always_saved=("self", "weight", "bias"))
def _conv_tbc(input: Array, weight: Array, bias: Array, pad: int) -> Any:
    output = lax.conv_general_dilated(input, weight, (1,), [(pad, pad)], dimension_numbers=("HNC", "HIO", "HNC"))
    return output + bias


@composite(method=False, autocast="lower_precision_fp")
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Tensor:
    """``conv1d`` of sequences whose axes are (time, batch, channels).

    Source: `torch.nn.functional.conv_tbc
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_tbc.html>`_.
    """
    if input.dim() != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.dim() != 1:
        raise RuntimeError("Bias must be 1-D")
    return _conv_tbc(input, weight, bias, pad)
