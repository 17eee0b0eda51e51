"""What has to be as it was for a captured program to stand for a call.

NOTE [Guards]
The walk of a capture has copied every container that the function can reach.  They are the guards: a program is used
while each holds the very objects that it held, but for what the call itself sets and for the numbers that are inputs.
So another ``training``, another option of an optimiser, a parameter that was replaced, an attribute of any object or of
its class make another program.  Beside these stand the types and layouts of all tensors that the function can reach,
whether it reads their values or not, which of them share memory, whether they have a gradient, the modes, and the
variables that the functions name.

Containers whose writes are noted are looked at only where something has been noted since (NOTE [Changes]).
"""

import operator
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any

from attrs import define, field, frozen

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.scopes import MISSING, Slots
from fgrad.mutable.capture.world import holds
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.changes import NotedDict, NotedOrderedDict, changes
from fgrad.mutable.tensor.tensor import FIELDS, Tensor
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.torch.compiler.effects import Effects
from fgrad.torch.compiler.identities import Contents
from fgrad.torch.nn.modules.hooks import everywhere
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import attributes_of, notes_writes


def modes_now() -> Any:
    """The modes that a program depends on."""
    return modes.grad, modes.inference, modes.snapshot, modes.casting, modes.release, get_default_dtype()


def is_ordinary() -> bool:
    """Whether nothing watches operations from outside: no transformation, no mode that sees each of them."""
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


def signature(tensor: Tensor) -> Any:
    """What a program knows of a tensor."""
    storage = tensor._storage
    array, gradient = storage.array, tensor._grad
    return (
        tensor._type,
        tensor._geometry,
        storage.strides,
        storage.home,
        tuple(array.shape),
        tensor._requires_grad,
        tensor._node is None,
        tensor.__class__,
        tensor._inference,
        bool(tensor._tensor_hooks or tensor._post_accumulate_grad_hooks),
        tensor._view is None,
        None if gradient is None else (gradient.__class__, gradient._requires_grad),
    )


@frozen(eq=False)
class _Looked:
    """Containers that are looked at together: those that held nothing, and what the others held."""

    empty: list[Any]
    contents: Contents

    def hold(self) -> bool:
        return not any(self.empty) and self.contents.hold()


@define(eq=False)
class Guards:
    """What is asked before a program is used.

    Attributes:
      variables: scopes with a name and what it stood for.
      containers: dicts, lists and deques with copies of them.
      keyed: those of the dicts, by identity, whose keys are data and no names of attributes.
      others: sets and slots with what they held.
      empty: containers that held nothing: most are tables of hooks.
      modules: each module, by the identity of the dict that has its attributes.
      entries: containers that the call itself changes, with those entries that it leaves alone.
      attributes: the dicts of tensors with what the user has set there.
      instances, classes: the objects of the user's classes, and these.
      marks: the same as ``attributes`` of tensors that are not the same at each call, by their numbers.
      tensors: what was known of each tensor that the call finds.
      numbers: dicts with the keys of numbers that are inputs, and what has to be known of these.
      shared: which of the tensors share memory.
    """

    variables: list[tuple[Any, Any, Any]] = field(factory=list)
    containers: list[tuple[Any, Any]] = field(factory=list)
    keyed: set[int] = field(factory=set)
    others: list[tuple[Any, Any]] = field(factory=list)
    empty: list[Any] = field(factory=list)
    modules: dict[int, Module] = field(factory=dict)
    entries: list[tuple[Any, int, dict[Any, Any]]] = field(factory=list)
    attributes: list[tuple[dict[str, Any], dict[str, Any]]] = field(factory=list)
    instances: list[Any] = field(factory=list)
    classes: list[type] = field(factory=list)
    marks: list[tuple[int, dict[str, Any]]] = field(factory=list)
    tensors: list[Any] = field(factory=list)
    numbers: list[tuple[dict[Any, Any], Any, Any]] = field(factory=list)
    shared: list[int] = field(factory=list)
    #: ``changes.attributes`` when what is noted was looked at
    _seen: object = field(default=None, init=False)
    #: the dicts of those modules that note what is written there, by identity
    _noting: set[int] = field(factory=set, init=False)
    #: what is looked at then, and what at each call
    _noted: "_Looked | None" = field(default=None, init=False)
    _silent: "_Looked | None" = field(default=None, init=False)

    def hold(self) -> bool:
        """Whether everything that does not depend on the arguments is as it was."""
        now = changes.attributes
        if now is not self._seen:
            if not self._noted_hold():
                return False
            self._seen = now
        assert self._silent is not None
        return self._silent.hold() and self._rest_hold()

    def _rest_hold(self) -> bool:
        """Whether what is no container of one of these kinds is as it was."""
        if not all(map(operator.is_, map(type, self.instances), self.classes)):
            return False
        for container, size, items in self.entries:
            held = map(container.get, items, repeat(MISSING))
            if len(container) != size or not all(map(operator.is_, held, items.values())):
                return False
        for container, items in self.attributes:
            if not all(map(operator.is_, map(container.get, items, repeat(MISSING)), items.values())):
                return False
        for holder, key, form in self.numbers:
            if form_of(holder.get(key), key) != form:
                return False
        for scope, name, value in self.variables:
            if scope.get(name, MISSING) is not value:
                return False
        return all(holds(container, before) for container, before in self.others)

    def differ_in_numbers(self) -> bool:
        """Whether numbers of Python's, and nothing else that has a name, are others than they were."""
        pairs = [(scope.get(name, MISSING), value) for scope, name, value in self.variables]
        for container, before in self.containers:
            new, old = [x.values() if isinstance(x, dict) else x for x in (container, before)]
            if len(new) != len(old):
                return False
            pairs += zip(new, old, strict=False)
        changed = [(new, old) for new, old in pairs if new is not old]
        return bool(changed) and all(new.__class__ is old.__class__ in (int, float) for new, old in changed)

    def _noted_hold(self) -> bool:
        """Whether modules have the dicts that they had, and containers whose writes are noted hold what they held."""
        if any(id(attributes_of(module)) != key for key, module in self.modules.items()):
            return False
        noting = {key for key, module in self.modules.items() if notes_writes(module)}
        if self._noted is None or noting != self._noting:
            self._noting = noting
            self._noted, self._silent = self._looked(True), self._looked(False)
        return self._noted.hold()

    def _looked(self, noted: bool) -> "_Looked":
        """Of the containers those whose writes are noted, or the others."""
        empty = [held for held in self.empty if self._is_noted(held) is noted]
        both = [each for each in self.containers if self._is_noted(each[0]) is noted]
        shown = [view for held, _ in both for view in self._views(held, held)]
        return _Looked(empty, Contents(shown, [view for held, old in both for view in self._views(held, old)]))

    def _is_noted(self, container: Any) -> bool:
        return id(container) in self._noting or container.__class__ in (NotedDict, NotedOrderedDict)

    def _views(self, held: Any, shown: Any) -> list[Any]:
        """What is looked at of a container, or of its copy.  A dict is asked as one, whatever its class makes of it."""
        if not isinstance(held, dict):
            return [shown]
        kind = OrderedDict if isinstance(shown, OrderedDict) else dict  # it keeps an order of its own
        return [kind.values(shown), kind.keys(shown)] if id(held) in self.keyed else [kind.values(shown)]

    def looked_at(self) -> list[Any]:
        """The containers and objects that have to hold what they held."""
        return [held for held, _ in (*self.containers, *self.others)]

    def fit(self, found: Sequence[Any]) -> bool:
        """Whether the tensors of a call are as those that were recorded."""
        for tensor, wanted in zip(found, self.tensors, strict=True):
            if tensor is None or signature(tensor) != wanted:
                return False
        return self.are_marked(found) and sharing(found) == self.shared

    def are_marked(self, found: Sequence[Any]) -> bool:
        """Whether tensors have the attributes that they had, numbers and strings by their values."""
        return all(_is_alike(vars(found[at]).get(k, MISSING), v) for at, held in self.marks for k, v in held.items())


def _is_alike(value: Any, old: Any) -> bool:
    return value is old or (value.__class__ is old.__class__ and isinstance(value, _VALUES) and value == old)


_VALUES = (bool, int, float, complex, str, bytes)


def form_of(number: Any, key: Any) -> Any:
    """What a program knows of a number, or a tuple of them, that is an input.

    A rate may be zero like any other; a decay or a momentum of zero is another rule.
    """
    if number.__class__ is tuple:
        return tuple([x.__class__ for x in number])
    return number.__class__, key == "lr" or bool(number != 0)


def sharing(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor the first that shares its memory."""
    first: dict[int, int] = {}
    return [first.setdefault(id(x._storage), i) for i, x in enumerate(tensors)]


def guards_of(capture: Capture, effects: Effects) -> Guards:
    """The guards of a captured call; everything has been put back."""
    own: dict[int, set[Any]] = {}
    for container, key, _ in effects.entries:
        own.setdefault(id(container), set()).add(key)
    for holder, key, _ in capture.numbers:
        own.setdefault(holder, set()).add(key)
    found = _of_objects(capture, own)
    found.variables = [
        (scope, name, value)
        for scope, name, value in capture.world.variables.values()
        if name not in own.get(id(scope), ()) or not isinstance(value, Tensor)
    ]
    for i, (kind, _) in enumerate(effects.located.ways):
        if own_names := vars(effects.located.tensors[i]).keys() - FIELDS:
            held = vars(effects.located.tensors[i])
            items = {name: held[name] for name in own_names}
            if kind == "fixed":
                found.attributes.append((held, items))
            else:
                found.marks.append((i, items))
    found.tensors = [signature(x) for x in effects.located.tensors]
    found.shared = sharing(effects.located.tensors)
    return found


def guards_of_refused(capture: Capture, arguments: Guards) -> Guards:
    """The guards of a call that is no program: its arguments, and what it did not change itself."""
    changed = {id(container) for container, _ in capture.world.changed()}
    found = _of_objects(capture, dict.fromkeys(changed, ()))
    # Python runs at each call: what it sets does not matter, but what it has made, as a state, may be there by now
    found.entries = [(container, size, {}) for container, size, _ in found.entries]
    rebound = {(id(scope), name) for scope, name, _ in capture.world.rebound()}
    variables = capture.world.variables.values()
    found.variables = [each for each in variables if (id(each[0]), each[1]) not in rebound]
    found.tensors, found.shared = arguments.tensors, arguments.shared
    return found


def guards_of_arguments(arguments: Sequence[Tensor]) -> Guards:
    """What is known of the tensors among the arguments."""
    return Guards(tensors=[signature(x) for x in arguments], shared=sharing(arguments))


def _of_objects(capture: Capture, own: Mapping[int, Collection[Any]]) -> Guards:
    """The guards of containers, but for the entries that the call sets itself."""
    found = Guards()
    lasting = [(x, cls) for x, cls in capture.world.instances if id(x) in capture.world.lasting]
    found.instances, found.classes = [x for x, _ in lasting], [cls for _, cls in lasting]
    modules = [x for _, x in capture.world.objects.values() if isinstance(x, Module)]
    found.modules = {id(attributes_of(x)): x for x in modules}
    tensors = {id(vars(x)) for x in capture.world.tensors}
    for key, (container, before) in capture.world.containers.items():
        if id(container) in tensors or key not in capture.world.lasting:
            continue
        is_own = id(container) in own
        if not (before or is_own or isinstance(container, Slots) or hasattr(container, "__bool__")):
            found.empty.append(container)
        elif not is_own and not isinstance(container, dict | list | deque):
            found.others.append((container, before))
        elif not is_own:
            found.containers.append((container, before))
            if id(container) in capture.world.objects:  # an object's dict is none of the user's
                found.keyed.add(id(container))
        elif isinstance(container, dict):
            read = {key for holder, key, _ in capture.numbers if holder == id(container)}
            found.numbers += [(container, key, form_of(before[key], key)) for key in read]  # type: ignore[misc]
            # what the call itself sets is guarded where it was no tensor: it may go by a None or a flag
            free = {k for k in own[id(container)] if k in read or isinstance(before.get(k), Tensor)}
            items = {k: v for k, v in before.items() if k not in free}
            found.entries.append((container, len(before), items))
    return found
