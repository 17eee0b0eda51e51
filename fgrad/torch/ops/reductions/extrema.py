"""Largest and smallest elements, and their indices."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.indexing.coordinates import take_along
from fgrad.torch.ops.reductions.reductions import Dims, axes_of, check_nonempty
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import CAST_ONTO_ITSELF, EXTREME, ONTO_ITSELF
from fgrad.torch.ops.table.overloads import no_match, overload, types_of
from fgrad.torch.ops.table.table import TABLE, Array, composite, operation
from fgrad.torch.ops.views.views import wrap_dim


def _arg_extremum(arg_extremum: Callable[..., Any], x: Any, axis: int | None, keepdims: bool) -> Any:
    """An index in 64 bits, computed in 32: without its flag for 64 bits, JAX cannot compile the other."""
    if axis is None:
        flat = arg_extremum(lax.reshape(x, (x.size,)), 0, np.int32)
        return lax.reshape(flat, (1,) * x.ndim if keepdims else ()).astype(np.int64)
    index = arg_extremum(x, axis, np.int32).astype(np.int64)
    return lax.expand_dims(index, (axis,)) if keepdims else index


def index_of_largest(x: Any, axis: int | None, keepdims: bool = False) -> Any:
    """The index of the first largest element or NaN, in the flattened array or along a non-negative axis."""
    return _arg_extremum(lax.argmax, x, axis, keepdims)


def index_of_least(x: Any, axis: int | None, keepdims: bool = False) -> Any:
    """The index of the first least element or NaN, in the flattened array or along a non-negative axis."""
    return _arg_extremum(lax.argmin, x, axis, keepdims)


def check_real(function: str, array: Any) -> None:
    """Raise PyTorch's error for complex elements, which have no order."""
    if array.dtype.kind == "c":
        raise RuntimeError(f"{function}(): does not support complex input")


def evenly_shared(input: Any, reduce: Callable[..., Any], axes: Ints, keepdim: bool, nans_equal: bool) -> Any:
    """An extremum over axes, whose gradient is shared evenly by ties; with ``nans_equal`` NaNs are ties too."""

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        if not keepdim:
            ct, out = lax.expand_dims(ct, axes), lax.expand_dims(out, axes)
        is_extremum = x == out
        if nans_equal and kind(x) == "f":
            is_extremum = is_extremum | (lax.ne(x, x) & lax.ne(out, out))
        count = jnp.sum(is_extremum, axes, keepdims=True, dtype=ct.dtype)
        # these differ, as PyTorch's formulas, if no element is the extremum because .data was written
        return (choose(is_extremum, ct / count, 0) if nans_equal else ct * is_extremum.astype(ct.dtype) / count,)

    if kind(input) != "f":
        return reduce(input, axes, keepdims=keepdim)
    return fgrad.define_rule(lambda x: reduce(x, axes, keepdims=keepdim), vjp=pullback)(input)


def extremum_of_all(function: str, input: Any, reduce: Callable[..., Any]) -> Any:
    """The largest or the smallest of all elements."""
    check_nonempty(function, input.shape, None)
    check_kinds(f"{function}_all", "bif", input)
    return evenly_shared(input, reduce, tuple(range(input.ndim)), False, True)


@overload("max", "MaxBackward1")
def _max_all(input: Array) -> Any:
    return extremum_of_all("max", input, jnp.max)


@overload("min", "MinBackward1")
def _min_all(input: Array) -> Any:
    return extremum_of_all("min", input, jnp.min)


def _extremum_along(function: str, input: Any, dim: int, keepdim: bool, index_of: Any) -> Any:
    """The largest or smallest elements along an axis, and their indices; of equal ones the first."""
    check_real(function, input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input, jnp.zeros((), np.int64)
    check_nonempty(function, input.shape, dim)
    indices = index_of(input, dim, keepdims=True).astype(np.int64)
    if not keepdim:
        indices = lax.squeeze(indices, (dim,))
        return lax.squeeze(take_along(input, lax.expand_dims(indices, (dim,)), dim), (dim,)), indices
    return take_along(input, indices, dim), indices


@overload("max", "MaxBackward0", outputs=("values", "indices"))
def _max_dim(input: Array, dim: int, keepdim: bool = False) -> Any:
    return _extremum_along("max", input, dim, keepdim, index_of_largest)


@overload("min", "MinBackward0", outputs=("values", "indices"))
def _min_dim(input: Array, dim: int, keepdim: bool = False) -> Any:
    return _extremum_along("min", input, dim, keepdim, index_of_least)


_EXTREMA = (
    "Tensor input, *, Tensor out = None",
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None",
)


def _choose(
    function: str, input: Any, given: Any, keepdim: bool, dim: Any, other: Any, out: Any, of_all: Any, along: Any
) -> Any:
    """Of all elements, along an axis, or of two tensors; ``given`` is the second argument without a name."""
    arguments = [x for x in (input, given, dim) if x is not None]
    if isinstance(given, Tensor) and other is None:
        other = given
    elif dim is None:
        dim = given
    elif given is not None:
        raise TypeError(no_match(function, types_of(arguments), _EXTREMA))
    if isinstance(dim, Tensor) and not dim.shape and not dim._type.inexact:
        dim = int(dim.item())
    if not isinstance(input, Tensor) or not (dim is None or isinstance(dim, int)):
        raise TypeError(no_match(function, types_of(arguments), _EXTREMA))
    if other is not None:
        return TABLE[f"{function}imum"].call(input, other, out=out)
    if dim is None:
        return of_all(input, out=out)
    found = getattr(return_types, function)(along(input, dim, keepdim, out=out))
    return found if out is None else return_types.written(found, found)


@composite(out=CAST_ONTO_ITSELF)
def max(
    input: Any, dim_or_other: Any = None, keepdim: bool = False, *, dim: Any = None, other: Any = None, out: Any = None
) -> Any:
    """The largest element; along an axis, with its index; or the elementwise maximum of two tensors.

    Without an axis, ties share the gradient evenly; along an axis the element at the returned index gets it all.

    >>> import fgrad.torch as torch
    >>> torch.tensor([[1., 5.], [7., 2.]]).max(1).indices
    tensor([1, 0])

    Source: `torch.max <https://docs.pytorch.org/docs/stable/generated/torch.max.html>`_.
    """
    return _choose("max", input, dim_or_other, keepdim, dim, other, out, _max_all, _max_dim)


@composite(out=CAST_ONTO_ITSELF)
def min(
    input: Any, dim_or_other: Any = None, keepdim: bool = False, *, dim: Any = None, other: Any = None, out: Any = None
) -> Any:
    """The smallest element; along an axis, with its index; or the elementwise minimum of two tensors.

    Source: `torch.min <https://docs.pytorch.org/docs/stable/generated/torch.min.html>`_.
    """
    return _choose("min", input, dim_or_other, keepdim, dim, other, out, _min_all, _min_dim)


def _extremum(function: str, input: Any, dim: Dims, keepdim: bool, reduce: Any) -> Any:
    check_nonempty(function, input.shape, dim)
    check_kinds(f"{function[1:]}_values_cpu", "bif", input)
    return evenly_shared(input, reduce, axes_of(dim, input.ndim), keepdim, False)


@operation("AmaxBackward0", out=EXTREME)
def amax(input: Array, dim: Dims = (), keepdim: bool = False) -> Any:
    """The largest elements over axes; ties share the gradient evenly.

    Source: `torch.amax <https://docs.pytorch.org/docs/stable/generated/torch.amax.html>`_.
    """
    return _extremum("amax", input, dim, keepdim, jnp.max)


@operation("AminBackward0", out=EXTREME)
def amin(input: Array, dim: Dims = (), keepdim: bool = False) -> Any:
    """The smallest elements over axes; ties share the gradient evenly.

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
    check_kinds("aminmax_cpu", "bif", input)
    axes = axes_of(dim, input.ndim)
    return evenly_shared(input, jnp.min, axes, keepdim, False), evenly_shared(input, jnp.max, axes, keepdim, False)


@composite(out=ONTO_ITSELF)
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest elements, of all or along an axis.

    Source: `torch.aminmax <https://docs.pytorch.org/docs/stable/generated/torch.aminmax.html>`_.
    """
    return return_types.aminmax(apply(_aminmax.operation, (input,), (dim, keepdim)))


# -- indices ---------------------------------------------------------------------------------------------------------


def _index(function: str, input: Any, dim: int | None, keepdim: bool, index_of: Callable[..., Any]) -> Any:
    check_real(function, input)
    if input.dtype == np.bool_:
        raise RuntimeError(f"{function}(): does not support bool input")
    if dim is None:
        check_nonempty(function, input.shape, None, IndexError)
        return index_of(input, None, keepdims=keepdim).astype(np.int64)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return jnp.zeros((), np.int64)
    check_nonempty(function, input.shape, dim)
    return index_of(input, dim, keepdims=keepdim).astype(np.int64)


@operation()
def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the largest element, in the flattened tensor or along an axis; of equal ones the first.

    Source: `torch.argmax <https://docs.pytorch.org/docs/stable/generated/torch.argmax.html>`_.
    """
    return _index("argmax", input, dim, keepdim, index_of_largest)


@operation()
def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the smallest element, in the flattened tensor or along an axis; of equal ones the first.

    Source: `torch.argmin <https://docs.pytorch.org/docs/stable/generated/torch.argmin.html>`_.
    """
    return _index("argmin", input, dim, keepdim, index_of_least)
