"""The state of a pure step: its arrays, how each is read from and written to the live objects, and their tree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.mutable.capture.capture import Capture, GeneratorInput, NumberInput, StorageInput
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.values.device_of_value import accelerator_of, at
from fgrad.torch.compiler.entries import Entry, Memory
from fgrad.torch.compiler.numbered import numbered
from fgrad.torch.optim.optimizer import Optimizer

MADE = (
    "torch.pure: {path} is made by the first call, and torch.pure does not know how to make it. Ways out: keep the "
    "tensor in an attribute, a variable, a dict or a list that has as many elements after each call; or make it before."
)


SHARED = (
    "torch.pure: {path} and {other} share memory after the first call, and not before (x.data = y). Way out: give the "
    "one a copy (x.data = y.clone())."
)


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


def leaf_of(
    x: Any, first: Capture, snapshot: Snapshot, entries: Mapping[int, Entry], memory: tuple[Memory, Memory]
) -> Leaf:
    """The leaf of the state for an input of the second call.

    Arguments:
      memory: the storages of tensors before the first and before the second call.
    """
    if isinstance(x, GeneratorInput):
        return Leaf(x.location, x.generator.saved, x.generator.restore)
    if isinstance(x, NumberInput):
        return Leaf(x.location, lambda: np.asarray(x.holder[x.key]), lambda value: _set_number(x.holder, x.key, value))
    storage, (before, after) = x.storage, memory
    tensor = after.tensors_of[storage][0]
    _check_shared(storage, memory, first.snapshot)
    if _is_given_another(tensor, storage, before):
        return _data_leaf(x.location, tensor, storage)
    entry = entries.get(id(tensor))
    is_replaced = entry is not None and (entry.read() is not tensor or storage not in first.storages)
    if entry is not None and is_replaced and isinstance(entry.before, Tensor):  # by each call
        return Leaf(x.location, lambda: entry.read()._value(), lambda value: _overwrite(entry.read(), value))
    if is_state(storage, first):
        source, location = before.tensors_of[storage][0], first.storages[storage].location
        if after.storage_of.get(source, storage) is not storage:
            source, location = tensor, x.location  # the first that had it is given another
        return Leaf(location, lambda: storage.array, lambda value: _overwrite(source, value))
    return _created_by_first(x, tensor, entry, first, snapshot)


def _check_shared(storage: Storage, memory: tuple[Memory, Memory], first: Snapshot) -> None:
    """Raise an error if tensors have come to share a storage, which one array of the state is not before."""
    before, after = memory
    owners = [x for x in after.tensors_of[storage] if x in before.storage_of]
    for x in owners[1:]:
        if before.storage_of[x] is not before.storage_of[owners[0]]:
            raise RuntimeError(SHARED.format(path=first.tensors[owners[0]].path, other=first.tensors[x].path))


def _is_given_another(tensor: Tensor, storage: Storage, before: Memory) -> bool:
    """Whether the first call has given a storage to a tensor that was there before, and so does each call."""
    return before.storage_of.get(tensor, storage) is not storage


def is_state(storage: Storage, first: Capture) -> bool:
    """Whether a storage is there before the first call, and is none of an argument."""
    return storage in first.storages and first.storages[storage].location.keys[0] not in ("args", "kwargs")


def input_of_first(
    x: StorageInput, first: Capture, entries: Mapping[int, Entry], memory: tuple[Memory, Memory]
) -> StorageInput | None:
    """The input of the first call that corresponds to one of the second."""
    if is_state(x.storage, first):
        return first.storages[x.storage]
    before, after = memory
    tensor = after.tensors_of[x.storage][0]
    if _is_given_another(tensor, x.storage, before):
        return first.storages.get(before.storage_of[tensor])
    entry = entries.get(id(tensor))
    old = None if entry is None else entry.before
    return first.storages.get(old._storage) if isinstance(old, Tensor) else None


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


def _created_by_first(x: StorageInput, made: Tensor, entry: Entry | None, first: Capture, snapshot: Snapshot) -> Leaf:
    owner = next((tensor for tensor in first.snapshot.tensors if tensor._grad is made), None)
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
    if entry is not None:
        return _entry_leaf(x.location, entry, made, first.snapshot)
    raise RuntimeError(MADE.format(path=x.location.path))


def _gradient_leaf(location: Location, owner: Tensor, gradient: Tensor) -> Leaf:
    zeros, strides = _zeros(gradient), gradient._storage.strides
    accelerator = accelerator_of(zeros)

    def write(value: Any) -> None:
        owner._grad = new_tensor(at(value, accelerator), type_of(value), strides)
        changes.fields = object()

    def read() -> Any:
        return zeros if owner._grad is None else owner._grad._storage.array

    return Leaf(location, read, write, lambda: owner._grad is not None)


def _data_leaf(location: Location, tensor: Tensor, storage: Storage) -> Leaf:
    """The data of a tensor to which each call gives another storage, like one that a call has given it."""
    strides, accelerator = storage.strides, accelerator_of(storage.array)

    def write(value: Any) -> None:
        tensor.data = new_tensor(at(value, accelerator), type_of(value), strides)

    return Leaf(location, lambda: tensor._storage.array, write)


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


def _entry_leaf(location: Location, entry: Entry, tensor: Tensor, first: Snapshot) -> Leaf:
    """A tensor in an attribute, an entry or a variable that the first call sets."""
    zeros, begin = _zeros(tensor), entry.beginning(lambda x: _maker(x, first))
    entry = evolve(entry, second=None)  # it holds what was traced

    def read() -> Any:
        return entry.read()._value() if entry.has_begun() else zeros

    def write(value: Any) -> None:
        if not entry.has_begun():
            begin()
            changes.attributes = object()
        _overwrite(entry.read(), value)

    def forget() -> None:
        entry.forget()
        changes.attributes = object()

    return Unknown(location, read, write, entry.has_begun, forget)


def _maker(tensor: Tensor, first: Snapshot) -> Callable[[], Tensor]:
    """A function that makes a tensor of the same type, or gives this one if it is there before the first call."""
    if tensor in first.tensors:
        return lambda: tensor
    zeros, type = _zeros(tensor), tensor._type
    return lambda: new_tensor(zeros, type)


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
