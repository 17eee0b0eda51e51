"""Short-time Fourier transforms: the spectra of a signal's frames, and the signal back from them.

Source: https://docs.pytorch.org/docs/2.13/generated/torch.stft.html
"""

from typing import Any

from attrs import frozen
from jax import numpy as jnp

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import tensor_type_name
from fgrad.torch.ops.creation.creation import ones
from fgrad.torch.ops.signal.fourier import fft, ifft, irfft, rfft
from fgrad.torch.ops.table.dispatch import IN_PYTHON, METHOD_IN_PYTHON, Dispatch
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.ops.views.complex_views import view_as_complex, view_as_real
from fgrad.torch.ops.views.padding import pad
from fgrad.torch.ops.views.views import slice_axis

_NO_WINDOW = "A window was not provided. A rectangular window will be applied"
_ASK_FOR_IT = (
    "To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
)


def _shown(tensor: Tensor, braces: bool = False) -> str:
    """A tensor as PyTorch's errors print it."""
    sizes = list(tensor.shape)
    name = tensor_type_name(tensor.dtype.scalar_name)
    return f"{name}{{{sizes}}}" if braces else f"{name}{sizes}"


def _listed(**arguments: Any) -> str:
    """The arguments of a call as PyTorch's errors list them."""
    texts = {
        name: _shown(value, True) if isinstance(value, Tensor) else int(value) if isinstance(value, bool) else value
        for name, value in arguments.items()
    }
    return ", ".join(f"{name}={value}" for name, value in texts.items())


@frozen
class _Framing:
    """How a signal is cut into frames: their size and distance, and the window, which may be shorter."""

    size: int
    hop: int
    length: int
    window: Tensor | None

    @property
    def complex(self) -> bool:
        return self.window is not None and self.window.is_complex()

    def check_window(self, text: str) -> None:
        window = self.window
        if window is not None and (window.dim() != 1 or window.shape[0] != self.length):
            raise RuntimeError(text)

    def weights(self, like: Tensor) -> Tensor | None:
        """A weight for each element of a frame; None if all are 1."""
        window = self.window
        if self.length == self.size:
            return window
        before = (self.size - self.length) // 2
        if window is None:
            window = ones((self.length,), dtype=like.dtype, device=like.device)
        return pad(window, (before, self.size - self.length - before))


@composite(autocast="fp32", dispatch=IN_PYTHON)
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of the overlapping frames of a signal, with shape (frequencies, frames).

    Arguments:
      input: a signal, or a batch of them.
      n_fft: the size of the frames.
      hop_length: the distance of their starts; a quarter of ``n_fft`` by default.
      win_length: the size of the window, ``n_fft`` by default; a shorter one is centred in the frame.
      window: the weights of a frame's elements.
      center: pad the signal so that the first frame is centred at its first element.
      pad_mode: how it is padded: a mode of ``torch.nn.functional.pad``.
      normalized: divide by the square root of ``n_fft``.
      onesided: leave out the frequencies that follow from the others; the default for real signals and windows.
      return_complex: whether the spectra are complex numbers or pairs of real ones.
      align_to_window: without ``center``, start the first window, not the first frame, at the first element.

    Raises:
      RuntimeError: the lengths do not fit, or ``return_complex`` is not given for a real signal.

    >>> import fgrad.torch as torch
    >>> torch.stft(torch.ones(4), 4, window=torch.ones(4), center=False, return_complex=True)
    tensor([[4.+0.j],
            [0.+0.j],
            [0.+0.j]])

    Source: `torch.stft <https://docs.pytorch.org/docs/2.13/generated/torch.stft.html>`_.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        rank = input.dim()
        extended = pad(input.view([1] * (3 - rank) + list(input.shape)), [n_fft // 2, n_fft // 2], pad_mode)
        input = extended.view(extended.shape[-rank:])
    if window is None:
        warn_once(
            f"{_NO_WINDOW},which is known to cause spectral leakage. Other windows such as torch.hann_window or "
            f"torch.hamming_window are recommended to reduce spectral leakage.{_ASK_FOR_IT}",
        )
    length = n_fft if win_length is None else win_length
    framing = _Framing(n_fft, n_fft >> 2 if hop_length is None else hop_length, length, window)
    arguments = _listed(
        n_fft=n_fft, hop_length=framing.hop, win_length=framing.length, window=window, normalized=bool(normalized),
        onesided=onesided, return_complex=return_complex, align_to_window=align_to_window,
    )  # fmt: skip
    _check_signal(input, framing, f"stft({_shown(input)}, {arguments}) : ")
    real = not (input.is_complex() or framing.complex)
    if return_complex is None and real:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if return_complex is False:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
            "torch.view_as_real on the complex output to recover the old return format.",
        )
    if onesided and not real:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    unbatched = input.dim() == 1
    signal = input.unsqueeze(0) if unbatched else input
    if align_to_window:
        before = (n_fft - framing.length) // 2
        signal = pad(signal, (before, n_fft - framing.length - before))
    frames = signal.unfold(1, n_fft, framing.hop)
    weights = framing.weights(input)
    frames = frames if weights is None else frames * weights
    norm = "ortho" if normalized else "backward"
    transform = rfft if real and onesided is not False else fft
    spectra = transform(frames, norm=norm).transpose_(1, 2)
    result = spectra.squeeze_(0) if unbatched else spectra
    return result if return_complex or (return_complex is None and not real) else view_as_real(result)


def _check_signal(input: Tensor, framing: _Framing, call: str) -> None:
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"{call}expected a tensor of floating point or complex values")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"{call}expected a 1D or 2D tensor")
    length = input.shape[-1]
    if not 0 < framing.size <= length:
        raise RuntimeError(f"{call}expected 0 < n_fft < {length}, but got n_fft={framing.length}")
    if framing.hop <= 0:
        raise RuntimeError(f"{call}expected hop_length > 0, but got hop_length={framing.hop}")
    if not 0 < framing.length <= framing.size:
        raise RuntimeError(f"{call}expected 0 < win_length <= n_fft, but got win_length={framing.length}")
    size = [] if framing.window is None else list(framing.window.shape)
    framing.check_window(
        f"{call}expected a 1D window tensor of size equal to win_length={framing.length}, but got window with size "
        f"{size}"
    )


@overload("unfold_backward", "UnfoldBackwardBackward0")
def _overlapped(frames: Array, length: int, step: int) -> Any:
    """The sum of overlapping frames (N, frames, size), whose starts are at multiples of ``step``."""
    batch, count, size = frames.shape
    indices = jnp.arange(count)[:, None] * step + jnp.arange(size)[None, :]
    return jnp.zeros((batch, length), frames.dtype).at[:, indices].add(frames, mode="promise_in_bounds")


@composite(dispatch=Dispatch(method=METHOD_IN_PYTHON))
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The inverse of ``stft`` with the same arguments: the signal whose spectra are closest.

    Arguments:
      input: the complex spectra.
      length: the length of the signal, which is cut or padded with zeros.
      return_complex: whether the signal is complex.

    Raises:
      RuntimeError: the lengths do not fit, or the windows give some elements no weight.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2., 3., 4.])
    >>> spectra = torch.stft(x, 4, window=torch.ones(4), return_complex=True)
    >>> torch.istft(spectra, 4, window=torch.ones(4))
    tensor([1.0000, 2.0000, 3.0000, 4.0000])

    Source: `torch.istft <https://docs.pytorch.org/docs/2.13/generated/torch.istft.html>`_.
    """
    if window is None:
        warn_once(
            f"{_NO_WINDOW}.Please provide the same window used by stft to make the inversion lossless.{_ASK_FOR_IT}",
        )
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    framing = _Framing(
        n_fft, n_fft >> 2 if hop_length is None else hop_length, n_fft if win_length is None else win_length, window
    )
    arguments = _listed(
        n_fft=n_fft, hop_length=framing.hop, win_length=framing.length, window=window, center=bool(center),
        normalized=bool(normalized), onesided=onesided, length=length, return_complex=bool(return_complex),
    )  # fmt: skip
    call = f"istft({_shown(input)}, {arguments}) "
    pairs = view_as_real(input.resolve_conj())
    count, frequencies = pairs.size(-2), pairs.size(-3)
    half = frequencies != n_fft if onesided is None else onesided
    _check_spectra(pairs, framing, half, f"{call}: ")
    if pairs.dim() == 3:
        pairs = pairs.unsqueeze(0)
    spectra = view_as_complex(pairs.transpose(1, 2))
    norm = "ortho" if normalized else "backward"
    frames = _frames(spectra, framing, half, return_complex, norm)
    weights = framing.weights(frames)
    if weights is None:
        weights = ones((n_fft,), dtype=frames.dtype, device=frames.device)
    total = n_fft + framing.hop * (count - 1)
    signal = _overlapped(frames * weights.view(1, 1, n_fft), total, framing.hop)
    envelope = _overlapped(weights.pow(2).expand(1, count, n_fft), total, framing.hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    signal, envelope = slice_axis(signal, 1, start, end, 1), slice_axis(envelope, 1, start, end, 1)
    if envelope.abs().min() < 1e-11:
        raise RuntimeError(f"{call}window overlap add min: 1\n[ CPUBoolType{{}} ]")
    result = signal / envelope
    if input.dim() == 2:
        result = result.squeeze(0)
    if end > total:
        warn_once(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings.",
        )
        result = pad(result, (0, end - total))
    return result


def _check_spectra(pairs: Tensor, framing: _Framing, onesided: bool, call: str) -> None:
    if pairs.numel() == 0:
        raise RuntimeError(f"{call}input tensor cannot be empty.")
    if pairs.dim() not in (3, 4):
        raise RuntimeError(f"{call}expected a tensor with 3 or 4 dimensions, but got {pairs.dim()}")
    frequencies = pairs.shape[-3]
    if frequencies != (framing.size // 2 + 1 if onesided else framing.size):
        raise RuntimeError(
            f"{call}expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"{'n_fft / 2 + 1 when onesided=True' if onesided else 'n_fft when onesided=False'}, but got {frequencies}"
        )
    if not 0 < framing.hop <= framing.length:
        raise RuntimeError(f"{call}expected 0 < hop_length <= win_length")
    if not 0 < framing.length <= framing.size:
        raise RuntimeError(f"{call}expected 0 < win_length <= n_fft")
    framing.check_window(f"{call}Invalid window shape. window has to be 1D and length of `win_length`")


def _frames(spectra: Tensor, framing: _Framing, onesided: bool, return_complex: bool, norm: str) -> Tensor:
    """The frames with these spectra, before they are summed."""
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        return ifft(spectra, norm=norm)
    if framing.complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    half = spectra if onesided else spectra[..., : framing.size // 2 + 1]
    return irfft(half, framing.size, norm=norm)
