"""Layers that pad the trailing dimensions: with a constant, the edge, a reflection, or around."""

from typing import Any, ClassVar

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.sizes import Size, each


class _PadNd(Module):
    """A padding: a number, or two for each dimension beginning with the last."""

    _spatial_dims: ClassVar[int]

    def __init__(self, padding: Size) -> None:
        super().__init__()
        self.padding: tuple[Any, ...] = each(padding, 2 * self._spatial_dims)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    def forward(self, input: Any) -> Any:
        unbatched = self._spatial_dims + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the elements of its other end.

    >>> import fgrad.torch as torch
    >>> torch.nn.CircularPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])

    Source: `torch.nn.CircularPad1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CircularPad1d.html>`_.
    """

    _spatial_dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with the elements of their other ends.

    Source: `torch.nn.CircularPad2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CircularPad2d.html>`_.
    """

    _spatial_dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with the elements of their other ends.

    Source: `torch.nn.CircularPad3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CircularPad3d.html>`_.
    """

    _spatial_dims = 3


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with ``value``.

    >>> import fgrad.torch as torch
    >>> torch.nn.ConstantPad1d((1, 2), 9.0)(torch.zeros(1, 1))
    tensor([[9., 0., 9., 9.]])

    Source: `torch.nn.ConstantPad1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConstantPad1d.html>`_.
    """

    _spatial_dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with ``value``.

    Source: `torch.nn.ConstantPad2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConstantPad2d.html>`_.
    """

    _spatial_dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with ``value``.

    Source: `torch.nn.ConstantPad3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ConstantPad3d.html>`_.
    """

    _spatial_dims = 3


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros.

    >>> import fgrad.torch as torch
    >>> torch.nn.ZeroPad1d(1)(torch.ones(1, 1))
    tensor([[0., 1., 0.]])

    Source: `torch.nn.ZeroPad1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ZeroPad1d.html>`_.
    """

    def __init__(self, padding: Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros.

    Source: `torch.nn.ZeroPad2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ZeroPad2d.html>`_.
    """

    def __init__(self, padding: Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros.

    Source: `torch.nn.ZeroPad3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ZeroPad3d.html>`_.
    """

    def __init__(self, padding: Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its reflection at the edge.

    >>> import fgrad.torch as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])

    Source: `torch.nn.ReflectionPad1d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReflectionPad1d.html>`_.
    """

    _spatial_dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their reflections at the edges.

    Source: `torch.nn.ReflectionPad2d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReflectionPad2d.html>`_.
    """

    _spatial_dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their reflections at the edges.

    Source: `torch.nn.ReflectionPad3d <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReflectionPad3d.html>`_.
    """

    _spatial_dims = 3


class _ReplicationPadNd(_PadNd):
    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with the element at its edge.

    >>> import fgrad.torch as torch
    >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 2., 2.]])

    Source: `torch.nn.ReplicationPad1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReplicationPad1d.html>`_.
    """

    _spatial_dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with the elements at their edges.

    Source: `torch.nn.ReplicationPad2d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReplicationPad2d.html>`_.
    """

    _spatial_dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with the elements at their edges.

    Source: `torch.nn.ReplicationPad3d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ReplicationPad3d.html>`_.
    """

    _spatial_dims = 3
