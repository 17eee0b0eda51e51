"""Windows for signals, symmetric unless ``sym=False``, which makes them periodic.

All take ``M``, the number of weights, ``sym``, and ``dtype``, ``layout``, ``device`` and ``requires_grad`` of the
tensor, and raise ``ValueError`` for a negative ``M``, for parameters out of range, and for dtypes other than float32
and float64.

Source: `torch.signal.windows <https://docs.pytorch.org/docs/2.13/signal.html>`_.
"""

import math
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import float32, float64, get_default_dtype
from fgrad.mutable.types.formats import strided
from fgrad.torch import ops

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


@frozen
class _Form:
    """The size and options of a window."""

    dtype: Any
    device: Any
    requires_grad: bool

    @property
    def options(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "device": self.device, "requires_grad": self.requires_grad}

    def points(self, count: int, start: Any, end: Any) -> Tensor:
        """Evenly spaced points."""
        return ops.linspace(start, end, count, **self.options)

    def ones(self, count: int) -> Tensor:
        return ops.ones((count,), **self.options)


def _form(name: str, M: int, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> _Form:
    dtype = get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return _Form(dtype, device, requires_grad)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A window that decays exponentially from ``center``, by default the middle, by a factor e every ``tau`` weights.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])

    Source: `torch.signal.windows.exponential
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.exponential.html>`_.
    """
    form = _form("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return form.ones(0)
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2.0
    step = 1 / tau
    return (-form.points(M, -center * step, (-center + (M - 1)) * step).abs()).exp()


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A window of half a period of a sine.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])

    Source: `torch.signal.windows.cosine
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.cosine.html>`_.
    """
    form = _form("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return form.ones(0)
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return form.points(M, 0.5 * step, (0.5 + (M - 1)) * step).sin()


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A normal density of standard deviation ``std``.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])

    Source: `torch.signal.windows.gaussian
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.gaussian.html>`_.
    """
    form = _form("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return form.ones(0)
    start = -(M if not sym and M > 1 else M - 1) / 2.0
    step = 1 / (std * math.sqrt(2))
    return (-(form.points(M, start * step, (start + (M - 1)) * step) ** 2)).exp()


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A window of a Bessel function over a half circle; the larger ``beta``, the narrower.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.kaiser(3, beta=3.0)
    tensor([0.2049, 1.0000, 0.2049])

    Source: `torch.signal.windows.kaiser
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.kaiser.html>`_.
    """
    form = _form("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return form.ones(M)
    height = ops.tensor(beta, dtype=form.dtype, device=device)
    end = ops.minimum(height, -height + (M - 1) * (2.0 * height / (M if not sym else M - 1)))
    points = form.points(M, -height, end)
    return (height * height - points.pow(2)).sqrt().i0() / height.i0()


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Hamming window: ``general_hamming`` with 0.54.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])

    Source: `torch.signal.windows.hamming
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.hamming.html>`_.
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Hann window: ``general_hamming`` with 0.5.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])

    Source: `torch.signal.windows.hann
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.hann.html>`_.
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Blackman window: a sum of two cosines.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.blackman(4, sym=False)[1:]
    tensor([0.3400, 1.0000, 0.3400])

    Source: `torch.signal.windows.blackman
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.blackman.html>`_.
    """
    _form("blackman", M, dtype, layout, device, requires_grad)
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Bartlett window: a triangle.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.bartlett(3)
    tensor([0., 1., 0.])

    Source: `torch.signal.windows.bartlett
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.bartlett.html>`_.
    """
    form = _form("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return form.ones(M)
    step = 2 / (M if not sym else M - 1)
    return 1 - form.points(M, -1, -1 + (M - 1) * step).abs()


def general_cosine(
    M: int, *, a: Any, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines with the weights ``a``, their signs alternating.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])

    Source: `torch.signal.windows.general_cosine
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.general_cosine.html>`_.
    """
    form = _form("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return form.ones(M)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    step = 2 * math.pi / (M if not sym else M - 1)
    points = form.points(M, 0, (M - 1) * step)
    weights = ops.tensor([(-1) ** i * w for i, w in enumerate(a)], **form.options)
    orders = ops.arange(weights.shape[0], **form.options)
    return (weights.unsqueeze(-1) * (orders.unsqueeze(-1) * points).cos()).sum(0)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``alpha`` minus ``1 - alpha`` times a period of a cosine.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])

    Source: `torch.signal.windows.general_hamming
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.general_hamming.html>`_.
    """
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The Nuttall window: a sum of three cosines.

    >>> import fgrad.torch as torch
    >>> torch.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])

    Source: `torch.signal.windows.nuttall
    <https://docs.pytorch.org/docs/2.13/generated/torch.signal.windows.nuttall.html>`_.
    """
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip
