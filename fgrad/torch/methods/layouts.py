"""Attributes and methods about layouts that do not exist here: sparse, quantised, shared, pinned, ...

All tensors are dense and strided.  They answer as PyTorch's ordinary CPU tensors do.
"""

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from attrs import evolve

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import memory_order
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import formats
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch import shared_memory
from fgrad.torch.ops.creation import copying
from fgrad.torch.ops.table.dispatch import METHOD_IN_PYTHON, UNLISTED, Dispatch, as_method
from fgrad.torch.ops.table.table import composite
from fgrad.torch.ops.views import views

#: attributes that are always False
_NEVER = (
    "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_mps", "is_xpu", "is_xla", "is_ipu", "is_mtia",
    "is_maia", "is_vulkan", "is_nested",
)  # fmt: skip

#: methods of sparse tensors, with the layout that PyTorch's error says they expect
_OF_SPARSE = {
    "coalesce": "sparse coordinate tensor",
    "is_coalesced": "sparse coordinate tensor",
    "indices": "sparse coordinate tensor",
    "values": "sparse tensor",
    "crow_indices": "sparse row compressed tensor",
    "col_indices": "sparse row compressed tensor",
    "ccol_indices": "sparse column compressed tensor",
    "row_indices": "sparse column compressed tensor",
}


def layout(self: Tensor) -> formats.layout:
    """The memory layout: strided."""
    return formats.layout.strided


@as_method(evolve(METHOD_IN_PYTHON, like=lambda self, **named: None))
def dim_order(self: Tensor) -> tuple[int, ...]:
    """The axes from the slowest- to the fastest-varying in memory.

    >>> import fgrad.torch as torch
    >>> torch.ones(2, 3).t().dim_order()
    (1, 0)

    Source: `torch.Tensor.dim_order <https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.dim_order.html>`_.
    """
    geometry = self._geometry_of()
    return memory_order(geometry.sizes, geometry.strides)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors view the same elements of one storage, in the same order."""
    return self._storage is tensor._storage and self._geometry_of() == tensor._geometry_of()


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is page-locked for copies to a GPU: never."""
    return False


@as_method(METHOD_IN_PYTHON)
def is_shared(self: Tensor) -> bool:
    """Whether ``share_memory_`` was called for the memory."""
    return shared_memory.is_shared(self._storage)


def pin_memory(self: Tensor, device: Any = None) -> NoReturn:
    """Raise PyTorch's error for machines without a GPU.

    Raises:
      RuntimeError: always.
    """
    raise RuntimeError("Cannot access accelerator device when none is available.")


@composite()
def is_distributed(input: Any) -> bool:
    """Whether the elements are spread over processes: never."""
    return False


def dense_dim(self: Tensor) -> int:
    """How many axes are dense: all."""
    return len(self._type.shape)


def sparse_dim(self: Tensor) -> int:
    """How many axes are sparse: none."""
    return 0


def to_dense(self: Tensor, dtype: Dtype | None = None, *, masked_grad: bool = True) -> Tensor:
    """The tensor, in another type if one is given."""
    return self if dtype is None else self.to(dtype)


def dequantize(self: Tensor) -> Tensor:
    """The tensor as 32-bit floating point numbers."""
    return self.float()


def to_sparse(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: there are no sparse tensors.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
        "fgrad.torch has no sparse tensors: keep the tensor dense, or index it where it is not 0."
    )


@as_method(UNLISTED)
def to_sparse_kind(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse, as ``to_sparse`` does."""
    to_sparse(self)


@composite()
def get_device(input: Any) -> int:
    """The index of the tensor's GPU; -1 for the CPU."""
    device = input.device
    return -1 if device.type == "cpu" else device.index or 0


@as_method(METHOD_IN_PYTHON)
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """A copy in another shape with as many elements; deprecated in PyTorch."""
    warn("non-inplace resize is deprecated")
    return _resized(self, sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes)


@as_method(Dispatch(Rule.WRITTEN))
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """``resize`` to the shape of another tensor."""
    warn("non-inplace resize_as is deprecated")
    return _resized(self, tensor._type.shape)


def _resized(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    count, numel = math.prod(sizes), tensor._type.numel
    if count != numel:
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but the given tensor has a "
            f"size of {'x'.join(map(str, tensor._type.shape))} ({numel} elements). autograd's resize can only change "
            "the shape of a given tensor, while preserving the number of elements. "
        )
    return views.reshape(copying.clone(tensor), tuple(sizes))


def _of_sparse(name: str, expected: str) -> Any:
    def method(self: Tensor) -> NoReturn:
        raise RuntimeError(f"{name} expected {expected} layout but got Strided")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Refuse, as PyTorch does for tensors that are not sparse."
    return method


def _false(name: str) -> property:
    return property(lambda self: False, doc=f"``{name}``: never.")


Tensor.layout = property(layout)  # type: ignore[attr-defined]
for _name in _NEVER:
    setattr(Tensor, _name, _false(_name))
for _name, _expected in _OF_SPARSE.items():
    setattr(Tensor, _name, _of_sparse(_name, _expected))
for _method in (
    dim_order, is_set_to, is_pinned, is_shared, pin_memory, dense_dim, sparse_dim, to_dense, to_sparse, dequantize,
    resize, resize_as,
):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
for _kind in ("coo", "csr", "csc", "bsr", "bsc"):
    setattr(Tensor, f"to_sparse_{_kind}", to_sparse_kind)
