"""Layers that make signals and images larger by interpolation."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module


class Upsample(Module):
    """Resizes ``(N, C, ...)`` to ``size``, or by ``scale_factor``.

    Arguments:
      mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
      align_corners: whether the corner elements, rather than their outer edges, keep their places.
      recompute_scale_factor: whether the sizes, once rounded, decide the scale.

    >>> import fgrad.torch as torch
    >>> torch.nn.Upsample(scale_factor=2)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])

    Source: `torch.nn.Upsample <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Upsample.html>`_.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name: str = type(self).__name__
        self.size = size
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        target = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by repeating pixels.

    >>> import fgrad.torch as torch
    >>> torch.nn.UpsamplingNearest2d(scale_factor=2)
    UpsamplingNearest2d(scale_factor=2.0, mode='nearest')

    Source: `torch.nn.UpsamplingNearest2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.UpsamplingNearest2d.html>`_.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation with aligned corners.

    >>> import fgrad.torch as torch
    >>> torch.nn.UpsamplingBilinear2d(size=4)
    UpsamplingBilinear2d(size=4, mode='bilinear')

    Source: `torch.nn.UpsamplingBilinear2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.UpsamplingBilinear2d.html>`_.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
