"""A compiled call as straight lines of Python: whether its tensors are as recorded, what it reads, what it leaves.

NOTE [Straight lines]
A step with 200 parameters looks at 400 tensors before its program runs and writes as many afterwards.  Going through
lists of what to do takes longer than doing it, so the functions here are written out, a line for each tensor.

- ``Fitting`` asks what ``Guards.fit`` asks, and gives the tensors of a call.  A tensor that is always the same object
  has mostly the same storage too, and then most of its signature cannot have changed: its type and strides go with the
  storage and the geometry; a view is asked for the shape of its memory, which a resize changes.  The storages that the
  last call found are known; where one is another, or any line says no, the guards are asked in full.
- ``Leaving`` makes the new tensors first.  The lines after that only load and store, and no signal is handled there
  (NOTE [Signals]): all effects are there or none.  Where a store would call a function of Python's (memory that NumPy
  looks at, a container with a ``__setitem__`` of its own), ``Effects.apply`` does it, which can take everything back.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fgrad.graph.source import function_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import copy_node
from fgrad.mutable.tensor.storage import RepeatedWrites, Storage, VersionCounter, Write
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.effects import Effects, Found, Fresh, Kept, Made, Tree, Value, note
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.located import Way

Lines = list[str]


class Scope(dict[str, Any]):
    """The globals of a function that is written out: objects by the names that it has for them."""

    def name(self, value: Any) -> str:
        """A name for an object."""
        if value is None or value is True or value is False or value.__class__ is int:
            return repr(value)
        name = f"c{len(self)}"
        self[name] = value
        return name


def _unpacked(prefix: str, count: int, of: str) -> Lines:
    names = [f"{prefix}{i}" for i in range(count)]
    return [f"    [{', '.join(names)}] = {of}"] if names else []


class Fitting:
    """The tensors of a call, if they are as those that were recorded; None where ``Guards.fit`` has to say.

    Attributes:
      fixed, others: the numbers of the tensors that are always the same objects, and of those that need not be.
      asked: the numbers of all that are asked and given: all but those that are left out.
      known: the storages of the fixed ones, as they were at the last call that the guards were asked of.
      first: for each of these storages, by identity, the first tensor that has it.
      shared: which of the others share memory, as ``sharing`` says it.
      run: what is written out.
    """

    def __init__(self, effects: Effects, guards: Guards, but: Collection[int] = ()):
        ways, left_out = effects.located.ways, set(but)
        self.asked: list[int] = [i for i in range(len(ways)) if i not in left_out]
        self.fixed: list[int] = [i for i in self.asked if ways[i][0] == "fixed"]
        self.others: list[int] = [i for i in self.asked if ways[i][0] != "fixed"]
        self._left_out = but
        self.known: list[Any] = []
        self.first: dict[int, int] = {}
        self.shared: list[int] = []
        self.run: Callable[..., Any] = _fitting(effects, guards, self.fixed, self.others)

    def know(self, found: Sequence[Tensor]) -> None:
        """Take over the storages of tensors that fit."""
        self.known = [found[i]._storage for i in self.fixed]
        self.first = {}
        for i in (*self.fixed, *self._left_out):
            self.first.setdefault(id(found[i]._storage), i)
        self.shared = self.sharing([found[i]._storage for i in self.others])

    def sharing(self, storages: Sequence[Storage]) -> list[int]:
        """For each storage of the others a number that it shares with those that are the same."""
        first, own = self.first, dict[int, int]()
        return [first[k] if (k := id(s)) in first else own.setdefault(k, -i) for i, s in enumerate(storages, 1)]

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor] | None:
        return self.run(self, arguments)


def _fitting(effects: Effects, guards: Guards, fixed: Sequence[int], others: Sequence[int]) -> Callable[..., Any]:
    located = effects.located
    written = {at for at, _ in effects.writes}
    followed = {at for kind, at in located.ways if kind == "gradient"}  # these are looked at themselves
    scope = Scope(fixed=[located.tensors[i] for i in fixed], classes=[guards.tensors[i][7] for i in fixed])
    lines = ["def run(self, arguments):", *_unpacked("a", len(located.arguments), "arguments")]
    lines.append("    if [*map(type, fixed)] != classes: return None")
    lines += [f"    [{', '.join([f't{i}' for i in fixed])}] = fixed"] if fixed else []
    lines += [f"    [{', '.join([f'k{i}' for i in fixed])}] = self.known"] if fixed else []
    asked_of = sorted((*fixed, *others))
    for i in asked_of:
        (kind, at), signature = located.ways[i], guards.tensors[i]
        type, geometry, strides, home, shape, requires_grad, is_leaf, cls, inference, hooks, whole, gradient = signature
        if kind != "fixed":
            lines.append(f"    t{i} = {_way((kind, at), scope)}")
        if kind == "fixed":
            asked = [f"(s := t{i}._storage) is not k{i}"]
        else:
            asked = [f"t{i}.__class__ is not {scope.name(cls)}"]
            asked += [
                f"(s{i} := t{i}._storage).strides {_is_not(strides, scope)}",
                f"t{i}._type is not {scope.name(type)}",
            ]
            asked.append(f"t{i}._inference is not {inference}")
        if kind != "fixed" or not whole:
            asked.append(f"t{i}._view is {'not ' * whole}None")
        storage = "s" if kind == "fixed" else f"s{i}"
        if geometry is not None or home is not None:
            asked.append(f"{storage}.array.shape != {scope.name(shape)}")
        asked.append(f"{storage}.home {_is_not(home, scope)}")
        asked.append(f"t{i}._geometry {_is_not(geometry, scope)}")
        asked.append(f"{'not ' * requires_grad}t{i}._requires_grad")
        asked.append(f"t{i}._node is {'not ' * is_leaf}None")
        asked += [] if hooks else [f"t{i}._tensor_hooks", f"t{i}._post_accumulate_grad_hooks"]
        if gradient is None:
            asked.append(f"t{i}._grad is not None")
        elif i not in followed:
            held = f"(g := t{i}._grad).__class__ is not {scope.name(gradient[0])}"
            asked += [held, f"{'not ' * gradient[1]}g._requires_grad"]
        if i in written:
            asked.append(f"{storage}.memory is not None")
        lines.append(f"    if {' or '.join(asked)}: return None")
    lines += [f"    if {_way(way, scope)} is not t{at}: return None" for way, at in located.again]
    if guards.marks:
        marked = ", ".join([f"t{i}" for i in range(len(located.ways))])
        lines.append(f"    if not {scope.name(guards.are_marked)}([{marked}]): return None")
    if others:
        lines.append(f"    if self.sharing([{', '.join([f's{i}' for i in others])}]) != self.shared: return None")
    lines.append(f"    return [{', '.join([f't{i}' for i in asked_of])}]")
    return function_of(lines, scope, "compiled call")


def _way(way: Way, scope: Scope) -> str:
    """What finds a tensor at a call that is not always the same."""
    kind, at = way
    if kind == "argument":
        return f"a{at}"
    if kind == "entry":
        return f"{scope.name(at[0])}.get({scope.name(at[1])}, None)"
    return f"t{at}._grad" if kind == "gradient" else f"t{at}._view.base"


def _is_not(value: Any, scope: Scope) -> str:
    return "is not None" if value is None else f"!= {scope.name(value)}"


def reading(cells: Sequence[int | Callable[[Any], Any]], tensors: int) -> Callable[[Sequence[Tensor], Any], list[Any]]:
    """What reads the inputs of a program: the storage of the tensor with a number, or what a function says."""
    scope = Scope()
    lines = ["def run(found, drawn):", *_unpacked("t", tensors, "found")]
    read = [f"t{x}._storage.array" if isinstance(x, int) else f"{scope.name(x)}(drawn)" for x in cells]
    return function_of([*lines, f"    return [{', '.join(read)}]"], scope, "compiled call")


class Leaving:
    """The effects of a call as ``Effects.apply`` leaves them; ``run`` is None where that has to do it."""

    def __init__(self, effects: Effects, outputs: int):
        self.effects = effects
        self.runs: list[RepeatedWrites] = [_NONE] * len(effects.counts)
        self.run: Callable[..., Any] | None = _leaving(effects, outputs) if is_plain(effects) else None

    def __call__(self, found: Sequence[Tensor], outs: Sequence[Any]) -> tuple[list[Tensor], Any]:
        run = self.run
        return self.effects.apply(found, outs) if run is None else run(found, outs, self.runs)

    def begin(self, found: Sequence[Tensor]) -> None:
        """Have the counters of a call know that their next versions are made by it."""
        for i, (at, delta, writes) in enumerate(self.effects.counts):
            if is_run(delta, writes) and found[at]._counter.writes is not self.runs[i]:
                _begin(self.runs, i, found[at]._counter, writes[0])


def is_plain(effects: Effects) -> bool:
    """Whether no function of Python's is called where fields and entries are set."""
    classes = effects.located.classes
    return all(
        classes[at].__setattr__ is object.__setattr__ and getattr(classes[at], name) in (None, False)
        for at, name, _ in effects.fields
    ) and all(
        type(container).__setitem__ in (dict.__setitem__, OrderedDict.__setitem__) and key.__class__ in (str, int)
        for container, key, _ in effects.entries
    )


def _leaving(effects: Effects, outputs: int) -> Callable[..., Any]:
    scope = Scope(Storage=Storage, VersionCounter=VersionCounter, Tensor=Tensor, new=object.__new__)
    scope |= {"copied": copy_node, "begin": _begin, "note": note, "changes": changes}
    lines = ["def run(found, outs, runs):"]
    lines += _unpacked("t", len(effects.located.tensors), "found")
    lines += _unpacked("o", outputs, "outs")
    lines += _unpacked("r", len(effects.counts), "runs")
    for i, each in enumerate(effects.made):
        lines += _making(i, each, scope)
    alike = [is_run(delta, writes) for _, delta, writes in effects.counts]
    for i, (at, _, writes) in enumerate(effects.counts):
        if alike[i]:
            lines.append(
                f"    if t{at}._counter.writes is not r{i}: begin(runs, {i}, t{at}._counter, {scope.name(writes[0])})"
            )
    # a release calls much: see NOTE [Owned tensors]
    for at, _ in effects.writes:
        lines.append(f"    if t{at}._storage.__class__ is not Storage: t{at}._storage.settle()")
    for at, *_ in effects.counts:
        lines.append(f"    if t{at}._counter.__class__ is not VersionCounter: t{at}._counter.settle()")
    noted = ["attributes"] * bool(effects.entries) + ["fields"] * bool(effects.fields)
    lines += ["    now = new(object)"] if noted else []
    # from here on nothing is called
    lines += [f"    t{at}._storage.array = o{output}" for at, output in effects.writes]
    lines += [f"    t{at}._counter.value += {delta}" for at, delta, _ in effects.counts]
    lines += [f"    t{at}.{name} = {_text(value, scope)}" for at, name, value in effects.fields]
    lines += [f"    {scope.name(into)}[{key!r}] = {_text(value, scope)}" for into, key, value in effects.entries]
    lines += [f"    changes.{kind} = now" for kind in noted]
    # until here
    for i, (at, delta, writes) in enumerate(effects.counts):
        if not alike[i]:
            lines.append(f"    note(t{at}._counter, {delta}, {scope.name(writes)})")
    lines.append(f"    made = [{', '.join([f'g{i}' for i in range(len(effects.made))])}]")
    lines.append(f"    return made, {_text(effects.result, scope)}")
    return function_of(lines, scope, "compiled call")


def made_and_returned(
    effects: Effects, scope: Scope, asked: Sequence[int], but: Collection[int], outputs: Mapping[int, int]
) -> Callable[..., Any]:
    """What makes the new tensors of a call, but for some, and its result, of some of its tensors and some outputs.

    The other tensors that the result may have are in the scope.
    """
    scope |= {"Storage": Storage, "VersionCounter": VersionCounter, "Tensor": Tensor, "new": object.__new__}
    scope["copied"] = copy_node
    lines = ["def run(found, outs):"]
    lines += [f"    [{', '.join([f't{i}' for i in asked])}] = found"] if asked else []
    for i, each in enumerate(effects.made):
        if i not in but:
            lines += [] if each.output is None else [f"    o{each.output} = outs[{outputs[each.output]}]"]
            lines += _making(i, each, scope)
    return function_of([*lines, f"    return {_text(effects.result, scope)}"], scope, "compiled call")


def _making(i: int, each: Made, scope: Scope) -> Lines:
    """The lines that make a new tensor, as ``Made.make`` does."""
    like = each.like
    lines = [f"    g{i} = new(Tensor)"]
    if each.storage is None:
        lines += [f"    g{i}._storage = s = new(Storage)", f"    s.array = o{each.output}"]
        lines += [
            f"    s.strides = {scope.name(like._storage.strides)}",
            f"    s.dtype = {scope.name(like._type.dtype)}",
        ]
        lines.append("    s.home = s.memory = None")
    else:
        lines.append(f"    g{i}._storage = g{each.storage}._storage")
    lines.append(f"    g{i}._type = {scope.name(like._type)}")
    if each.counter is None:
        lines += [f"    g{i}._counter = c = new(VersionCounter)", f"    c.value = {like._counter.value}"]
        lines.append("    c.writes = None")
    else:
        lines.append(f"    g{i}._counter = g{each.counter}._counter")
    lines.append(f"    g{i}._geometry = g{i}._node = g{i}._view = g{i}._origin = None")
    lines.append(f"    g{i}._requires_grad, g{i}._inference = {like._requires_grad}, False")
    if like._node is not None:
        lines.append(f"    g{i}._node = copied({scope.name(like._node)})")
        lines.append(f"    g{i}._output_nr = {like._output_nr}")
    return lines


def is_run(delta: int, writes: Sequence[Write]) -> bool:
    """Whether all versions that a call counts are noted, and alike."""
    return len(writes) == delta > 0 and len({write._replace(version=0) for write in writes}) == 1


#: what no counter has
_NONE = RepeatedWrites(Write(0, "", None, ""), ())


def _begin(runs: list[RepeatedWrites], place: int, counter: VersionCounter, write: Write) -> None:
    """Have a counter know that its versions are made by a compiled call from now on."""
    counter.writes = runs[place] = RepeatedWrites(write._replace(version=counter.value + 1), counter.last_writes())


def _text(value: Value, scope: Scope) -> str:
    match value:
        case Found(number):
            return f"t{number}"
        case Fresh(place):
            return f"g{place}"
        case Kept(held):
            return scope.name(held)
        case Tree():
            made = f"[{', '.join([_text(leaf, scope) for leaf in value.leaves])}]"
            return f"{scope.name(value.put_together)}({made})"
