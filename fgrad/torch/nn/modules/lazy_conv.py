"""Convolutions that take ``in_channels`` from the input of their first call."""

from typing import TYPE_CHECKING, Any

from fgrad.torch.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from fgrad.torch.nn.modules.lazy import LazyModuleMixin
from fgrad.torch.nn.modules.sizes import Size
from fgrad.torch.nn.parameter import UninitializedParameter

if TYPE_CHECKING:
    _Base = _ConvNd
else:
    _Base = object


class _LazyConvMixin(LazyModuleMixin, _Base):
    """The common base of lazy convolutions, transposed or not."""

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias: Any = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any, *_: Any, **__: Any) -> None:
        """Infer the number of channels from ``input``."""
        if not self.has_uninitialized_params():
            return
        self.in_channels: int = self._channels_of(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        else:
            channels = (self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self, input: Any) -> int:
        unbatched = self._spatial_dims + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == unbatched + 1 else input.shape[0]


class _LazyConvolution(_LazyConvMixin):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device=device, dtype=dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvMixin):
    def __init__(
        self,
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
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device=device,
            dtype=dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """A ``Conv1d`` that takes ``in_channels`` from the input of its first call.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.LazyConv1d(4, 3)
    >>> layer(torch.ones(2, 5)).shape
    torch.Size([4, 3])
    >>> layer
    Conv1d(2, 4, kernel_size=(3,), stride=(1,))

    Source: `torch.nn.LazyConv1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConv1d.html>`_.
    """

    cls_to_become: type[Any] = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A ``Conv2d`` that takes ``in_channels`` from the input of its first call.

    Source: `torch.nn.LazyConv2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConv2d.html>`_.
    """

    cls_to_become: type[Any] = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A ``Conv3d`` that takes ``in_channels`` from the input of its first call.

    Source: `torch.nn.LazyConv3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConv3d.html>`_.
    """

    cls_to_become: type[Any] = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ``ConvTranspose1d`` that takes ``in_channels`` from the input of its first call.

    Source: `torch.nn.LazyConvTranspose1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConvTranspose1d.html>`_.
    """

    cls_to_become: type[Any] = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ``ConvTranspose2d`` that takes ``in_channels`` from the input of its first call.

    Source: `torch.nn.LazyConvTranspose2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConvTranspose2d.html>`_.
    """

    cls_to_become: type[Any] = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ``ConvTranspose3d`` that takes ``in_channels`` from the input of its first call.

    Source: `torch.nn.LazyConvTranspose3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LazyConvTranspose3d.html>`_.
    """

    cls_to_become: type[Any] = ConvTranspose3d
