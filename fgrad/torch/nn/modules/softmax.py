"""Softmax and its relatives: a dimension as probabilities."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module


class _OverDim(Module):
    """An activation over one dimension; without one, PyTorch chooses and warns."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_OverDim):
    """The softmax of ``-x``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softmin(dim=0)(torch.zeros(2))
    tensor([0.5000, 0.5000])

    Source: `torch.nn.Softmin <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softmin.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_OverDim):
    """``exp(x)`` over its sum along ``dim``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softmax(dim=0)(torch.zeros(2))
    tensor([0.5000, 0.5000])

    Source: `torch.nn.Softmax <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softmax.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """The softmax over the channels of ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
      ValueError: at the call, an input of another number of dimensions.

    >>> import fgrad.torch as torch
    >>> torch.nn.Softmax2d()(torch.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])

    Source: `torch.nn.Softmax2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Softmax2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_OverDim):
    """The logarithm of the softmax along ``dim``.

    >>> import fgrad.torch as torch
    >>> torch.nn.LogSoftmax(dim=0)(torch.zeros(2))
    tensor([-0.6931, -0.6931])

    Source: `torch.nn.LogSoftmax <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LogSoftmax.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim, _stacklevel=5)
