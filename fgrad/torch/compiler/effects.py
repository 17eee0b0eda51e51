"""The side effects of a captured call, in a form that can be replayed with other arrays.

NOTE [Effects]
After a compiled call everything is as it would be uncompiled.  The capture has run the function once, and a second walk
has shown its effects; here they are recorded: which storages get which output, by how much counters advance, which
entries of dicts and lists (a tensor's ``.grad``, a module's attribute, an optimiser's state) are set, and to what, and
what is appended to lists.  New tensors are made at each call.  A Python number that changes is set to what Python
computes from the call's numbers (NOTE [Held numbers]).  Effects of other kinds (a set that changes, memory that is
resized) are ``NotReplayable``: such a call runs in pieces.
"""

import operator
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from attrs import define, field

from fgrad.mutable.capture.held_numbers import Holding, settled
from fgrad.mutable.capture.scopes import MISSING, as_dict, entries_of
from fgrad.mutable.capture.snapshot import Hidden, Snapshot
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.storage import WRITES_KEPT, RepeatedWrites, Storage, VersionCounter, Write
from fgrad.mutable.tensor.tensor import Tensor, ViewOf
from fgrad.mutable.types.number_program import same_number
from fgrad.mutable.types.symbolic import SymbolicNumber
from fgrad.torch.compiler.constants import is_constant
from fgrad.torch.compiler.containers import OPENED, Structure, flat, take_apart
from fgrad.torch.compiler.external_tensors import ExternalTensors, is_tuple_of_tensors
from fgrad.torch.compiler.new_tensors import (
    Chain,
    NewTensor,
    NewView,
    NotReplayable,
    check_own,
    check_plain,
    check_released,
    check_view,
)
from fgrad.torch.compiler.objects import form_of
from fgrad.torch.compiler.step import Step
from fgrad.torch.compiler.values import Constant, ExternalRef, NewRef, NumberRef, Tree, Value, signature

#: fields of tensors that the user cannot see, and that are recomputed on demand
TRANSIENT = frozenset(("_cache", "_accumulator", "_origin", "_level"))
_ABSENT: Any = object()
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)


#: why a call whose lists change is not replayed
GREW = "a list grows or shrinks, or a set, a deque or a list of another class is changed"
HIDDEN = "an array of NumPy's or Python's is written, or the cache of a function (functools.cache) is filled or emptied"


@define(eq=False)
class Effects:
    """The effects of one call on the tensors from outside, by their indices in ``external``.

    Attributes:
      outputs: the traced values that the program has to compute.
      new_tensors: those that each call makes, and views.
      chains: the histories of views that a backward can pass through, up to their bases.
      writes: tensors whose storage was written, and the outputs that they get.
      counts: tensors whose version counter advanced, by how much, and the last writes.
      fields: tensor, field and value.
      entries: dict, or what is adapted to one, key and value.
      additions: what holds a list, as for entries, and what is appended to it (NOTE [Growing lists]).
      result: what the call returns.
    """

    external: ExternalTensors
    chains: Mapping[Tensor, Chain]
    outputs: list[Any] = field(factory=list)
    new_tensors: list[NewTensor | NewView] = field(factory=list)
    writes: list[tuple[int, int]] = field(factory=list)
    counts: list[tuple[int, int, list[Write]]] = field(factory=list)
    fields: list[tuple[int, str, Value]] = field(factory=list)
    entries: list[tuple[Any, Any, Value]] = field(factory=list)
    additions: list[tuple[Any, Any, list[Value]]] = field(factory=list)
    result: Value = field(default=Constant(None))
    _new_indices: dict[int, int] = field(factory=dict)
    _storages: dict[Storage, NewRef] = field(factory=dict)
    _counters: dict[VersionCounter, NewRef] = field(factory=dict)

    def signature(self) -> Any:
        """Equal for two calls with the same effects."""
        return (
            tuple([each.signature for each in self.new_tensors]),
            tuple(self.writes),
            tuple([(at, delta) for at, delta, _ in self.counts]),
            tuple([(at, name, signature(value)) for at, name, value in self.fields]),
            tuple([(Holding(container, key).place, signature(value)) for container, key, value in self.entries]),
            tuple([(Holding(at, key).place, tuple(map(signature, values))) for at, key, values in self.additions]),
            signature(self.result),
        )

    def constants(self) -> Iterator[Any]:
        """What it sets and returns that is the same at each call."""
        values = [*[x for *_, x in self.fields], *[x for *_, x in self.entries]]
        for value in (*values, *[x for *_, added in self.additions for x in added], self.result):
            leaves = value.leaves if isinstance(value, Tree) else [value]
            yield from [x.value for x in leaves if isinstance(x, Constant)]

    def output(self, value: Any) -> int:
        self.outputs.append(value)
        return len(self.outputs) - 1

    def value(self, value: Any) -> Value:
        """The description of a value that a replayed call sets or returns."""
        capture = self.external.capture
        if isinstance(value, SymbolicNumber):
            return NumberRef(value._index)
        if not is_tensor(value):
            return Constant(value)
        if value in capture.snapshot.tensors:
            return ExternalRef(self.external.index(value))
        return NewRef(self.new_index(value))

    def new_index(self, tensor: Tensor) -> int:
        """The index of a new tensor, which is added if need be."""
        cached = self._new_indices.get(id(tensor))
        if cached is not None:
            return cached
        check_plain(tensor)
        if tensor._node is not None and tensor not in self.chains:
            check_released(tensor._node)
        if tensor._view is not None:
            return self._new_view(tensor, tensor._view)
        outside, storage, counter = self.external, tensor._storage, tensor._counter
        shared = outside.ref_of(storage) or self._storages.get(storage)
        counted = outside.ref_of(counter) or self._counters.get(counter)
        output = None
        if shared is None:
            check_own(tensor, self.external.capture)
            output = self.output(storage.array)
        self._new_indices[id(tensor)] = index = len(self.new_tensors)
        self.new_tensors.append(NewTensor(output, tensor, shared, counted))
        self._storages.setdefault(storage, NewRef(index))
        self._counters.setdefault(counter, NewRef(index))
        return index

    def _new_view(self, tensor: Tensor, view: ViewOf) -> int:
        """The index of a new view, which is added, as is its base if need be."""
        check_view(tensor, view)
        chain, base = self.chains.get(tensor), self._ref(view.base)
        start = base if chain is None else self._ref(chain.start)
        self._new_indices[id(tensor)] = index = len(self.new_tensors)
        self.new_tensors.append(NewView.of(tensor, view, base, chain, start))
        return index

    def _ref(self, tensor: Tensor) -> ExternalRef | NewRef:
        ref = self.value(tensor)
        assert isinstance(ref, ExternalRef | NewRef)
        return ref

    def apply(
        self, tensors: Sequence[Tensor], outs: Sequence[Any], numbers: Sequence[Any], call: Any
    ) -> tuple[list[Tensor], Any]:
        """Apply all effects, or none if a signal interrupts; returns the new tensors and the result.

        ``call.has_effects`` is set in the same moment.
        """
        new: list[Tensor] = []
        nodes: dict[Node, Node] = {}
        for each in self.new_tensors:
            if isinstance(each, NewView):
                new.append(each.make(each.base(tensors, new, numbers), each.start(tensors, new, numbers), nodes))
            else:
                new.append(each.make(tensors, outs, new))
        # first look everything up, and the old values; the rest only sets
        storages = [(tensors[at]._storage, outs[output]) for at, output in self.writes]
        counters = [(tensors[at]._counter, delta) for at, delta, _ in self.counts]
        views = [(each, view) for each, view in zip(self.new_tensors, new, strict=True) if isinstance(each, NewView)]
        entries = [(fields_of(tensors[at]), name, value(tensors, new, numbers)) for at, name, value in self.fields]
        entries += [(container, key, value(tensors, new, numbers)) for container, key, value in self.entries]
        lists = [container.get(key, None) for container, key, _ in self.additions]
        additions = [[value(tensors, new, numbers) for value in values] for *_, values in self.additions]
        arrays = [storage.array for storage, _ in storages]
        values = [counter.value for counter, _ in counters]
        previous = [container.get(key, _ABSENT) for container, key, _ in entries]
        now = object()
        try:
            for storage, array in storages:
                storage.array = array
            for counter, delta in counters:
                counter.value += delta
            for container, key, value in entries:
                container[key] = value
            deque(map(operator.iadd, lists, additions), 0)  # nothing interrupts this
            call.has_effects = True
        except BaseException:
            for (storage, _), array in zip(storages, arrays, strict=True):
                storage.array = array
            for (counter, _), value in zip(counters, values, strict=True):
                counter.value = value
            for (container, key, _), value in zip(entries, previous, strict=True):
                if value is _ABSENT:
                    container.pop(key, None)
                else:
                    container[key] = value
            raise
        finally:
            changes.attributes = changes.fields = now
        for (counter, delta), (_, _, writes) in zip(counters, self.counts, strict=True):
            note_writes(counter, delta, writes)
        for each, view in views:
            each.count(view)
        return new, self.result(tensors, new, numbers)


def note_writes(counter: VersionCounter, delta: int, writes: Sequence[Write]) -> None:
    """Note the last writes of a counter, for error messages; only the latest are kept."""
    if counter.writes.__class__ is RepeatedWrites and delta > len(writes):
        counter.writes = deque(counter.writes.until(counter.value - delta), WRITES_KEPT)  # type: ignore[union-attr]
    if not writes:
        return
    if counter.writes is None:
        counter.writes = deque(maxlen=WRITES_KEPT)
    for version, write in enumerate(writes, counter.value - len(writes) + 1):
        counter.writes.append(write._replace(version=version))


def effects_of(step: Step, arguments: Sequence[Tensor], chains: Mapping[Tensor, Chain]) -> Effects:
    """The effects of a captured call; the function has run, and nothing has been restored yet.

    ``chains`` are the histories of views that a backward can pass through, up to their bases.

    Raises:
      NotReplayable: they cannot be replayed.
    """
    capture = step.capture
    if capture.side_effects:
        raise NotReplayable(capture.side_effects[0])
    owners = {id(fields_of(tensor)): tensor for tensor in capture.snapshot.tensors}
    changed = [(owners.get(id(container)), container, before) for container, before in capture.snapshot.changed()]
    for owner, _, before in changed:
        if owner is not None:
            _check_fields(owner, before)
    effects = Effects(ExternalTensors(capture, arguments), chains)
    for each in capture.storages.values():
        if each.is_written:
            if (each.storage.strides, each.storage.home) != each.layout:
                raise NotReplayable("the memory of a tensor from outside is resized")
            effects.writes.append((effects.external.index_of(each.storage), effects.output(each.value)))
    for counter, (before, _) in capture.counters.items():
        delta = counter.value - before
        if delta:
            noted = counter.last_writes()[-delta:]
            effects.counts.append((effects.external.index_of(counter), delta, noted))
    for owner, container, before in changed:
        entries = as_dict(container)
        if isinstance(container, Hidden):
            raise NotReplayable(HIDDEN)
        if entries is None or (type(container) is list and len(container) != len(before)):
            raise NotReplayable(GREW)
        if id(container) in capture.snapshot.argument_containers:
            raise NotReplayable("a dict or a list among the arguments is changed")
        if owner is not None:
            _fields(effects, owner, before)
        else:
            _entries(effects, entries, dict(entries_of(before)))
    for scope, name, before in capture.snapshot.rebound():
        value = scope.get(name, MISSING)
        if value is MISSING:
            raise NotReplayable(f"a variable or an attribute of a class is deleted: {_key_text(name)}")
        _entry(effects, scope, name, value, before)
    for holding, before in capture.held_before:
        if holding.read() is before:  # the call sets it to what it was, which no comparison has seen
            effects.entries.append((holding.container, holding.key, Constant(before)))
    _additions(effects)
    _result(effects, step)
    return effects


def _check_fields(tensor: Tensor, before: dict[str, Any]) -> None:
    """Raise ``NotReplayable`` if other fields of a tensor from outside were set than replayed calls set."""
    for name, value in _set_fields(tensor, before):
        if name != "_grad" and not (name == "_requires_grad" and isinstance(value, bool)):
            raise NotReplayable(f"a tensor from outside gets another history or memory ({name})")


def _set_fields(tensor: Tensor, before: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a tensor from outside that were set, and their values."""
    for name in {**before, **fields_of(tensor)}:
        value = fields_of(tensor).get(name, getattr(Tensor, name, None))
        if name not in TRANSIENT and value is not before.get(name, getattr(Tensor, name, None)):
            yield name, value


def _fields(effects: Effects, tensor: Tensor, before: dict[str, Any]) -> None:
    """The effects on the fields of a tensor from outside."""
    for name, value in _set_fields(tensor, before):
        effects.fields.append((effects.external.index(tensor), name, effects.value(value)))


def _entries(effects: Effects, container: Any, before: dict[Any, Any]) -> None:
    """The entries of a dict or a list, or the attributes of an object, that were set."""
    for key in before:
        if key not in container:
            raise NotReplayable(f"an entry is deleted: {_key_text(key)}")
    objects = effects.external.capture.snapshot.objects
    if id(container) in objects and not all(map(operator.eq, map(id, container), map(id, before))):
        raise NotReplayable("the order of a dict changes")
    for key, value in container.items():
        if value is not before.get(key, effects):
            _entry(effects, container, settled(key), value, before.get(key, effects))


def _additions(effects: Effects) -> None:
    """What was appended to growing lists."""
    for holding in effects.external.capture.lists:
        found = holding.read()
        if found is not effects.external.capture.growing[holding.place] or found.is_read:
            raise NotReplayable("a list that grows is read, or replaced")
        for value in found.appended:
            if not is_tensor(value) and not isinstance(value, _CONSTANTS):
                raise NotReplayable(f"a Python object outlives the call: in a list, a {type(value).__name__}")
        effects.additions.append((holding.container, holding.key, [*map(effects.value, found.appended)]))


def _entry(effects: Effects, container: Any, key: Any, value: Any, old: Any) -> None:
    """An entry, an attribute or a variable that was set."""
    if Holding(container, key).place in effects.external.capture.growing:
        return
    held = effects.external.capture.held.get(Holding(container, key).place)
    if isinstance(value, SymbolicNumber):
        if held is None and value.__class__ is type(old):
            raise NotReplayable(f"a Python value changes: {_key_text(key)}")
        if value is not held:
            effects.entries.append((container, key, NumberRef(value._index)))
        return
    if isinstance(value, _CONSTANTS):
        if held is None and value.__class__ is old.__class__ and same_number(value, old):
            return
        if held is None and value is not None and not isinstance(value, bool):
            raise NotReplayable(f"a Python value changes: {_key_text(key)} becomes {value!r}")
    elif isinstance(value, tuple) and all(isinstance(x, (SymbolicNumber, *_CONSTANTS)) for x in value):
        _tuple_entry(effects, container, key, value, old)
        return
    elif is_tuple_of_tensors(value):
        leaves = list[Any]()
        structure = take_apart(value, leaves)
        effects.entries.append((container, key, Tree(structure, [*map(effects.value, leaves)])))
        return
    elif not is_tensor(value):
        raise NotReplayable(f"a Python object outlives the call: {_key_text(key)}, a {type(value).__name__}")
    effects.entries.append((container, key, effects.value(value)))


def _tuple_entry(effects: Effects, container: Any, key: Any, value: tuple[Any, ...], old: Any) -> None:
    """A tuple of numbers, strings and the like that was set, such as an optimiser's ``betas`` or a shape."""
    leaves = list[Any]()
    structure = take_apart(value, leaves)
    if type(old) is type(value) and len(old) == len(value):
        known = [(x, y) for x, y in zip(value, old, strict=True) if not isinstance(x, SymbolicNumber)]
        changed = [x for x, y in known if x.__class__ is not y.__class__ or not same_number(x, y)]
        if any(isinstance(x, int | float | complex) for x in changed):
            raise NotReplayable(f"a Python value changes: {_key_text(key)} becomes {value!r}")
        if not changed and len(known) == len(value):
            return
    effects.entries.append((container, key, Tree(structure, [*map(effects.value, leaves)])))


def _key_text(key: Any) -> str:
    return repr(key) if isinstance(key, _CONSTANTS) else f"an entry of a {type(key).__name__}"


def _result(effects: Effects, step: Step) -> None:
    snapshot, leaves = step.capture.snapshot, list[Any]()
    visited = set[int]()

    def is_from_outside(x: Any) -> bool:
        again = id(x) in visited and id(x) not in snapshot.persistent
        if not isinstance(x, tuple) and (id(x) in snapshot.argument_containers or again):
            raise NotReplayable("the result contains a container of the arguments, or one container twice")
        if not is_tensor(x) and not is_constant(x):
            visited.add(id(x))
        return id(x) in snapshot.objects or (x.__class__ in OPENED and id(x) not in step.objects)

    structure = take_apart(step.result, leaves, is_from_outside, step.objects)
    outside = snapshot.persistent - snapshot.argument_containers
    makers: list[Value] = []
    for leaf in leaves:
        if not is_tensor(leaf) and not is_constant(leaf) and id(leaf) not in outside:
            raise NotReplayable(f"the result contains a {type(leaf).__name__}{_why_kept(leaf, snapshot)}")
        makers.append(effects.value(leaf))
    effects.result = makers[0] if structure is None else Tree(_with_plain_keys(structure, outside), makers)


def _with_plain_keys(structure: Structure, outside: Collection[int]) -> Structure:
    """The structure of a result with Python's numbers as keys, whose values are guarded.

    Raises:
      NotReplayable: a key is a tensor, or a function that the call makes is the default of a dict.
    """
    if structure is None:
        return None
    kind, context, children = structure
    for x in flat([context]):
        if is_tensor(x) or (isinstance(x, FunctionType) and not is_constant(x) and id(x) not in outside):
            raise NotReplayable(f"the result contains a dict that holds a {type(x).__name__} otherwise than as a value")
    return kind, settled(context), tuple([_with_plain_keys(x, outside) for x in children])


def _why_kept(x: Any, snapshot: Snapshot) -> str:
    """Why an object in a result is not made anew."""
    if id(x) in snapshot.objects:
        return " of the arguments"
    form = form_of(x)
    return f", {form}" if isinstance(form, str) else ", which something else holds"
