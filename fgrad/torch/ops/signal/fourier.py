"""Fourier transforms: three operations, and the functions of ``torch.fft`` made of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints, contiguous_strides
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch.ops.creation.copying import converted, laid_out
from fgrad.torch.ops.creation.making import tensor_from_array
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.outputs import NOT_TAKEN, floating, of_kind
from fgrad.torch.ops.table.overloads import Overload, overload
from fgrad.torch.ops.table.table import TABLE, Array, Dims, RowOptions, SymInt, composite, write_outputs
from fgrad.torch.ops.views.rearranging import roll
from fgrad.torch.ops.views.views import slice_axis, wrap_dim

#: PyTorch's codes of scaling: none, by the square root of the number of points, by their number
_NONE, _BY_ROOT_N, _BY_N = 0, 1, 2


def _fft(name: str | None = None, **options: Unpack[RowOptions]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return composite(method=False, function=False, name=name, namespace="fft", **options)


# -- operations ------------------------------------------------------------------------------------------------------


def _scaled(x: Any, count: int, normalization: int) -> Any:
    if normalization == _NONE:
        return x
    return x * (1 / (count if normalization == _BY_N else math.sqrt(count)))


def _points(shape: Sequence[int], dims: Ints) -> int:
    return math.prod([shape[d] for d in dims])


@overload("_fft_r2c", "FftR2CBackward0", always_saved=("self",))
def _fft_r2c(input: Array, dim: Any, normalization: int, onesided: bool) -> Any:
    transform = jnp.fft.rfftn(input, axes=dim) if onesided else jnp.fft.fftn(input, axes=dim)
    return _scaled(transform, _points(input.shape, dim), normalization)


@overload("_fft_c2c", "FftC2CBackward0")
def _fft_c2c(input: Array, dim: Any, normalization: int, forward: bool) -> Any:
    transform = jnp.fft.fftn(input, axes=dim) if forward else jnp.fft.ifftn(input, axes=dim, norm="forward")
    return _scaled(transform, _points(input.shape, dim), normalization)


@overload("_fft_c2r", "FftC2RBackward0")
def _fft_c2r(input: Array, dim: Any, normalization: int, last_dim_size: int) -> Any:
    sizes = [input.shape[d] for d in dim[:-1]] + [last_dim_size]
    signal = jnp.fft.irfftn(input, sizes, axes=dim, norm="forward")
    return _scaled(signal, math.prod(sizes), normalization)


@overload("constant_pad_nd", "ConstantPadNdBackward0")
def _zeros_after(input: Array, pad: Any) -> Any:
    return lax.pad(input, jnp.zeros((), input.dtype), [(0, n, 0) for n in pad])


# -- shared parts ----------------------------------------------------------------------------------------------------


def _normalization(norm: str | None, forward: bool) -> int:
    if norm in (None, "backward"):
        return _NONE if forward else _BY_N
    if norm == "forward":
        return _BY_N if forward else _NONE
    if norm == "ortho":
        return _BY_ROOT_N
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _run(transform: Overload, input: Tensor, dims: Ints, *params: Any) -> Tensor:
    """The transform, with its axes innermost in memory as PyTorch's kernels leave them."""
    spectrum = apply(transform.operation, (input,), (dims, *params))
    shape = spectrum._type.shape
    inner = sorted(dims) if transform is _fft_c2c else [*sorted(dims[:-1]), dims[-1]]
    order = [*(i for i in range(len(shape)) if i not in dims), *inner]
    steps = contiguous_strides(tuple([shape[i] for i in order]))
    strides = [0] * len(shape)
    for step, axis in zip(steps, order, strict=True):
        strides[axis] = step
    return laid_out(spectrum, tuple(strides))


def _promoted(input: Tensor, to_complex: bool) -> Tensor:
    dtype = input._type.dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"Unsupported dtype {dtype.scalar_name}")
    if not input._type.inexact:
        input = converted(input, dtypes.get_default_dtype(), None)
        dtype = input._type.dtype
    return converted(input, dtype.to_complex(), None) if to_complex and not dtype.is_complex else input


def _resized(input: Tensor, dims: Ints, sizes: Sequence[int]) -> Tensor:
    """Axes cut or padded with zeros to the given sizes."""
    pad = [0] * len(input._type.shape)
    for d, n in zip(dims, sizes, strict=True):
        size = input._type.shape[d]
        if n < size:
            input = slice_axis(input, d, 0, n, 1)
        pad[d] = max(0, n - size)
    return _zeros_after(input, tuple(pad)) if any(pad) else input


def _axis(input: Tensor, dim: int) -> int:
    return wrap_dim(dim, len(input._type.shape), scalar=False)


def _checked_size(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _to_complex(input: Tensor, n: int | None, dim: int, norm: str | None, forward: bool, onesided: bool) -> Tensor:
    """A transform along one axis to complex numbers."""
    axis = _axis(input, dim)
    size = _checked_size(input._type.shape[axis] if n is None else n)
    input = input if n is None else _resized(input, (axis,), (size,))
    scaling = _normalization(norm, forward)
    if input._type.dtype.is_complex:
        return _run(_fft_c2c, input, (axis,), scaling, forward)
    spectrum = _run(_fft_r2c, input, (axis,), scaling, onesided)
    return spectrum if forward else spectrum.conj()


def _to_real(input: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    axis = _axis(input, dim)
    input = _promoted(input, True)
    size = _checked_size(2 * (input._type.shape[axis] - 1) if n is None else n)
    if n is not None:
        input = _resized(input, (axis,), (size // 2 + 1,))
    if forward:
        input = input.conj()
    return _run(_fft_c2r, input, (axis,), _normalization(norm, forward), size)


def _check_real(function: str, input: Tensor, what: str = "real") -> None:
    if input._type.dtype.is_complex:
        raise RuntimeError(f"{function} expects a {what} input tensor, but got {input._type.dtype.scalar_name}")


# -- one axis --------------------------------------------------------------------------------------------------------


@_fft(autocast="fp32", out=of_kind("fft", "complex"))
def fft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along an axis.

    Arguments:
      input: the tensor.
      n: the number of points, to which the axis is cut or padded with zeros.
      dim: the axis.
      norm: "backward" scales the inverse transform, "forward" this one, "ortho" both.

    Source: `torch.fft.fft <https://docs.pytorch.org/docs/stable/generated/torch.fft.fft.html>`_.
    """
    return _to_complex(_promoted(input, False), n, dim, norm, True, False)


@_fft(autocast="fp32", out=of_kind("ifft", "complex"))
def ifft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``."""
    return _to_complex(_promoted(input, False), n, dim, norm, False, False)


@_fft(autocast="fp32", out=of_kind("rfft", "complex"))
def rfft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first half of the transform of real numbers, which determines the other half.

    Source: `torch.fft.rfft <https://docs.pytorch.org/docs/stable/generated/torch.fft.rfft.html>`_.
    """
    _check_real("rfft", input)
    return _to_complex(_promoted(input, False), n, dim, norm, True, True)


@_fft(autocast="fp32", out=of_kind("irfft", "floating point"))
def irfft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``."""
    return _to_real(input, n, dim, norm, False)


@_fft(autocast="fp32", out=of_kind("hfft", "floating point"))
def hfft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of Hermitian numbers, of which the first half is given.

    Source: `torch.fft.hfft <https://docs.pytorch.org/docs/stable/generated/torch.fft.hfft.html>`_.
    """
    return _to_real(input, n, dim, norm, True)


@_fft(autocast="fp32", out=of_kind("ihfft", "complex"))
def ihfft(input: Array, n: SymInt | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``."""
    _check_real("ihfft", input)
    return _to_complex(_promoted(input, False), n, dim, norm, False, True)


# -- several axes ----------------------------------------------------------------------------------------------------


def _axes_and_sizes(input: Tensor, s: Any, dim: Any) -> tuple[Ints, list[int]]:
    shape = input._type.shape
    rank = len(shape)
    lengths = None if s is None else (s,) if isinstance(s, int) else tuple(s)
    if dim is not None:
        dims = tuple([wrap_dim(d, rank, scalar=False) for d in ((dim,) if isinstance(dim, int) else dim)])
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
        if lengths is not None and len(lengths) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    else:
        dims = tuple(range(0 if lengths is None else max(0, rank - len(lengths)), rank))
    if lengths is not None and len(lengths) > rank:
        raise RuntimeError(f"Got shape with {len(lengths)} values but input tensor only has {rank} dimensions.")
    sizes = [shape[d] for d in dims]
    if lengths is not None:
        sizes = [size if n == -1 else n for size, n in zip(sizes, lengths, strict=True)]
    for n in sizes:
        _checked_size(n)
    return dims, sizes


def _over_axes(input: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Tensor:
    dims, sizes = _axes_and_sizes(input, s, dim)
    input = _resized(_promoted(input, True), dims, sizes)
    return _run(_fft_c2c, input, dims, _normalization(norm, forward), forward) if dims else input.clone()


@_fft(autocast="fp32", out=of_kind("fftn", "complex"))
def fftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform along several axes.

    Source: `torch.fft.fftn <https://docs.pytorch.org/docs/stable/generated/torch.fft.fftn.html>`_.
    """
    return _over_axes(input, s, dim, norm, True)


@_fft(autocast="fp32", out=of_kind("fftn", "complex"))
def ifftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``."""
    return _over_axes(input, s, dim, norm, False)


@_fft(autocast="fp32", out=of_kind("rfftn", "complex"))
def rfftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform of real numbers along several axes, half of it along the last one.

    Source: `torch.fft.rfftn <https://docs.pytorch.org/docs/stable/generated/torch.fft.rfftn.html>`_.
    """
    _check_real("rfftn", input, "real-valued")
    dims, sizes = _axes_and_sizes(input, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    return _run(_fft_r2c, _resized(_promoted(input, False), dims, sizes), dims, _normalization(norm, True), True)


def _real_size(input: Tensor, s: Any, dims: Ints, sizes: list[int]) -> int:
    """The size of the last axis of a real result; sets that of the half spectrum in ``sizes``."""
    lengths = None if s is None else (s,) if isinstance(s, int) else tuple(s)
    size = lengths[-1] if lengths is not None and lengths[-1] != -1 else 2 * (input._type.shape[dims[-1]] - 1)
    _checked_size(size)
    sizes[-1] = size // 2 + 1
    return size


@_fft(autocast="fp32", out=of_kind("irfftn", "floating point"))
def irfftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``."""
    dims, sizes = _axes_and_sizes(input, s, dim)
    if not dims:
        raise RuntimeError("irfftn must transform at least one axis")
    size = _real_size(input, s, dims, sizes)
    input = _resized(_promoted(input, True), dims, sizes)
    return _run(_fft_c2r, input, dims, _normalization(norm, False), size)


@_fft(out=of_kind("hfftn", "floating point"))
def hfftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """``hfft`` along the last axis, and ``fft`` along the others.

    Source: `torch.fft.hfftn <https://docs.pytorch.org/docs/stable/generated/torch.fft.hfftn.html>`_.
    """
    dims, sizes = _axes_and_sizes(input, s, dim)
    if not dims:
        raise RuntimeError("hfftn must transform at least one axis")
    size = _real_size(input, s, dims, sizes)
    spectrum = _resized(_promoted(input, True), dims, sizes)
    scaling = _normalization(norm, True)
    if len(dims) > 1:
        spectrum = _run(_fft_c2c, spectrum, dims[:-1], scaling, True)
    return _run(_fft_c2r, spectrum.conj(), dims[-1:], scaling, size)


@_fft(out=of_kind("ihfftn", "complex"))
def ihfftn(input: Array, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``hfftn``."""
    if input._type.dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {input._type.dtype.scalar_name}")
    dims, sizes = _axes_and_sizes(input, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    scaling = _normalization(norm, False)
    spectrum = _run(_fft_r2c, _resized(_promoted(input, False), dims, sizes), dims[-1:], scaling, True)
    if len(dims) == 1:
        return spectrum.conj()
    return _run(_fft_c2c, spectrum.conj_physical(), dims[:-1], scaling, False)


def _planar(transform: Callable[..., Tensor], name: str) -> None:
    row = TABLE[f"fft.{name[:-1]}n"]

    @_fft(name, out=row.out, autocast=row.autocast)
    def planar(input: Array, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(input, s, dim, norm)

    planar.__doc__ = f"``{name[:-1]}n`` along two axes."


for _transform, _name in (
    (fftn, "fft2"), (ifftn, "ifft2"), (rfftn, "rfft2"), (irfftn, "irfft2"), (hfftn, "hfft2"), (ihfftn, "ihfft2"),
):  # fmt: skip
    _planar(_transform, _name)


# -- frequencies -----------------------------------------------------------------------------------------------------


def _frequencies(indices: np.ndarray, n: int, d: float, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    element_type = dtypes.get_default_dtype() if dtype is None else dtypes.argument(dtype, "fftfreq")
    span = n * d
    factor = element_type.numpy.type(1 / span if span else math.copysign(math.inf, span)) if n else 1
    with np.errstate(invalid="ignore"):
        frequencies = indices.astype(element_type.numpy) * factor
    return tensor_from_array(frequencies, element_type, device, requires_grad)


@_fft(dispatch=UNLISTED, out=floating("fftfreq requires a floating point or complex dtype"))
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the entries of ``fft``.

    Source: `torch.fft.fftfreq <https://docs.pytorch.org/docs/stable/generated/torch.fft.fftfreq.html>`_.
    """
    indices = np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    frequencies = _frequencies(indices, n, d, dtype, device, requires_grad)
    return frequencies if out is None else write_outputs("fft.fftfreq", None, (), frequencies, out)


@_fft(dispatch=UNLISTED, out=floating("rfftfreq requires a floating point or complex dtype"))
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the entries of ``rfft``.

    Source: `torch.fft.rfftfreq <https://docs.pytorch.org/docs/stable/generated/torch.fft.rfftfreq.html>`_.
    """
    frequencies = _frequencies(np.arange(n // 2 + 1), n, d, dtype, device, requires_grad)
    return frequencies if out is None else write_outputs("fft.rfftfreq", None, (), frequencies, out)


def _shifted(input: Tensor, dim: Any, inverse: bool) -> Tensor:
    shape = input._type.shape
    dims = tuple(range(len(shape))) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    sizes = [shape[wrap_dim(d, len(shape))] for d in dims]
    return roll(input, tuple([(n + 1) // 2 if inverse else n // 2 for n in sizes]), dims)


@_fft(out=NOT_TAKEN)
def fftshift(input: Array, dim: Dims = None) -> Tensor:
    """The frequencies in order, the zero frequency in the middle.

    Source: `torch.fft.fftshift <https://docs.pytorch.org/docs/stable/generated/torch.fft.fftshift.html>`_.
    """
    return _shifted(input, dim, False)


@_fft(out=NOT_TAKEN)
def ifftshift(input: Array, dim: Dims = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _shifted(input, dim, True)
