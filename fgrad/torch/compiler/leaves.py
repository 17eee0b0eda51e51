"""The state of a pure step: its arrays, where they are in the live objects, and the tree that they make."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.capture.capture import Capture, Cell, Number, Stream
from fgrad.mutable.capture.world import Place, World
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.torch.optim.optimizer import Optimizer

MADE = (
    "torch.pure: {path} is made by the first call, and torch.pure does not know how to put it back. Way out: call the "
    "function once, then make it pure."
)
_NOTHING: Any = object()


@frozen
class Leaf:
    """One array of the state: where it is, and what it belongs to in the live objects.

    Attributes:
      place: its path and keys.
      read: the live value now.
      write: puts another one there.
      is_there: whether there is something in the live objects; else ``read`` says what it would be.
    """

    place: Place
    read: Callable[[], Any]
    write: Callable[[np.ndarray], None]
    is_there: Callable[[], bool] = lambda: True


@frozen
class Begun(Leaf):
    """Whether the first call has been made, of which the others keep what it has made."""

    @classmethod
    def of(cls, unknown: Sequence[Leaf]) -> "Begun":
        place = Place("begun", ("begun",))
        return cls(place, lambda: np.asarray(all(leaf.is_there() for leaf in unknown)), lambda value: None)


def leaf_of(x: Any, first: Capture, world: World) -> Leaf:
    """An input of the second call as a part of the state."""
    if isinstance(x, Stream):
        return Leaf(x.place, x.source.saved, x.source.restore)
    if isinstance(x, Number):
        return Leaf(x.place, lambda: np.asarray(x.holder[x.key]), lambda value: _set_number(x.holder, x.key, value))
    storage = x.storage
    tensor = next(t for t in world.tensors if t._storage is storage)
    entry = _entry_of(tensor, world)
    if entry is not None and isinstance(first_of(entry, first), Tensor):
        container, key = entry
        if container.get(key) is not tensor or storage not in first.cells:  # each call puts another tensor there
            return Leaf(x.place, lambda: container[key]._value(), lambda value: _overwrite(container[key], value))
    if storage in first.cells:
        known = next(t for t in first.world.tensors if t._storage is storage)
        return Leaf(first.cells[storage].place, lambda: storage.array, lambda value: _overwrite(known, value))
    return _made_by_the_first(x, tensor, entry, first, world)


def first_of(entry: tuple[dict[Any, Any], Any] | None, first: Capture) -> Any:
    """What an entry held before the first call."""
    if entry is None:
        return _NOTHING
    container, key = entry
    return first.world.containers.get(id(container), (None, {}))[1].get(key, _NOTHING)


def met_first(x: Cell, first: Capture, world: World) -> Cell | None:
    """What stood in the place of an input of the second call when the first began."""
    if x.storage in first.cells:
        return first.cells[x.storage]
    before = first_of(_entry_of(next(t for t in world.tensors if t._storage is x.storage), world), first)
    return first.cells[before._storage] if isinstance(before, Tensor) else None


def _set_number(holder: Any, key: Any, value: np.ndarray) -> None:
    """Set a number, unless it is the one that stands there, rounded to the type of the state."""
    if np.float32(holder[key]) != np.float32(value):
        holder[key] = float(value)


def _overwrite(tensor: Tensor, value: Any) -> None:
    """Point a tensor's storage to other elements, and count the write."""
    tensor._storage.array = value
    tensor._bump("torch.pure", None)


@frozen
class Unknown(Leaf):
    """A part of the state that the first call makes, while nobody knows what to begin with.

    Attributes:
      forget: takes it out of the live objects.
    """

    forget: Callable[[], Any] = lambda: None


def _made_by_the_first(
    x: Cell, made: Tensor, entry: tuple[dict[Any, Any], Any] | None, first: Capture, world: World
) -> Leaf:
    owner = next((tensor for tensor in world.tensors if tensor._grad is made), None)
    if owner is not None:
        return _gradient_leaf(x.place, owner, made)
    for _, optimizer in world.objects.values():
        if not isinstance(optimizer, Optimizer):
            continue
        for group in optimizer.param_groups:
            for param in group["params"]:
                state = optimizer.state.get(param) or {}
                key = next((key for key, value in state.items() if value is made), None)
                if key is not None:
                    return _state_leaf(x.place, optimizer, group, param, key, made)
    old = first_of(entry, first)
    if entry is not None and old is not _NOTHING:
        return _entry_leaf(x.place, *entry, made, old)
    raise RuntimeError(MADE.format(path=x.place.path))


def _entry_of(tensor: Tensor, world: World) -> tuple[dict[Any, Any], Any] | None:
    """The dict, and the key in it, that held a tensor before a call: an object's attributes, or the user's own."""
    own = {id(vars(x)) for x in world.tensors}
    for number, (container, before) in world.containers.items():
        if isinstance(container, dict) and number not in own:
            key = next((key for key, value in before.items() if value is tensor), None)
            if key is not None:
                return container, key
    return None


def _gradient_leaf(place: Place, owner: Tensor, made: Tensor) -> Leaf:
    zeros, strides = _zeros(made), made._storage.strides

    def write(value: Any) -> None:
        owner._grad = new_tensor(value, type_of(value), strides)
        changes.fields = object()

    def read() -> Any:
        return zeros if owner._grad is None else owner._grad._storage.array

    return Leaf(place, read, write, lambda: owner._grad is not None)


def _state_leaf(place: Place, optimizer: Any, group: Any, param: Tensor, key: str, made: Tensor) -> Leaf:
    """A value of an optimiser's state; the optimiser knows what it would be before the first step, or nobody does."""
    zeros, type = _zeros(made), made._type

    def is_there() -> bool:
        return key in (optimizer.state.get(param) or {})

    def read() -> Any:
        if is_there():
            return optimizer.state[param][key]._value()
        before = _before(optimizer, group, param.detach().clone())
        return before[key]._value() if key in before else zeros

    def write(value: Any) -> None:
        if is_there():
            _overwrite(optimizer.state[param][key], value)
        else:
            optimizer.state[param][key] = new_tensor(value, type)

    if key in _before(optimizer, group, new_tensor(_zeros(param), param._type)):
        return Leaf(place, read, write, is_there)
    return Unknown(place, read, write, is_there, lambda: optimizer.state[param].pop(key))


def _before(optimizer: Any, group: Any, like: Tensor) -> dict[str, Tensor]:
    like._grad = new_tensor(_zeros(like), like._type)
    return optimizer._state_before(group, like)


def _entry_leaf(place: Place, container: dict[Any, Any], key: Any, made: Tensor, old: Any) -> Leaf:
    """An attribute or an entry that the first call sets."""
    zeros, type = _zeros(made), made._type

    def is_there() -> bool:
        return container.get(key) is not old

    def write(value: Any) -> None:
        if is_there():
            _overwrite(container[key], value)
        else:
            container[key] = new_tensor(value, type)
            changes.attributes = object()

    def forget() -> None:
        container[key] = old
        changes.attributes = object()

    return Unknown(place, lambda: container[key]._value() if is_there() else zeros, write, is_there, forget)


def _zeros(made: Tensor) -> np.ndarray:
    return np.zeros(made._storage.array.shape, made._type.dtype.numpy)


# -- the tree --------------------------------------------------------------------------------------------------------


def tree_of(places: Iterable[Place]) -> Any:
    """The places as a tree by their keys, with their numbers for leaves."""
    tree: dict[Any, Any] = {}
    for number, place in enumerate(places):
        *path, last = place.keys
        at = tree
        for key in path:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                break
        if isinstance(at, dict) and last not in at:
            at[last] = number
        else:
            tree[place.path] = number
    for held in tree.values():
        groups = held.get("param_groups", {}) if isinstance(held, dict) else {}
        for group in groups.values():
            group.update({key: tuple(_in_order(x)) for key, x in group.items() if isinstance(x, dict)})
        if groups and sorted(groups) == list(range(len(groups))):
            held["param_groups"] = _in_order(groups)
    return tree


def _in_order(held: dict[int, Any]) -> list[Any]:
    return [held[i] for i in sorted(held)]
