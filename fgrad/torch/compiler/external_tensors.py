"""The tensors from outside that a captured call may depend on, and how later calls access them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import define, field

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.scopes import TupleItems, as_dict, entries_of
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.values import ExternalRef

#: a kind, with the tensor itself, an argument's index, the index of a parent, or an entry's container and key
Access = tuple[str, Any]


@define(eq=False)
class ExternalTensors:
    """The tensors from outside that a call may depend on, and how later calls access them.

    A tensor is *fixed*, always the same object, if something guarded holds it.  Others may differ from call to call: an
    argument, the ``.grad`` or the base of another tensor, or the value of an entry that the call itself replaces.  A
    tensor with more than one access must have them all at each call.

    Attributes:
      tensors: the tensors, starting with those that the call reads or changes.  After ``release`` only the fixed ones
        remain; the others are None.
      classes: the class of each of them.
      accesses: how each of them is accessed.
      aliases: further accesses, with the tensors' indices.
      used: how many the call reads or changes.
    """

    capture: Capture
    arguments: Sequence[Any]
    tensors: list[Any] = field(factory=list)
    classes: list[type[Tensor]] = field(factory=list)
    accesses: list[Access] = field(factory=list)
    aliases: list[tuple[Access, int]] = field(factory=list)
    used: int = 0
    _with_memory: dict[Storage | VersionCounter, Tensor] = field(factory=dict)
    _indices: dict[int, int] = field(factory=dict)
    _parents: dict[int, list[tuple[str, Tensor]]] = field(factory=dict)
    _entries: dict[int, list[Access]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        snapshot = self.capture.snapshot
        for tensor in snapshot.tensors:
            self._with_memory.setdefault(tensor._storage, tensor)
            self._with_memory.setdefault(tensor._counter, tensor)
            gradient = self._gradient(tensor)
            if gradient is not None:
                self._parents.setdefault(id(gradient), []).append(("gradient", tensor))
            if tensor._view is not None:
                self._parents.setdefault(id(tensor._view.base), []).append(("base", tensor))
        for container, before in snapshot.changed():
            entries = as_dict(container)
            if entries is not None:
                for key, x in entries_of(before):
                    if entries.get(key, None) is not x:
                        self._note_entry(entries, key, x)
        for scope, name, x in snapshot.rebound():
            self._note_entry(scope, name, x)

    def _note_entry(self, entries: Any, key: Any, value: Any) -> None:
        """Note the access to a tensor, or to the tensors of a tuple, in an entry that the call replaces."""
        if is_tensor(value):
            self._entries.setdefault(id(value), []).append(("entry", (entries, key)))
        elif is_tuple_of_tensors(value):
            for i, x in enumerate(value):
                place = key, i, len(value)
                self._entries.setdefault(id(x), []).append(("entry", (TupleItems(entries), place)))

    def _gradient(self, tensor: Tensor) -> Tensor | None:
        """The gradient that a tensor had before the call."""
        return self.capture.snapshot.containers[id(fields_of(tensor))][1].get("_grad")

    def index(self, tensor: Tensor) -> int:
        """The index of a tensor, which is added if need be."""
        cached = self._indices.get(id(tensor))
        if cached is not None:
            return cached
        argument = next((i for i, x in enumerate(self.arguments) if x is tensor), None)
        access: Access = ("fixed", tensor)
        if id(tensor) in self._entries and not self._is_still_held(tensor):
            access = self._entries[id(tensor)][0]
        elif id(tensor) in self.capture.snapshot.held_tensors:
            pass
        elif argument is not None:
            access = "argument", argument
        elif id(tensor) in self._parents:  # the first was visited before the tensor, so this ends
            kind, parent = self._parents[id(tensor)][0]
            access = kind, self.index(parent)
        self._indices[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        self.classes.append(tensor.__class__)
        self.accesses.append(access)
        return len(self.tensors) - 1

    def _is_still_held(self, tensor: Tensor) -> bool:
        """Whether another container or variable still holds a tensor that the call has replaced in an entry."""
        snapshot = self.capture.snapshot
        fields = {id(fields_of(x)) for x in snapshot.tensors}
        return any(
            _holds(x, tensor) and ((entries := as_dict(container)) is None or entries.get(key, None) is x)
            for container, before in snapshot.containers.values()
            if id(container) not in fields
            for key, x in entries_of(before)
        ) or any(_holds(x, tensor) and scope.get(name, None) is x for scope, name, x in snapshot.variables.values())

    def index_all(self, excluding: Collection[Tensor] = ()) -> None:
        """Add the tensors that the call can reach but neither reads nor changes: it may depend on a shape or an alias.

        A gradient that nothing else holds is left out, for the sake of steps that only replace it: it has its owner's
        type.  So are some tensors that the call does not depend on.
        """
        self.used = len(self.tensors)
        snapshot = self.capture.snapshot
        storages = Counter([x._storage for x in snapshot.tensors])
        excluded = {id(x) for x in excluding}
        for tensor in (*self.arguments, *snapshot.tensors):
            if id(tensor) in excluded:
                continue
            parents = self._parents.get(id(tensor), [])
            if [kind for kind, _ in parents] != ["gradient"] or self._has_other_uses(tensor, storages):
                self.index(tensor)
        accesses: list[tuple[Access, Tensor]] = [(("argument", i), x) for i, x in enumerate(self.arguments)]
        for tensor in self.tensors:
            accesses += [(access, tensor) for access in self._entries.get(id(tensor), ())]
            accesses += [((kind, self.index(parent)), tensor) for kind, parent in self._parents.get(id(tensor), ())]
        self.aliases = [(access, at) for access, x in accesses if self.accesses[at := self.index(x)] != access]

    def _has_other_uses(self, tensor: Tensor, storages: Mapping[Storage, int]) -> bool:
        """Whether a gradient is anything else besides."""
        return (
            id(tensor) in self.capture.snapshot.held_tensors
            or any(x is tensor for x in self.arguments)
            or storages[tensor._storage] > 1
            or tensor._grad is not None
            or tensor._view is not None
            or tensor._node is not None
        )

    def index_of(self, memory: Storage | VersionCounter) -> int:
        """The index of a tensor that has a storage or a counter from outside."""
        return self.index(self._with_memory[memory])

    def ref_of(self, memory: Storage | VersionCounter) -> ExternalRef | None:
        """A tensor that has a storage or a counter; None if that is not from outside."""
        return ExternalRef(self.index_of(memory)) if memory in self._with_memory else None

    def key(self) -> list[Any]:
        """Equal for two calls that access the tensors they use in the same way."""
        identity = {"fixed": id, "entry": lambda at: Holding(*at).place}
        return [(kind, identity[kind](at) if kind in identity else at) for kind, at in self.accesses[: self.used]]

    def release(self) -> None:
        """Drop all tensors but the fixed ones.

        Otherwise the arguments and gradients of the recorded call would live as long as the program.
        """
        self.tensors = [
            x if kind == "fixed" else None for x, (kind, _) in zip(self.tensors, self.accesses, strict=True)
        ]
        self.arguments = [None] * len(self.arguments)
        for table in (self._with_memory, self._indices, self._parents, self._entries):
            table.clear()

    def find(self, arguments: Sequence[Tensor]) -> list[Any]:
        """The tensors of a call, given its arguments; None for those that are missing, or whose accesses disagree."""
        tensors: list[Any] = []
        for access in self.accesses:
            tensors.append(_found(access, tensors, arguments))
        for access, index in self.aliases:
            if _found(access, tensors, arguments) is not tensors[index]:
                tensors[index] = None
        return tensors


def is_tuple_of_tensors(value: Any) -> bool:
    """Whether a value is a tuple that holds tensors and nothing else, such as the state of an LSTM."""
    return type(value) is tuple and bool(value) and all(map(is_tensor, value))


def _holds(value: Any, tensor: Tensor) -> bool:
    """Whether a value is a tensor, or a tuple that holds it."""
    return value is tensor or (isinstance(value, tuple) and any(_holds(x, tensor) for x in value))


def _found(access: Access, tensors: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
    """What an access leads to at a call, if it is a tensor."""
    kind, at = access
    if kind == "fixed":
        return at
    if kind == "entry":
        value = at[0].get(at[1], None)
        return value if is_tensor(value) else None
    if kind == "argument":
        return arguments[at]
    if tensors[at] is None:
        return None
    if kind == "gradient":
        return tensors[at]._grad
    return None if tensors[at]._view is None else tensors[at]._view.base
