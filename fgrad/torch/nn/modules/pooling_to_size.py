"""Pooling to an output of a given size: the input is divided evenly, or at random."""

from typing import Any, ClassVar

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.sizes import Size, each


class _FractionalMaxPoolNd(Module):
    """Common base: the maximum of windows at random positions.

    Raises:
      ValueError: not exactly one of ``output_size`` and ``output_ratio`` is given, or the ratio is not between 0 and 1.
    """

    _spatial_dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        count, name = self._spatial_dims, type(self).__name__
        self.kernel_size: tuple[Any, ...] = each(kernel_size, count)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size: tuple[Any, ...] | None = each(output_size, count) if output_size is not None else None
        self.output_ratio: tuple[Any, ...] | None = each(output_ratio, count) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows at random positions in ``(N, C, H, W)`` or ``(C, H, W)`` (Graham, 2014).

    >>> import fgrad.torch as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_size=3)(torch.ones(1, 8, 8)).shape
    torch.Size([1, 3, 3])

    Source: `torch.nn.FractionalMaxPool2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.FractionalMaxPool2d.html>`_.
    """

    _spatial_dims = 2

    def forward(self, input: Any) -> Any:
        return F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows at random positions in ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Source: `torch.nn.FractionalMaxPool3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.FractionalMaxPool3d.html>`_.
    """

    _spatial_dims = 3

    def __init__(
        self,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        if not all(size > 0 for size in each(kernel_size, 1)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)

    def forward(self, input: Any) -> Any:
        return F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class _AdaptivePoolNd(Module):
    """Pooling to a given size: a number, or one for each dimension, None for that of the input."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maximum of each cell of a grid of ``output_size`` laid over ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])

    Source: `torch.nn.AdaptiveMaxPool1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveMaxPool1d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maximum of each cell of a grid of ``output_size`` laid over ``(N, C, H, W)`` or ``(C, H, W)``.

    Source: `torch.nn.AdaptiveMaxPool2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveMaxPool2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maximum of each cell of a grid of ``output_size`` laid over ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Source: `torch.nn.AdaptiveMaxPool3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveMaxPool3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(_AdaptivePoolNd):
    pass


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each cell of a grid of ``output_size`` laid over ``(N, C, L)`` or ``(C, L)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])

    Source: `torch.nn.AdaptiveAvgPool1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveAvgPool1d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each cell of a grid of ``output_size`` laid over ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.AdaptiveAvgPool2d(1)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])

    Source: `torch.nn.AdaptiveAvgPool2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveAvgPool2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each cell of a grid of ``output_size`` laid over ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Source: `torch.nn.AdaptiveAvgPool3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveAvgPool3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool3d(input, self.output_size)
