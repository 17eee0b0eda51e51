"""Sums, products, means and extrema of the values that go to one place: ``scatter_reduce`` and ``index_reduce``.

NOTE [Gradients of reductions at places]
The derivatives are PyTorch's conventions and not those of the arithmetic: values that tie for the extremum share its
gradient evenly, and a product's gradient is the product of the others, worked out by division, apart from zeros.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.overlap import check_all_apart
from fgrad.torch.ops.indexing.coordinates import (
    Places,
    added,
    along,
    multiplied,
    read,
    size_along,
    slices,
    with_axis,
    written,
)
from fgrad.torch.ops.indexing.gathering import check_along, check_within
from fgrad.torch.ops.indexing.scattering import check_slices, covered
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.outputs import ONTO_ITSELF
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed

#: from an index to the places that it names
Naming = Callable[[Any], Places]


def _start(reduce: str, dtype: Any) -> Any:
    """What a reduction starts from where the element itself does not count."""
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


def _reduced(array: Any, places: Places, values: Any, reduce: str, include_self: bool) -> Any:
    if not include_self:
        array = written(array, places, lax.full_like(values, _start(reduce, array.dtype)))
    place = array.at[places]
    mode = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
    if reduce == "sum":
        return added(array, places, values)
    if reduce == "prod":
        return multiplied(array, places, values)
    if reduce == "mean":
        count = _counts(array, places, values, include_self)
        total = place.add(values, **mode)
        if jnp.issubdtype(array.dtype, jnp.inexact):
            return total / count
        return lax.convert_element_type(jnp.floor_divide(total, count), array.dtype)
    return place.max(values, **mode) if reduce == "amax" else place.min(values, **mode)


def _counts(array: Any, places: Places, values: Any, include_self: bool) -> Any:
    """How many values each place has, at least 1."""
    counts = added(lax.full_like(array, int(include_self)), places, lax.full_like(values, 1))
    return jnp.maximum(counts, 1) if not jnp.iscomplexobj(counts) else jnp.where(counts == 0, 1, counts)


def _gradients(
    ct: Any, result: Any, array: Any, places: Places, values: Any, reduce: str, include_self: bool
) -> tuple[Any, Any]:
    """The gradients of array and values: see NOTE [Gradients of reductions at places]."""
    if reduce == "sum":
        of_array, of_values = ct, read(ct, places)
    elif reduce == "mean":
        count = _counts(array, places, values, include_self)
        of_array, of_values = ct / count, read(ct, places) / read(count, places)
    elif reduce == "prod":
        of_array, of_values = _product_gradients(ct, result, array, places, values, include_self)
    else:
        hits = lax.convert_element_type(values == read(result, places), array.dtype)
        own = lax.convert_element_type(array == result, array.dtype)
        share = ct / added(own, places, hits)
        of_array, of_values = own * share, hits * read(share, places)
    if not include_self:
        of_array = written(of_array, places, lax.full_like(values, 0))
    return of_array, of_values


def _product_gradients(
    ct: Any, result: Any, array: Any, places: Places, values: Any, include_self: bool
) -> tuple[Any, Any]:
    nonzero = jnp.where(array == 0, 1, array)
    of_array = ct * _reduced(nonzero, places, values, "prod", include_self) / nonzero
    zero = values == 0
    zeros = read(added(lax.full_like(array, 0), places, lax.convert_element_type(zero, array.dtype)), places)
    alone = zero & (zeros == 1)
    # the product without the one zero, for that zero's own gradient
    others = _reduced(array, places, jnp.where(alone, 1, values), "prod", include_self)
    of_values = jnp.where(alone, read(ct * others, places), read(ct * result, places) / jnp.where(zero, 1, values))
    return of_array, of_values


def _differentiable(naming: Naming, reduce: str, include_self: bool) -> Callable[..., Any]:
    """The reduction as a function of array, index and values, with its gradients."""

    def gradients(ct: Any, result: Any, array: Any, index: Any, values: Any) -> tuple[Any, None, Any]:
        of_array, of_values = _gradients(ct, result, array, naming(index), values, reduce, include_self)
        return of_array, None, of_values

    return define_rule(
        lambda array, index, values: _reduced(array, naming(index), values, reduce, include_self), vjp=gradients
    )


_KEPT = ("self", "index", "result")


@overload("scatter_reduce", "ScatterReduceBackward0", overloads=("two", "two"), kept=(*_KEPT, "src"), single=True)
def _scatter_reduce(input: Array, index: Fixed, src: Array, dim: int, reduce: str, include_self: bool) -> Any:
    if not index.size:
        return input
    kinds = {"mean": "ifc", "amax": "bif", "amin": "bif"}
    if reduce in kinds:
        check_kinds(f"scatter_gather_tensor_cpu_reduce_{reduce}", kinds[reduce], input)
    places, array = with_axis(index), with_axis(input)
    function = _differentiable(lambda index: along(index, dim), reduce, include_self)
    return lax.reshape(function(array, places, covered(with_axis(src), places)), input.shape)


@overloaded(inplace=True, out=ONTO_ITSELF)
def scatter_reduce(
    input: Array, dim: int, index: Fixed, src: Array, reduce: str, *, include_self: bool = True
) -> Choice:
    """A copy in which the values of ``src`` are reduced into the places that an index names along an axis.

    ``reduce`` is "sum", "prod", "mean", "amax" or "amin".

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.])
    >>> x.scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([3., 4., 5.]), "amax")
    tensor([4., 5.])

    Source: `torch.Tensor.scatter_reduce_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_reduce_.html>`_.
    """
    names = {"add": "sum", "multiply": "prod", "max": "amax", "min": "amin"}
    if names.get(reduce, reduce) not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin, got " + reduce)
    dim = check_along("scatter", input, dim, index, src, "self")
    return _scatter_reduce, input, index, src, dim, names.get(reduce, reduce), include_self


@overload("index_reduce", "IndexReduceBackward0", kept=(*_KEPT, "source"), overlap=check_all_apart)
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
    """A copy in which the slices of ``source`` are reduced into those that an index names along an axis.

    ``reduce`` is "prod", "mean", "amax" or "amin".

    Source: `torch.Tensor.index_reduce_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_reduce_.html>`_.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    warn("index_reduce() is in beta and the API may change at any time.")
    dim = check_slices("index_reduce", input, dim, index, source)
    check_within(index, size_along(input._type.shape, dim))
    return _index_reduce, input, index, source, dim, reduce, include_self
