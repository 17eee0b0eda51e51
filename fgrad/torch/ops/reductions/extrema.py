"""Largest and smallest elements, and their places."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch import return_types
from fgrad.torch.ops.reductions.reductions import Dims, axes_of, check_nonempty
from fgrad.torch.ops.table.kinds import kind
from fgrad.torch.ops.table.outputs import CAST, EXTREME
from fgrad.torch.ops.table.overloads import no_match, overload, types_of
from fgrad.torch.ops.table.table import Array, composite, operation
from fgrad.torch.ops.views.views import wrap_dim


def picked(input: Any, indices: Any, dim: int) -> Any:
    """The elements at places along an axis, which lie within it."""
    return jnp.take_along_axis(input, indices, dim, mode="promise_in_bounds") if input.ndim else input


def _first(find: Callable[..., Any], x: Any, axis: int | None, keepdims: bool) -> Any:
    """An index in 64 bits, found in 32: JAX does not compile one that counts in 64 where its flag for them is off."""
    if axis is None:
        flat = find(lax.reshape(x, (x.size,)), 0, np.int32)
        return lax.reshape(flat, (1,) * x.ndim if keepdims else ()).astype(np.int64)
    found = find(x, axis, np.int32).astype(np.int64)
    return lax.expand_dims(found, (axis,)) if keepdims else found


def place_of_largest(x: Any, axis: int | None, keepdims: bool = False) -> Any:
    """The index of the first largest element, or of the first NaN, in all or along an axis of at least 0."""
    return _first(lax.argmax, x, axis, keepdims)


def place_of_least(x: Any, axis: int | None, keepdims: bool = False) -> Any:
    """The index of the first least element, or of the first NaN, in all or along an axis of at least 0."""
    return _first(lax.argmin, x, axis, keepdims)


def check_real(function: str, array: Any) -> None:
    """Raise PyTorch's error for complex elements, which have no order."""
    if array.dtype.kind == "c":
        raise RuntimeError(f"{function}(): does not support complex input")


def check_kernel(kernel: str, array: Any, missing: str) -> None:
    """Raise PyTorch's error for element types (NumPy's kind letters) that a kernel lacks."""
    if array.dtype.kind in missing:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.from_numpy(array.dtype).scalar_name}'")


def shared(input: Any, reduce: Callable[..., Any], axes: Ints, keepdim: bool, missing: bool) -> Any:
    """An extremum over axes whose gradient equal elements share; with ``missing`` NaNs count as equal, too."""

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        if not keepdim:
            ct, out = lax.expand_dims(ct, axes), lax.expand_dims(out, axes)
        at = x == out
        if missing and kind(x) == "f":
            at = at | (lax.ne(x, x) & lax.ne(out, out))
        count = jnp.sum(at, axes, keepdims=True, dtype=ct.dtype)
        # where no element is the extremum, since .data was written, PyTorch's formulas differ
        return (jnp.where(at, ct / count, 0) if missing else ct * at.astype(ct.dtype) / count,)

    if kind(input) != "f":
        return reduce(input, axes, keepdims=keepdim)
    return fgrad.define_rule(lambda x: reduce(x, axes, keepdims=keepdim), vjp=pullback)(input)


def of_all(function: str, input: Any, reduce: Callable[..., Any]) -> Any:
    """The largest or smallest of all elements."""
    check_nonempty(function, input.shape, None)
    check_kernel(f"{function}_all", input, "c")
    return shared(input, reduce, tuple(range(input.ndim)), False, True)


@overload("max", "MaxBackward1")
def _max_all(input: Array) -> Any:
    return of_all("max", input, jnp.max)


@overload("min", "MinBackward1")
def _min_all(input: Array) -> Any:
    return of_all("min", input, jnp.min)


def _along(function: str, input: Any, dim: int, keepdim: bool, place: Any) -> Any:
    """The largest or smallest elements along an axis and their indices, of equal ones the first."""
    check_real(function, input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input, jnp.zeros((), np.int64)
    check_nonempty(function, input.shape, dim)
    indices = place(input, dim, keepdims=True).astype(np.int64)
    if not keepdim:
        indices = lax.squeeze(indices, (dim,))
        return lax.squeeze(picked(input, lax.expand_dims(indices, (dim,)), dim), (dim,)), indices
    return picked(input, indices, dim), indices


@overload("max", "MaxBackward0", outputs=("values", "indices"))
def _max_dim(input: Array, dim: int, keepdim: bool = False) -> Any:
    return _along("max", input, dim, keepdim, place_of_largest)


@overload("min", "MinBackward0", outputs=("values", "indices"))
def _min_dim(input: Array, dim: int, keepdim: bool = False) -> Any:
    return _along("min", input, dim, keepdim, place_of_least)


_EXTREMA = (
    "Tensor input, *, Tensor out = None",
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None",
)


def _chosen(function: str, input: Any, dim: Any, keepdim: bool, other: Any, every: Any, along: Any, both: str) -> Any:
    if not isinstance(input, Tensor) or not (dim is None or isinstance(dim, int | Tensor)):
        raise TypeError(no_match(function, types_of((input,) if dim is None else (input, dim)), _EXTREMA))
    if isinstance(dim, Tensor) or other is not None:
        return getattr(input, both)(dim if other is None else other)
    if dim is None:
        return apply(every.operation, (input,))
    return getattr(return_types, function)(apply(along.operation, (input,), (dim, keepdim)))


@composite(out=CAST)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; along an axis, with its index; or element by element the larger of two tensors.

    Elements that share the maximum of a whole tensor share its gradient evenly; along an axis the one at the index
    returned gets it all.

    >>> import fgrad.torch as torch
    >>> torch.tensor([[1., 5.], [7., 2.]]).max(1).indices
    tensor([1, 0])

    Source: `torch.max <https://docs.pytorch.org/docs/stable/generated/torch.max.html>`_.
    """
    return _chosen("max", input, dim, keepdim, other, _max_all, _max_dim, "maximum")


@composite(out=CAST)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; along an axis, with its index; or element by element the smaller of two tensors.

    Source: `torch.min <https://docs.pytorch.org/docs/stable/generated/torch.min.html>`_.
    """
    return _chosen("min", input, dim, keepdim, other, _min_all, _min_dim, "minimum")


def _extremum(function: str, input: Any, dim: Dims, keepdim: bool, reduce: Any) -> Any:
    check_nonempty(function, input.shape, dim)
    check_kernel(f"{function[1:]}_values_cpu", input, "c")
    return shared(input, reduce, axes_of(dim, input.ndim), keepdim, False)


@operation("AmaxBackward0", out=EXTREME)
def amax(input: Array, dim: Dims = (), keepdim: bool = False) -> Any:
    """The largest elements over axes; equal ones share the gradient evenly.

    Source: `torch.amax <https://docs.pytorch.org/docs/stable/generated/torch.amax.html>`_.
    """
    return _extremum("amax", input, dim, keepdim, jnp.max)


@operation("AminBackward0", out=EXTREME)
def amin(input: Array, dim: Dims = (), keepdim: bool = False) -> Any:
    """The smallest elements over axes; equal ones share the gradient evenly.

    Source: `torch.amin <https://docs.pytorch.org/docs/stable/generated/torch.amin.html>`_.
    """
    return _extremum("amin", input, dim, keepdim, jnp.min)


@overload("aminmax", "AminmaxBackward0", outputs=("min", "max"))
def _aminmax(input: Array, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None and not input.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    if dim is not None and input.ndim and not input.shape[wrap_dim(dim, input.ndim)]:
        raise IndexError(f"aminmax: Expected reduction dim {dim} to have non-zero size.")
    check_kernel("aminmax_cpu", input, "c")
    axes = axes_of(dim, input.ndim)
    return shared(input, jnp.min, axes, keepdim, False), shared(input, jnp.max, axes, keepdim, False)


@composite()
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest elements, of all or along an axis.

    Source: `torch.aminmax <https://docs.pytorch.org/docs/stable/generated/torch.aminmax.html>`_.
    """
    return return_types.aminmax(apply(_aminmax.operation, (input,), (dim, keepdim)))


# -- places ----------------------------------------------------------------------------------------------------------


def _place(function: str, input: Any, dim: int | None, keepdim: bool, place: Callable[..., Any]) -> Any:
    check_real(function, input)
    if input.dtype == np.bool_:
        raise RuntimeError(f"{function}(): does not support bool input")
    if dim is None:
        check_nonempty(function, input.shape, None, IndexError)
        return place(input, None, keepdims=keepdim).astype(np.int64)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return jnp.zeros((), np.int64)
    check_nonempty(function, input.shape, dim)
    return place(input, dim, keepdims=keepdim).astype(np.int64)


@operation()
def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the largest element, of all in a row or along an axis; of equal ones the first.

    Source: `torch.argmax <https://docs.pytorch.org/docs/stable/generated/torch.argmax.html>`_.
    """
    return _place("argmax", input, dim, keepdim, place_of_largest)


@operation()
def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the smallest element, of all in a row or along an axis; of equal ones the first.

    Source: `torch.argmin <https://docs.pytorch.org/docs/stable/generated/torch.argmin.html>`_.
    """
    return _place("argmin", input, dim, keepdim, place_of_least)
