"""Tensors with elements replaced or added to: ``scatter``, ``index_add``, ``put``, ``masked_fill`` and others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.overlap import check_all_apart, check_apart, check_filled, deprecated
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, from_numpy, int32, int64
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch.ops.creation.copying import as_first
from fgrad.torch.ops.indexing.coordinates import (
    added,
    first_outside,
    multiplied,
    put_along,
    size_along,
    slices,
    with_axis,
    wrapped,
    written,
)
from fgrad.torch.ops.indexing.gathering import adds_in_single, check_along, check_flat, check_range, check_within
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.outputs import ONTO_ITSELF
from fgrad.torch.ops.table.overloads import Choice, no_match, of_method, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed, Number, Operand
from fgrad.torch.ops.views.views import wrap_dim
from fgrad.torch.random.scalars import cpp_name

# -- one element for each of the index -------------------------------------------------------------------------------

_SCATTER_SIGNATURES = (
    "Tensor input, int dim, Tensor index, Tensor src, *, Tensor out = None",
    "Tensor input, int dim, Tensor index, Tensor src, *, str reduce, Tensor out = None",
    "Tensor input, int dim, Tensor index, Number value, *, Tensor out = None",
    "Tensor input, int dim, Tensor index, Number value, *, str reduce, Tensor out = None",
)


def leading_part(src: Any, index: Any) -> Any:
    """The part of the values that the index covers, which has its shape."""
    return src[tuple([slice(n) for n in index.shape])]


def _write_along(write: Any, input: Any, index: Any, src: Any, dim: int) -> Any:
    if not index.size:
        return input
    index, src = with_axis(index), with_axis(src)
    return lax.reshape(put_along(write, with_axis(input), index, leading_part(src, index), dim), input.shape)


def _value_like(value: Any, input: Any, index: Any) -> Any:
    return lax.broadcast(cast(value, from_numpy(input.dtype)), index.shape)


@overload("scatter", "ScatterBackward0", overloads=("src", "value"), always_saved=("index",), overlap=check_all_apart)
def _scatter(input: Array, index: Fixed, src: Array, dim: int) -> Any:
    return _write_along(written, input, index, src, dim)


@overload("scatter", "ScatterBackward1", overloads=("src", "value"), always_saved=("index",), overlap=check_all_apart)
def _scatter_value(input: Array, index: Fixed, value: Number, dim: int) -> Any:
    return _write_along(written, input, index, _value_like(value, input, index), dim)


def _accumulate(input: Any, index: Any, src: Any, dim: int, reduce: str) -> Any:
    return _write_along(added if reduce == "add" else multiplied, input, index, src, dim)


@overload("scatter", NOT_IMPLEMENTED, overloads=("reduce", "value_reduce"), in_float32=True, overlap=check_all_apart)
def _scatter_combined(input: Array, index: Fixed, src: Array, dim: int, reduce: str) -> Any:
    return _accumulate(input, index, src, dim, reduce)


@overload("scatter", NOT_IMPLEMENTED, overloads=("reduce", "value_reduce"), in_float32=True, overlap=check_all_apart)
def _scatter_value_combined(input: Array, index: Fixed, value: Number, dim: int, reduce: str) -> Any:
    return _accumulate(input, index, _value_like(value, input, index), dim, reduce)


@overloaded(inplace=True, signatures=_SCATTER_SIGNATURES, out=ONTO_ITSELF)
def scatter(
    input: Array, dim: int, index: Fixed, src: Operand = None, *, value: Operand = None, reduce: str | None = None
) -> Choice:
    """A copy with the values of ``src``, or one value, written to the elements that an index names along an axis.

    >>> import fgrad.torch as torch
    >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])

    Source: `torch.Tensor.scatter <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter.html>`_.
    """
    source = value if src is None else src
    if source is None:
        types = ", ".join([type_name(dim), type_name(index)])
        raise TypeError(no_match("scatter", types, of_method(_SCATTER_SIGNATURES)))
    values = source if isinstance(source, Tensor) else None
    dim = check_along("scatter", input, dim, index, values, "self")
    if values is None:
        check_number(source, input._type.dtype)
    if reduce is None:
        return _scatter if values is not None else _scatter_value, input, index, source, dim
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if values is None:
        return _scatter_value_combined, input, index, source, dim, reduce
    warn_once(
        "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
        "release. Use torch.scatter_reduce instead for more reduction options.",
    )
    return _scatter_combined, input, index, source, dim, reduce


@overload("scatter_add", "ScatterAddBackward0", always_saved=("index",), in_float32=True, overlap=check_all_apart)
def _scatter_add(input: Array, index: Fixed, src: Array, dim: int) -> Any:
    return _write_along(added, input, index, src, dim)


@overloaded(inplace=True, out=ONTO_ITSELF)
def scatter_add(input: Array, dim: int, index: Fixed, src: Array) -> Choice:
    """A copy with the values of ``src`` added to the elements that an index names along an axis.

    Source: `torch.Tensor.scatter_add_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_add_.html>`_.
    """
    return _scatter_add, input, index, src, check_along("scatter", input, dim, index, src, "self")


# -- slices ----------------------------------------------------------------------------------------------------------


def _write_slices(write: Any, input: Any, index: Any, source: Any, dim: int) -> Any:
    if not index.size:
        return input
    array = with_axis(input)
    shape = tuple([index.size if d == dim else n for d, n in enumerate(array.shape)])
    return lax.reshape(write(array, slices(with_axis(index), dim), lax.reshape(source, shape)), input.shape)


def check_slices(function: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> int:
    """The axis of ``index_add`` or ``index_reduce`` counted from the front, if index and source fit."""
    shape, source_shape = input._type.shape, source._type.shape
    dim = wrap_dim(dim, len(shape))
    if len(index._type.shape) > 1:
        raise IndexError(
            f"{function}_(): Index is supposed to be a vector, but got dim: {len(index._type.shape)} with type: "
            f"{index._type.dtype.scalar_name} and size: {list(index._type.shape)}"
        )
    if index._type.dtype not in (int32, int64):
        raise RuntimeError(
            f"{function}_(): Expected dtype int32/int64 for index but got: {index._type.dtype.scalar_name}"
        )
    if input._type.dtype is not source._type.dtype:
        raise RuntimeError(
            f"{function}_(): self ({input._type.dtype.scalar_name}) and source ({source._type.dtype.scalar_name}) must "
            "have the same scalar type"
        )
    if dim and dim >= len(source_shape):
        raise RuntimeError(
            f"{function}_(): Indexing dim {dim} is out of bounds of the source tensor with dim {len(source_shape)}"
        )
    if index._type.numel != size_along(source_shape, dim):
        raise RuntimeError(
            f"{function}_(): Number of indices ({index._type.numel}) should be equal to source.size(dim): "
            f"({size_along(source_shape, dim)}), for dim: {dim}"
        )
    if [n for d, n in enumerate(shape) if d != dim] != [n for d, n in enumerate(source_shape) if d != dim] or (
        len(shape) != len(source_shape)
    ):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(shape)} source.shape = {list(source_shape)}"
        )
    return dim


def _slices_added(input: Any, index: Any, source: Any, alpha: Any, dim: int) -> Any:
    scale = cast(alpha, from_numpy(input.dtype))
    return _write_slices(added, input, index, scale & source if input.dtype == np.bool_ else scale * source, dim)


@overload("index_add", "IndexAddBackward0", always_saved=("index", "source"), overlap=check_all_apart)
def _index_add(input: Array, index: Fixed, source: Array, alpha: Number, dim: int) -> Any:
    return _slices_added(input, index, source, alpha, dim)


@overload("index_add", "IndexAddBackward0", always_saved=("index", "source"), overlap=check_all_apart, in_float32=True)
def _index_add_single(input: Array, index: Fixed, source: Array, alpha: Number, dim: int) -> Any:
    return _slices_added(input, index, source, alpha, dim)


@overloaded(inplace=True, out=ONTO_ITSELF)
def index_add(input: Array, dim: int, index: Fixed, source: Array, *, alpha: Number = 1) -> Choice:
    """A copy with ``alpha`` times the slices of ``source`` added to those that an index names along an axis.

    >>> import fgrad.torch as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 2, 0]), torch.tensor([1., 2., 3.]))
    tensor([4., 0., 2.])

    Source: `torch.Tensor.index_add_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html>`_.
    """
    dim = check_slices("index_add", input, dim, index, source)
    check_number(alpha, input._type.dtype)
    size = size_along(input._type.shape, dim)
    single = alpha == 1 and adds_in_single(input._type.shape, dim, index)
    if single:
        check_range(index, dim, size)
    else:
        check_within(index, size)
    return _index_add_single if single else _index_add, input, index, source, alpha, dim


@overload("index_copy", "IndexCopyBackward0", always_saved=("index", "source"), overlap=check_all_apart)
def _index_copy(input: Array, index: Fixed, source: Array, dim: int) -> Any:
    return _write_slices(written, input, index, source, dim)


@overloaded(inplace=True, autocast="promote", out=ONTO_ITSELF)
def index_copy(input: Array, dim: int, index: Fixed, source: Array) -> Choice:
    """A copy with the slices of ``source`` in place of those that an index names along an axis.

    Source: `torch.Tensor.index_copy_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_copy_.html>`_.
    """
    shape, source_shape = input._type.shape, source._type.shape
    dim = wrap_dim(dim, len(shape))
    if len(index._type.shape) > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {len(index._type.shape)})")
    count = index._type.numel
    if not source_shape and count != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {count})")
    if len(source_shape) != len(shape) and source_shape and shape:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({len(source_shape)}), destination dimensionality ({len(shape)})"
        )
    if index._type.dtype is not int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index._type.dtype.scalar_name}")
    if input._type.dtype is not source._type.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{input._type.dtype.scalar_name} and (source) {source._type.dtype.scalar_name}"
        )
    slice_shape, source_slice = ([n for d, n in enumerate(sizes) if d != dim] for sizes in (shape, source_shape))
    if slice_shape != source_slice:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, slice_shape))} at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, source_slice))} at "
            "dimension 0."
        )
    if source_shape and count != source_shape[dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) ({source_shape[dim]})"
        )
    size = size_along(shape, dim)
    bad = first_outside(index, 0, size)
    if bad is not None:
        raise IndexError(f"index_copy_(): index {bad} is out of bounds for dimension {dim} with size {size}")
    return _index_copy, input, index, source, dim


def _slices_filled(input: Any, index: Any, value: Any, dim: int) -> Any:
    array = with_axis(input)
    size = array.shape[dim]
    # a slice that is named twice is filled once, and counts once in the gradient of the value
    is_named = jnp.any(lax.iota(index.dtype, size)[:, None] == wrapped(lax.reshape(index, (index.size,)), size), 1)
    is_named = lax.reshape(is_named, tuple([size if d == dim else 1 for d in range(array.ndim)]))
    return lax.reshape(choose(is_named, cast(value, from_numpy(input.dtype)), array), input.shape)


_warn_if_repeated = deprecated("index_fill", "mask] = scalar")


def _check_filled(tensor: Tensor, others: Sequence[Any]) -> None:
    _warn_if_repeated(tensor, others)
    check_apart(tensor, others[0])


_INDEX_FILL: dict[str, Any] = {
    "overloads": ("int_Tensor", "int_Scalar"),
    "always_saved": ("index",),
    "strides": as_first,
    "overlap": _check_filled,
}


@overload("index_fill", "IndexFillBackward0", **_INDEX_FILL)
def _index_fill(input: Array, index: Fixed, value: Number, dim: int) -> Any:
    return _slices_filled(input, index, value, dim)


@overload("index_fill", "IndexFillBackward1", **_INDEX_FILL)
def _index_fill_tensor(input: Array, index: Fixed, value: Array, dim: int) -> Any:
    return _slices_filled(input, index, value, dim)


_INDEX_FILL_SIGNATURES = (
    "Tensor input, int dim, Tensor index, Tensor value",
    "Tensor input, int dim, Tensor index, Number value",
)


@overloaded(inplace=True, signatures=_INDEX_FILL_SIGNATURES)
def index_fill(input: Array, dim: int, index: Fixed, value: Operand) -> Choice:
    """A copy with one value in the slices that an index names along an axis.

    Source: `torch.Tensor.index_fill_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_fill_.html>`_.
    """
    shape = input._type.shape
    dim = wrap_dim(dim, len(shape))
    if isinstance(value, Tensor) and value._type.shape:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value._type.shape)} dimension(s)."
        )
    if index._type.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if len(index._type.shape) > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, complex) and not input._type.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if not isinstance(value, Tensor):
        check_number(value, input._type.dtype)
    size = size_along(shape, dim)
    bad = first_outside(index, -size, size)
    if bad is not None:
        raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")
    return _index_fill_tensor if isinstance(value, Tensor) else _index_fill, input, index, value, dim


# -- elements of the flattened tensor --------------------------------------------------------------------------------


@overload("put", "PutBackward0", always_saved=("index", "source"), strides=as_first, overlap=check_all_apart)
def _put(input: Array, index: Fixed, source: Array, accumulate: bool) -> Any:
    if not index.size:
        return input
    flat_indices = (lax.reshape(wrapped(index, input.size), (index.size,)),)
    write = added if accumulate else written
    return lax.reshape(
        write(lax.reshape(input, (input.size,)), flat_indices, lax.reshape(source, (source.size,))), input.shape
    )


@overloaded(inplace=True)
def put(input: Array, index: Fixed, source: Array, accumulate: bool = False) -> Choice:
    """A copy with values written or added to elements of the flattened tensor.

    Source: `torch.Tensor.put_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.put_.html>`_.
    """
    if index._type.dtype is int64:
        if input._type.dtype is not source._type.dtype:
            raise RuntimeError(
                "put_(): self and source expected to have the same dtype, but got self.dtype = "
                f"{input._type.dtype.scalar_name} and source.dtype = {source._type.dtype.scalar_name}"
            )
        if index._type.numel != source._type.numel:
            raise IndexError(
                "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
                f"{source._type.numel}, index.numel() = {index._type.numel}"
            )
    check_flat("put_", input, index)
    return _put, input, index, source, accumulate


# -- masks -----------------------------------------------------------------------------------------------------------


def _masked_filled(input: Any, mask: Any, value: Any) -> Any:
    check_broadcast(input, mask)
    return choose(mask, cast(value, from_numpy(input.dtype)), input)


def _check_masked(tensor: Tensor, others: Sequence[Any]) -> None:
    check_filled(tensor, others[0])


@overload("masked_fill", "MaskedFillBackward0", overloads=BY_OPERAND, always_saved=("mask",), overlap=_check_masked)
def _masked_fill(input: Array, mask: Fixed, value: Number) -> Any:
    return _masked_filled(input, mask, value)


@overload("masked_fill", "MaskedFillBackward1", overloads=BY_OPERAND, always_saved=("mask",), overlap=_check_masked)
def _masked_fill_tensor(input: Array, mask: Fixed, value: Array) -> Any:
    return _masked_filled(input, mask, value)


_MASKED_FILL_SIGNATURES = ("Tensor input, Tensor mask, Tensor value", "Tensor input, Tensor mask, Number value")


@overloaded(inplace=True, signatures=_MASKED_FILL_SIGNATURES)
def masked_fill(input: Array, mask: Fixed, value: Operand = None) -> Choice:
    """A copy with one value where a mask is true.

    >>> import fgrad.torch as torch
    >>> torch.tensor([1., 2.]).masked_fill(torch.tensor([True, False]), float("-inf"))
    tensor([-inf, 2.])

    Source: `torch.Tensor.masked_fill_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill_.html>`_.
    """
    if value is None:
        raise TypeError(no_match("masked_fill", type_name(mask), of_method(_MASKED_FILL_SIGNATURES)))
    if isinstance(value, Tensor) and value._type.shape:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value._type.shape)} dimension(s)."
        )
    if mask._type.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {cpp_name(mask._type.dtype.numpy)}"
        )
    if isinstance(value, Tensor):
        if value._type.dtype is not input._type.dtype and not is_abstract(value._value()):
            check_number(concrete(value._value()).item(), input._type.dtype)
        return _masked_fill_tensor, input, mask, value
    check_number(value, input._type.dtype)
    return _masked_fill, input, mask, value
