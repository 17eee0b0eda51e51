"""The tensors from outside that a captured call may depend on, and how each call finds them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor

#: a kind and where: the tensor itself, the place of an argument, the number of a parent, an entry's container and key
Way = tuple[str, Any]


@define(eq=False)
class Located:
    """The tensors from outside that a call may depend on, and how each call finds them.

    A tensor is the very object that it was, where something holds it that is guarded; else one of the arguments, by its
    place; the ``.grad`` or the base of another, which may be a new one at each call; or what an entry holds into which
    the call itself puts another.  A tensor that is found in more than one way has to be so at each call.

    Attributes:
      tensors: all that are found at each call, first those that the call reads or changes; when the recorded call is
        let go, None in place of those that later calls find elsewhere.
      classes: the class of each of them.
      ways: how each of them is found.
      again: other ways that lead to them, with their places.
      used: how many the call reads or changes.
    """

    capture: Capture
    arguments: Sequence[Any]
    tensors: list[Any] = field(factory=list)
    classes: list[type[Tensor]] = field(factory=list)
    ways: list[Way] = field(factory=list)
    again: list[tuple[Way, int]] = field(factory=list)
    used: int = 0
    _numbers: dict[int, int] = field(factory=dict)
    _parents: dict[int, list[tuple[str, Tensor]]] = field(factory=dict)
    _entries: dict[int, list[Way]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        world = self.capture.world
        for tensor in world.tensors:
            gradient = self._gradient(tensor)
            if gradient is not None:
                self._parents.setdefault(id(gradient), []).append(("gradient", tensor))
            if tensor._view is not None:
                self._parents.setdefault(id(tensor._view.base), []).append(("base", tensor))
        for container, before in world.changed():
            if isinstance(container, dict):
                for key, x in before.items():
                    if is_tensor(x) and container.get(key) is not x:
                        self._entries.setdefault(id(x), []).append(("entry", (container, key)))
        for scope, name, x in world.rebound():
            if is_tensor(x):
                self._entries.setdefault(id(x), []).append(("entry", (scope, name)))

    def _gradient(self, tensor: Tensor) -> Tensor | None:
        """The gradient that a tensor had before the call."""
        return self.capture.world.containers[id(vars(tensor))][1].get("_grad")

    def number(self, tensor: Tensor) -> int:
        """The place of a tensor among those that are found at each call."""
        found = self._numbers.get(id(tensor))
        if found is not None:
            return found
        at = next((i for i, x in enumerate(self.arguments) if x is tensor), None)
        way: Way = ("fixed", tensor)
        if id(tensor) in self._entries and not self._is_held_still(tensor):
            way = self._entries[id(tensor)][0]
        elif id(tensor) in self.capture.world.held:
            pass
        elif at is not None:
            way = "argument", at
        elif id(tensor) in self._parents:  # the first was met before the tensor, so this ends
            kind, parent = self._parents[id(tensor)][0]
            way = kind, self.number(parent)
        self._numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        self.classes.append(tensor.__class__)
        self.ways.append(way)
        return len(self.tensors) - 1

    def _is_held_still(self, tensor: Tensor) -> bool:
        """Whether a container or a variable still holds a tensor that the call has replaced in an entry."""
        world = self.capture.world
        own = {id(vars(x)) for x in world.tensors}
        return any(
            x is tensor and (not isinstance(container, dict) or container.get(key) is x)
            for container, before in world.containers.values()
            if id(container) not in own
            for key, x in (before.items() if isinstance(before, dict) else enumerate(before))
        ) or any(x is tensor and scope.get(name, None) is x for scope, name, x in world.variables.values())

    def number_all(self) -> None:
        """Number what the call can reach but neither reads nor changes: it may depend on a shape, or on what is shared.

        A gradient that nothing else holds is left out, for the sake of steps that only replace it: its type is that of
        its owner.
        """
        self.used = len(self.tensors)
        world = self.capture.world
        storages = Counter([x._storage for x in world.tensors])
        for tensor in (*self.arguments, *world.tensors):
            parents = self._parents.get(id(tensor), [])
            if [kind for kind, _ in parents] != ["gradient"] or self._is_more(tensor, storages):
                self.number(tensor)
        ways: list[tuple[Way, Tensor]] = [(("argument", i), x) for i, x in enumerate(self.arguments)]
        for tensor in self.tensors:
            ways += [(way, tensor) for way in self._entries.get(id(tensor), ())]
            ways += [((kind, self.number(parent)), tensor) for kind, parent in self._parents.get(id(tensor), ())]
        self.again = [(way, at) for way, x in ways if self.ways[at := self.number(x)] != way]

    def _is_more(self, tensor: Tensor, storages: Mapping[Storage, int]) -> bool:
        """Whether a gradient is anything else beside."""
        return (
            id(tensor) in self.capture.world.held
            or any(x is tensor for x in self.arguments)
            or storages[tensor._storage] > 1
            or tensor._grad is not None
            or tensor._view is not None
            or tensor._node is not None
        )

    def of_storage(self, storage: Storage) -> int:
        return self.number(next(x for x in self.capture.world.tensors if x._storage is storage))

    def of_counter(self, counter: VersionCounter) -> int:
        return self.number(next(x for x in self.capture.world.tensors if x._counter is counter))

    def key(self) -> list[Any]:
        """What two calls share that find the tensors that they use in the same way."""
        held = {"fixed": id, "entry": lambda at: (id(at[0]), at[1])}
        return [(kind, held[kind](at) if kind in held else at) for kind, at in self.ways[: self.used]]

    def let_go(self) -> None:
        """Hold no tensor of the recorded call that later calls find elsewhere.

        Else the arguments and the gradients of that call would stay as long as the program.
        """
        self.tensors = [x if kind == "fixed" else None for x, (kind, _) in zip(self.tensors, self.ways, strict=True)]
        self.arguments = [None] * len(self.arguments)
        for known in (self._numbers, self._parents, self._entries):
            known.clear()

    def find(self, arguments: Sequence[Tensor]) -> list[Any]:
        """The tensors of a call, from its arguments; None for those that are not there, or another in another way."""
        found: list[Any] = []
        for way in self.ways:
            found.append(_found(way, found, arguments))
        for way, at in self.again:
            if _found(way, found, arguments) is not found[at]:
                found[at] = None
        return found


def _found(way: Way, found: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
    """What a way leads to at a call, if it is a tensor."""
    kind, at = way
    if kind == "fixed":
        return at
    if kind == "entry":
        held = at[0].get(at[1], None)
        return held if is_tensor(held) else None
    if kind == "argument":
        return arguments[at]
    if found[at] is None:
        return None
    if kind == "gradient":
        return found[at]._grad
    return None if found[at]._view is None else found[at]._view.base
