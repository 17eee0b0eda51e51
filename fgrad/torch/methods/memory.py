"""Methods about a tensor's memory: sizes, strides, storages, ``resize_``, ``set_``, copies and pickles."""

import copy
from collections.abc import Sequence
from typing import Any

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import overrides
from fgrad.mutable.layout.geometry import Geometry, contiguous_strides, is_dense
from fgrad.mutable.operation.capture import note_position
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.attributes import slots_of, state_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.exported import address_of
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_edge, is_tracked, new_tensor, of_class
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.types import formats
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.capacity import check_strides, number_of_elements, storage_size
from fgrad.mutable.values.device_of_value import CPU, Absent, elsewhere, place_of, placed
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.mutable.write.copying import resize
from fgrad.mutable.write.inplace import check_captured, check_inference, check_inplace, rebase
from fgrad.torch.methods.autograd import attribute, method
from fgrad.torch.ops.creation.copying import channels_last
from fgrad.torch.ops.table.dispatch import METHOD_IN_PYTHON, UNLISTED, Dispatch, as_method
from fgrad.torch.ops.table.signature import check_unexpected, checked_int, spread_ints
from fgrad.torch.ops.views.views import check_sizes, wrap_dim
from fgrad.torch.shared_memory import share
from fgrad.torch.storage import TypedStorage, UntypedStorage, former_class, warn_of_types


@attribute
def shape(self: Tensor) -> Size:
    return Size(self._type.shape)


@attribute
def dtype(self: Tensor) -> Any:
    return self._type.dtype


@attribute
def device(self: Tensor) -> Any:
    return place_of(self._storage.array) if elsewhere.exist else CPU


@attribute
def is_cpu(self: Tensor) -> bool:
    return self.device.type == "cpu"


@attribute
def is_cuda(self: Tensor) -> bool:
    return self.device.type == "cuda"


@attribute
def is_meta(self: Tensor) -> bool:
    return self.device.type == "meta"


@attribute
def ndim(self: Tensor) -> int:
    return len(self._type.shape)


@method
@as_method(Dispatch(called="dim"))
def ndimension(self: Tensor) -> int:
    """How many axes it has."""
    return len(self._type.shape)


@method
def dim(self: Tensor) -> int:
    """How many axes it has."""
    return len(self._type.shape)


@method
def size(self: Tensor, dim: int | None = None) -> Any:
    """Its sizes, or the size of one axis."""
    sizes = self._type.shape
    return Size(sizes) if dim is None else sizes[wrap_dim(checked_int(dim, "size", "dim", 1, False), len(sizes), False)]


@method
def numel(self: Tensor) -> int:
    """How many elements it has."""
    return self._type.numel


@method
@as_method(Dispatch(called="numel"))
def nelement(self: Tensor) -> int:
    """How many elements it has."""
    return self._type.numel


@method
@as_method(UNLISTED)
def stride(self: Tensor, dim: int | None = None) -> Any:
    """Its strides in elements, or the stride of one axis."""
    strides = self._geometry_of().strides
    return (
        strides if dim is None else strides[wrap_dim(checked_int(dim, "stride", "dim", 1, False), len(strides), False)]
    )


@method
def storage_offset(self: Tensor) -> int:
    """The position of its first element in the storage."""
    note_position()
    return self._geometry_of().offset


@method
def element_size(self: Tensor) -> int:
    """Bytes of an element."""
    return self._type.dtype.itemsize


@attribute
def itemsize(self: Tensor) -> int:
    return self._type.dtype.itemsize


@attribute
def nbytes(self: Tensor) -> int:
    return self._type.numel * self._type.dtype.itemsize


@method
def data_ptr(self: Tensor) -> int:
    """The address of its first element, where its bytes may be read; 0 if it has no elements.

    From then on each write to the storage is copied there (NOTE [Exported memory]).  Writes to the address do not
    reach the tensor.

    Raises:
      RuntimeError: the tensor belongs to a transformation of ``torch.func`` that is not over.

    Source: `torch.Tensor.data_ptr <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.data_ptr.html>`_.
    """
    note_position()
    storage = self._storage
    if (self._level and modes.transforms) or storage.array.__class__ is Batched:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
    if not self._type.numel or storage.array.__class__ is Absent:
        return 0
    return address_of(storage) + self._geometry_of().offset * self._type.dtype.itemsize


@attribute
def _cdata(self: Tensor) -> int:
    return id(self)


@method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether its elements are contiguous in memory, in row-major order or that of ``memory_format``."""
    geometry = self._geometry_of()
    name = formats.format_name(memory_format)
    if name in ("channels_last", "channels_last_3d"):
        if len(geometry.sizes) != (4 if name == "channels_last" else 5):
            return False
        expected = channels_last(geometry.sizes, name)
        return all(a == b or n == 1 for a, b, n in zip(geometry.strides, expected, geometry.sizes, strict=True))
    return geometry.contiguous


@method
def is_floating_point(self: Tensor) -> bool:
    return self._type.dtype.is_floating_point


@method
def is_complex(self: Tensor) -> bool:
    return self._type.dtype.is_complex


@method
def is_signed(self: Tensor) -> bool:
    return self._type.dtype.is_signed


@method
def is_conj(self: Tensor) -> bool:
    return self._geometry_of().conj


@method
def is_neg(self: Tensor) -> bool:
    return self._geometry_of().neg


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The storage; two tensors share memory when theirs are equal."""
    note_position()
    return UntypedStorage(self._storage)


@method
@as_method(METHOD_IN_PYTHON)
def storage(self: Tensor) -> TypedStorage:
    """The storage as numbers of the tensor's type; deprecated, as in PyTorch."""
    note_position()
    return TypedStorage(wrap_storage=UntypedStorage(self._storage), dtype=self._type.dtype)


@method
@as_method(METHOD_IN_PYTHON)
def storage_type(self: Tensor) -> Any:
    """PyTorch's former class of typed storages."""
    warn_of_types()
    return former_class(self._type.dtype)


@method
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None, **named: Any) -> Tensor:
    """Give the tensor another size on the same storage, which grows if need be (new elements are zero).

    Raises:
      RuntimeError: the tensor requires grad, or the memory format does not go with the sizes.
    """
    check_captured(self, "resize")
    check_inference(self)
    if is_tracked(self) and not self._inference:
        raise RuntimeError("cannot resize variables that require grad")
    if "size" in named:
        sizes = (named.pop("size"),)
    check_unexpected("resize_", named)
    if not sizes:
        raise TypeError('resize_() missing 1 required positional arguments: "size"')
    new_sizes = spread_ints(sizes, "resize_", "size", 1)
    check_sizes(new_sizes)
    number_of_elements(new_sizes)
    check_strides(new_sizes)
    strides = contiguous_strides(new_sizes)
    if memory_format is not None:
        if memory_format.name == "preserve_format":
            raise RuntimeError("Unsupported memory formatPreserve")
        if memory_format.name != "contiguous_format":
            strides = channels_last(new_sizes, memory_format.name)
    if new_sizes == self._type.shape and (memory_format is None or strides == self._geometry_of().strides):
        return self
    resize(self, new_sizes, strides)
    self._bump("resize_", here(2))
    return self


#: the C++ names of types where they differ from PyTorch's
_IN_CPP = {
    "Half": "c10::Half",
    "BFloat16": "c10::BFloat16",
    "Char": "signed char",
    "Byte": "unsigned char",
    "Short": "short int",
    "Long": "long int",
    "UInt16": "short unsigned int",
    "UInt32": "unsigned int",
    "UInt64": "long unsigned int",
    "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
}


class SetNode(Node):
    """The node of a tensor that was given another storage: backward through it is an error."""

    __slots__ = ()

    def name(self) -> str:
        return NOT_IMPLEMENTED

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError("derivative for set_ is not implemented")


SetNode.__name__ = "NotImplemented"


@method
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor a view of another storage, or of another tensor's."""
    check_captured(self, "set")
    if modes.maps and any(x.__class__ is Batched for x in (self._value(), _held_by(source))):
        raise NotImplementedError("set_: inside vmap an example has no storage of its own. Make a new tensor instead.")
    check_inference(self)
    if source is None:
        check_inplace(self, True)
        empty = tensor_type(self._type.dtype, (0,))
        return _looking_at(self, Storage(self._value().reshape(-1)[:0], empty.dtype), empty, None, ())
    if not isinstance(source, Tensor) and not hasattr(source, "_cell"):
        raise TypeError(f"set_(): argument 'source' (position 1) must be Tensor or Storage, not {type_name(source)}")
    other = source if isinstance(source, Tensor) else None
    check_inplace(self, True)
    if other is not None and other._type.dtype is not self._type.dtype:
        source_name, own_name = (
            _IN_CPP.get(x._type.dtype.scalar_name, x._type.dtype.scalar_name.lower()) for x in (other, self)
        )
        raise RuntimeError(f"Could not set tensor of type {source_name} to a tensor of type {own_name}")
    if isinstance(source, TypedStorage) and source.dtype is not self._type.dtype:
        own_name = _IN_CPP.get(self._type.dtype.scalar_name, self._type.dtype.scalar_name.lower())
        raise RuntimeError(
            f"Expected a Storage of type {own_name} or an UntypedStorage, but got type {source.dtype.scalar_name} for "
            "argument 1 'storage'"
        )
    storage = other._storage if other is not None else source._cell
    if size is None:
        count = storage.count * storage.dtype.itemsize // self._type.dtype.itemsize
        geometry = other._geometry_of() if other is not None else Geometry((count,), (1,), 0, self._type.dtype)
    else:
        sizes = tuple(size)
        number_of_elements(sizes)
        strides = contiguous_strides(sizes) if stride is None else tuple(stride)
        if min(strides, default=0) < 0:
            raise RuntimeError(f"set_: Negative strides are not supported at the moment, got strides: {list(strides)}")
        if storage_offset < 0:
            raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
        count = -(-storage_size(sizes, strides, storage_offset, self._type.dtype.itemsize) // storage.dtype.itemsize)
        if count > storage.count:
            storage.resize(count)
        geometry = Geometry(sizes, strides, storage_offset, self._type.dtype)
    others = () if other is None else (other,)
    return _looking_at(self, storage, tensor_type(geometry.dtype, geometry.sizes), geometry, others)


def _held_by(source: Any) -> Any:
    """The array behind a tensor, or a storage."""
    return source._value() if isinstance(source, Tensor) else getattr(getattr(source, "_cell", None), "array", None)


def _looking_at(
    tensor: Tensor, storage: Storage, type: TensorType, geometry: Geometry | None, sources: tuple[Tensor, ...]
) -> Tensor:
    """Give a tensor a storage, type and geometry; in the graph it depends on itself before and on ``sources``."""
    operands = (tensor, *sources)
    recorded = modes.grad and any(map(is_tracked, operands))
    node = SetNode([gradient_edge(x) for x in operands], (type,), here(3)) if recorded else None
    now = object()
    tensor._storage, tensor._type, tensor._geometry = storage, type, geometry
    tensor._cache = tensor._accumulator = None
    changes.fields = now
    tensor._bump("set_", here(3))
    if node is not None:
        rebase(tensor, node)
    return tensor


@method
@as_method(METHOD_IN_PYTHON)
def share_memory_(self: Tensor) -> Tensor:
    """Say that other processes may ask for the memory; a process that does is refused."""
    share(self._storage, type(self))
    return self


@method
@as_method(METHOD_IN_PYTHON)
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    result = memo.get(id(self))
    if result is None:
        if overrides(self) and type(self.new_empty(())) is not type(self):
            raise RuntimeError(_NO_NEW_EMPTY)
        storage = memo.get(id(self._storage))
        if storage is None:
            storage = memo[id(self._storage)] = self._storage.holding(self._storage.array)
        result = alias(self, VersionCounter(), type(self))
        result._storage = storage
        if modes.capturing is not None:
            modes.capturing.note_created(result)  # with its storage
        cut(result)
        result._inference = modes.inference
        geometry = self._geometry_of()
        if not (geometry.conj or geometry.neg or self.is_meta):
            result._bump("set_", here(2))  # PyTorch calls ``set_`` with the copy
        result._requires_grad = self._requires_grad
        memo[id(self)] = result
        if self._grad is not None:
            result._grad = copy.deepcopy(self._grad, memo)
        vars(result).update(copy.deepcopy(dict(vars(self)), memo))
        for name, value in slots_of(self).items():
            setattr(result, name, copy.deepcopy(value, memo))
    return result


_NO_NEW_EMPTY = (
    "The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types that "
    "implement new_empty() and for which that function returns another instance of the same subclass. You should "
    "either properly implement new_empty() for your subclass or override __deepcopy__() if it is intended behavior for "
    "new_empty() to return an instance of a different type."
)


@method
@as_method(METHOD_IN_PYTHON)
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    """How a tensor is pickled: its elements, type and layout, without history."""
    geometry = self._geometry_of()
    device_name = str(place_of(self._storage.array))
    arguments = (type(self), _Memory(self), self._type.dtype, geometry.strides, is_tracked(self), device_name)
    return _rebuilt, arguments, state_of(self) or None


class _Memory:
    """A tensor's memory in ``__reduce_ex__``: ``copy.copy`` shares it, a pickle gets the elements."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def __reduce__(self) -> Any:
        return _elements, (concrete(self.tensor._value()),)


def _elements(values: Any) -> Any:
    return values


def _rebuilt(cls: type, values: Any, dtype: Any, strides: Any, requires_grad: bool, device: str) -> Tensor:
    if isinstance(values, _Memory):
        tensor = alias(values.tensor, VersionCounter())
        tensor._inference = modes.inference
        cut(tensor)
    else:
        tensor_kind = tensor_type(dtype, values.shape)
        value = placed(constant(values), Device(device))
        tensor = new_tensor(value, tensor_kind, strides if is_dense(values.shape, strides) else None)
    if not tensor.is_meta:
        tensor._bump("set_", here(2))
    tensor._requires_grad = requires_grad
    return of_class(tensor, cls)
