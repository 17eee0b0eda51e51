"""The state of a pure step: its arrays, how each is read from and written to the live objects, and their tree."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.capture.capture import Capture, GeneratorInput, NumberInput, StorageInput
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.values.device_of_value import accelerator_of, at
from fgrad.torch.compiler.numbered import numbered
from fgrad.torch.optim.optimizer import Optimizer

MADE = (
    "torch.pure: {path} is made by the first call, and torch.pure does not know how to restore it. Way out: call the "
    "function once, then make it pure."
)
_NOTHING: Any = object()


@frozen
class Leaf:
    """One array of the state, and its access to the live objects.

    Attributes:
      location: its path and keys.
      read: returns the live value or, if there is none yet, its initial value.
      write: sets it.
      is_there: whether the live objects have it yet.
    """

    location: Location
    read: Callable[[], Any]
    write: Callable[[np.ndarray], None]
    is_there: Callable[[], bool] = lambda: True


@frozen
class Begun(Leaf):
    """Whether the first call, which creates some of the state, has been made."""

    @classmethod
    def of(cls, unknown: Sequence[Leaf]) -> "Begun":
        location = Location("begun", ("begun",))
        return cls(location, lambda: np.asarray(all(leaf.is_there() for leaf in unknown)), lambda value: None)


def leaf_of(x: Any, first: Capture, snapshot: Snapshot) -> Leaf:
    """The leaf of the state for an input of the second call."""
    if isinstance(x, GeneratorInput):
        return Leaf(x.location, x.generator.saved, x.generator.restore)
    if isinstance(x, NumberInput):
        return Leaf(x.location, lambda: np.asarray(x.holder[x.key]), lambda value: _set_number(x.holder, x.key, value))
    storage = x.storage
    tensor = next(t for t in snapshot.tensors if t._storage is storage)
    entry = _entry_of(tensor, snapshot)
    if entry is not None and isinstance(value_before_first(entry, first), Tensor):
        container, key = entry
        if container.get(key) is not tensor or storage not in first.storages:  # each call puts another tensor there
            return Leaf(x.location, lambda: container[key]._value(), lambda value: _overwrite(container[key], value))
    if storage in first.storages:
        source = next(t for t in first.snapshot.tensors if t._storage is storage)
        return Leaf(first.storages[storage].location, lambda: storage.array, lambda value: _overwrite(source, value))
    return _created_by_first(x, tensor, entry, first, snapshot)


def value_before_first(entry: tuple[dict[Any, Any], Any] | None, first: Capture) -> Any:
    """What an entry held before the first call."""
    if entry is None:
        return _NOTHING
    container, key = entry
    return first.snapshot.containers.get(id(container), (None, {}))[1].get(key, _NOTHING)


def input_of_first(x: StorageInput, first: Capture, snapshot: Snapshot) -> StorageInput | None:
    """The input of the first call that corresponds to one of the second."""
    if x.storage in first.storages:
        return first.storages[x.storage]
    before = value_before_first(
        _entry_of(next(t for t in snapshot.tensors if t._storage is x.storage), snapshot), first
    )
    return first.storages[before._storage] if isinstance(before, Tensor) else None


def _set_number(holder: Any, key: Any, value: np.ndarray) -> None:
    """Set a number, unless the old one is equal in the precision of the state."""
    if np.float32(holder[key]) != np.float32(value):
        holder[key] = float(value)


def _overwrite(tensor: Tensor, value: Any) -> None:
    """Replace the elements of a tensor's storage, where it is, and count the write."""
    tensor._storage.array = at(value, accelerator_of(tensor._storage.array))
    tensor._bump("torch.pure", None)


@frozen
class Unknown(Leaf):
    """A part of the state that the first call creates, with no known initial value.

    Attributes:
      forget: removes it from the live objects.
    """

    forget: Callable[[], Any] = lambda: None


def _created_by_first(
    x: StorageInput, made: Tensor, entry: tuple[dict[Any, Any], Any] | None, first: Capture, snapshot: Snapshot
) -> Leaf:
    owner = next((tensor for tensor in snapshot.tensors if tensor._grad is made), None)
    if owner is not None:
        return _gradient_leaf(x.location, owner, made)
    for _, optimizer in snapshot.objects.values():
        if not isinstance(optimizer, Optimizer):
            continue
        for group in optimizer.param_groups:
            for param in group["params"]:
                state = optimizer.state.get(param) or {}
                key = next((key for key, value in state.items() if value is made), None)
                if key is not None:
                    return _state_leaf(x.location, optimizer, group, param, key, made)
    old = value_before_first(entry, first)
    if entry is not None and old is not _NOTHING:
        return _entry_leaf(x.location, *entry, made, old)
    raise RuntimeError(MADE.format(path=x.location.path))


def _entry_of(tensor: Tensor, snapshot: Snapshot) -> tuple[dict[Any, Any], Any] | None:
    """The dict and the key that held a tensor before a call: an object's attributes, or the user's own dict."""
    fields = {id(fields_of(x)) for x in snapshot.tensors}
    for number, (container, before) in snapshot.containers.items():
        if isinstance(container, dict) and number not in fields:
            key = next((key for key, value in before.items() if value is tensor), None)
            if key is not None:
                return container, key
    return None


def _gradient_leaf(location: Location, owner: Tensor, gradient: Tensor) -> Leaf:
    zeros, strides = _zeros(gradient), gradient._storage.strides
    accelerator = accelerator_of(zeros)

    def write(value: Any) -> None:
        owner._grad = new_tensor(at(value, accelerator), type_of(value), strides)
        changes.fields = object()

    def read() -> Any:
        return zeros if owner._grad is None else owner._grad._storage.array

    return Leaf(location, read, write, lambda: owner._grad is not None)


def _state_leaf(location: Location, optimizer: Any, group: Any, param: Tensor, key: str, tensor: Tensor) -> Leaf:
    """A value of an optimiser's state; the optimiser may know its value before the first step."""
    zeros, type = _zeros(tensor), tensor._type
    accelerator = accelerator_of(zeros)

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
            optimizer.state[param][key] = new_tensor(at(value, accelerator), type)

    if key in _before(optimizer, group, new_tensor(_zeros(param), param._type)):
        return Leaf(location, read, write, is_there)
    return Unknown(location, read, write, is_there, lambda: optimizer.state[param].pop(key))


def _before(optimizer: Any, group: Any, like: Tensor) -> dict[str, Tensor]:
    like._grad = new_tensor(_zeros(like), like._type)
    return optimizer._state_before(group, like)


def _entry_leaf(location: Location, container: dict[Any, Any], key: Any, tensor: Tensor, old: Any) -> Leaf:
    """An attribute or an entry that the first call sets."""
    zeros, type = _zeros(tensor), tensor._type
    accelerator = accelerator_of(zeros)

    def is_there() -> bool:
        return container.get(key) is not old

    def write(value: Any) -> None:
        if is_there():
            _overwrite(container[key], value)
        else:
            container[key] = new_tensor(at(value, accelerator), type)
            changes.attributes = object()

    def forget() -> None:
        container[key] = old
        changes.attributes = object()

    return Unknown(location, lambda: container[key]._value() if is_there() else zeros, write, is_there, forget)


def _zeros(like: Tensor) -> Any:
    """Zeros in the shape of a tensor's storage, where it is."""
    array = like._storage.array
    return at(np.zeros(array.shape, like._type.dtype.numpy), accelerator_of(array))


# -- the tree --------------------------------------------------------------------------------------------------------


def tree_of(locations: Iterable[Location]) -> Any:
    """The locations as a tree by their keys, with their indices as leaves."""
    tree: dict[Any, Any] = {}
    for number, location in enumerate(locations):
        *path, last = location.keys
        subtree = tree
        for key in path:
            subtree = subtree.setdefault(key, {})
            if not isinstance(subtree, dict):
                break
        if isinstance(subtree, dict) and last not in subtree:
            subtree[last] = number
        else:
            tree[location.path] = number
    for entry in tree.values():
        groups = entry.get("param_groups", {}) if isinstance(entry, dict) else {}
        for group in groups.values():
            group.update({key: tuple(_in_order(x)) for key, x in group.items() if isinstance(x, dict)})
        if groups and sorted(groups) == list(range(len(groups))):
            entry["param_groups"] = _in_order(groups)
    return numbered(tree)


def _in_order(entries: dict[int, Any]) -> list[Any]:
    return [entries[i] for i in sorted(entries)]
