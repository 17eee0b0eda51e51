"""Searching for values among others: ``searchsorted``, ``bucketize``, ``isin``, and compressed row indices."""

from typing import Any

import jax
from jax import lax, numpy as jnp

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, int64
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.creation.ranges import arange
from fgrad.torch.ops.indexing.coordinates import first_outside
from fgrad.torch.ops.table.broadcasting import choose, common
from fgrad.torch.ops.table.kinds import check_kinds, is_integer
from fgrad.torch.ops.table.outputs import EXACT, SEARCHED
from fgrad.torch.ops.table.overloads import Choice, no_match, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed, Operand, composite
from fgrad.torch.ops.views.joining import stack
from fgrad.torch.random.scalars import not_implemented


@overload("searchsorted", None, promote=common)
def _searchsorted(
    sorted_sequence: Array,
    input: Operand,
    sorter: Fixed = None,  # type: ignore[assignment]
    side: str = "left",
    out_int32: bool = False,
    batched: bool = False,
) -> Any:
    check_kinds("searchsorted_out_cpu", "if", sorted_sequence)
    dtype = jnp.int32 if out_int32 else jnp.int64
    if sorter is not None:
        sorted_sequence = jnp.take_along_axis(sorted_sequence, sorter, -1)
    if not input.size or not sorted_sequence.size:
        return lax.full(input.shape, 0, dtype)

    def search(bounds: Any, values: Any) -> Any:
        start = lax.full(values.shape, 0, jnp.int64)
        end = lax.full_like(start, len(bounds))
        # the same steps as PyTorch's: with NaN among the bounds, each binary search ends elsewhere
        for _ in range(len(bounds).bit_length()):
            middle = start + (end - start) // 2
            bound = jnp.take(bounds, middle, mode="clip")
            behind = (start < end) & ~(bound > values if side == "right" else bound >= values)
            start, end = choose(behind, middle + 1, start), choose(behind, end, middle)
        return start

    if batched:
        rows = lax.reshape(sorted_sequence, _rows(sorted_sequence))
        positions = jax.vmap(search)(rows, lax.reshape(input, _rows(input)))
    else:
        positions = search(sorted_sequence, input)
    return lax.reshape(lax.convert_element_type(positions, dtype), input.shape)


def _rows(array: Any) -> tuple[int, int]:
    return array.size // array.shape[-1], array.shape[-1]


@overloaded(method=False, out=SEARCHED)
def searchsorted(
    sorted_sequence: Array,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Fixed = None,
) -> Choice:
    """The positions at which values would be inserted into sorted ones to keep them sorted.

    Among equal elements this is before the first one, or after the last with ``right`` or ``side="right"``.

    >>> import fgrad.torch as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])

    Source: `torch.searchsorted <https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html>`_.
    """
    bounds = sorted_sequence._type
    shape = input._type.shape if isinstance(input, Tensor) else ()
    who = "torch.searchsorted(): "
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"{who}side can only be 'left' or 'right' but got {side}")
        if right and side == "left":
            raise RuntimeError(f"{who}side and right can't be set to opposites, got side of left while right was True")
    if not bounds.shape:
        raise RuntimeError(f"{who}boundaries tensor should have positive dimension, but got 0 dimension")
    if sorter is not None:
        if sorter._type.shape != bounds.shape:
            raise RuntimeError(
                f"{who}boundary and sorter must have the same size, but got boundary tensor {list(bounds.shape)}and "
                f"got sorter tensor {list(sorter._type.shape)}"
            )
        if sorter._type.dtype is not int64:
            raise RuntimeError(
                f"{who}sorter must be a tensor of long dtype but got dtype {sorter._type.dtype.scalar_name}"
            )
        if first_outside(sorter, 0, bounds.shape[-1]) is not None:
            raise RuntimeError(f"{who}sorter index out of range")
    if len(bounds.shape) > 1:
        if not shape:
            raise RuntimeError(
                f"{who}input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
                f"tensor dim({len(bounds.shape)}) and input value's dim(0) numel(1)"
            )
        if len(shape) != len(bounds.shape) or shape[:-1] != bounds.shape[:-1]:
            raise RuntimeError(
                f"{who}boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
                f"input value tensor must match, but we got boundaries tensor {list(bounds.shape)} and input value "
                f"tensor {list(shape)}"
            )
    side = "right" if right else side or "left"
    return _searchsorted, sorted_sequence, input, sorter, side, out_int32, len(bounds.shape) > 1


@overloaded(method=False, out=SEARCHED)
def bucketize(input: Operand, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Choice:
    """The number of the interval between boundaries that holds each element.

    >>> import fgrad.torch as torch
    >>> torch.bucketize(torch.tensor([3, 6, 9]), torch.tensor([1, 3, 5, 7, 9]))
    tensor([1, 3, 4])

    Source: `torch.bucketize <https://docs.pytorch.org/docs/stable/generated/torch.bucketize.html>`_.
    """
    if len(boundaries._type.shape) != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({len(boundaries._type.shape)})")
    return _searchsorted, boundaries, input, None, "right" if right else "left", out_int32, False


@overload("isin", None, promote=common)
def _isin(elements: Operand, test_elements: Operand, invert: bool) -> Any:
    if not test_elements.size:
        return lax.full(elements.shape, invert, bool)
    return jnp.isin(elements, test_elements, invert=invert)


_ISIN_SIGNATURES = (
    "Tensor elements, Tensor test_elements, *, bool assume_unique = False, bool invert = False, Tensor out = None",
    "Number element, Tensor test_elements, *, bool assume_unique = False, bool invert = False, Tensor out = None",
    "Tensor elements, Number test_element, *, bool assume_unique = False, bool invert = False, Tensor out = None",
)


@overloaded(method=False, signatures=_ISIN_SIGNATURES, out=EXACT)
def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Choice:
    """Whether each element is among others.

    >>> import fgrad.torch as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 5]))
    tensor([False,  True, False])

    Source: `torch.isin <https://docs.pytorch.org/docs/stable/generated/torch.isin.html>`_.
    """
    operands = (elements, test_elements)
    if not any(isinstance(x, Tensor) for x in operands):
        raise TypeError(no_match("isin", ", ".join(map(type_name, operands)), _ISIN_SIGNATURES))
    if any(isinstance(x, Tensor) and (x._type.dtype is bool_ or x._type.dtype.is_complex) for x in operands):
        bad = next(x for x in operands if isinstance(x, Tensor) and not x._type.dtype.is_floating_point)
        raise RuntimeError(f"Unsupported input type encountered for isin(): {bad._type.dtype.scalar_name}")
    return _isin, elements, test_elements, invert


@composite(method=False)
def _convert_indices_from_coo_to_csr(input: Array, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each row begins, and the last one ends, among entries sorted by their rows.

    >>> import fgrad.torch as torch
    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])

    Raises:
      RuntimeError: the rows are not a vector.
      NotImplementedError: they are not integers.
    """
    _check_indices("convert_indices_from_coo_to_csr_cpu", input)
    return searchsorted(input, arange(size + 1, device=input.device), out_int32=out_int32)


@composite(method=False)
def _convert_indices_from_csr_to_coo(
    crow_indices: Array, col_indices: Array, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The rows and columns of entries, from where each row begins and from their columns.

    >>> import fgrad.torch as torch
    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 4, 0]))
    tensor([[0, 0, 2],
            [1, 4, 0]])

    Raises:
      RuntimeError: the beginnings of the rows are not a vector.
      NotImplementedError: they are not integers.
    """
    _check_indices("convert_indices_from_csr_to_coo_cpu", crow_indices)
    positions = arange(col_indices.numel(), device=col_indices.device)
    rows = searchsorted(crow_indices, positions, out_int32=out_int32, right=True) - 1
    pair = (rows, col_indices.to(rows.dtype))
    return stack(pair[::-1] if transpose else pair)


def _check_indices(kernel: str, indices: Any) -> None:
    if indices.dim() != 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {indices.dim()} dimensional tensor.")
    if not is_integer(indices) or indices.dtype is bool_:
        raise not_implemented(kernel, indices.dtype.numpy)
