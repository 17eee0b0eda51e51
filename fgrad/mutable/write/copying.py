"""Copying into a tensor: ``copy_`` and ``out=``, which resizes the tensor if necessary."""

from typing import Any

import numpy as np
from attrs import evolve
from jax import numpy as jnp

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn, warn_once
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides, is_dense, mismatch
from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.output_strides import elementwise, ordered
from fgrad.mutable.operation.overlap import check_copied
from fgrad.mutable.operation.traits import Computing, Writing
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.capacity import storage_size
from fgrad.mutable.values.device_of_value import elsewhere
from fgrad.mutable.write.inplace import apply_inplace


def kept_strides(tensor: Tensor) -> Ints | None:
    """The strides of a copy under ``preserve_format``: the same if dense, else in the same order."""
    if tensor._geometry is None and tensor._storage.strides is None and tensor._storage.home is None:
        return None
    g = tensor._geometry_of()
    if is_dense(g.sizes, g.strides):
        return None if g.strides == contiguous_strides(g.sizes) else g.strides
    return ordered(((g.sizes, g.strides),), g.sizes)


def warn_of_imaginary(source: Dtype, dtype: Dtype) -> None:
    """Warn that elements lose their imaginary parts."""
    if source.is_complex and not dtype.is_complex and dtype.numpy != np.bool_:
        warn_once("Casting complex values to real discards the imaginary part", UserWarning)


def _copy(array: Any, source: Any, *, shape: Ints, dtype: Dtype) -> Any:
    if source.shape != shape:
        if len(source.shape) > len(shape) or any(
            n not in (1, m) for n, m in zip(reversed(source.shape), reversed(shape), strict=False)
        ):
            raise broadcast_error(shape, tuple(source.shape))
        source = jnp.broadcast_to(source, shape)
    return cast(source, dtype)


def broadcast_error(shape: Ints, source: Ints) -> RuntimeError:
    """The error for a source that does not broadcast to the written tensor's shape."""
    if (error := mismatch(shape, source)) is not None:
        return error
    broadcast = np.broadcast_shapes(shape, source)
    return RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}")


COPY = Operation(
    "copy",
    _copy,
    "torch::autograd::CopyBackwards",
    ("self", "src"),
    ("shape", "dtype"),
    computing=Computing(strides=elementwise),
    writing=Writing(check_copied),
)


def copied_into(tensor: Tensor, source: Tensor) -> Tensor:
    """Copy another tensor, broadcast and converted, into this one, and return this one."""
    warn_of_imaginary(source._type.dtype, tensor._type.dtype)
    if elsewhere.exist and source.device != tensor.device:
        source = source.to(tensor.device)
    return apply_inplace(COPY, (tensor, source), (tensor._type.shape, tensor._type.dtype))


def warn_if_resized(target: Tensor, shape: Ints) -> None:
    """Warn of an ``out=`` tensor with elements that is not in the shape of the result."""
    if target._type.numel and target._type.shape != shape:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target._type.shape)}, which does not match the required output shape {list(shape)}. This "
            "behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have "
            "zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements "
            "with t.resize_(0).",
        )


def write_out(target: Tensor, result: Tensor) -> None:
    """Write a result to an ``out=`` tensor, which takes on its shape and, if resized, its strides."""
    old = target._type.shape
    shape = result._type.shape
    warn_if_resized(target, shape)
    # a function being differentiated may write to captured tensors this way, as in PyTorch
    derived, modes.derived = modes.derived, 0
    try:
        out = resized(target, shape)
        strides = kept_strides(result)
        if strides is not None and old != out._type.shape:
            assert out._geometry is not None
            out._geometry = evolve(out._geometry, strides=strides)
        copied_into(out, result)
    finally:
        modes.derived = derived


def resized(target: Tensor, shape: Ints) -> Tensor:
    """An ``out=`` tensor, in the shape of the result."""
    if target._type.shape != shape:
        resize(target, shape, contiguous_strides(shape))  # only the write that follows is counted
    return target


def resize(tensor: Tensor, sizes: Ints, strides: Ints) -> None:
    """Give a tensor other sizes on its storage, which grows if necessary."""
    offset, dtype = tensor._geometry_of().offset, tensor._type.dtype
    need = -(-storage_size(sizes, strides, offset, dtype.itemsize) // tensor._storage.dtype.itemsize)
    if need > tensor._storage.count:
        tensor._storage.resize(need)
    geometry, type, now = Geometry(sizes, strides, offset, dtype), tensor_type(dtype, sizes), object()
    tensor._geometry, tensor._type, tensor._cache = geometry, type, None
    changes.fields = now
