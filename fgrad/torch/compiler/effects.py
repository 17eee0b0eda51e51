"""What a captured call leaves behind, as something that can be done again with other arrays.

NOTE [Effects]
After a compiled call everything is as it would be uncompiled.  The capture has run the function once, and the second
walk has seen what became of everything; here that is written down: which storages get which output, how far counters
go on, which entries of dicts (a tensor's ``.grad``, a module's attribute, an optimiser's state) are set, and to what.
New tensors are made anew at each call.  What has no such form (a Python number that counts calls, a list that grows, a
view of what was made inside) is ``Irregular``: such a call runs in pieces.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.scopes import MISSING
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Node, copy_node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.storage import WRITES_KEPT, RepeatedWrites, Storage, VersionCounter, Write
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, new_tensor
from fgrad.torch.compiler.containers import Structure, put_together, take_apart
from fgrad.torch.compiler.located import Located
from fgrad.torch.compiler.step import Step

#: fields of tensors that say nothing that the user can see, and come back by themselves
_PASSING = frozenset(("_cache", "_accumulator", "_origin", "_level"))
_ABSENT: Any = object()
_KEPT = (type(None), bool, int, float, complex, str, bytes)


class Irregular(Exception):
    """A call has effects that cannot be done again without running the function."""


@frozen(eq=False)
class Made:
    """A tensor that each call makes anew: with a storage of its own, or that of one made before."""

    output: int | None
    like: Tensor
    #: the place of the tensor among those made whose storage, or whose counter, it shares
    storage: int | None
    counter: int | None

    def make(self, outs: Sequence[Any], made: Sequence[Tensor]) -> Tensor:
        like = self.like
        if self.storage is None:
            found = new_tensor(outs[self.output], like._type, like._storage.strides)  # type: ignore[index]
        else:
            found = new_tensor(None, like._type)
            found._storage = made[self.storage]._storage
        if self.counter is not None:
            found._counter = made[self.counter]._counter
        else:
            found._counter.value = like._counter.value
        if like._requires_grad:
            found._requires_grad = True
        if like._node is not None:
            found._node, found._output_nr = copy_node(like._node), like._output_nr
        return found


@frozen(eq=False)
class Kept:
    """What gives the same value at each call."""

    value: Any

    def __call__(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
        return self.value


@frozen(eq=False)
class Found:
    """What gives a tensor that the call finds."""

    number: int

    def __call__(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
        return found[self.number]


@frozen(eq=False)
class Fresh:
    """What gives a tensor that the call makes."""

    place: int

    def __call__(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
        return made[self.place]


@frozen(eq=False)
class Tree:
    """What gives a tree of values."""

    structure: Structure
    leaves: list["Value"]

    def __call__(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
        return self.put_together([leaf(found, made) for leaf in self.leaves])

    def put_together(self, leaves: Sequence[Any]) -> Any:
        return put_together(self.structure, iter(leaves))


Value = Kept | Found | Fresh | Tree


@define(eq=False)
class Effects:
    """The effects of one call, on the tensors that ``located`` finds.

    Attributes:
      outputs: the traced values that a program has to give.
      made: the new tensors.
      writes: tensors whose storage was written, and the outputs that they get.
      counts: tensors whose version counter went on, how far, and the writes that it noted.
      fields: tensor, field, and what gives its value from the tensors of the call and the new ones.
      entries: the same of dicts.
      result: the same of the result.
    """

    located: Located
    outputs: list[Any] = field(factory=list)
    made: list[Made] = field(factory=list)
    writes: list[tuple[int, int]] = field(factory=list)
    counts: list[tuple[int, int, list[Write]]] = field(factory=list)
    fields: list[tuple[int, str, Value]] = field(factory=list)
    entries: list[tuple[dict[Any, Any], Any, Value]] = field(factory=list)
    result: Value = field(default=Kept(None))
    _places: dict[int, int] = field(factory=dict)
    _storages: dict[Storage, int] = field(factory=dict)
    _counters: dict[VersionCounter, int] = field(factory=dict)

    def signature(self) -> Any:
        """What two calls share that leave the same behind."""
        return (
            tuple([(m.output, m.like._type, m.like._storage.strides, m.storage, m.counter) for m in self.made]),
            tuple([(m.like._counter.value, m.like._requires_grad, m.like._node is None) for m in self.made]),
            tuple(self.writes),
            tuple([(at, delta) for at, delta, _ in self.counts]),
            tuple([(at, name) for at, name, _ in self.fields]),
            tuple([(id(container), key) for container, key, _ in self.entries]),
        )

    def output(self, value: Any) -> int:
        self.outputs.append(value)
        return len(self.outputs) - 1

    def value(self, value: Any) -> Value:
        """What gives a value anew."""
        capture = self.located.capture
        if not is_tensor(value):
            return Kept(value)
        if value in capture.world.tensors:
            return Found(self.located.number(value))
        return Fresh(self.place_of(value))

    def place_of(self, tensor: Tensor) -> int:
        """The place of a new tensor among those that are made."""
        known = self._places.get(id(tensor))
        if known is not None:
            return known
        check_plain(tensor, self.located.capture)
        storage, place = tensor._storage, len(self.made)
        shared, counter = self._storages.get(storage), self._counters.get(tensor._counter)
        output = self.output(storage.array) if shared is None else None
        self.made.append(Made(output, tensor, shared, counter))
        self._places[id(tensor)] = place
        self._storages.setdefault(storage, place)
        self._counters.setdefault(tensor._counter, place)
        return place

    def apply(self, found: Sequence[Tensor], outs: Sequence[Any]) -> tuple[list[Tensor], Any]:
        """Leave the effects behind, all of them or, where a signal comes, none; the new tensors and the result."""
        made: list[Tensor] = []
        for each in self.made:
            made.append(each.make(outs, made))
        # everything is looked up first, and what stood there: what follows only sets
        storages = [(found[at]._storage, outs[output]) for at, output in self.writes]
        counters = [(found[at]._counter, delta) for at, delta, _ in self.counts]
        entries = [(vars(found[at]), name, value(found, made)) for at, name, value in self.fields]
        entries += [(container, key, value(found, made)) for container, key, value in self.entries]
        arrays = [storage.array for storage, _ in storages]
        values = [counter.value for counter, _ in counters]
        held = [container.get(key, _ABSENT) for container, key, _ in entries]
        now = object()
        try:
            for storage, array in storages:
                storage.array = array
            for counter, delta in counters:
                counter.value += delta
            for container, key, value in entries:
                container[key] = value
        except BaseException:
            for (storage, _), array in zip(storages, arrays, strict=True):
                storage.array = array
            for (counter, _), value in zip(counters, values, strict=True):
                counter.value = value
            for (container, key, _), value in zip(entries, held, strict=True):
                if value is _ABSENT:
                    container.pop(key, None)
                else:
                    container[key] = value
            raise
        finally:
            changes.attributes = changes.fields = now
        for (counter, delta), (_, _, writes) in zip(counters, self.counts, strict=True):
            note(counter, delta, writes)
        return made, self.result(found, made)


def note(counter: VersionCounter, delta: int, writes: Sequence[Write]) -> None:
    """Note who made the last versions of a counter, for errors; of many the first ones are not remembered."""
    if counter.writes.__class__ is RepeatedWrites and delta > len(writes):
        counter.writes = deque(counter.writes.until(counter.value - delta), WRITES_KEPT)  # type: ignore[union-attr]
    if not writes:
        return
    if counter.writes is None:
        counter.writes = deque(maxlen=WRITES_KEPT)
    for version, write in enumerate(writes, counter.value - len(writes) + 1):
        counter.writes.append(write._replace(version=version))


def check_plain(tensor: Tensor, capture: Capture) -> None:
    """Raise ``Irregular`` if a new tensor is more than a storage, a type and a history that is over."""
    storage = tensor._storage
    if type(tensor) is not Tensor or tensor._geometry is not None or tensor._view is not None:
        raise Irregular("the function makes a view, or a tensor of a class of its own, that outlives it")
    if storage in capture.cells or tensor._counter in capture.counters:
        raise Irregular("the function makes another handle on a tensor from outside")
    if storage.home is not None or storage.memory is not None or tensor._inference:
        raise Irregular("the function makes a tensor whose memory is resized or exported, or an inference tensor")
    if set(vars(tensor)) - set(Tensor.__annotations__) or tensor._tensor_hooks or tensor._tangents:
        raise Irregular("the function makes a tensor with attributes, hooks or tangents")
    if tensor._grad is not None:
        raise Irregular("the function makes a tensor with a gradient")
    if tensor._node is not None:
        check_released(tensor._node)


def check_released(node: Node) -> None:
    """Raise ``Irregular`` if a backward can still pass through a node: its saved values are traced."""
    stack, seen = [node], {node}
    while stack:
        each = stack.pop()
        if not isinstance(each, OperationNode | AccumulateGrad):
            raise Irregular(f"a result has a history that can be differentiated again ({each.name()})")
        if (
            isinstance(each, OperationNode)
            and not each.released
            and any(isinstance(s, SavedTensor) for s in each.saved)
        ):
            raise Irregular("a result has a history that can be differentiated again")
        for edge in each.next_edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])


def effects_of(step: Step, arguments: Sequence[Tensor]) -> Effects:
    """What a captured call leaves behind; the function has run, and nothing is put back yet.

    Raises:
      Irregular: it cannot be done again.
    """
    capture = step.capture
    if capture.effects:
        raise Irregular(capture.effects[0])
    found = Effects(Located(capture, arguments))
    for cell in capture.cells.values():
        if cell.written:
            if (cell.storage.strides, cell.storage.home) != cell.layout:
                raise Irregular("the memory of a tensor from outside is resized")
            found.writes.append((found.located.of_storage(cell.storage), found.output(cell.value)))
    for counter, (before, _) in capture.counters.items():
        delta = counter.value - before
        if delta:
            noted = counter.last_writes()[-delta:]
            found.counts.append((found.located.of_counter(counter), delta, noted))
    owners = {id(vars(tensor)): tensor for tensor in capture.world.tensors}
    for container, before in capture.world.changed():
        if not isinstance(container, dict):
            raise Irregular("a list, a set or an object with slots is changed")
        if id(container) in capture.world.given:
            raise Irregular("a dict among the arguments is changed")
        owner = owners.get(id(container))
        if owner is not None:
            _fields(found, owner, before)
        else:
            _entries(found, container, before)
    for scope, name, before in capture.world.rebound():
        value = scope.get(name, MISSING)
        if value is MISSING:
            raise Irregular(f"a variable or an attribute of a class is taken away: {_shown(name)}")
        _entry(found, scope, name, value, before)
    _result(found, step)
    return found


def _fields(found: Effects, tensor: Tensor, before: dict[str, Any]) -> None:
    """The fields of a tensor from outside that were set."""
    for name in {**before, **vars(tensor)}:
        value = vars(tensor).get(name, getattr(Tensor, name, None))
        if name in _PASSING or value is before.get(name, getattr(Tensor, name, None)):
            continue
        if name != "_grad" and not (name == "_requires_grad" and isinstance(value, bool)):
            raise Irregular(f"a tensor from outside gets another history or memory ({name})")
        found.fields.append((found.located.number(tensor), name, found.value(value)))


def _entries(found: Effects, container: dict[Any, Any], before: dict[Any, Any]) -> None:
    """The entries of a dict, or the attributes of an object, that were set."""
    for key in before:
        if key not in container:
            raise Irregular(f"an entry is taken away: {_shown(key)}")
    for key, value in container.items():
        if value is not before.get(key, found):
            _entry(found, container, key, value, before.get(key, found))


def _entry(found: Effects, container: Any, key: Any, value: Any, old: Any) -> None:
    """An entry, an attribute or a variable that was set."""
    if isinstance(value, _KEPT):
        if value.__class__ is old.__class__ and value == old:
            return
        if value is not None and not isinstance(value, bool):
            raise Irregular(f"a value of Python's changes: {_shown(key)} becomes {value!r}")
    elif not is_tensor(value):
        raise Irregular(f"an object of Python's is made that lives on: {_shown(key)}, a {type(value).__name__}")
    found.entries.append((container, key, found.value(value)))


def _shown(key: Any) -> str:
    return repr(key) if isinstance(key, _KEPT) else f"an entry of a {type(key).__name__}"


def _result(found: Effects, step: Step) -> None:
    world, leaves = step.capture.world, list[Any]()
    seen = set[int]()

    def is_from_outside(x: Any) -> bool:
        if not isinstance(x, tuple) and (id(x) in world.given or id(x) in seen):
            raise Irregular("the result has a container of the arguments in it, or one twice")
        if not is_tensor(x):
            seen.add(id(x))
        return id(x) in world.objects

    structure = take_apart(step.result, leaves, is_from_outside)
    makers: list[Value] = []
    for leaf in leaves:
        if not is_tensor(leaf) and not isinstance(leaf, _KEPT) and id(leaf) not in world.lasting:
            raise Irregular(f"the result has a {type(leaf).__name__} in it")
        makers.append(found.value(leaf))
    found.result = makers[0] if structure is None else Tree(structure, makers)
