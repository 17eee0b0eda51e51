"""The guards, reads and effects of a compiled call as generated straight-line Python.

NOTE [Generated code]
A step with 200 parameters checks 400 tensors before its program runs and writes as many afterwards.  Looping over
tables takes longer than the work itself, so the functions here are generated, with one line for each tensor.

- ``FastGuards`` checks what ``Guards.match`` checks, and returns the tensors of a call.  A fixed tensor usually still
  has the storage of the last call, and then most of its signature cannot have changed: type and strides follow from the
  storage and the geometry; only for a view is the shape of its storage's array checked, since a resize changes it.
  If a storage differs or any line fails, the full guards decide.
- ``FastEffects`` makes the new tensors first.  The lines after that only load and store, and no signal is handled
  there (NOTE [Signals]): all effects are applied, or none.  Where a store would call a Python function (memory exported
  to NumPy, a container with its own ``__setitem__``), ``Effects.apply`` is used, which can undo everything.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, starmap
from operator import delitem, iadd, setitem
from typing import Any, NamedTuple

import numpy as np
from attrs import frozen

from fgrad.graph.source import function_of
from fgrad.mutable.capture.scopes import MISSING, Items, Variable
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import copy_node
from fgrad.mutable.tensor.storage import RepeatedWrites, Storage, VersionCounter, Write
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.device_of_value import elsewhere, place_of
from fgrad.torch.compiler.effects import Effects, note_writes
from fgrad.torch.compiler.external_tensors import Access
from fgrad.torch.compiler.generated import Lines, Scope
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.new_tensors import NewTensor, NewView
from fgrad.torch.compiler.values import Constant, ExternalRef, NewRef, NumberRef, Tree, Value
from fgrad.torch.compiler.windows import Window

#: what holds a value, the key, and the value
Entry = tuple[Any, Any, Value]


def _unpacked(prefix: str, count: int, of: str) -> Lines:
    names = [f"{prefix}{i}" for i in range(count)]
    return [f"    [{', '.join(names)}] = {of}"] if names else []


class FastGuards:
    """Returns the tensors of a call if they match the recorded ones, or None if ``Guards.match`` has to decide.

    Attributes:
      fixed, others: the indices of the fixed tensors, and of the others.
      indices: the indices of all tensors that are checked and returned.
      known: what the full guards have last checked; None before.  It is replaced as a whole, since a signal may
        interrupt ``remember``.
      run: the generated function.
    """

    def __init__(self, effects: Effects, guards: Guards, excluding: Collection[int] = ()):
        accesses, excluded = effects.external.accesses, set(excluding)
        self.indices: list[int] = [i for i in range(len(accesses)) if i not in excluded]
        self.fixed: list[int] = [i for i in self.indices if accesses[i][0] == "fixed"]
        self.others: list[int] = [i for i in self.indices if accesses[i][0] != "fixed"]
        self._excluded = excluding
        self.known: Known | None = None
        self.run: Callable[..., Any] = _guard_code(effects, guards, self.fixed, self.others)

    def remember(self, tensors: Sequence[Tensor]) -> None:
        """Remember the storages of tensors that match."""
        first = dict[int, int]()
        for i in (*self.fixed, *self._excluded):
            first.setdefault(id(tensors[i]._storage), i)
        shared = _sharing(first, [tensors[i]._storage for i in self.others])
        self.known = Known([tensors[i]._storage for i in self.fixed], first, shared)

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor] | None:
        return None if self.known is None else self.run(self.known, arguments)


class Known(NamedTuple):
    """The memory of the tensors of a call that matched.

    Attributes:
      storages: those of the fixed tensors.
      first: for each of these, by id, the first tensor that has it.
      shared: which of the others share memory, as encoded by ``_sharing``.
    """

    storages: Sequence[Storage]
    first: Mapping[int, int]
    shared: Sequence[int]


def _sharing(first: Mapping[int, int], storages: Sequence[Storage]) -> list[int]:
    """A number for each storage of the tensors that are not fixed; equal for equal storages."""
    others = dict[int, int]()
    return [first[k] if (k := id(s)) in first else others.setdefault(k, -i) for i, s in enumerate(storages, 1)]


def _guard_code(effects: Effects, guards: Guards, fixed: Sequence[int], others: Sequence[int]) -> Callable[..., Any]:
    external = effects.external
    written = {at for at, _ in effects.writes}
    checked_gradients = {at for kind, at in external.accesses if kind == "gradient"}  # checked as tensors of their own
    scope = Scope(fixed=[external.tensors[i] for i in fixed], classes=[guards.tensors[i][7] for i in fixed])
    scope |= {"elsewhere": elsewhere, "place_of": place_of, "sharing": _sharing}
    lines = ["def run(known, arguments):", *_unpacked("a", len(external.arguments), "arguments")]
    lines.append("    if [*map(type, fixed)] != classes: return None")
    lines += [f"    [{', '.join([f't{i}' for i in fixed])}] = fixed"] if fixed else []
    lines += [f"    [{', '.join([f'k{i}' for i in fixed])}] = known.storages"] if fixed else []
    checked_indices = sorted((*fixed, *others))
    for i in checked_indices:
        (kind, at), signature = external.accesses[i], guards.tensors[i]
        type, geometry, strides, home, shape, requires_grad, is_leaf, cls = signature[:8]
        inference, hooks, base, gradient, grad_dtype, place = signature[8:]
        if kind != "fixed":
            lines.append(f"    t{i} = {_access_expression((kind, at), scope)}")
        if kind == "fixed":
            checks = [f"(s := t{i}._storage) is not k{i}"]
        else:
            checks = [f"t{i}.__class__ is not {scope.name(cls)}"]
            checks += [
                f"(s{i} := t{i}._storage).strides {_is_not(strides, scope)}",
                f"t{i}._type is not {scope.name(type)}",
            ]
            checks.append(f"t{i}._inference is not {inference}")
            checks.append(f"elsewhere.exist and place_of(s{i}.array) != {scope.name(place)}")
        if kind != "fixed" or not base:
            checks.append(f"t{i}._view is {'not ' * base}None")
        storage = "s" if kind == "fixed" else f"s{i}"
        if shape is not None and (geometry is not None or home is not None):
            checks.append(f"{storage}.array.shape != {scope.name(shape)}")
        checks.append(f"{storage}.home {_is_not(home, scope)}")
        if shape is not None:
            checks.append(f"t{i}._geometry {_is_not(geometry, scope)}")
        checks.append(f"{'not ' * requires_grad}t{i}._requires_grad")
        checks.append(f"t{i}._node is {'not ' * is_leaf}None")
        checks += [] if hooks else [f"t{i}._tensor_hooks", f"t{i}._post_accumulate_grad_hooks"]
        if requires_grad:
            checks.append(f"t{i}._grad_dtype is not {scope.name(grad_dtype)}")
        if gradient is None:
            checks.append(f"t{i}._grad is not None")
        elif i not in checked_gradients:
            check = f"(g := t{i}._grad).__class__ is not {scope.name(gradient[0])}"
            checks += [check, f"{'not ' * gradient[1]}g._requires_grad"]
        if i in written:
            checks.append(f"{storage}.memory is not None")
        lines.append(f"    if {' or '.join(checks)}: return None")
    lines += [
        f"    if {_access_expression(access, scope)} is not t{at}: return None" for access, at in external.aliases
    ]
    for window in guards.windows:
        names = ", ".join([f"t{i}" for i in window.arguments])
        lines.append(f"    if not {scope.name(window.fits)}([{names}]): return None")
    if guards.tensor_attributes:
        marked = ", ".join([f"t{i}" for i in range(len(external.accesses))])
        lines.append(f"    if not {scope.name(guards.attributes_hold)}([{marked}]): return None")
    if len(others) == 1:
        lines.append(f"    if known.first.get(id(s{others[0]}), -1) != known.shared[0]: return None")
    elif others:
        storages = ", ".join([f"s{i}" for i in others])
        lines.append(f"    if sharing(known.first, [{storages}]) != known.shared: return None")
    lines.append(f"    return [{', '.join([f't{i}' for i in checked_indices])}]")
    return function_of(lines, scope, "compiled call")


def _access_expression(access: Access, scope: Scope) -> str:
    """The expression for a tensor that is not fixed."""
    kind, at = access
    if kind == "argument":
        return f"a{at}"
    if kind == "entry":
        return f"{scope.name(at[0])}.get({scope.name(at[1])}, None)"
    return f"t{at}._grad" if kind == "gradient" else f"t{at}._view.base"


def _is_not(value: Any, scope: Scope) -> str:
    return "is not None" if value is None else f"!= {scope.name(value)}"


@frozen
class NumberIn:
    """An input that is a number in a dict, or in a tuple in a dict."""

    holder: Any
    key: Any


@frozen
class NumberAt:
    """An input that is one of a call's numbers (NOTE [Symbolic numbers])."""

    index: int


#: how an input of a program is read: the array of a tensor, by its index, a window, a number, or a function of the
#: early draws
Read = int | Window | NumberIn | NumberAt | Callable[[Any], Any]


def reader(cells: Sequence[Read], tensors: int) -> Callable[[Sequence[Tensor], Any, Any], list[Any]]:
    """A function that reads the inputs of a program from the tensors of a call, the early draws, and its numbers."""
    scope = Scope()
    lines = ["def run(found, drawn, numbers=()):", *_unpacked("t", tensors, "found")]
    return function_of([*lines, f"    return [{', '.join([_read(x, scope) for x in cells])}]"], scope, "compiled call")


def _read(cell: Read, scope: Scope) -> str:
    """The expression for an input."""
    if isinstance(cell, int):
        return f"t{cell}._storage.array"
    if isinstance(cell, Window):
        return f"{scope.name(cell.read)}(t{cell.arguments[0]})"
    if isinstance(cell, NumberIn):
        return f"{scope.name(np.float64)}({scope.name(cell.holder)}[{scope.name(cell.key)}])"
    if isinstance(cell, NumberAt):
        return f"numbers[{cell.index}]"
    return f"{scope.name(cell)}(drawn)"


class FastEffects:
    """Applies the effects of a call; ``run`` is None where ``Effects.apply`` has to do it."""

    def __init__(self, effects: Effects, outputs: int):
        self.effects = effects
        self.repeated: list[RepeatedWrites] = [_NO_WRITES] * len(effects.counts)
        self.run: Callable[..., Any] | None = _effect_code(effects, outputs) if is_plain(effects) else None

    def __call__(
        self, tensors: Sequence[Tensor], outs: Sequence[Any], numbers: Sequence[Any], call: Any
    ) -> tuple[list[Tensor], Any]:
        run = self.run
        if run is None:
            return self.effects.apply(tensors, outs, numbers, call)
        return run(tensors, outs, self.repeated, numbers, call)

    def attribute_versions(self, tensors: Sequence[Tensor]) -> None:
        """Make the counters of a call attribute their next versions to it."""
        for i, (at, delta, writes) in enumerate(self.effects.counts):
            if is_uniform(delta, writes) and tensors[at]._counter.writes is not self.repeated[i]:
                _attribute_versions(self.repeated, i, tensors[at]._counter, writes[0])


def is_plain(effects: Effects) -> bool:
    """Whether setting the fields and entries calls no Python function."""
    classes = effects.external.classes
    return all(
        classes[at].__setattr__ is object.__setattr__ and getattr(classes[at], name) in (None, False)
        for at, name, _ in effects.fields
    ) and all(
        (isinstance(container, Variable | Items) or type(container).__setitem__ in _PLAIN_STORES)
        and key.__class__ in (str, int)
        for container, key, _ in (*effects.entries, *effects.additions)
    )


_PLAIN_STORES = (dict.__setitem__, OrderedDict.__setitem__)


def _effect_code(effects: Effects, outputs: int) -> Callable[..., Any]:
    scope = Scope(Storage=Storage, VersionCounter=VersionCounter, Tensor=Tensor, new=object.__new__)
    scope |= {"copied": copy_node, "begin": _attribute_versions, "note": note_writes, "changes": changes}
    lines = ["def run(found, outs, runs, numbers, call):"]
    lines += _unpacked("t", len(effects.external.tensors), "found")
    lines += _unpacked("o", outputs, "outs")
    lines += _unpacked("r", len(effects.counts), "runs")
    lines += ["    nodes = {}"] * any(isinstance(each, NewView) for each in effects.new_tensors)
    for i, each in enumerate(effects.new_tensors):
        lines += _creation_lines(i, each, scope)
    alike = [is_uniform(delta, writes) for _, delta, writes in effects.counts]
    for i, (at, _, writes) in enumerate(effects.counts):
        if alike[i]:
            lines.append(
                f"    if t{at}._counter.writes is not r{i}: begin(runs, {i}, t{at}._counter, {scope.name(writes[0])})"
            )
    # releasing calls many functions: see NOTE [Owned tensors]
    for at, _ in effects.writes:
        lines.append(f"    if t{at}._storage.__class__ is not Storage: t{at}._storage.settle()")
    for at, *_ in effects.counts:
        lines.append(f"    if t{at}._counter.__class__ is not VersionCounter: t{at}._counter.settle()")
    noted = ["attributes"] * bool(effects.entries) + ["fields"] * bool(effects.fields)
    lines += ["    now = new(object)"] if noted else []
    trees = {i: value for i, (*_, value) in enumerate(effects.entries) if isinstance(value, Tree)}
    lines += [f"    e{i} = {_expression(tree, scope)}" for i, tree in trees.items()]
    # from here on nothing is called
    lines += [f"    t{at}._storage.array = o{output}" for at, output in effects.writes]
    lines += [f"    t{at}._counter.value += {delta}" for at, delta, _ in effects.counts]
    lines += [f"    t{at}.{name} = {_expression(value, scope)}" for at, name, value in effects.fields]
    lines += [
        f"    {_target(container, key, scope)} = {f'e{i}' if i in trees else _expression(value, scope)}"
        for i, (container, key, value) in enumerate(effects.entries)
    ]
    lines += [
        f"    {_target(container, key, scope)} += {_list_of(values, scope)}"
        for container, key, values in effects.additions
    ]
    lines += [f"    changes.{kind} = now" for kind in noted]
    lines.append("    call.has_effects = True")
    # until here
    for i, (at, delta, writes) in enumerate(effects.counts):
        if not alike[i]:
            lines.append(f"    note(t{at}._counter, {delta}, {scope.name(writes)})")
    lines += _counting_lines(effects, scope)
    lines.append(f"    made = [{', '.join([f'g{i}' for i in range(len(effects.new_tensors))])}]")
    lines.append(f"    return made, {_expression(effects.result, scope)}")
    return function_of(lines, scope, "compiled call")


def stores_maker(entries: Sequence[Entry], guards: Guards) -> Callable[..., Any]:
    """A function of a call's numbers that gives iterators, each of which sets an entry or a variable (``run_into``)."""
    scope = Scope()
    made = ", ".join(_stores(entries, guards, scope))
    return function_of(["def run(numbers):", f"    return [{made}]"], scope, "compiled call")


def later_stores(effects: Effects, entries: Sequence[Entry], guards: Guards, scope: Scope) -> str:
    """The expression for an iterator that sets some entries and variables, and adds to lists."""
    scope |= {"chain": chain, "iadd": iadd}
    lists = ", ".join([_target(container, key, scope) for container, key, _ in effects.additions])
    added = ", ".join([_list_of(values, scope) for *_, values in effects.additions])
    added = f"map(iadd, [{lists}], [{added}])"
    return f"chain({', '.join([*_stores(entries, guards, scope), added])})"


def undoing(container: Any, key: Any) -> Iterator[Any]:
    """An iterator that sets an entry or a variable to what it is now."""
    old = container.get(key, MISSING)
    if isinstance(container, Variable):
        return starmap(setattr, ((container.owner, "cell_contents", old),))
    stored = _stored(container)
    return starmap(delitem, ((stored, key),)) if old is MISSING else starmap(setitem, ((stored, key, old),))


def _stores(entries: Sequence[Entry], guards: Guards, scope: Scope) -> Lines:
    """The expressions for iterators that set entries and variables."""
    scope |= {"starmap": starmap, "setitem": setitem, "setattr": setattr, "changes": changes, "new": object.__new__}
    stores = [(_setting(container, key, scope), _expression(x, scope)) for container, key, x in entries]
    if any(id(container) in guards.modules for container, *_ in entries):
        stores.append(("setattr, ((changes, 'attributes'", "new(object)"))
    return [f"starmap({setting}, {value}),))" for setting, value in stores]


def _setting(container: Any, key: Any, scope: Scope) -> str:
    """The arguments of ``starmap`` for an assignment, up to the value."""
    if isinstance(container, Variable):
        return f"setattr, (({scope.name(container.owner)}, 'cell_contents'"
    return f"setitem, (({scope.name(_stored(container))}, {key!r}"


def _target(container: Any, key: Any, scope: Scope) -> str:
    if isinstance(container, Variable):
        return f"{scope.name(container.owner)}.cell_contents"
    return f"{scope.name(_stored(container))}[{key!r}]"


def _stored(container: Any) -> Any:
    """The list itself in place of its items."""
    return container.owner if isinstance(container, Items) else container


def result_maker(
    effects: Effects,
    scope: Scope,
    indices: Sequence[int],
    excluding: Collection[int],
    outputs: Mapping[int, int],
    later: str | None = None,
) -> Callable[..., Any]:
    """A function that makes a call's new tensors, except some, and returns its result, from some tensors and outputs.

    The other tensors that the result may contain are in the scope.

    Arguments:
      later: an expression whose value is returned, too.
    """
    scope |= {"Storage": Storage, "VersionCounter": VersionCounter, "Tensor": Tensor, "new": object.__new__}
    scope["copied"] = copy_node
    lines = ["def run(found, outs, numbers):"]
    lines += [f"    [{', '.join([f't{i}' for i in indices])}] = found"] if indices else []
    lines += ["    nodes = {}"] * any(isinstance(each, NewView) for each in effects.new_tensors)
    for i, new in enumerate(effects.new_tensors):
        if i not in excluding:
            lines += [] if new.output is None else [f"    o{new.output} = outs[{outputs[new.output]}]"]
            lines += _creation_lines(i, new, scope)
    lines += _counting_lines(effects, scope)
    result = _expression(effects.result, scope)
    result = result if later is None else f"{result}, {later}"
    return function_of([*lines, f"    return {result}"], scope, "compiled call")


def _creation_lines(i: int, new: NewTensor | NewView, scope: Scope) -> Lines:
    """The lines that make a new tensor, as ``NewTensor.make`` does, or a view."""
    if isinstance(new, NewView):
        base, start = _expression(new.base, scope), _expression(new.start, scope)
        return [f"    g{i} = {scope.name(new.make)}({base}, {start}, nodes)"]
    like = new.like
    lines = [f"    g{i} = new(Tensor)"]
    if new.storage is None:
        lines += [f"    g{i}._storage = s = new(Storage)", f"    s.array = o{new.output}"]
        lines += [
            f"    s.strides = {scope.name(like._storage.strides)}",
            f"    s.dtype = {scope.name(like._storage.dtype)}",
        ]
        lines.append("    s.home = s.memory = None")
    else:
        lines.append(f"    g{i}._storage = {_expression(new.storage, scope)}._storage")
    lines.append(f"    g{i}._type = {scope.name(like._type)}")
    if new.counter is None:
        lines += [f"    g{i}._counter = c = new(VersionCounter)", f"    c.value = {like._counter.value}"]
        lines.append("    c.writes = None")
    else:
        lines.append(f"    g{i}._counter = {_expression(new.counter, scope)}._counter")
    lines.append(f"    g{i}._node = g{i}._view = g{i}._origin = None")
    lines.append(f"    g{i}._geometry = {scope.name(like._geometry)}")
    lines.append(f"    g{i}._requires_grad, g{i}._inference = {like._requires_grad}, False")
    if like._node is not None:
        lines.append(f"    g{i}._node = copied({scope.name(like._node)})")
        lines.append(f"    g{i}._output_nr = {like._output_nr}")
    return lines


def _counting_lines(effects: Effects, scope: Scope) -> Lines:
    """The lines that note the versions of new views."""
    views = [(i, x) for i, x in enumerate(effects.new_tensors) if isinstance(x, NewView)]
    return [f"    {scope.name(x.count)}(g{i})" for i, x in views]


def is_uniform(delta: int, writes: Sequence[Write]) -> bool:
    """Whether all versions that a call counts have equal writes."""
    return len(writes) == delta > 0 and len({write._replace(version=0) for write in writes}) == 1


#: the writes of no counter
_NO_WRITES = RepeatedWrites(Write(0, "", None, ""), ())


def _attribute_versions(repeated: list[RepeatedWrites], index: int, counter: VersionCounter, write: Write) -> None:
    """Attribute a counter's versions to a compiled call from now on."""
    counter.writes = repeated[index] = RepeatedWrites(write._replace(version=counter.value + 1), counter.last_writes())


def _list_of(values: Sequence[Value], scope: Scope) -> str:
    return f"[{', '.join([_expression(value, scope) for value in values])}]"


def _expression(value: Value, scope: Scope) -> str:
    match value:
        case ExternalRef(number):
            return f"t{number}"
        case NewRef(index):
            return f"g{index}"
        case NumberRef(index):
            return f"numbers[{index}]"
        case Constant(held):
            return scope.name(held)
        case Tree():
            leaves = f"[{', '.join([_expression(leaf, scope) for leaf in value.leaves])}]"
            return f"{scope.name(value.put_together)}({leaves})"
