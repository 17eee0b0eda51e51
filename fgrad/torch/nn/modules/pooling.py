"""Pooling by windows of a given size: the maximum, the mean or a norm of each."""

from typing import Any, ClassVar

from fgrad.deferred import deferred
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.sizes import Size, each

# PyTorch has these in one file
__getattr__, __dir__ = deferred(
    __name__,
    {
        "fgrad.torch.nn.modules.pooling_to_size": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d "
        "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d "
        "_AdaptiveAvgPoolNd _AdaptiveMaxPoolNd",
    },
)


class _MaxPoolNd(Module):
    """The maximum of each window: what the dimensions have in common.

    Arguments:
      kernel_size: the size of the window.
      stride: from one window to the next; the window's size if left out.
      padding: how many elements of minus infinity are added on each side.
      dilation: the distance between elements of the window.
      return_indices: whether to return where the maxima were, for ``MaxUnpool``.
      ceil_mode: whether a last window may reach over the edge.
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: Size = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def _options(self) -> dict[str, Any]:
        return {"ceil_mode": self.ceil_mode, "return_indices": self.return_indices}


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])

    Source: `torch.nn.MaxPool1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxPool1d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, **self._options())


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])

    Source: `torch.nn.MaxPool2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxPool2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, **self._options())


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.MaxPool3d(2)
    MaxPool3d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)

    Source: `torch.nn.MaxPool3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxPool3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, **self._options())


class _MaxUnpoolNd(Module):
    """Puts maxima back where they were, zeros elsewhere: what the dimensions have in common."""

    _spatial_dims: ClassVar[int]

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size: tuple[Any, ...] = each(kernel_size, self._spatial_dims)
        self.stride: tuple[Any, ...] = each(stride if stride is not None else kernel_size, self._spatial_dims)
        self.padding: tuple[Any, ...] = each(padding, self._spatial_dims)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the maxima of ``MaxPool1d`` back where they were, zeros elsewhere.

    >>> import fgrad.torch as torch
    >>> pool, unpool = torch.nn.MaxPool1d(2, return_indices=True), torch.nn.MaxUnpool1d(2)
    >>> unpool(*pool(torch.tensor([[1.0, 3.0, 2.0, 0.0]])))
    tensor([[0., 3., 2., 0.]])

    Source: `torch.nn.MaxUnpool1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxUnpool1d.html>`_.
    """

    _spatial_dims = 1

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the maxima of ``MaxPool2d`` back where they were, zeros elsewhere.

    Source: `torch.nn.MaxUnpool2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxUnpool2d.html>`_.
    """

    _spatial_dims = 2

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the maxima of ``MaxPool3d`` back where they were, zeros elsewhere.

    Source: `torch.nn.MaxUnpool3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MaxUnpool3d.html>`_.
    """

    _spatial_dims = 3

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    """The mean of each window: what the dimensions have in common.

    Arguments:
      kernel_size, stride, padding, ceil_mode: as for ``MaxPool``, but the padding is zeros.
      count_include_pad: whether the padding counts in the mean.
    """

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])

    Source: `torch.nn.AvgPool1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AvgPool1d.html>`_.
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = each(kernel_size, 1)
        self.stride: Any = each(stride if stride is not None else kernel_size, 1)
        self.padding: Any = each(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _DivisorAvgPoolNd(_AvgPoolNd):
    """The mean of each window, or its sum over ``divisor_override``."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: Any = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> tuple[Any, ...]:
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_DivisorAvgPoolNd):
    """The mean of each window of ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AvgPool2d(2)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])

    Source: `torch.nn.AvgPool2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AvgPool2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(_DivisorAvgPoolNd):
    """The mean of each window of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AvgPool3d(2)
    AvgPool3d(kernel_size=2, stride=2, padding=0)

    Source: `torch.nn.AvgPool3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AvgPool3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.avg_pool3d(input, *self._arguments())


class _LPPoolNd(Module):
    """The norm of each window: what the dimensions have in common.

    Arguments:
      norm_type: the exponent of the norm.
      kernel_size, stride, ceil_mode: as for ``MaxPool``.
    """

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The norm of each window of ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])

    Source: `torch.nn.LPPool1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LPPool1d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The norm of each window of ``(N, C, H, W)`` or ``(C, H, W)``.

    Source: `torch.nn.LPPool2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LPPool2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The norm of each window of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Source: `torch.nn.LPPool3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LPPool3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
