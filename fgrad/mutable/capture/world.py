"""What a function can reach: tensors and streams of random numbers by the user's names, and the objects that hold them.

NOTE [The world of a function]
A function of tensors has more inputs than its arguments: parameters of modules, an optimiser's state, ``.grad``.  Where
these are, its closure, its globals and ``self`` say.  The walk goes from there through modules, optimisers, containers
and the user's objects, and does three things at once.  It finds the tensors and gives them names; it copies each
container that it passes (the objects' dicts are such), so that whatever the function changes in them is seen by
comparing, and can be put back; and, walked a second time after the function has run, it shows what the function made.

Classes that have names of their own for what they hold enter them in ``CHILDREN``.  What the walk does not find (a
tensor that only a library holds) is met when an operation reads it: it has no name then, and nothing else is missing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from attrs import define, field, frozen

from fgrad.mutable.tensor.tensor import Tensor

#: containers of more elements are not gone through: they hold data and not state
LARGEST = 10_000
#: packages whose objects hold no tensors of the user's
FOREIGN = ("builtins", "jax", "jaxlib", "numpy", "threading", "fgrad.mutable", "fgrad.graph", "fgrad.run", "logging")


@frozen
class Place:
    """Where something is: its path as the user would write it, and its keys in a tree of state."""

    path: str
    keys: tuple[Any, ...]

    def attribute(self, name: str) -> "Place":
        return Place(f"{self.path}.{name}" if self.path else name, (*self.keys, name))

    def item(self, key: Any) -> "Place":
        shown = repr(key) if key.__class__ in _PLAIN else type(key).__name__
        return Place(f"{self.path}[{shown}]", (*self.keys, key))


Children = Callable[["World", Any, Place], Iterable[tuple[Place, Any]]]
#: how the objects of a class name what they hold; the classes marked late are gone into when all others have been
CHILDREN: dict[type, Children] = {}
LATE: set[type] = set()
#: the classes of streams of random numbers
STREAMS: set[type] = set()


@define(eq=False)
class World:
    """What can be reached from some roots."""

    tensors: dict[Tensor, Place] = field(factory=dict)
    streams: dict[Any, Place] = field(factory=dict)
    #: each container that was passed, by identity, with a copy of what it held
    containers: dict[int, tuple[Any, Any]] = field(factory=dict)
    #: the containers that are not made anew for each call, by identity
    lasting: set[int] = field(factory=set)
    #: the objects that were gone into, by identity
    objects: dict[int, tuple[Place, Any]] = field(factory=dict)
    #: the variables that functions name: the scope, the name in it, and what it stood for
    variables: dict[tuple[int, str], tuple[Any, str, Any]] = field(factory=dict)

    #: of each tensor that is a view, how it is one and the version at which its node was right
    views: dict[Any, tuple[str, int]] = field(factory=dict)

    def walk(self, roots: Iterable[tuple[Place, Any]]) -> "World":
        """Go through everything that can be reached from the roots."""
        late: list[tuple[Place, Any]] = []
        self._walk(roots, late)
        while late:
            place, found = late.pop(0)
            self._walk([*self.children(found, place)], late)
        return self

    def _walk(self, roots: Iterable[tuple[Place, Any]], late: list[tuple[Place, Any]]) -> None:
        waiting: list[Iterator[tuple[Place, Any]]] = [iter(roots)]
        while waiting:
            entry = next(waiting[-1], None)
            if entry is None:
                waiting.pop()
                continue
            place, value = entry
            if value.__class__ in _PLAIN or id(value) in self.objects:
                continue
            self.objects[id(value)] = place, value
            if isinstance(value, tuple(LATE)):
                late.append(entry)
            else:
                waiting.append(iter([*self.children(value, place)]))

    def children(self, value: Any, place: Place) -> Iterable[tuple[Place, Any]]:
        """What something holds, with its names."""
        if isinstance(value, Tensor):
            return self._of_tensor(value, place)
        if isinstance(value, tuple(STREAMS)):
            self.streams.setdefault(value, place)
            return ()
        for cls in type(value).__mro__:
            if cls in CHILDREN:
                return CHILDREN[cls](self, value, place)
        if isinstance(value, dict):
            return [(place.item(k), v) for k, v in self.kept(value).items()] if len(value) <= LARGEST else ()
        if isinstance(value, list | tuple | set | frozenset | deque):
            return [(place.item(i), v) for i, v in enumerate(self.kept(value))] if len(value) <= LARGEST else ()
        if isinstance(value, FunctionType):
            self.name(value)
            return roots_of(value)
        if isinstance(value, MethodType):
            self.name(value)
            return [(place.attribute("__self__"), value.__self__), *roots_of(value.__func__)]
        if isinstance(value, partial):
            return [(place, value.func), (place.attribute("args"), value.args), (place, value.keywords)]
        if isinstance(value, type | ModuleType) or is_foreign(type(value).__module__):
            return ()
        return self.attributes(value, place)

    def attributes(self, value: Any, place: Place, but: Iterable[str] = ()) -> list[tuple[Place, Any]]:
        """The attributes of an object."""
        held = getattr(value, "__dict__", None)
        found = dict(self.kept(held)) if isinstance(held, dict) else {}
        if slots := Slots.of(value):
            found.update(self.kept(slots).items())
        return [(place.attribute(k), v) for k, v in found.items() if k not in but]

    def _of_tensor(self, tensor: Tensor, place: Place) -> list[tuple[Place, Any]]:
        self.tensors.setdefault(tensor, place)
        self.kept(vars(tensor))
        found: list[tuple[Place, Any]] = []
        if tensor._grad is not None:
            found.append((Place(f"{place.path}.grad", ("grad", *place.keys)), tensor._grad))
        if tensor._view is not None:
            self.views[tensor._view] = tensor._view.creation, tensor._view.version
            found.append((place.attribute("_base"), tensor._view.base))
        return found

    def kept(self, container: Any) -> Any:
        """Copy a container, so that what becomes of it is seen; the container."""
        key = id(container.object) if isinstance(container, Slots) else id(container)
        if key not in self.containers and isinstance(container, dict | list | set | deque | Slots):
            self.containers[key] = container, _copied(container)
        return container

    def name(self, function: Any) -> None:
        """Note what the variables that a function names stand for."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or is_foreign(function.__module__):
            return
        found: list[tuple[Any, str]] = [(Variable(cell), "") for cell in function.__closure__ or ()]
        found += [(function.__globals__, name) for name in dict.fromkeys(_names(function.__code__))]
        for scope, name in found:
            value = scope.get(name, MISSING)
            if value is not MISSING and not isinstance(value, ModuleType):
                self.variables.setdefault((id(getattr(scope, "cell", scope)), name), (scope, name, value))

    def rebound(self) -> Iterator[tuple[Any, str, Any]]:
        """The variables that stand for something else by now, each with what it stood for."""
        for scope, name, value in self.variables.values():
            if scope.get(name, MISSING) is not value:
                yield scope, name, value

    def changed(self) -> Iterator[tuple[Any, Any]]:
        """The containers that hold something else by now, each with what it held."""
        for container, before in self.containers.values():
            if not _same(container, before):
                yield container, before

    def put_back(self) -> None:
        """Give all containers and variables back what they held."""
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


@frozen
class Slots:
    """The attributes of an object that has slots and no dict, as a dict."""

    object: Any
    names: tuple[str, ...]

    @staticmethod
    def of(value: Any) -> "Slots | None":
        """The slots of an object, if it has any."""
        names = [name for cls in type(value).__mro__ for name in _slots_of(cls)]
        return Slots(value, tuple(names)) if names else None

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self.object, name)) for name in self.names if hasattr(self.object, name)]

    def __len__(self) -> int:
        return len(self.items())

    def clear(self) -> None:
        for name, _ in self.items():
            object.__delattr__(self.object, name)

    def update(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self.object, name, value)


MISSING: Any = object()


@frozen
class Variable:
    """A variable of a closure, as a dict of one entry."""

    cell: Any

    def get(self, name: str, default: Any) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # not bound
            return default

    def __contains__(self, name: str) -> bool:
        return self.get(name, MISSING) is not MISSING

    def __getitem__(self, name: str) -> Any:
        return self.cell.cell_contents

    def __setitem__(self, name: str, value: Any) -> None:
        self.cell.cell_contents = value


def _slots_of(cls: type) -> list[str]:
    names = vars(cls).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return [
        n for n in names if n not in ("__dict__", "__weakref__") and isinstance(vars(cls).get(n), MemberDescriptorType)
    ]


_PLAIN = {type(None), bool, int, float, complex, str, bytes}


def _copied(container: Any) -> Any:
    if isinstance(container, dict | Slots):
        return dict(container.items())
    return set(container) if isinstance(container, set) else list(container)


def _same(container: Any, before: Any) -> bool:
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
    return module is None or module.startswith(FOREIGN)


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
            found.append((Place(name, (name,)), cell.cell_contents))
        except ValueError:  # not bound yet
            continue
    scope, names = function.__globals__, _names(function.__code__)
    for name in dict.fromkeys(names):
        value = scope.get(name)
        if isinstance(value, ModuleType):
            found += _of_module(value, name, names)
        elif name in scope:
            found.append((Place(name, (name,)), value))
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


def _names(code: CodeType) -> list[str]:
    """The names that a function mentions, and those of the functions inside it."""
    found = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found += _names(const)
    return found


def _of_module(module: ModuleType, name: str, mentioned: Iterable[str]) -> list[tuple[Place, Any]]:
    """What a function may mean by an attribute of a module of the user's."""
    if is_foreign(module.__name__) or module.__name__.startswith("fgrad"):
        return []
    held = vars(module)
    return [(Place(f"{name}.{k}", (name, k)), held[k]) for k in dict.fromkeys(mentioned) if k in held]
