"""Copies: ``clone``, ``copy_``, conversions of type and layout, and writing into ``out=``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints, contiguous_strides
from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.overlap import check_repeated, unchecked
from fgrad.mutable.operation.traits import BY_OPERAND, Computing, Writing
from fgrad.mutable.tensor.tensor import Tensor, find_nodes, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types import formats
from fgrad.mutable.types.dtypes import dtype as Dtype, from_numpy
from fgrad.mutable.types.formats import preserve_format
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete, constant, filled
from fgrad.mutable.write.copying import COPY, copied_into, kept_strides, warn_of_imaginary
from fgrad.mutable.write.inplace import apply_inplace, check_inplace
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.numbers import check_number, plain_number
from fgrad.torch.ops.table.overloads import no_match
from fgrad.torch.ops.table.table import NUMBERS, composite

#: lax's own copy is an operation that compilers keep; the identity on immutable values needs none
_CLONE = Operation("clone", lambda array: array, "CloneBackward0", ("self",))
_TO_COPY = Operation("_to_copy", lambda array, dtype: cast(array, dtype), "ToCopyBackward0", ("self",), ("dtype",))


def as_first(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of a result that is a modified copy of its first operand."""
    return kept_strides(operands[0])


def format_strides(tensor: Tensor, memory_format: Any) -> Ints | None:
    """The strides of a copy in a memory format; None is row-major."""
    name = formats.format_name(memory_format)
    if name == "preserve_format":
        return kept_strides(tensor)
    shape = tensor._type.shape
    if name in ("channels_last", "channels_last_3d"):
        return channels_last(shape, name)
    return None


def channels_last(shape: Ints, name: str) -> Ints:
    """The strides of ``channels_last``: the second axis varies fastest."""
    rank = 4 if name == "channels_last" else 5
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    order = [0, *range(2, rank), 1]
    inner = contiguous_strides(tuple([shape[i] for i in order]))
    strides = [0] * rank
    for i, axis in enumerate(order):
        strides[axis] = inner[i]
    return tuple(strides)


def suggested_format(tensor: Tensor) -> Any:
    """The memory format that a tensor is in, as its strides suggest; ``contiguous_format`` if none does.

    Source: PyTorch: c10/core/MemoryFormat.h, is_channels_last_strides_2d
    """
    geometry = tensor._geometry_of()
    candidate = {4: formats.channels_last, 5: formats.channels_last_3d}.get(len(geometry.sizes))
    if candidate is None or 0 in geometry.sizes or not geometry.strides[1]:
        return formats.contiguous_format
    least = 0
    for i in (1, *range(len(geometry.sizes) - 1, 1, -1), 0):
        # equal strides, as with shape (N, 1, 1, 1), are ambiguous
        if geometry.strides[i] < least or (i == 0 and least == geometry.strides[1]):
            return formats.contiguous_format
        least = geometry.strides[i] * geometry.sizes[i]
    return candidate


def laid_out(tensor: Tensor, strides: Ints | None) -> Tensor:
    """A new tensor with these strides; None is row-major."""
    if strides is not None and strides == contiguous_strides(tensor._type.shape):
        strides = None
    if strides != tensor._storage.strides:
        tensor._storage.strides = strides
        for tangent in (tensor._tangents or {}).values():
            laid_out(tangent, strides)
    return tensor


@composite()
def clone(input: Any, *, memory_format: Any = preserve_format) -> Tensor:
    """A copy with a storage of its own.

    Source: `torch.clone <https://docs.pytorch.org/docs/stable/generated/torch.clone.html>`_.
    """
    strides = format_strides(input, memory_format)
    if input._inference:
        return laid_out(_written_new(input, input._type.dtype), strides)
    return laid_out(apply(_CLONE, (input,)), strides)


def _written_new(tensor: Tensor, dtype: Dtype) -> Tensor:
    """A copy of an inference tensor, with a node of ``copy_``.

    Autograd skips inference tensors; all it sees of PyTorch's copy is a write to a new tensor.
    """
    new = new_tensor(filled((), dtype.numpy, 0), tensor_type(dtype, ()))  # all its elements are overwritten
    return apply(COPY, (new, tensor), (tensor._type.shape, dtype))


@composite(function=False)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy."""
    return self if self.is_contiguous(memory_format=memory_format) else clone(self, memory_format=memory_format)


def converted(tensor: Tensor, dtype: Dtype, strides: Ints | None) -> Tensor:
    """A copy with another element type."""
    warn_of_imaginary(tensor._type.dtype, dtype)
    if tensor._inference:
        return laid_out(_written_new(tensor, dtype), strides)
    return laid_out(apply(_TO_COPY, (tensor,), (dtype,)), strides)


@composite(function=False)
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of ``other``, broadcast and converted, into this tensor.

    Source: `torch.Tensor.copy_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.copy_.html>`_.
    """
    if isinstance(other, bool | int | float | complex):
        array = np.asarray(other)
        other = new_tensor(constant(array), tensor_type(from_numpy(array.dtype), ()))
    if not isinstance(other, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type_name(other)}")
    return copied_into(self, other)


def _fill(array: Any, value: Any, *, dtype: Dtype) -> Any:
    return jnp.broadcast_to(cast(value, dtype), array.shape)


def _fill_operation(node: str, fixed: tuple[int, ...]) -> Operation:
    # PyTorch clones a value that shares the tensor's memory
    overlap = unchecked if fixed else check_repeated
    return Operation(
        "fill",
        _fill,
        node,
        ("self", "value"),
        ("dtype",),
        frozenset(fixed),
        computing=Computing(strides=as_first),
        writing=Writing(overlap, BY_OPERAND),
    )


# fill and fill_, by a number and by a tensor, have differently numbered nodes in PyTorch
_FILL = _fill_operation("FillBackward0", (1,)), _fill_operation("FillBackward1", ())
_FILL_INPLACE = _fill_operation("FillBackward2", (1,)), _fill_operation("FillBackward3", ())
_ZERO = Operation("zero", lambda array: lax.full_like(array, 0), "ZeroBackward0", ("self",), writing=Writing(unchecked))


_FILL_SIGNATURES = ("Tensor value", "Number value")


def _number(function: str, value: Any, signatures: Sequence[str], types: str) -> Any:
    """A number to be written, or PyTorch's error for anything else."""
    value = plain_number(value)
    if not isinstance(value, NUMBERS):
        raise TypeError(no_match(function, types, signatures))
    return value


@composite()
def fill_(self: Any, value: Any) -> Tensor:
    """Write one value to every element."""
    if isinstance(value, Tensor):
        check_inplace(self, is_tracked(self) or is_tracked(value))
        find_nodes((self, value))
        if value._type.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(value._type.shape)} dimensions."
            )
        return apply_inplace(_FILL_INPLACE[1], (self, value), (self._type.dtype,))
    value = _number("fill_", value, _FILL_SIGNATURES, type_name(value))
    check_number(value, self._type.dtype)
    return apply_inplace(_FILL_INPLACE[0], (self, value), (self._type.dtype,))


@composite(dispatch=UNLISTED)
def fill(input: Any, value: Any) -> Tensor:
    """A copy of the input filled with one value."""
    if isinstance(value, Tensor):
        return apply(_FILL[1], (input, value), (input._type.dtype,))
    signatures = [f"Tensor input, {overload}" for overload in _FILL_SIGNATURES]
    value = _number("fill", value, signatures, f"Tensor, {type_name(value)}")
    check_number(value, input._type.dtype)
    return apply(_FILL[0], (input, value), (input._type.dtype,))


@composite()
def zero_(self: Any) -> Tensor:
    """Write zeros."""
    return apply_inplace(_ZERO, (self,))


def elements(tensor: Tensor) -> Any:
    """The elements as a NumPy array."""
    return concrete(tensor._value())
