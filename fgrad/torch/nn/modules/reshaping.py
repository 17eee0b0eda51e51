"""Layers that only rearrange elements: flattening, folding, shuffling."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module


class Flatten(Module):
    """Makes one dimension of several, by default of all but the first.

    >>> import fgrad.torch as torch
    >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 12])

    Source: `torch.nn.Flatten <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Flatten.html>`_.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dimensions of one.

    Raises:
      TypeError: ``unflattened_size`` is not made of integers.

    >>> import fgrad.torch as torch
    >>> torch.nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape
    torch.Size([2, 3, 4])

    Source: `torch.nn.Unflatten <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Unflatten.html>`_.
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, "
                    f"but found element of type {type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Module):
    """Sums overlapping blocks, the columns of its input, into an image.

    >>> import fgrad.torch as torch
    >>> torch.nn.Fold((1, 3), (1, 2))(torch.ones(1, 2, 2))
    tensor([[[[1., 2., 1.]]]])

    Source: `torch.nn.Fold <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Fold.html>`_.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Extracts overlapping blocks of an image as columns.

    >>> import fgrad.torch as torch
    >>> torch.nn.Unfold((1, 2))(torch.arange(3.0).reshape(1, 1, 1, 3))
    tensor([[[0., 1.],
             [1., 2.]]])

    Source: `torch.nn.Unfold <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Unfold.html>`_.
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class PixelShuffle(Module):
    """Makes an image larger at the cost of channels: ``(C * r * r, H, W)`` to ``(C, H * r, W * r)``.

    >>> import fgrad.torch as torch
    >>> torch.nn.PixelShuffle(2)(torch.ones(4, 1, 1)).shape
    torch.Size([1, 2, 2])

    Source: `torch.nn.PixelShuffle <https://docs.pytorch.org/docs/2.13/generated/torch.nn.PixelShuffle.html>`_.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Undoes ``PixelShuffle``.

    >>> import fgrad.torch as torch
    >>> torch.nn.PixelUnshuffle(2)(torch.ones(1, 2, 2)).shape
    torch.Size([4, 1, 1])

    Source: `torch.nn.PixelUnshuffle <https://docs.pytorch.org/docs/2.13/generated/torch.nn.PixelUnshuffle.html>`_.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Deals the channels of ``groups`` groups out in turn.

    >>> import fgrad.torch as torch
    >>> torch.nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])

    Source: `torch.nn.ChannelShuffle <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ChannelShuffle.html>`_.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
