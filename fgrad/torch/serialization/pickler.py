"""Writes pickles that PyTorch reads: with PyTorch's names, and tensors as views of storages."""

import pickle
from collections import OrderedDict
from types import FunctionType
from typing import IO, Any, ClassVar

from attrs import frozen

from fgrad.mutable.context.torch_function.wrap import BuiltIn
from fgrad.mutable.tensor.attributes import state_of
from fgrad.mutable.tensor.changes import NotedDict
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.formats import layout, memory_format
from fgrad.mutable.values.device_of_value import place_of
from fgrad.torch import _utils
from fgrad.torch.nn.parameter import Parameter, UninitializedTensorMixin
from fgrad.torch.pickle_names import public_name
from fgrad.torch.serialization.layouts import _get_layout
from fgrad.torch.storage import FORMER, TypedStorage, UntypedStorage, former_class

_FORMER_TYPES = {each.dtype for each in FORMER.values()}


@frozen(eq=False)
class _Memory:
    """A storage as a tensor's pickle mentions it: with the dtype of the tensor."""

    cell: Storage
    dtype: dtypes.dtype


#: the Python version: the C one looks names up in ``torch``, which may be the real one
_WRITTEN_IN_PYTHON: Any = pickle._Pickler  # pyright: ignore[reportAttributeAccessIssue]


class Pickler(_WRITTEN_IN_PYTHON):
    """Writes a pickle to a stream; ``cells`` and ``types`` then are the storages that it mentions, and their dtypes."""

    dispatch: ClassVar[dict[type, Any]] = dict(_WRITTEN_IN_PYTHON.dispatch)

    def __init__(self, stream: IO[bytes], protocol: int, views: bool = False):
        super().__init__(stream, protocol)
        self.cells: list[Storage] = []
        self._numbers: dict[int, int] = {}
        self.types: list[dtypes.dtype] = []
        #: files of the old kind have a field for views of storages
        self._views = views

    def persistent_id(self, obj: Any) -> Any:
        """The persistent id of a storage: its type, number, location and size."""
        if not isinstance(obj, _Memory | UntypedStorage | TypedStorage):
            return None
        cell = obj._cell if isinstance(obj, UntypedStorage | TypedStorage) else obj.cell
        dtype = obj.dtype if obj.dtype in _FORMER_TYPES else dtypes.uint8
        number = self._numbers.setdefault(id(cell), len(self.cells))
        if number == len(self.cells):
            self.cells.append(cell)
            self.types.append(dtype)
        if self.types[number] is not dtype and cell.count:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        count = cell.count * cell.dtype.itemsize // dtype.itemsize
        kind = UntypedStorage if isinstance(obj, UntypedStorage) or dtype is not obj.dtype else former_class(dtype)
        mention = ("storage", kind, str(number), str(place_of(cell.array)), count)
        return (*mention, None) if self._views else mention

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return _tensor(obj)
        if isinstance(obj, dtypes.dtype | memory_format):
            return obj.name
        if isinstance(obj, layout):
            return _get_layout, (str(obj),)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a name; PyTorch's where it has one."""
        names = _name(obj, name)
        if names is None:
            super().save_global(obj, name)
        elif self.proto >= 4:
            self.save(names[0])
            self.save(names[1])
            self.write(pickle.STACK_GLOBAL)
            self.memoize(obj)
        else:
            self.write(pickle.GLOBAL + "\n".join((*names, "")).encode())
            self.memoize(obj)

    dispatch[FunctionType] = dispatch[BuiltIn] = save_global
    dispatch[NotedDict] = dispatch[dict]


def _name(obj: Any, name: str | None) -> tuple[str, str] | None:
    if isinstance(obj, dtypes.dtype | memory_format) or obj in FORMER.values():
        return "torch", name or getattr(obj, "__name__", "")
    if obj is UntypedStorage:
        return "torch.storage", "UntypedStorage"
    return public_name(obj, name or getattr(obj, "__qualname__", None) or getattr(obj, "__name__", ""))


def _tensor(tensor: Any) -> Any:
    """How a tensor is rebuilt: from its elements, dtype and layout, without history."""
    if isinstance(tensor, UninitializedTensorMixin):
        raise pickle.PicklingError(f"torch.save: {tensor!r} has no elements. Way out: call the module once.")
    state = state_of(tensor)
    kind = type(tensor)
    if kind is Parameter:
        parts = (tensor.data, tensor.requires_grad, OrderedDict())
        if not state:
            return _utils._rebuild_parameter, parts
        return _utils._rebuild_parameter_with_state, (*parts, state)
    rebuild, arguments = _parts(tensor)
    if kind is Tensor and not state:
        return rebuild, arguments
    return _utils._rebuild_from_type_v2, (rebuild, kind, arguments, state)


def _parts(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """PyTorch's function that rebuilds a tensor, and its arguments."""
    geometry = tensor._geometry_of()
    requires_grad = is_tracked(tensor)
    shape = tuple(geometry.sizes), tuple(geometry.strides)
    if tensor.is_meta:  # type: ignore[attr-defined]
        return _utils._rebuild_meta_tensor_no_storage, (geometry.dtype, *shape, requires_grad)
    parts = (_Memory(tensor._storage, geometry.dtype), geometry.offset, *shape, requires_grad, OrderedDict())
    signs = {name: True for name in ("conj", "neg") if getattr(geometry, name)}
    if geometry.dtype in _FORMER_TYPES:
        return _utils._rebuild_tensor_v2, (*parts, signs) if signs else parts
    return _utils._rebuild_tensor_v3, (*parts, geometry.dtype, *([signs] if signs else []))
