"""The conditions under which a captured program may stand for a call.

NOTE [Guards]
The walk of a capture has copied every container that the function can reach.  These are the guards: a program is used
while each container holds the same objects, except for what the call itself sets and for numbers that are inputs.  So a
change of ``training``, of an optimiser's option, of a parameter, or of an attribute of any object or its class needs
another program.  An attribute of a plain object, one of a class of the user's project without a library's bases, is a
guard only if some function mentions its name: a trainer's count of steps or its list of losses is nothing to a step
that leaves them alone.  If any function looks up attributes by strings, all are guards.  Other guards are the types and
layouts of all tensors that the function can reach, whether it reads their values or not, which of them share memory,
whether they have a gradient, the modes, and the variables that the functions mention.

Containers that note their writes are compared only after a write (NOTE [Changes]).
"""

import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from typing import Any
from weakref import ref

from attrs import define, field, frozen

from fgrad.graph.source import function_of
from fgrad.mutable.capture.caches import CachedResults
from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.held_numbers import Holding, is_number_like
from fgrad.mutable.capture.scopes import (
    MISSING,
    Items,
    Parts,
    Slots,
    Variable,
    as_dict,
    entries_of,
    identity_of,
    namespace_of,
)
from fgrad.mutable.capture.snapshot import Hidden, Snapshot, is_unchanged
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import NotedDict, NotedOrderedDict, changes
from fgrad.mutable.tensor.tensor import FIELDS, Tensor
from fgrad.mutable.types.devices import default_as_given
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.number_program import same_number
from fgrad.mutable.values.device_of_value import CPU, elsewhere, place_of
from fgrad.torch.compiler.constants import WEAKLY_HELD
from fgrad.torch.compiler.effects import Effects
from fgrad.torch.compiler.external_tensors import is_tuple_of_tensors
from fgrad.torch.compiler.generated import Scope
from fgrad.torch.compiler.identities import Contents
from fgrad.torch.compiler.windows import Window
from fgrad.torch.nn.modules.hooks import everywhere
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import attributes_of, buffers_of, notes_writes, parameters_of
from fgrad.torch.settings import process


def modes_now() -> Any:
    """The modes that a program depends on."""
    dtype, device, settings = get_default_dtype(), default_as_given(), process.settings
    return modes.grad, modes.inference, modes.snapshot, modes.casting, modes.release, dtype, device, settings


def is_ordinary() -> bool:
    """Whether nothing observes operations: no transformation, and no mode that sees each of them."""
    return not (
        modes.level
        or modes.capturing
        or modes.anomaly
        or modes.dual_level >= 0
        or modes.handlers
        or modes.casting
        or modes.saved_hooks
        or modes.interceptor
        or modes.findings
        or everywhere.forward
        or everywhere.forward_pre
        or everywhere.backward
        or everywhere.backward_pre
    )


def signature(tensor: Tensor, in_window: bool = False) -> Any:
    """The properties of a tensor that a program is specialised for; for one in a window, except for its place."""
    storage = tensor._storage
    array, gradient = storage.array, tensor._grad
    return (
        tensor._type,
        None if in_window else tensor._geometry,
        storage.strides,
        storage.home,
        None if in_window else tuple(array.shape),
        tensor._requires_grad,
        tensor._node is None,
        tensor.__class__,
        tensor._inference,
        bool(tensor._tensor_hooks or tensor._post_accumulate_grad_hooks),
        tensor._view is None,
        None if gradient is None else (gradient.__class__, gradient._requires_grad),
        tensor._grad_dtype,
        place_of(array) if elsewhere.exist else CPU,
    )


@frozen(eq=False)
class _Checks:
    """Containers that are compared together: those that were empty, and the contents of the others."""

    empty: list[Any]
    contents: Contents

    def hold(self) -> bool:
        return not any(self.empty) and self.contents.hold()


@define(eq=False)
class Guards:
    """The conditions that are checked before a program is used.

    Attributes:
      variables: scope, name and value.
      containers: dicts, lists and deques with copies of them.
      keyed: the ids of those dicts whose keys are data, not names of attributes.
      others: sets and slots with their contents.
      empty: containers that were empty; most are tables of hooks.
      modules: a weak reference to each module and its class, by the id of the dict of its attributes.
      entries: containers that the call itself changes, with their sizes and the entries that it leaves alone; and the
        attributes of plain objects, with those that some function may use.
      attributes: the dicts of fixed tensors with the attributes set by the user.
      instances, classes: the objects of the user's classes, and their classes.
      references: those that are not kept alive, with their classes.
      plain: objects that are nothing but their attributes, and others of the user's classes, with the dicts of these.
      namespaces: the user's classes, how many attributes each has, and its bases.
      ordered: dicts of which some entries are free, with their keys in order.
      tensor_attributes: like ``attributes``, for tensors that are not fixed, by their indices.
      tensors: the signatures of the tensors from outside.
      windows: the parts of storages that the program reads.
      numbers: dicts with the keys of numbers that are inputs, and the kinds of these.
      growing: what holds lists that only grow, the keys, and the classes of the lists.
      shared: which of the tensors share memory.
    """

    variables: list[tuple[Any, Any, Any]] = field(factory=list)
    containers: list[tuple[Any, Any]] = field(factory=list)
    keyed: set[int] = field(factory=set)
    others: list[tuple[Any, Any]] = field(factory=list)
    empty: list[Any] = field(factory=list)
    modules: dict[int, tuple[Callable[[], Module | None], type]] = field(factory=dict)
    entries: list[tuple[Any, int, dict[Any, Any]]] = field(factory=list)
    attributes: list[tuple[dict[str, Any], dict[str, Any]]] = field(factory=list)
    instances: list[Any] = field(factory=list)
    classes: list[type] = field(factory=list)
    references: list[tuple[Callable[[], Any], type]] = field(factory=list)
    plain: list[tuple[Any, dict[str, Any]]] = field(factory=list)
    namespaces: list[tuple[type, int, tuple[type, ...]]] = field(factory=list)
    ordered: list[tuple[dict[Any, Any], dict[Any, Any]]] = field(factory=list)
    tensor_attributes: list[tuple[int, dict[str, Any]]] = field(factory=list)
    tensors: list[Any] = field(factory=list)
    windows: Sequence[Window] = ()
    numbers: list[tuple[dict[Any, Any], Any, Any]] = field(factory=list)
    growing: list[tuple[Any, Any, type]] = field(factory=list)
    shared: list[int] = field(factory=list)
    #: ``changes.attributes`` when the noted containers were last compared
    _attributes_checked: object = field(default=None, init=False)
    #: the ids of the dicts of those modules that note writes to their attributes, parameters and buffers
    _noting: set[int] = field(factory=set, init=False)
    #: the containers that note their writes, and those that are compared at each call
    _noted: "_Checks | None" = field(default=None, init=False)
    _unnoted: "_Checks | None" = field(default=None, init=False)
    #: whether all else is unchanged
    _rest: Callable[[], bool] = field(default=bool, init=False)

    def hold(self) -> bool:
        """Whether everything that does not depend on the arguments is unchanged."""
        now = changes.attributes
        if now is not self._attributes_checked:
            if not self._noted_hold():
                return False
            self._attributes_checked = now
        assert self._unnoted is not None
        return self._unnoted.hold() and self._rest()

    def _rest_code(self) -> Callable[[], bool]:
        """A function that tells whether everything but plain containers is unchanged (NOTE [Generated code])."""
        scope = Scope(alike=_are_same, unchanged=is_unchanged, missing=MISSING, deque=deque)
        scope.update(
            call=operator.call,
            namespace_of=namespace_of,
            is_not=operator.is_not,
            bases_of=operator.attrgetter("__mro__"),
        )
        named, checks = scope.object, list[str]()
        if self.instances:
            checks.append(f"[*map(type, {named(self.instances)})] != {named(self.classes)}")
        if self.references:
            references, classes = map(list, zip(*self.references, strict=True))
            checks.append(f"[*map(type, map(call, {named(references)}))] != {named(classes)}")
        if self.namespaces:
            classes, sizes, bases = map(list, zip(*self.namespaces, strict=True))
            checks.append(f"[*map(len, {named([*map(vars, classes)])})] != {named(sizes)}")
            checks.append(f"[*map(bases_of, {named(classes)})] != {named(bases)}")
        if self.plain:
            objects, dicts = zip(*self.plain, strict=True)
            checks.append(f"any(map(is_not, map(namespace_of, {named(objects)}), {named(dicts)}))")
        for container, size, items in self.entries:
            name = named(container)
            checks += [f"len({name}) != {size}", *_entry_checks(name, items, scope)]
        for container, items in self.attributes:
            checks += _entry_checks(named(container), items, scope)
        for holder, key, kind in self.numbers:
            checks.append(_number_check(f"{named(holder)}.get({named(key)})", key, kind, scope))
        for holder, key, cls in self.growing:
            checks.append(f"{named(holder)}.get({named(key)}, None).__class__ is not {cls.__name__}")
        for place, name, value in self.variables:
            if isinstance(place, Variable):
                checks.append(f"{named(place.owner)}.cell_contents is not {named(value)}")
            elif isinstance(place, Parts):
                checks.append(f"{named(place.owner)}.{name} is not {named(value)}")
            else:
                checks += _entry_checks(named(place), {name: value}, scope)
        for container, before in self.others:
            checks.append(f"not unchanged({named(container)}, {named(before)})")
        lines = [f"        if {check}: return False" for check in checks]
        end = ["        return True", "    except ValueError: return False"]  # a variable of a closure is not bound
        return function_of(["def run():", "    try:", *lines, *end], scope, "guards of a compiled call")

    def changed_numbers(self) -> list[Holding]:
        """The numbers in dicts and variables that are other objects, if no other variable or entry is."""
        changed = self._changes()
        are_held = all(not isinstance(x, Parts) and is_number_like(new, old) for x, _, new, old in changed)
        return [Holding(container, key) for container, key, *_ in changed] if are_held else []

    def differ_in_numbers(self) -> bool:
        """Whether Python numbers have changed, and no other variable or entry."""
        changed = self._changes()
        return bool(changed) and all(new.__class__ is old.__class__ in (int, float) for _, _, new, old in changed)

    def _changes(self) -> list[tuple[Any, Any, Any, Any]]:
        """The variables and entries that have changed: scope, name, value now and before."""
        now = [(scope, name, scope.get(name, MISSING), value) for scope, name, value in self.variables]
        for container, before in self.containers:
            entries = as_dict(container)
            new = [*enumerate(container)] if entries is None else [*entries.items()]
            old = [*entries_of(before)]
            if len(new) != len(old):
                return [(container, None, container, before)]
            now += [(entries, k, x, y) for (k, x), (_, y) in zip(new, old, strict=True) if entries is not None]
        now += [(holder, k, holder.get(k, MISSING), v) for holder, _, items in self.entries for k, v in items.items()]
        return [each for each in now if each[2] is not each[3]]

    def _noted_hold(self) -> bool:
        """Whether modules have the same classes and dicts, and containers that note their writes the same contents."""
        modules = [reference() for reference, _ in self.modules.values()]
        if [*map(type, modules)] != [cls for _, cls in self.modules.values()]:
            return False
        if any(x is None or id(attributes_of(x)) != key for key, x in zip(self.modules, modules, strict=True)):
            return False
        noting = {
            id(container)
            for module in modules
            if module is not None and notes_writes(module)
            for container in (attributes_of(module), parameters_of(module), buffers_of(module))
        }
        if self._noted is None or noting != self._noting:
            self._noting = noting
            self._noted, self._unnoted = self._checks(True), self._checks(False)
            self._rest = self._rest_code()
        return self._noted.hold()

    def _checks(self, noted: bool) -> "_Checks":
        """The checks of the containers that note their writes, or of the others."""
        empty = [container for container in self.empty if self._is_noted(container) is noted]
        both = [each for each in self.containers if self._is_noted(each[0]) is noted]
        current = [view for container, _ in both for view in self._views(container, container)]
        old = [view for container, before in both for view in self._views(container, before)]
        if not noted:
            current += [_kind(container).keys(container) for container, _ in self.ordered]
            old += [_kind(before).keys(before) for _, before in self.ordered]
        return _Checks(empty, Contents(current, old))

    def _is_noted(self, container: Any) -> bool:
        return id(container) in self._noting or container.__class__ in (NotedDict, NotedOrderedDict)

    def _views(self, container: Any, contents: Any) -> list[Any]:
        """The compared parts of a container, or of its copy.  Overrides of a dict's methods are bypassed."""
        if not isinstance(container, dict):
            return [contents]
        kind = _kind(contents)
        return [kind.values(contents), kind.keys(contents)] if id(container) in self.keyed else [kind.values(contents)]

    def checked(self) -> list[Any]:
        """The containers whose contents, or some of whose entries, must be unchanged."""
        return [container for container, *_ in (*self.containers, *self.others, *self.entries)]

    def match(self, tensors: Sequence[Any]) -> bool:
        """Whether the tensors of a call have the recorded signatures, attributes and aliasing."""
        in_window = {i for window in self.windows for i in window.arguments}
        for i, (tensor, recorded) in enumerate(zip(tensors, self.tensors, strict=True)):
            if tensor is None or signature(tensor, i in in_window) != recorded:
                return False
        if not all(window.fits([tensors[i] for i in window.arguments]) for window in self.windows):
            return False
        return self.attributes_hold(tensors) and sharing(tensors) == self.shared

    def attributes_hold(self, tensors: Sequence[Any]) -> bool:
        """Whether tensors have the same attributes set by the user; numbers and strings are compared by value."""
        return all(
            _is_alike(fields_of(tensors[index]).get(k, MISSING), v)
            for index, attributes in self.tensor_attributes
            for k, v in attributes.items()
        )


def _kind(container: dict[Any, Any]) -> type[dict[Any, Any]]:
    """The class of a dict whose methods no subclass has overridden."""
    return OrderedDict if isinstance(container, OrderedDict) else dict  # it has an order of its own


def _is_alike(value: Any, old: Any) -> bool:
    return value is old or (value.__class__ is old.__class__ and isinstance(value, _VALUES) and same_number(value, old))


#: the entries of more are compared in a loop
MOST_LINES = 32
_VALUES = (bool, int, float, complex, str, bytes)


def _are_same(container: Any, items: Mapping[Any, Any]) -> bool:
    """Whether a dict has the same objects under some keys."""
    return all(map(operator.is_, map(container.get, items, repeat(MISSING)), items.values()))


def _entry_checks(container: str, items: Mapping[Any, Any], scope: Scope) -> list[str]:
    """The expressions that tell whether a dict has other objects under some keys."""
    if len(items) > MOST_LINES:
        return [f"not alike({container}, {scope.object(items)})"]
    get = f"{container}.get"
    return [f"{get}({scope.object(k)}, missing) is not {scope.object(v)}" for k, v in items.items()]


def _number_check(number: str, key: Any, kind: Any, scope: Scope) -> str:
    """The expression that tells whether a number is of another kind than ``number_kind`` found."""
    if kind in ((int, True), (float, True)):
        zero = "" if key == "lr" else " or n == 0"
        return f"(n := {number}).__class__ is not {kind[0].__name__}{zero}"
    return f"{scope.object(number_kind)}({number}, {scope.object(key)}) != {scope.object(kind)}"


def number_kind(number: Any, key: Any) -> Any:
    """What a program is specialised for of a number, or of a tuple of numbers, that is an input.

    A learning rate of zero is like any other; a decay or momentum of zero is another rule.
    """
    if number.__class__ is tuple:
        return tuple([x.__class__ for x in number])
    return number.__class__, key == "lr" or bool(number != 0)


def sharing(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor the index of the first that shares its storage."""
    first: dict[int, int] = {}
    return [first.setdefault(id(x._storage), i) for i, x in enumerate(tensors)]


def guards_of(capture: Capture, effects: Effects, windows: Sequence[Window]) -> Guards:
    """The guards of a captured call; everything has been restored."""
    set_by_call: dict[int, set[Any]] = {}
    for container, key, _ in effects.entries:
        set_by_call.setdefault(Holding(container, key).place[0], set()).add(key)
    for holder, key, _ in capture.numbers:
        set_by_call.setdefault(holder, set()).add(key)
    for holder, key in (*capture.held, *capture.growing):
        set_by_call.setdefault(holder, set()).add(key)
    guards = _of_objects(capture, set_by_call)
    guards.variables = [
        (scope, name, value)
        for scope, name, value in capture.snapshot.variables.values()
        if (place := Holding(scope, name).place) not in capture.held
        and place not in capture.growing
        and (name not in set_by_call.get(place[0], ()) or not _is_free(value))
    ]
    for i, (kind, _) in enumerate(effects.external.accesses):
        if names := fields_of(effects.external.tensors[i]).keys() - FIELDS:
            attributes = fields_of(effects.external.tensors[i])
            items = {name: attributes[name] for name in names}
            if kind == "fixed":
                guards.attributes.append((attributes, items))
            else:
                guards.tensor_attributes.append((i, items))
    guards.growing = [(x.container, x.key, type(x.read())) for x in capture.lists]
    guards.windows = windows
    in_window = {i for window in windows for i in window.arguments}
    guards.tensors = [signature(x, i in in_window) for i, x in enumerate(effects.external.tensors)]
    guards.shared = sharing(effects.external.tensors)
    return guards


def _is_free(value: Any) -> bool:
    """Whether what the call replaces in an entry may be another tensor, or a tuple of others, at the next call."""
    return isinstance(value, Tensor) or is_tuple_of_tensors(value)


def guards_of_refused(capture: Capture, arguments: Guards) -> Guards:
    """The guards of a call that cannot be a program: its arguments, and what it did not change itself."""
    changed = {identity_of(container) for container, _ in capture.snapshot.changed()}
    guards = _of_objects(capture, dict.fromkeys(changed, ()))
    # Python runs at each call, so the entries it sets do not matter, nor how a list grows; but it may have added some
    guards.entries = [
        (container, size, {}) for container, size, _ in guards.entries if not isinstance(container, Items)
    ]
    guards.ordered = [x for x in guards.ordered if id(x[0]) not in changed]
    # what a function's cache has got, the next call finds there
    guards.others += [x for x in capture.snapshot.changed() if isinstance(x[0], CachedResults)]
    rebound = {(id(scope), name) for scope, name, _ in capture.snapshot.rebound()}
    variables = capture.snapshot.variables.values()
    guards.variables = [each for each in variables if (id(each[0]), each[1]) not in rebound]
    guards.tensors, guards.shared = arguments.tensors, arguments.shared
    return guards


def guards_of_arguments(arguments: Sequence[Tensor]) -> Guards:
    """The guards of the tensors among the arguments."""
    return Guards(tensors=[signature(x) for x in arguments], shared=sharing(arguments))


def _may_be_read(key: Any, value: Any, snapshot: Snapshot) -> bool:
    """Whether a function of the user's may read a number of an optimiser's groups besides the optimiser."""
    names_groups = not {"param_groups", "state_dict"}.isdisjoint(snapshot.read | snapshot.called)
    return key in snapshot.strings or (names_groups and not isinstance(value, tuple))


def _of_objects(capture: Capture, set_by_call: Mapping[int, Collection[Any]]) -> Guards:
    """The guards of containers, except for entries that the call itself sets."""
    guards = Guards()
    lasting = [(x, cls) for x, cls in capture.snapshot.instances if id(x) in capture.snapshot.persistent]
    guards.references = [(ref(x), cls) for x, cls in lasting if isinstance(x, WEAKLY_HELD)]
    kept = [(x, cls) for x, cls in lasting if not isinstance(x, WEAKLY_HELD)]
    guards.instances, guards.classes = [x for x, _ in kept], [cls for _, cls in kept]
    guards.namespaces = [*capture.snapshot.namespaces.values()]
    others = [x for x, *_ in capture.snapshot.plain.values() if id(x) in capture.snapshot.persistent]
    with_attributes = {id(x): x for x in (*others, *guards.instances) if namespace_of(x) is not None}.values()
    guards.plain = [(x, namespace_of(x)) for x in with_attributes]
    modules = [x for _, x in capture.snapshot.objects.values() if isinstance(x, Module)]
    guards.modules = {id(attributes_of(x)): (ref(x), type(x)) for x in modules}
    tensors = {id(fields_of(x)) for x in capture.snapshot.tensors}
    used = {id(vars(x)): names for x, _, names in capture.snapshot.plain.values()}
    for key, (container, before) in capture.snapshot.containers.items():
        if id(container) in tensors or key not in capture.snapshot.persistent:
            continue
        is_own, entries = key in set_by_call, as_dict(container)
        if isinstance(container, Hidden):
            guards.others += [] if is_own else [(container, before)]
        elif not (before or is_own or isinstance(container, Slots) or hasattr(container, "__bool__")):
            guards.empty.append(container)
        elif not is_own and not isinstance(container, dict | list | deque):
            guards.others.append((container, before))
        elif not is_own and id(container) in used:
            items = {k: v for k, v in before.items() if k in used[id(container)]}
            guards.entries.append((container, len(before), items))
        elif not is_own:
            guards.containers.append((container, before))
            if id(container) in capture.snapshot.objects:  # the user's own dict, not an object's ``__dict__``
                guards.keyed.add(id(container))
        elif entries is not None:
            old = dict(entries_of(before))
            read = {name for holder, name, _ in capture.numbers if holder == key}
            read = {name for name in read if not _may_be_read(name, old[name], capture.snapshot)}
            guards.numbers += [(entries, name, number_kind(old[name], name)) for name in read]
            # an entry that the call sets is guarded if it was no tensor: the call may depend on a None or a flag
            free = {k for k in set_by_call[key] if k in read or _is_free(old.get(k))}
            free |= {k for k in set_by_call[key] if (key, k) in capture.held or (key, k) in capture.growing}
            items = {k: v for k, v in old.items() if k not in free and k in used.get(key, old)}
            guards.entries.append((entries, len(old), items))
    for container, *_ in guards.entries:
        is_data = identity_of(container) in capture.snapshot.objects
        if not isinstance(container, Items | Slots) and (is_data or capture.snapshot.uses_any):
            guards.ordered.append(capture.snapshot.containers[identity_of(container)])
    return guards
