"""Layers that drop elements or channels at random while training."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module


class _DropoutNd(Module):
    """A dropout: the probability with which an element is dropped, and whether it is dropped in place.

    Raises:
      ValueError: ``p`` is not a probability.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """While training, zeroes each element with probability ``p`` and divides the others by ``1 - p``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Dropout(p=1.0)(torch.ones(3))
    tensor([0., 0., 0.])

    Source: `torch.nn.Dropout <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Dropout.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """While training, zeroes each channel of ``(N, C, L)`` with probability ``p``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Dropout1d(0.2)
    Dropout1d(p=0.2, inplace=False)

    Source: `torch.nn.Dropout1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Dropout1d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """While training, zeroes each channel of ``(N, C, H, W)`` with probability ``p``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Dropout2d(0.2)
    Dropout2d(p=0.2, inplace=False)

    Source: `torch.nn.Dropout2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Dropout2d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """While training, zeroes each channel of ``(N, C, D, H, W)`` with probability ``p``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Dropout3d(0.2)
    Dropout3d(p=0.2, inplace=False)

    Source: `torch.nn.Dropout3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Dropout3d.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """While training, drops elements so that mean and variance stay, as networks with ``SELU`` want it.

    >>> import fgrad.torch as torch
    >>> torch.nn.AlphaDropout(0.2)
    AlphaDropout(p=0.2, inplace=False)

    Source: `torch.nn.AlphaDropout <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AlphaDropout.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels.

    >>> import fgrad.torch as torch
    >>> torch.nn.FeatureAlphaDropout(0.2)
    FeatureAlphaDropout(p=0.2, inplace=False)

    Source: `torch.nn.FeatureAlphaDropout
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.FeatureAlphaDropout.html>`_.
    """

    def forward(self, input: Any) -> Any:
        return F.feature_alpha_dropout(input, self.p, self.training)
