"""Exchange of memory with other libraries: buffers, and arrays by DLPack.

Writable memory is shared: each side sees what the other writes (NOTE [Exported memory] in
``mutable/tensor/exported.py``).  Read-only memory, such as that of JAX arrays, is copied.
"""

from typing import Any

import jax
import numpy as np
from attrs import evolve, frozen

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.exported import window
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch.ops.creation.data import as_tensor, sharing_memory
from fgrad.torch.ops.creation.making import requiring_grad, wants_grad
from fgrad.torch.ops.families import put_method
from fgrad.torch.ops.table.dispatch import CLOSED, FACTORY, METHOD_IN_PYTHON, as_method
from fgrad.torch.ops.table.table import composite

_CPU = 1

_UNSPECIFIED = (
    "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
    "requires_grad=False explicitly to get the old behavior and silence this warning."
)


@composite(method=False, dispatch=FACTORY)
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None, requires_grad: bool | None = None
) -> Tensor:
    """A tensor of what has elements in memory (tensors, arrays, buffers), or of nested lists and numbers.

    ``copy`` says whether the memory is copied (True), shared (False), or copied if it has to be (None).

    >>> import numpy as np, fgrad.torch as torch
    >>> array = np.zeros(2)
    >>> torch.asarray(array).fill_(1), torch.asarray(array, copy=True).fill_(2), array
    (tensor([1., 1.], dtype=torch.float64), tensor([2., 2.], dtype=torch.float64), array([1., 1.]))

    Source: `torch.asarray <https://docs.pytorch.org/docs/stable/generated/torch.asarray.html>`_.
    """
    held = _held(obj, dtype)
    if held is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        result = as_tensor(obj, dtype, device)
    else:
        result = held.to(device, dtype)
        if copy is False and isinstance(obj, np.generic):
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
        if copy is False and result is not held:
            raise ValueError(
                f"can't alias tensor with dtype '{held._type.dtype.scalar_name}' into dtype "
                f"'{result._type.dtype.scalar_name}'."
            )
        if copy and result is held:
            result = result.clone()
    requires = wants_grad(requires_grad, "asarray")
    if requires_grad is None:
        if isinstance(obj, Tensor) and is_tracked(obj):
            warn(_UNSPECIFIED, UserWarning)
        return result
    if is_tracked(result) and not requires and not result.is_leaf:
        return result.detach()
    return result.requires_grad_(requires) if requires or is_tracked(result) else result


def _held(obj: Any, dtype: Any) -> Tensor | None:
    """A tensor over the memory of an object, or None if its elements are Python's."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, jax.Array | np.ndarray | np.generic):
        return as_tensor(obj)
    if hasattr(obj, "__dlpack__") or type_name(obj) == "PyCapsule":
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=get_default_dtype() if dtype is None else dtype)


@composite(method=False, dispatch=FACTORY)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector of the elements in a buffer's bytes.

    >>> import fgrad.torch as torch
    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)

    Source: `torch.frombuffer <https://docs.pytorch.org/docs/stable/generated/torch.frombuffer.html>`_.
    """
    element_type = dtypes.argument(dtype, "frombuffer")
    try:
        data = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, itemsize = len(data), element_type.itemsize
    if not size or not count:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count > 0 and count * itemsize > size - offset:
        raise ValueError(
            f"requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({size} bytes)"
        )
    if count < 0 and (size - offset) % itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({itemsize})"
        )
    # a memoryview does not tell who else holds the memory
    witness = data.obj if isinstance(buffer, memoryview) else None
    tensor = sharing_memory(np.frombuffer(buffer, element_type.numpy, count, offset), witness)
    return requiring_grad(tensor) if requires_grad else tensor


@composite(method=False, dispatch=CLOSED)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor from an array of another library or a DLPack capsule; a tensor's own elements are not copied.

    Raises:
      BufferError: a tensor requires grad or is conjugated.
      ValueError: a tensor has no elements to share.
      RuntimeError: it is neither an array nor a capsule, or the capsule has been used.

    >>> import numpy as np, fgrad.torch as torch
    >>> torch.from_dlpack(np.arange(3))
    tensor([0, 1, 2])

    Source: `torch.from_dlpack <https://docs.pytorch.org/docs/stable/dlpack.html>`_.
    """
    if isinstance(ext_tensor, Tensor):
        _dlpack_device(ext_tensor)
        _check_exported(ext_tensor)
        return ext_tensor.detach() if not copy else ext_tensor.detach().clone()
    if not isinstance(ext_tensor, np.ndarray):
        ext_tensor = np.from_dlpack(ext_tensor) if hasattr(ext_tensor, "__dlpack__") else _of_capsule(ext_tensor)
    return sharing_memory(np.array(ext_tensor) if copy else ext_tensor)


def _of_capsule(capsule: Any) -> np.ndarray:
    """The array in a capsule.

    A capsule of the first version cannot say whether its memory may be written.  NumPy then assumes that it may not,
    and PyTorch that it may.
    """
    try:
        array = np.from_dlpack(_Capsule(capsule))
    except ValueError as error:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so "
            "you might have already constructed a tensor from it once."
        ) from error
    return array if "versioned" in repr(capsule) else np.asarray(_Writable(array))


@frozen
class _Writable:
    """The memory of an array, which may be written though the array does not say so."""

    array: np.ndarray

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        return {**interface, "data": (interface["data"][0], False)}


@frozen
class _Capsule:
    """A capsule, usable once, as the array that it was made of."""

    capsule: Any

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


@composite(method=False, dispatch=CLOSED)
def to_dlpack(tensor: Any) -> Any:
    """The elements of a tensor, without its history, as a DLPack capsule for other libraries' ``from_dlpack``.

    >>> import fgrad.torch as torch
    >>> torch.from_dlpack(torch.to_dlpack(torch.tensor([1., 2.])))
    tensor([1., 2.])

    Source: `torch.utils.dlpack <https://docs.pytorch.org/docs/2.13/dlpack.html>`_.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_to_dlpack(): argument 'data' (position 1) must be Tensor, not {type_name(tensor)}")
    return _dlpack(tensor.detach().resolve_conj())


@as_method(evolve(METHOD_IN_PYTHON, like=lambda self, *, stream=-1, max_version=None, dl_device=None, copy=None: None))
def _dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """The elements as a DLPack capsule; memory is shared.

    Raises:
      BufferError: the tensor requires grad or is conjugated.
    """
    _check_exported(self)
    if stream not in (None, -1):
        if not isinstance(stream, int):
            raise TypeError("stream must be ``int`` or ``none``")
        raise AssertionError("stream should be None on cpu.")
    geometry, value = self._geometry_of(), self._value()
    shared = not (geometry.neg or is_abstract(value) or not value.size or self.device.type != "cpu" or copy)
    array = window(self._storage, geometry) if shared else np.array(concrete(value))
    return array.__dlpack__(max_version=max_version)


def _check_exported(tensor: Tensor) -> None:
    if is_tracked(tensor):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor._geometry_of().conj:
        raise BufferError("Can't export tensors with the conjugate bit set")


@as_method(METHOD_IN_PYTHON)
def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """The device of the exported elements: the CPU."""
    if self.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    return _CPU, 0


put_method("__dlpack__", _dlpack)
put_method("__dlpack_device__", _dlpack_device)
