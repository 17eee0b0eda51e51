"""Convolutions and transposed convolutions in one, two and three dimensions."""

import math
from typing import Any, ClassVar

from fgrad.deferred import deferred
from fgrad.mutable.context.modes import no_grad
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.sizes import Size, each
from fgrad.torch.nn.parameter import Parameter

# PyTorch has these in one file
__getattr__, __dir__ = deferred(
    __name__,
    {
        "fgrad.torch.nn.modules.lazy_conv": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d",
    },
)

_PADDING_STRINGS = {"same", "valid"}
_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """The weights and sizes of a convolution, transposed or not."""

    _spatial_dims: ClassVar[int]
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDING_STRINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {_PADDING_STRINGS}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        #: for ``F.pad``: the last dimension first, two numbers for each
        self._reversed_padding_repeated_twice = _pad_argument(padding, kernel_size, dilation)
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(ops.empty((*channels, *kernel_size), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, uniform up to ``1 / sqrt(fan_in)`` in magnitude."""
        with no_grad():
            if self.weight.is_contiguous():
                init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            else:
                # drawn in the order of the indices, whatever the order in memory
                drawn = ops.empty(tuple(self.weight.shape), device=self.weight.device, dtype=self.weight.dtype)
                self.weight.copy_(init.kaiming_uniform_(drawn, a=math.sqrt(5)))
            if self.bias is not None:
                fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
                bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (default,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _pad_argument(padding: Any, kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    if not isinstance(padding, str):
        return tuple(pad for pad in reversed(padding) for _ in range(2))
    if padding == "valid":
        return [0, 0] * len(kernel_size)
    totals = [step * (size - 1) for step, size in zip(dilation, kernel_size, strict=True)]
    return [pad for total in reversed(totals) for pad in (total // 2, total - total // 2)]


class _Convolution(_ConvNd):
    """The common base of convolutions.

    Arguments:
      in_channels, out_channels: number of channels.
      kernel_size, stride, padding, dilation: a number, or one for each dimension; ``padding`` also ``"same"`` or
        ``"valid"``.
      groups: into how many groups the channels are divided, each convolved on its own.
      bias: whether to add a learnt number to each output channel.
      padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.

    Raises:
      ValueError: channels that ``groups`` does not divide, or an unknown padding mode.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        count = self._spatial_dims
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size, count),
            each(stride, count),
            padding if isinstance(padding, str) else each(padding, count),
            each(dilation, count),
            False,
            each(0, count),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _convolve(self, input: Any, weight: Any, bias: Any, padding: Any) -> Any:
        raise NotImplementedError

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        if self.padding_mode == "zeros":
            return self._convolve(input, weight, bias, self.padding)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return self._convolve(padded, weight, bias, each(0, self._spatial_dims))

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution):
    """A convolution over one dimension, as of a sequence: ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Conv1d(2, 3, 3, padding=1)(torch.ones(1, 2, 5)).shape
    torch.Size([1, 3, 5])

    Source: `torch.nn.Conv1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Conv1d.html>`_.
    """

    _spatial_dims = 1

    def _convolve(self, input: Any, weight: Any, bias: Any, padding: Any) -> Any:
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """A convolution over two dimensions, as of images: ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Conv2d(1, 4, 3, stride=2)
    Conv2d(1, 4, kernel_size=(3, 3), stride=(2, 2))

    Source: `torch.nn.Conv2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Conv2d.html>`_.
    """

    _spatial_dims = 2

    def _convolve(self, input: Any, weight: Any, bias: Any, padding: Any) -> Any:
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_Convolution):
    """A convolution over three dimensions: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Conv3d(1, 2, 1, bias=False).weight.shape
    torch.Size([2, 1, 1, 1, 1])

    Source: `torch.nn.Conv3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Conv3d.html>`_.
    """

    _spatial_dims = 3

    def _convolve(self, input: Any, weight: Any, bias: Any, padding: Any) -> Any:
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    """The common base of transposed convolutions.

    Arguments:
      output_padding: added to one side of the output, to choose among the sizes that a stride leaves ambiguous.
      The others are those of the convolution that this one is the transpose of.

    Raises:
      ValueError: a padding mode other than zeros, or channels that ``groups`` does not divide.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        count = self._spatial_dims
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size, count),
            each(stride, count),
            each(padding, count),
            each(dilation, count),
            True,
            each(output_padding, count),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """The padding that makes the output as large as asked for."""
        if output_size is None:
            return tuple(self.output_padding)
        spatial = self._spatial_dims
        other = 2 if input.dim() == spatial + 2 else 1
        sizes = output_size[other:] if len(output_size) == other + spatial else output_size
        if len(sizes) != spatial:
            raise ValueError(
                f"ConvTranspose{spatial}D: for {input.dim()}D input, output_size must have {spatial} or "
                f"{other + spatial} elements (got {len(sizes)})"
            )
        smallest = [
            (input.size(d + other) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(spatial)
        ]
        largest = [size + step - 1 for size, step in zip(smallest, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(smallest, sizes, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {sizes}, but valid sizes range from {smallest} to {largest} (for an "
                f"input of {input.size()[2:]})"
            )
        return tuple(size - low for size, low in zip(sizes, smallest, strict=True))


class _ConvTransposeMixin(_ConvTransposeNd):
    """The former name of the base class, which libraries import."""


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of ``Conv1d``: its gradient with respect to the input.

    >>> import fgrad.torch as torch
    >>> torch.nn.ConvTranspose1d(1, 1, 2, stride=2)(torch.ones(1, 1, 3)).shape
    torch.Size([1, 1, 6])

    Source: `torch.nn.ConvTranspose1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConvTranspose1d.html>`_.
    """

    _spatial_dims = 1

    def forward(self, input: Any, output_size: Any = None) -> Any:
        padding = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of ``Conv2d``: its gradient with respect to the input.

    >>> import fgrad.torch as torch
    >>> torch.nn.ConvTranspose2d(1, 1, 3, stride=2)(torch.ones(1, 1, 3, 3), output_size=(8, 8)).shape
    torch.Size([1, 1, 8, 8])

    Source: `torch.nn.ConvTranspose2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConvTranspose2d.html>`_.
    """

    _spatial_dims = 2

    def forward(self, input: Any, output_size: Any = None) -> Any:
        padding = self._output_padding(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of ``Conv3d``: its gradient with respect to the input.

    >>> import fgrad.torch as torch
    >>> torch.nn.ConvTranspose3d(1, 1, 2)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 3, 3, 3])

    Source: `torch.nn.ConvTranspose3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConvTranspose3d.html>`_.
    """

    _spatial_dims = 3

    def forward(self, input: Any, output_size: Any = None) -> Any:
        padding = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )
