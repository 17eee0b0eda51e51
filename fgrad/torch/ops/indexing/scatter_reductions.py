"""Scattered values reduced where they meet: ``scatter_reduce`` and ``index_reduce``.

NOTE [Gradients of scattered extrema]
Values that tie for the extremum share its gradient evenly, and so does the element itself if it is a tie, also where it
is not to count: that is PyTorch's convention, not the arithmetic's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.overlap import check_all_apart
from fgrad.torch.ops.indexing.coordinates import (
    Coordinates,
    added,
    along,
    multiplied,
    read,
    scattered,
    size_along,
    slices,
    with_axis,
    written,
)
from fgrad.torch.ops.indexing.gathering import check_along, check_within
from fgrad.torch.ops.indexing.scattering import check_slices, leading_part
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.outputs import ONTO_ITSELF
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed

#: from an index tensor to the coordinates of the elements that it names
CoordinatesOf = Callable[[Any], Coordinates]


def _identity(reduce: str, dtype: Any) -> Any:
    """What a reduction starts from if the element itself does not count."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype == np.bool_:
        return reduce == "amin"
    limits = jnp.finfo(dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype)
    infinite = jnp.issubdtype(dtype, jnp.floating)
    if reduce == "amax":
        return -np.inf if infinite else limits.min
    return np.inf if infinite else limits.max


def _reduced(array: Any, coordinates: Coordinates, values: Any, reduce: str, include_self: bool) -> Any:
    if not include_self:
        array = written(array, coordinates, lax.full_like(values, _identity(reduce, array.dtype)))
    if reduce == "sum":
        return added(array, coordinates, values)
    if reduce == "prod":
        return multiplied(array, coordinates, values)
    if reduce == "mean":
        count = _counts(array, coordinates, values, include_self)
        total = scattered(lax.scatter_add, array, coordinates, values)
        if jnp.issubdtype(array.dtype, jnp.inexact):
            return total / count
        return lax.convert_element_type(jnp.floor_divide(total, count), array.dtype)
    return scattered(lax.scatter_max if reduce == "amax" else lax.scatter_min, array, coordinates, values)


def _counts(array: Any, coordinates: Coordinates, values: Any, include_self: bool) -> Any:
    """How many values each element receives, at least 1."""
    counts = added(lax.full_like(array, int(include_self)), coordinates, lax.full_like(values, 1))
    return jnp.maximum(counts, 1) if not jnp.iscomplexobj(counts) else choose(counts == 0, 1, counts)


def _extremum_gradients(
    ct: Any, result: Any, array: Any, coordinates: Coordinates, values: Any, include_self: bool
) -> tuple[Any, Any]:
    """The gradients of array and values: see NOTE [Gradients of scattered extrema]."""
    hits = lax.convert_element_type(values == read(result, coordinates), array.dtype)
    is_extremum = lax.convert_element_type(array == result, array.dtype)
    share = ct / added(is_extremum, coordinates, hits)
    of_array, of_values = is_extremum * share, hits * read(share, coordinates)
    if not include_self:
        of_array = written(of_array, coordinates, lax.full_like(values, 0))
    return of_array, of_values


def _differentiable(coordinates_of: CoordinatesOf, reduce: str, include_self: bool) -> Callable[..., Any]:
    """The reduction as a function of array, index and values, with its gradients."""

    def reduced(array: Any, index: Any, values: Any) -> Any:
        return _reduced(array, coordinates_of(index), values, reduce, include_self)

    def gradients(ct: Any, result: Any, array: Any, index: Any, values: Any) -> tuple[Any, None, Any]:
        of_array, of_values = _extremum_gradients(ct, result, array, coordinates_of(index), values, include_self)
        return of_array, None, of_values

    return define_rule(reduced, vjp=gradients) if reduce in ("amax", "amin") else reduced


_KEPT = ("self", "index", "result")


@overload(
    "scatter_reduce",
    "ScatterReduceBackward0",
    overloads=("two", "two"),
    always_saved=(*_KEPT, "src"),
    in_float32=True,
    overlap=check_all_apart,
)
def _scatter_reduce(input: Array, index: Fixed, src: Array, dim: int, reduce: str, include_self: bool) -> Any:
    if not index.size:
        return input
    kinds = {"mean": "ifc", "amax": "bif", "amin": "bif"}
    if reduce in kinds:
        check_kinds(f"scatter_gather_tensor_cpu_reduce_{reduce}", kinds[reduce], input)
    indices, array = with_axis(index), with_axis(input)
    function = _differentiable(lambda index: along(index, dim), reduce, include_self)
    return lax.reshape(function(array, indices, leading_part(with_axis(src), indices)), input.shape)


@overloaded(inplace=True, out=ONTO_ITSELF)
def scatter_reduce(
    input: Array, dim: int, index: Fixed, src: Array, reduce: str, *, include_self: bool = True
) -> Choice:
    """A copy with the values of ``src`` reduced into the elements that an index names along an axis.

    ``reduce`` is "sum", "prod", "mean", "amax" or "amin".

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.])
    >>> x.scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([3., 4., 5.]), "amax")
    tensor([4., 5.])

    Source: `torch.Tensor.scatter_reduce_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_reduce_.html>`_.
    """
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if kind not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin, got " + reduce)
    dim = check_along("scatter", input, dim, index, src, "self")
    return _scatter_reduce, input, index, src, dim, kind, include_self


@overload("index_reduce", "IndexReduceBackward0", always_saved=(*_KEPT, "source"), overlap=check_all_apart)
def _index_reduce(input: Array, index: Fixed, source: Array, dim: int, reduce: str, include_self: bool) -> Any:
    check_kinds("index_func_", "if", input)
    if not index.size:
        return input
    function = _differentiable(lambda index: slices(index, dim), reduce, include_self)
    return lax.reshape(function(with_axis(input), with_axis(index), with_axis(source)), input.shape)


@overloaded(inplace=True, out=ONTO_ITSELF)
def index_reduce(
    input: Array, dim: int, index: Fixed, source: Array, reduce: str, *, include_self: bool = True
) -> Choice:
    """A copy with the slices of ``source`` reduced into those that an index names along an axis.

    ``reduce`` is "prod", "mean", "amax" or "amin".

    Source: `torch.Tensor.index_reduce_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_reduce_.html>`_.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    warn_once("index_reduce() is in beta and the API may change at any time.")
    dim = check_slices("index_reduce", input, dim, index, source)
    check_within(index, size_along(input._type.shape, dim))
    return _index_reduce, input, index, source, dim, reduce, include_self
