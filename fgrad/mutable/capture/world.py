"""What a function can reach: tensors and random streams under the user's names, and the objects that hold them.

NOTE [The world of a function]
A function of tensors has more inputs than its arguments: parameters of modules, an optimiser's state, ``.grad``.  Where
these are, its closure, its globals and ``self`` say.  The walk goes from there through modules, optimisers, containers
and the user's objects, and does three things at once.  It finds the tensors and gives them names; it copies each
container that it passes (the objects' dicts are such), so that whatever the function changes in them is seen by
comparing, and can be put back; and, walked a second time after the function has run, it shows what the function made.

Methods and other attributes of the user's classes are found by name: which of them a function may mean is seen from the
names that all functions found so far mention.  What Python or a library calls by itself is mentioned nowhere:
operators, what overrides an attribute of a library's class, and what makes an object, of classes that the function can
name.

Classes that have names of their own for what they hold enter them in ``CHILDREN``.  What the walk does not find (a
tensor that only a library holds) is met when an operation reads it: it has no name then, and nothing else is missing.
"""

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from attrs import define, field, frozen

from fgrad.mutable.capture.mentions import Mentions
from fgrad.mutable.capture.scopes import MISSING, ClassAttributes, Parts, Slots, Variable
from fgrad.mutable.tensor.changes import NotedDict, NotedOrderedDict, changes
from fgrad.mutable.tensor.tensor import FIELDS, Tensor

#: containers of more elements are not gone through: they hold data and not state
LARGEST = 10_000
#: packages whose objects hold none of the user's tensors
FOREIGN = ("builtins", "jax", "jaxlib", "numpy", "threading", "fgrad.mutable", "fgrad.graph", "fgrad.run", "logging")
_FOREIGN = tuple([f"{module}." for module in FOREIGN])


@frozen
class Place:
    """Where something is: its path as the user would write it, and its keys in a tree of state."""

    path: str
    keys: tuple[Any, ...]

    def attribute(self, name: str) -> "Place":
        return Place(f"{self.path}.{name}" if self.path else name, (*self.keys, name))

    def item(self, key: Any) -> "Place":
        shown = repr(key) if id(key.__class__) in _PLAIN else type(key).__name__
        return Place(f"{self.path}[{shown}]", (*self.keys, key))


Children = Callable[["World", Any, Place], Iterable[tuple[Place, Any]]]
#: how the objects of a class name what they hold; classes marked late are entered after all others
CHILDREN: dict[type, Children] = {}
LATE: set[type] = set()
#: the classes of streams of random numbers
STREAMS: set[type] = set()


@define(eq=False)
class World:
    """What can be reached from some roots."""

    tensors: dict[Tensor, Place] = field(factory=dict)
    streams: dict[Any, Place] = field(factory=dict)
    #: each visited container, by identity, with a copy of its contents
    containers: dict[int, tuple[Any, Any]] = field(factory=dict)
    #: the containers that outlive a call, by identity
    lasting: set[int] = field(factory=set)
    #: the containers among the arguments, by identity: each call has its own
    given: set[int] = field(factory=set)
    #: the tensors held by something other than a tensor, by identity
    held: set[int] = field(factory=set)
    #: the visited objects, by identity
    objects: dict[int, tuple[Place, Any]] = field(factory=dict)
    #: the variables that functions name: the scope, the name in it, and its value
    variables: dict[tuple[int, str], tuple[Any, str, Any]] = field(factory=dict)
    #: the names that functions read as attributes, and those they only call
    read: set[str] = field(factory=set)
    called: set[str] = field(factory=set)
    #: by identity, the user's classes whose attributes some function may use, and those it may instantiate
    classes: dict[int, type] = field(factory=dict)
    made: dict[int, type] = field(factory=dict)
    #: by identity, classes with their bases that are the user's
    of_user: dict[int, tuple[type, list[type]]] = field(factory=dict)
    #: by the identity of a class, what names what its objects hold
    named: dict[int, Children | None] = field(factory=dict)
    #: the objects of the user's classes, with these
    instances: list[tuple[Any, type]] = field(factory=list)

    #: for each view, how it is one and the version at which its node was valid
    views: dict[Any, tuple[str, int]] = field(factory=dict)

    def walk(self, roots: Iterable[tuple[Place, Any]]) -> "World":
        """Go through everything that can be reached from the roots."""
        late: list[tuple[Place, Any]] = []
        self._walk(roots, late)
        while late:
            place, found = late.pop(0)
            self._walk([*self.children(found, place)], late)
        while methods := self._of_classes():
            self.walk(methods)
        return self

    def _of_classes(self) -> list[tuple[Place, Any]]:
        """The attributes of a class that the functions found so far may use, and that have not been visited yet."""
        found: list[tuple[Place, Any]] = []
        for cls in list(self.classes.values()):
            held = ClassAttributes(cls)
            for name, value in vars(cls).items():
                if (id(cls), name) not in self.variables and self._is_meant(cls, name, value):
                    self.variables[id(cls), name] = held, name, value
                    if isinstance(value, Tensor):
                        self.held.add(id(value))
                    found.append((Place(f"{cls.__name__}.{name}", (cls.__name__, name)), _function_of(value)))
        return found

    def _is_meant(self, cls: type, name: str, value: Any) -> bool:
        """Whether an attribute of a class may be used."""
        if name in self.read or (name in self.called and not _is_data(value)):
            return True
        if name.startswith("__") and name.endswith("__"):
            is_used = id(cls) in self.made if name in _MAKING else name not in _SHOWING
            return is_used and isinstance(_function_of(value), FunctionType)
        return any(name in vars(base) for base in cls.__mro__ if _is_given(base.__module__))

    def _user_classes(self, cls: type) -> list[type]:
        """A class and its bases, as far as they are the user's."""
        found = self.of_user.get(id(cls))
        if found is None:
            found = self.of_user[id(cls)] = cls, [base for base in cls.__mro__ if not _is_given(base.__module__)]
        return found[1]

    def _enter_class(self, value: Any) -> list[type]:
        """Note the classes of an object, or a class and its metaclass; returns the user's classes among an object's."""
        found = self._user_classes(type(value))
        self.classes.update([(id(base), base) for base in found])
        if isinstance(value, type):
            named = [(id(base), base) for base in self._user_classes(value)]
            self.classes.update(named)
            self.made.update(named)
        elif found and not isinstance(value, Tensor):
            self.instances.append((value, type(value)))
        return found

    def _walk(self, roots: Iterable[tuple[Place, Any]], late: list[tuple[Place, Any]]) -> None:
        waiting: list[tuple[Any, Iterator[tuple[Place, Any]]]] = [(None, iter(roots))]
        while waiting:
            holder, entries = waiting[-1]
            entry = next(entries, None)
            if entry is None:
                waiting.pop()
                continue
            place, value = entry
            if isinstance(value, Tensor) and holder is not None and not isinstance(holder, Tensor):
                self.held.add(id(value))
            if id(value.__class__) in _PLAIN or id(value) in self.objects:
                continue
            self.objects[id(value)] = place, value
            if id(value.__class__) in _PLAIN_CONTAINERS and not value:
                self.kept(value)  # most are a module's tables of hooks
            elif isinstance(value, tuple(LATE)):
                late.append(entry)
            else:
                waiting.append((value, iter([*self.children(value, place)])))

    def children(self, value: Any, place: Place) -> Iterable[tuple[Place, Any]]:
        """The things that an object holds, with their names."""
        of_user = self._enter_class(value)
        if isinstance(value, Tensor):
            return self._of_tensor(value, place)
        if isinstance(value, tuple(STREAMS)):
            self.streams.setdefault(value, place)
            return ()
        named = self._named(type(value))
        if named is not None:
            return named(self, value, place)
        if isinstance(value, dict | list | tuple | set | frozenset | deque):
            items: list[tuple[Place, Any]] = []
            if len(value) <= LARGEST:
                held = dict.items(self.kept(value)) if isinstance(value, dict) else enumerate(self.kept(value))
                items = [(place.item(k), v) for k, v in held]
            return [*items, *self.attributes(value, place)] if of_user else items
        if isinstance(value, FunctionType):
            self.name(value)
            own = self.attributes(value, place) if vars(value) and not is_foreign(value.__module__) else []
            return [*roots_of(value), *own]
        if isinstance(value, MethodType):
            self.name(value)
            return [(place.attribute("__self__"), value.__self__), *roots_of(value.__func__)]
        if isinstance(value, partial):
            return [(place, value.func), (place.attribute("args"), value.args), (place, value.keywords)]
        if isinstance(value, type | ModuleType) or is_foreign(type(value).__module__):
            return ()
        return self.attributes(value, place)

    def _named(self, cls: type) -> Children | None:
        """What names what objects of a class hold, if that has been entered."""
        if id(cls) not in self.named:  # the class is kept by ``of_user``
            entered = {id(known): children for known, children in CHILDREN.items()}
            self.named[id(cls)] = next((entered[id(base)] for base in cls.__mro__ if id(base) in entered), None)
        return self.named[id(cls)]

    def attributes(
        self, value: Any, place: Place, but: Iterable[str] = (), held: dict[str, Any] | None = None
    ) -> list[tuple[Place, Any]]:
        """The attributes of an object, which ``held`` has, or else its ``__dict__``."""
        held = getattr(value, "__dict__", None) if held is None else held
        found = dict(self.kept(held)) if isinstance(held, dict) else {}
        if slots := Slots.of(value):
            found.update(self.kept(slots).items())
        return [(place.attribute(k), v) for k, v in found.items() if k not in but]

    def _of_tensor(self, tensor: Tensor, place: Place) -> list[tuple[Place, Any]]:
        self.tensors.setdefault(tensor, place)
        if tensor._owner is not None:
            tensor._owner.release()  # so that the gradient is among the fields
        self.kept(vars(tensor))
        found: list[tuple[Place, Any]] = []
        if tensor._grad is not None:
            found.append((Place(f"{place.path}.grad", ("grad", *place.keys)), tensor._grad))
        if tensor._view is not None:
            self.views[tensor._view] = tensor._view.creation, tensor._view.version
            found.append((place.attribute("_base"), tensor._view.base))
        return found + [(place.attribute(k), v) for k, v in vars(tensor).items() if k not in FIELDS]

    def kept(self, container: Any) -> Any:
        """Copy a container, so that changes to it are seen; returns the container."""
        key = id(container.object) if isinstance(container, Slots) else id(container)
        if key not in self.containers and isinstance(container, dict | list | set | deque | Slots):
            self.containers[key] = container, _copied(container)
        return container

    def name(self, function: Any) -> None:
        """Note the values of the variables that a function names."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or is_foreign(function.__module__):
            return
        found: list[tuple[Any, str]] = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            found.append((Variable(cell), ""))
            if name == "__class__" and "" in Variable(cell):  # used by ``super()``: it makes no object
                self.classes.update([(id(base), base) for base in self._user_classes(cell.cell_contents)])
        parts = Parts(function)
        found += [(parts, part) for part in ("__code__", "__defaults__", "__kwdefaults__") if parts[part] is not None]
        mentions = Mentions.of(function.__code__)
        self.read |= mentions.read
        self.called |= mentions.called
        found += [(function.__globals__, name) for name in mentions.names]
        for _, module in _modules(function):
            held = vars(module)
            found += [(held, name) for name in mentions.names if name in held]
        for scope, name in found:
            value = scope.get(name, MISSING)
            if value is not MISSING and not isinstance(value, ModuleType):
                self.variables.setdefault((id(getattr(scope, "owner", scope)), name), (scope, name, value))

    def rebound(self) -> Iterator[tuple[Any, str, Any]]:
        """The variables that have been rebound, each with its old value."""
        for scope, name, value in self.variables.values():
            if scope.get(name, MISSING) is not value:
                yield scope, name, value

    def changed(self) -> Iterator[tuple[Any, Any]]:
        """The containers that have changed, each with its old contents."""
        for container, before in self.containers.values():
            if not holds(container, before):
                yield container, before

    def put_back(self) -> None:
        """Restore all containers and variables."""
        for scope, name, value in self.rebound():
            scope[name] = value
        for view, (creation, version) in self.views.items():
            view.creation, view.version = creation, version
        for container, before in self.changed():
            if isinstance(container, list | deque):
                container.clear()
                container.extend(before)
            else:
                container.clear()
                container.update(before)
        changes.attributes = changes.fields = object()


#: by identity: a class need not have a hash
_PLAIN = frozenset(map(id, (type(None), bool, int, float, complex, str, bytes)))


_PLAIN_CONTAINERS = frozenset(map(id, (dict, list, set, OrderedDict, NotedDict, NotedOrderedDict)))


def _copied(container: Any) -> Any:
    if isinstance(container, dict | Slots):
        return dict(container.items())
    return set(container) if isinstance(container, set) else list(container)


def holds(container: Any, before: Any) -> bool:
    """Whether a container still holds the same contents."""
    if len(container) != len(before):
        return False
    if isinstance(container, set):
        return container == before
    if isinstance(container, dict | Slots):
        old = list(before.items())
        return all(k is a and v is b for (k, v), (a, b) in zip(container.items(), old, strict=True))
    return all(a is b for a, b in zip(container, before, strict=True))


def is_foreign(module: str | None) -> bool:
    """Whether a module's objects hold nothing of the user's."""
    return module is None or f"{module}.".startswith(_FOREIGN)


def roots_of(function: Any) -> list[tuple[Place, Any]]:
    """What a function can reach by names: its closure, the globals that it mentions, its defaults, and ``self``."""
    if isinstance(function, MethodType):
        return [(Place("self", ("self",)), function.__self__), *roots_of(function.__func__)]
    if not isinstance(function, FunctionType):
        return [(Place(_name(function), (_name(function),)), function)]
    if is_foreign(function.__module__):
        return []
    found: list[tuple[Place, Any]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name != "__class__":
                found.append((Place(name, (name,)), cell.cell_contents))
        except ValueError:  # not bound yet
            continue
    scope, names = function.__globals__, Mentions.of(function.__code__).names
    known = [(name, scope[name]) for name in names if name in scope]
    found += [(Place(name, (name,)), value) for name, value in known if not isinstance(value, ModuleType)]
    for path, module in _modules(function):
        held = vars(module)
        found += [(Place(f"{path}.{k}", (path, k)), held[k]) for k in names if k in held]
    defaults = zip(reversed(_arguments(function.__code__)), reversed(function.__defaults__ or ()), strict=False)
    for name, value in chain(defaults, (function.__kwdefaults__ or {}).items()):
        found.append((Place(name, (name,)), value))
    return [*found, *_wrapped(function)]


def _wrapped(function: Any) -> list[tuple[Place, Any]]:
    inner = getattr(function, "__wrapped__", None)
    return [] if inner is None else roots_of(inner)


def _name(value: Any) -> str:
    return type(value).__name__.lower()


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


def _modules(function: FunctionType) -> list[tuple[str, ModuleType]]:
    """The user's modules that a function names or imports, and those it may reach as attributes of these."""
    mentions = Mentions.of(function.__code__)
    names = mentions.names
    found: dict[int, tuple[str, ModuleType]] = {}
    waiting: list[tuple[str, Any]] = [(name, function.__globals__.get(name)) for name in names]
    waiting += [(name, sys.modules.get(name)) for name in mentions.imported]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    waiting += [(name, Variable(cell).get("", None)) for name, cell in cells]
    while waiting:
        path, module = waiting.pop()
        if isinstance(module, ModuleType) and id(module) not in found and not _is_library(module.__name__):
            found[id(module)] = path, module
            waiting += [(f"{path}.{name}", vars(module)[name]) for name in names if name in vars(module)]
    return list(found.values())


def _is_library(module: str | None) -> bool:
    return is_foreign(module) or module.partition(".")[0] == "fgrad"  # type: ignore[union-attr]


def _is_given(module: str | None) -> bool:
    """Whether a module is the library's or Python's."""
    return _is_library(module) or module.partition(".")[0] in sys.stdlib_module_names  # type: ignore[union-attr]


#: methods that make an object, and those that show one or make a class
_MAKING = frozenset(("__init__", "__new__", "__post_init__"))
_SHOWING = frozenset(("__repr__", "__str__", "__init_subclass__"))


def _is_data(value: Any) -> bool:
    """Whether an attribute of a class is neither a function nor a wrapper of one."""
    return not callable(value) and not hasattr(type(value), "__get__")


def _function_of(value: Any) -> Any:
    """The function that an attribute of a class stands for, if it is wrapped; else the attribute."""
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value
