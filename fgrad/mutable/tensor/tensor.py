"""The tensor: a thin handle on a storage, with its autograd metadata.

NOTE [The handle]
A tensor has a storage and, unless it covers the storage as it was made, a geometry; a version counter; and its role in
the backward graph: a leaf (``_requires_grad``) or an output of a node (``_node``, ``_output_nr``).  Rare fields are
class attributes until they are set on an instance, so making a tensor writes few fields.  Operations are methods,
too; ``fgrad.torch.ops`` adds them here from its table.

Longer than most files: a tensor and the node of a leaf refer to each other.
"""

import enum
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from attrs import define

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.context.torch_function.protocol import HANDLER, disabled_torch_function_impl, plain, watch
from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.layout.reading import Reading, reading
from fgrad.mutable.ports import RENEW
from fgrad.mutable.tensor.attributes import HasFields, UserAttributes, fields_of
from fgrad.mutable.tensor.in_memory import Filling, Scatter, Scattering, elements, is_replaceable, window
from fgrad.mutable.tensor.node import LAST, Edge, Node
from fgrad.mutable.tensor.origin import Origin
from fgrad.mutable.tensor.storage import DeferredStorage, Storage, VersionCounter, deferred_value, held_value, may_wait
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.deferral import Deferred
from fgrad.mutable.values.device_of_value import elsewhere, place_of, placed
from fgrad.seam import RawSource, in_memory

#: how many views of views are remembered, so that an endless loop does not grow a chain
DEEPEST_VIEW = 64


class OwnTangent(enum.Enum):
    """As ``ViewOf.dual``: the view is itself a dual tensor; to name it there would be a reference cycle."""

    ITSELF = 0


@define(eq=False)
class ViewOf:
    """The view metadata of a tensor: its base, why it may or may not be written, and when its ``grad_fn`` was made."""

    base: "Tensor"
    #: "default", "multi_output", "no_grad", "inference" or "custom": see NOTE [Views that may not be written]
    creation: str
    #: the version at which ``_node`` was valid; after a later write it is renewed
    version: int
    #: the operation and the user's line that made the view
    operation: str = ""
    source: RawSource | None = None
    #: the tensor whose tangent this one's is a view of, if not the base: a dual tensor is a view with its own tangent
    dual: "Tensor | OwnTangent | None" = None
    #: which elements of the base's memory it shows
    geometry: Geometry | None = None
    #: the view that it is a view of, and how many of those are known before it
    parent: "ViewOf | None" = None
    depth: int = 0


class Undoable(Protocol):
    """What is told how to undo a write of elements."""

    undo: Callable[[], None] | None


def _restore(storage: Storage, array: Any) -> None:
    """Give a storage the array back that it had, or its placeholder."""
    if array.__class__ is Deferred:
        may_wait(storage)
    storage.array = array


class _Gradient:
    """The ``_grad`` of a tensor that has none set: None, unless one is pending (NOTE [Owned tensors])."""

    def __get__(self, tensor: Any, cls: Any = None) -> Any:
        if tensor is None:
            return None
        owner = tensor._owner
        return fields_of(tensor).get("_grad") if owner is None else owner.gradient(tensor)


class _TensorMeta(type):
    """The class of tensors' classes: in each, ``__dict__`` is ``Tensor``'s, also where another base comes first."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **named: Any) -> Any:
        shown = [base.__dict__["__dict__"] for base in bases if isinstance(base, _TensorMeta)]
        return super().__new__(cls, name, bases, {"__dict__": shown[0], **namespace} if shown else namespace, **named)


class Tensor(HasFields, metaclass=_TensorMeta):
    """An array with PyTorch's semantics: it can be written, viewed, and differentiated.

    Source: `torch.Tensor <https://docs.pytorch.org/docs/stable/tensors.html>`_.
    """

    _storage: Storage
    _type: TensorType
    _counter: VersionCounter
    #: None if the tensor covers its storage as it was made
    _geometry: Geometry | None = None
    _requires_grad: bool = False
    _node: Node | None = None
    _output_nr: int = 0
    _grad: "Tensor | None" = cast(Any, _Gradient())
    #: the element type of its gradient, as a leaf: ... if it is the tensor's own, None if it may be any
    _grad_dtype: "Dtype | EllipsisType | None" = ...
    _view: ViewOf | None = None
    _inference: bool = False
    #: whether it is a wrapped number, which saved-tensor hooks do not see
    _wrapped_number: bool = False
    #: (the storage's array, the view's elements read from it)
    _cache: tuple[Any, Any] | None = None
    _retains_grad: bool = False
    #: tensor hooks by handle; for a non-leaf, the node holds the same dict
    _tensor_hooks: "OrderedDict[int, Any] | None" = None
    _post_accumulate_grad_hooks: "OrderedDict[int, Any] | None" = None
    #: a weak reference to the node that accumulates its gradient
    _accumulator: "Callable[[], Node | None] | None" = None
    #: the tangents at the open levels of forward mode
    _tangents: "weakref.WeakKeyDictionary[Any, Tensor] | None" = None
    #: the level of ``torch.func.vmap`` that it was made in; see NOTE [Levels]
    _level: int = 0
    #: its origin, if it could have had a history and has none (NOTE [Origins])
    _origin: Origin | None = None
    #: the owner of its gradient, if that may be pending
    _owner: Any = None
    #: the user's name for it, if known (a parameter's path in its module)
    _label: str | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

        # type checkers look operators up on the class only
        __getitem__: Any
        __setitem__: Any
        __iter__: Any
        __len__: Any
        __bool__: Any
        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __matmul__: Any
        __pow__: Any
        __neg__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __and__: Any
        __or__: Any
        __invert__: Any

    # -- values ------------------------------------------------------------------------------------------------------

    def _value(self) -> Any:
        """The array of the current elements."""
        storage = self._storage
        geometry = self._geometry
        if geometry is None:
            if storage.home is None:
                return storage.array
            geometry = storage.home
        cache = self._cache
        array = storage.array
        if cache is not None and cache[0] is array:
            return cache[1]
        value = elements(array, storage.strides, storage.dtype, geometry)
        if value is None:
            value = storage.read(geometry)
            self._cache = (array, value)
        return value

    def _waiting(self) -> Any:
        """The same, or what waits in its place; for ``defer``, and for what makes a tensor of it."""
        storage, geometry = self._storage, self._geometry
        if storage.__class__ is DeferredStorage:
            value = storage.waiting  # type: ignore[attr-defined]
            return value if geometry is None else deferred_value(storage, geometry, value)
        array = storage.array
        if geometry is None:
            return array if storage.home is None else self._value()
        cache = self._cache
        if cache is not None and cache[0] is array:
            return cache[1]
        value = elements(array, storage.strides, storage.dtype, geometry)
        if value is None:
            value = deferred_value(storage, geometry, array)
            if value.__class__ is not Deferred:
                self._cache = array, value
        return value

    def _write(self, value: Any) -> None:
        """Point the storage to an array with this tensor's elements replaced."""
        geometry = self._geometry or self._storage.home
        if geometry is None:
            self._storage.array = value
        else:
            self._storage.write(geometry, value)
            self._cache = None

    def _overwrite(
        self, value: Any, operation: str, source: Any, writes: int = 1, before: "Undoable | None" = None
    ) -> None:
        """Write these elements and count the write: both, or neither if a signal arrives (NOTE [Signals]).

        ``before`` is told how to put the old elements back.
        """
        storage, counter = self._storage, self._counter
        if value.__class__ is Deferred and not (self._geometry is None and may_wait(storage)):
            value = value.array()
        if (
            storage.__class__ is Storage
            and self._geometry is storage.home is before is None
            and value.__class__ is not Scatter
        ):
            # as below, and what nearly every write needs of it
            array, version = storage.array, counter.value
            try:
                storage.array = value
                self._bump(operation, source, writes)
            except BaseException:
                storage.array, counter.value = array, version
                raise
            return
        change = self._change(value)
        undo = partial(_restore, storage, held_value(storage)) if change is None else change.undo
        if before is not None:
            before.undo = undo
        version = counter.value
        try:
            if change is not None:
                change.make()
            elif self._geometry is None and storage.home is None:
                storage.array = value
            else:
                self._write(value)
            self._bump(operation, source, writes)
        except BaseException:
            undo()
            counter.value = version
            raise

    def _change(self, value: Any) -> Filling | Scattering | None:
        """How to replace its elements in place; None if that takes a program, and for all of a storage."""
        geometry = self._geometry
        if value.__class__ is Scatter:
            return Scattering(window(self._storage, self._type.geometry), value)
        if geometry is None or not in_memory(value) or not self._is_replaceable(geometry):
            return None
        return Filling(window(self._storage, geometry), geometry, value)

    def _is_replaceable(self, geometry: Geometry) -> bool:
        """Whether elements of its memory can be replaced in place: see NOTE [Elements in memory]."""
        storage = self._storage
        if unusual.on and unusual.within():
            return False
        if storage.__class__ is not Storage:
            storage.settle()
            if type(storage).array is not Storage.array:
                return False  # it shows its elements elsewhere, too
        self._cache = None
        return is_replaceable(storage, geometry)

    def _geometry_of(self) -> Geometry:
        """The geometry, even if the tensor covers its storage."""
        geometry = self._geometry or self._storage.home
        if geometry is not None:
            return geometry
        strides, type = self._storage.strides, self._type
        return type.geometry if strides is None else Geometry(type.shape, strides, 0, type.dtype)

    def _bump(self, operation: str, source: Any, writes: int = 1) -> None:
        """Count writes, unless the tensor was made in inference mode and has no counter."""
        if not self._inference:
            through = "" if self._view is None else "a view"
            self._counter.bump(operation, source, through, writes)

    # -- autograd ----------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through it."""
        return is_tracked(self)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return not is_tracked(self) or gradient_function(self) is None

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it; renewed for a view that was written since (NOTE [Lazy grad_fn of views])."""
        return gradient_function(self)

    @property
    def output_nr(self) -> int:
        return self._output_nr

    @property
    def retains_grad(self) -> bool:
        """Whether it is a non-leaf with ``retain_grad``."""
        return self._retains_grad

    def __hash__(self) -> int:
        return id(self)

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
        """The attributes that the user has set, to be read and written."""
        return UserAttributes(fields_of(self), FIELDS)

    @__dict__.setter
    def __dict__(self, attributes: dict[str, Any]) -> None:
        own = UserAttributes(fields_of(self), FIELDS)
        own.clear()
        own.update(attributes)

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if getattr(cls, HANDLER, None) is not disabled_torch_function_impl:
            watch.subclass()


plain.add(Tensor)
#: a tensor's own fields, which its ``__dict__`` does not show
FIELDS = frozenset(Tensor.__annotations__)


#: makes an object whose fields are then set one by one: every operation makes several, so no constructor is called
new: Callable[[type[Any]], Any] = object.__new__


def new_tensor(value: Any, type: TensorType, strides: Ints | None = None) -> Tensor:
    """A tensor with a storage of its own."""
    storage = new(Storage if value.__class__ is not Deferred else DeferredStorage)
    counter, tensor = new(VersionCounter), new(Tensor)
    storage.array, storage.dtype, storage.strides, storage.home, storage.memory = value, type.dtype, strides, None, None
    counter.value, counter.writes = 0, None
    tensor._storage, tensor._type, tensor._counter = storage, type, counter
    # what each operation asks for: a class attribute takes three times as long
    tensor._geometry = tensor._node = tensor._view = tensor._origin = None
    tensor._requires_grad = tensor._inference = False
    if unusual.on:
        if modes.inference:
            tensor._inference = True
        if modes.level:
            tensor._level = modes.level
            if modes.differentiating:
                modes.differentiating[-1].made.append(weakref.ref(tensor))
            if modes.capturing is not None:
                modes.capturing.note_created(tensor)
    return tensor


def to_device_of(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor without history moved to the device of another."""
    if elsewhere.exist:
        where = place_of(held_value(tensor._storage))
        if place_of(held_value(other._storage)) != where:
            return new_tensor(placed(other._storage.array, where), other._type, other._storage.strides)
    return other


def has_own_strides(tensor: Tensor) -> bool:
    """Whether a tensor may not be row-major."""
    return tensor._geometry is not None or tensor._storage.strides is not None or tensor._storage.home is not None


def deferred_read(tensor: Tensor) -> Reading | None:
    """How a program can read a view from its storage's array; None if it is better read beforehand."""
    geometry = tensor._geometry
    if geometry is None:
        return None
    storage, cache = tensor._storage, tensor._cache
    if cache is not None and cache[0] is storage.array:
        return None
    return reading(storage.layout, geometry)


def alias(tensor: Tensor, counter: VersionCounter | None = None, cls: type = Tensor) -> Tensor:
    """Another handle on the same elements, with no history; it shares the version counter unless one is passed."""
    other = new(cls)
    other._storage = tensor._storage
    other._type = tensor._type
    other._counter = tensor._counter if counter is None else counter
    other._geometry = tensor._geometry
    other._node = other._view = other._origin = None
    other._requires_grad, other._inference = False, tensor._inference
    if tensor._level:
        other._level = tensor._level
        if modes.differentiating:
            modes.differentiating[-1].made.append(weakref.ref(other))
        if modes.capturing is not None:
            modes.capturing.note_created(other)
    return other


def of_class(tensor: Tensor, cls: type) -> Tensor:
    """A tensor just made, as an instance of a tensor subclass."""
    other = object.__new__(cls)
    fields_of(other).update(fields_of(tensor))
    if modes.capturing is not None:
        modes.capturing.note_created(other)
    return other


def is_tracked(tensor: Tensor) -> bool:
    """Whether a tensor requires grad; a view does when its base does."""
    if tensor._requires_grad or tensor._node is not None:
        return True
    view = tensor._view
    return view is not None and is_tracked(view.base)


def gradient_function(tensor: Tensor) -> Node | None:
    """The node that made a tensor."""
    view = tensor._view
    if view is not None and not tensor._inference and view.version != tensor._counter.value:
        RENEW.call(tensor)
    return tensor._node


def find_nodes(operands: Iterable[Any]) -> None:
    """Find the nodes that made the operands of an operation, as PyTorch does before it looks at types and shapes.

    Raises:
      RuntimeError: one is a view that may not be written, and it or its base has been; raised before other errors.
    """
    if modes.grad:
        for x in operands:
            if isinstance(x, Tensor) and x._view is not None:
                gradient_function(x)


def gradient_edge(tensor: Tensor) -> Edge | None:
    """Where the gradient of a tensor goes: to the node that made it, or into its ``.grad``."""
    node = tensor._node if tensor._view is None else gradient_function(tensor)
    if node is not None:
        return node, tensor._output_nr
    return (accumulator(tensor), 0) if tensor._requires_grad else None


# -- leaves ----------------------------------------------------------------------------------------------------------


class AccumulateGrad(Node):
    """Adds the gradient of a leaf into its ``.grad``; made by ``accumulator`` alone."""

    __slots__ = ("variable",)

    variable: Tensor

    @property
    def _takes_any_dtype(self) -> bool:
        return self.variable._grad_dtype is None

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"


def gradient_type(leaf: Tensor) -> TensorType:
    """The type of a leaf's gradient."""
    dtype = leaf._grad_dtype
    return tensor_type(dtype, leaf._type.shape) if isinstance(dtype, Dtype) else leaf._type


def accumulator(leaf: Tensor) -> Node:
    """The node that accumulates into a leaf; as in PyTorch it lives as long as a graph refers to it."""
    while True:
        former = leaf._accumulator
        if former is not None and (known := former()) is not None:
            return known
        # as ``Node.__init__`` has it: the first operation on a leaf makes one
        node = new(AccumulateGrad)
        node.next_edges = ()
        node.out_types = (leaf._type if leaf._grad_dtype is ... else gradient_type(leaf),)
        node._source = None
        node._scope = modes.module
        node._sequence = LAST
        node._attached = None
        node.variable = leaf
        if unusual.on:
            node.trace()
        reference = weakref.ref(node)
        # of several threads one wins: CPython lets no other run between these two lines, since they call nothing
        if leaf._accumulator is former:
            leaf._accumulator = reference
            return node


class GradientEdge(NamedTuple):
    """A node and the number of one of its outputs: a target or root of backward that is not a tensor.

    Source: `torch.autograd.graph.GradientEdge
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.graph.GradientEdge.html>`_.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None
