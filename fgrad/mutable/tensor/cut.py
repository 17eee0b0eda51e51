"""Cuts: what counts as a constant when a functionalized function is differentiated.

NOTE [Cuts]
Differentiating the function that ``functionalize`` returns differentiates its graph of arrays, not the tape.  So
whatever cuts history in PyTorch must be expressed in that graph, too, as ``torch.func.grad`` treats it.

- ``detach()``, ``.data`` and views made in ``no_grad`` share memory with a tensor that keeps its history.  Their
  storage is a ``CutStorage``: the elements of the other, with derivatives of their own, at first none.
- Operations in ``no_grad`` read constants.
- A write in ``no_grad``, or through a tensor that was cut, changes elements and no history: ``grafted`` has the new
  elements and the derivatives of the old.
- ``autograd.grad`` gives constants, unless asked for a graph.  What ``backward`` puts into ``.grad`` is differentiated:
  PyTorch has no say here, since its transformations refuse ``requires_grad_``.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jax import lax

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, alias
from fgrad.mutable.values.batched import unbatched
from fgrad.mutable.values.evaluation import Routine, array_type, recorded
from fgrad.seam import Tracer, custom_jvp


def is_cutting() -> bool:
    """Whether operations now run without history inside a functionalized function."""
    return bool(modes.capture) and not modes.grad and not modes.differentiated


def constant_of(value: Any) -> Any:
    """The same elements without derivatives."""
    return _stopping(tuple(value.shape), value.dtype)((value,))[0] if may_vary(value) else value


def grafted(new: Any, old: Any) -> Any:
    """The elements of one value with the derivatives of another, where their shapes agree."""
    if new is old or not may_vary(old) or new.shape != old.shape or new.dtype != old.dtype:
        return constant_of(new)
    return _grafting(tuple(new.shape), new.dtype)((new, old))[0]


def _shared(name: str) -> Any:
    """An attribute that a cut storage shares with the other."""
    return property(lambda cut: getattr(cut.original, name), lambda cut, value: setattr(cut.original, name, value))


class CutStorage(Storage):
    """The elements of another storage, with derivatives of their own: see NOTE [Cuts]."""

    __slots__ = ("original", "seen", "own")

    def __init__(self, original: Storage):
        self.original: Storage = original
        #: the other's array at the last access, and the same elements with this one's derivatives
        self.seen: Any = original.array
        self.own: Any = constant_of(self.seen)

    @property
    def array(self) -> Any:  # type: ignore[override]
        array = self.original.array
        if array is not self.seen:
            self.seen, self.own = array, grafted(array, self.own)
        return self.own

    @array.setter
    def array(self, value: Any) -> None:
        self.original.array = self.seen = grafted(value, self.original.array)
        self.own = value

    strides: Any = _shared("strides")
    dtype: Any = _shared("dtype")
    home: Any = _shared("home")
    memory: Any = _shared("memory")


def cut(handle: Tensor) -> Tensor:
    """Cut a new handle from the history of the tensor whose memory it shares."""
    if modes.capture and handle._type.inexact:
        handle._storage = CutStorage(handle._storage)
        handle._cache = None
    return handle


def derive(handle: Tensor, value: Any) -> None:
    """Give the elements of a tensor the derivatives of a value, which has the same elements."""
    storage = handle._storage
    handle._storage = own_storage = storage.holding(storage.array)
    handle._write(value)
    handle._storage, handle._cache = storage, None
    if isinstance(storage, CutStorage):
        storage.own = own_storage.array
    else:
        storage.array = own_storage.array


def constants(operands: Sequence[Any]) -> Sequence[Any]:
    """What an unrecorded operation reads of its operands: their current elements."""
    return [_constant(x) if isinstance(x, Tensor) else x for x in operands] if is_cutting() else operands


def _constant(tensor: Tensor) -> Tensor:
    storage = tensor._storage
    if not may_vary(storage.array):
        return tensor
    read = alias(tensor, tensor._counter, type(tensor))
    read._view, read._requires_grad, read._node = tensor._view, tensor._requires_grad, tensor._node
    read._storage = storage.holding(constant_of(storage.array))
    return read


def settled(tensor: Tensor, value: Any) -> Any:
    """The elements of a tensor after a write in the current mode: see NOTE [Cuts]."""
    return without_history(tensor, value) if is_cutting() else value


def without_history(tensor: Tensor, value: Any) -> Any:
    """The elements of a tensor after a write without history, whether or not operations are recorded now."""
    return grafted(value, tensor._value()) if modes.capture else value


def may_vary(value: Any) -> bool:
    """Whether a value can have derivatives: it is traced and not an integer."""
    value = unbatched(value)
    return isinstance(value, Tracer) and value.dtype.kind not in "biu"


@lru_cache(1 << 10)
def _stopping(shape: tuple[int, ...], dtype: Any) -> Routine:
    return Routine(recorded(lambda x: [lax.stop_gradient(x)], [array_type(shape, dtype)]))


@lru_cache(1 << 10)
def _grafting(shape: tuple[int, ...], dtype: Any) -> Routine:
    return Routine(recorded(lambda new, old: [graft(new, old)], [array_type(shape, dtype)] * 2))


@custom_jvp
def graft(new: Any, old: Any) -> Any:
    """One value with the derivative of another."""
    return new


graft.defjvp(lambda primals, tangents: (graft(*primals), tangents[1]))
