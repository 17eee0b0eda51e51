"""A snapshot of what a function can reach: tensors and generators under the user's names, and the objects around them.

Longer than most files: the walk, and the comparison with a second one, know the same kinds of objects.

NOTE [What a function can reach]
A function of tensors has more inputs than its arguments: parameters of modules, an optimiser's state, ``.grad``.  They
are reached through its closure, its globals and ``self``.  A walk goes from there through modules, optimisers,
containers and the user's objects.  It finds the tensors and names them, and copies each container on the way (such as
an object's ``__dict__``), so that changes by the function can be detected and undone.  A second walk, after the
function has run, shows what the function created.

Methods and other attributes of the user's classes are found by name, and so are the attributes of their objects if
these are nothing else: a function may use those that are mentioned by some function found so far.  Three kinds are
mentioned nowhere, because Python or a library calls them: operators, overrides of a library class's attributes, and the
constructors of classes that the function can name.

A class can list its objects' children, under names of its own, in ``CHILDREN``.  A tensor that the walk does not find
(one that only a library holds) is lifted when an operation reads it; all it lacks is a name.
"""

import gc
import sys
import threading
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from ctypes import sizeof
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np
from attrs import define, field, frozen

from fgrad.mutable.capture.arrays import IN_MEMORY, Bytes, Elements, Memory
from fgrad.mutable.capture.caches import CachedFunction, CachedResults
from fgrad.mutable.capture.libraries import (
    is_foreign,
    is_installed,
    is_library_or_stdlib,
    is_own,
    is_without_state,
    module_of,
)
from fgrad.mutable.capture.mentions import Mentions, names_of
from fgrad.mutable.capture.scopes import (
    MISSING,
    ClassAttributes,
    ContextValue,
    Parts,
    Slots,
    Variable,
    as_dict,
    identity_of,
    namespace_of,
)
from fgrad.mutable.context.torch_function.wrap import is_entrance
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import NotedDict, NotedOrderedDict, changes
from fgrad.mutable.tensor.tensor import FIELDS, Tensor

#: larger containers are not walked: they hold data, not state
LARGEST = 10_000


@frozen
class Location:
    """The path of an object as the user would write it, and its keys in a tree of state."""

    path: str
    keys: tuple[Any, ...]

    @property
    def module_path(self) -> str:
        """The path of a module in the outermost one that holds it."""
        return ""

    def attribute(self, name: str) -> "Location":
        return Location(f"{self.path}.{name}" if self.path else name, (*self.keys, name))

    def item(self, key: Any) -> "Location":
        key_text = repr(key) if id(key.__class__) in _PLAIN else type(key).__name__
        return Location(f"{self.path}[{key_text}]", (*self.keys, key))


#: C's objects that hold others: bound methods (``kept.append``), views of dicts, and the like
HOLDERS: tuple[type, ...] = (
    *(BuiltinMethodType, MethodWrapperType, super, slice, attrgetter, itemgetter, methodcaller),
    *[type(getattr(kind(), view)()) for kind in (dict, OrderedDict) for view in ("keys", "values", "items")],
)
#: contents that are neither attributes nor entries
Hidden = CachedResults | Elements | Bytes
Children = Callable[["Snapshot", Any, Location], Iterable[tuple[Location, Any]]]
#: the functions that list the children of a class's objects
CHILDREN: dict[type, Children] = {}
#: classes whose objects are walked after all others
VISITED_LAST: set[type] = set()
#: classes of random generators
GENERATOR_TYPES: set[type] = set()


@define(eq=False)
class Snapshot:
    """What can be reached from some roots, and the contents of all containers at that time."""

    tensors: dict[Tensor, Location] = field(factory=dict)
    generators: dict[Any, Location] = field(factory=dict)
    #: each visited container, by id, with a copy of its contents
    containers: dict[int, tuple[Any, Any]] = field(factory=dict)
    #: the ids of the containers, and of the objects, that outlive a call
    persistent: set[int] = field(factory=set)
    #: the ids of the containers among the arguments: each call has its own
    argument_containers: set[int] = field(factory=set)
    #: the ids of the lists that are not walked: no call depends on what is in them (NOTE [Growing lists])
    growing: set[int] = field(factory=set)
    #: the ids of the tensors held by something other than a tensor
    held_tensors: set[int] = field(factory=set)
    #: the visited objects, by id
    objects: dict[int, tuple[Location, Any]] = field(factory=dict)
    #: the variables that functions mention: scope, name and value
    variables: dict[tuple[int, str], tuple[Any, str, Any]] = field(factory=dict)
    #: the names that functions read as attributes, and those they only call
    read: set[str] = field(factory=set)
    called: set[str] = field(factory=set)
    #: the strings in the code of functions, which may be keys
    strings: set[str] = field(factory=set)
    #: whether some function may use attributes whose names it does not mention
    uses_any: bool = False
    #: whether some function calls ``type``
    asks_type: bool = False
    #: by id, objects that are nothing but their attributes, and the names of those that some function may use
    plain: dict[int, tuple[Any, Location, set[str]]] = field(factory=dict)
    #: by id, the user's modules that objects hold
    modules: dict[int, tuple[ModuleType, Location]] = field(factory=dict)
    #: by id, the user's classes whose attributes some function may use, and those it may instantiate
    classes: dict[int, type] = field(factory=dict)
    instantiable: dict[int, type] = field(factory=dict)
    #: of each of the user's classes, how many attributes it has, and its bases
    namespaces: dict[int, tuple[type, int, tuple[type, ...]]] = field(factory=dict)
    #: by id, classes with those of their bases that are the user's
    _user_bases: dict[int, tuple[type, list[type]]] = field(factory=dict)
    #: the entry of ``CHILDREN`` that applies to a class, by its id
    _child_listers: dict[int, Children | None] = field(factory=dict)
    #: the objects of the user's classes, with their classes
    instances: list[tuple[Any, type]] = field(factory=list)
    #: each view's creation reason, and the version at which its node was valid
    views: dict[Any, tuple[str, int]] = field(factory=dict)

    def walk(self, roots: Iterable[tuple[Location, Any]]) -> "Snapshot":
        """Visit everything that can be reached from the roots."""
        late: list[tuple[Location, Any]] = []
        self._walk(roots, late)
        while late:
            location, value = late.pop(0)
            self._walk([*self.children(value, location)], late)
        while attributes := [*self._class_attributes(), *self._object_attributes(), *self._module_attributes()]:
            self.walk(attributes)
        return self

    def _class_attributes(self) -> list[tuple[Location, Any]]:
        """The unvisited attributes of the user's classes that the functions found so far may use."""
        attributes: list[tuple[Location, Any]] = []
        for cls in list(self.classes.values()):
            namespace = ClassAttributes(cls)
            self.namespaces.setdefault(id(cls), (cls, len(vars(cls)), cls.__mro__))
            for name, value in vars(cls).items():
                if (id(cls), name) not in self.variables and self._may_be_used(cls, name, value):
                    self.variables[id(cls), name] = namespace, name, value
                    if isinstance(value, Tensor):
                        self.held_tensors.add(id(value))
                    attributes.append((Location(f"{cls.__name__}.{name}", (cls.__name__, name)), _function_of(value)))
        return attributes

    def _object_attributes(self) -> list[tuple[Location, Any]]:
        """The unvisited attributes of plain objects that the functions found so far may use."""
        attributes: list[tuple[Location, Any]] = []
        for value, location, used in self.plain.values():
            for name, attribute in vars(value).items():
                if name not in used and (self.uses_any or name in self.read or name in self.called):
                    used.add(name)
                    if isinstance(attribute, Tensor):
                        self.held_tensors.add(id(attribute))
                    attributes.append((location.attribute(name), attribute))
        return attributes

    def _module_attributes(self) -> list[tuple[Location, Any]]:
        """The unvisited variables of modules that objects hold which the functions found so far may use."""
        attributes: list[tuple[Location, Any]] = []
        for module, location in self.modules.values():
            namespace = vars(module)
            for name in [x for x in namespace if x in self.read or x in self.called]:
                value = namespace[name]
                if (id(namespace), name) not in self.variables and not isinstance(value, ModuleType):
                    self.variables[id(namespace), name] = namespace, name, value
                    if isinstance(value, Tensor):
                        self.held_tensors.add(id(value))
                    attributes.append((location.attribute(name), value))
        return attributes

    def _may_be_used(self, cls: type, name: str, value: Any) -> bool:
        """Whether an attribute of a class may be used."""
        if name in self.read or (name in self.called and not _is_data(value)):
            return True
        if name.startswith("__") and name.endswith("__"):
            is_used = id(cls) in self.instantiable if name in _CONSTRUCTORS else name not in _IGNORED
            return is_used and isinstance(_function_of(value), FunctionType)
        return any(name in vars(base) for base in cls.__mro__ if is_foreign(module_of(base)))

    def _user_classes(self, cls: type) -> list[type]:
        """Those of a class and its bases that are the user's."""
        cached = self._user_bases.get(id(cls))
        if cached is None:
            cached = self._user_bases[id(cls)] = (
                cls,
                [base for base in cls.__mro__ if not is_foreign(module_of(base))],
            )
        return cached[1]

    def note_classes(self, value: Any) -> list[type]:
        """Note the user's classes of an object (for a class: its own and its metaclass's), and return the object's."""
        user_classes = self._user_classes(type(value))
        self.classes.update([(id(base), base) for base in user_classes])
        if isinstance(value, type):
            bases = [(id(base), base) for base in self._user_classes(value)]
            self.classes.update(bases)
            self.instantiable.update(bases)
        elif user_classes and not isinstance(value, Tensor):
            self.instances.append((value, type(value)))
        return user_classes

    def _walk(self, roots: Iterable[tuple[Location, Any]], late: list[tuple[Location, Any]]) -> None:
        stack: list[tuple[Any, Iterator[tuple[Location, Any]]]] = [(None, iter(roots))]
        while stack:
            holder, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                stack.pop()
                continue
            location, value = entry
            if isinstance(value, Tensor) and holder is not None and not isinstance(holder, Tensor):
                self.held_tensors.add(id(value))
            if id(value.__class__) in _PLAIN or id(value) in self.objects or id(value) in self.growing:
                continue
            self.objects[id(value)] = location, value
            if id(value.__class__) in _PLAIN_CONTAINERS and not value:
                self.track(value)  # most of these are a module's tables of hooks
            elif isinstance(value, tuple(VISITED_LAST)):
                late.append(entry)
            else:
                stack.append((value, iter([*self.children(value, location)])))

    def children(self, value: Any, location: Location) -> Iterable[tuple[Location, Any]]:
        """What an object holds, with locations."""
        user_classes = self.note_classes(value)
        if isinstance(value, Tensor):
            return self._tensor_children(value, location)
        if isinstance(value, tuple(GENERATOR_TYPES)):
            self.generators.setdefault(value, location)
            return ()
        list_children = self._child_lister(type(value))
        if list_children is not None:
            return list_children(self, value, location)
        if isinstance(value, dict | list | tuple | set | frozenset | deque):
            items: list[tuple[Location, Any]] = []
            if len(value) <= LARGEST:
                entries = dict.items(self.track(value)) if isinstance(value, dict) else enumerate(self.track(value))
                items = [(location.item(k), v) for k, v in entries]
            if isinstance(value, defaultdict):
                items += self._part(value, "default_factory", location)
            return [*items, *self.attributes(value, location)] if user_classes else items
        if isinstance(value, _FUNCTIONS) and is_entrance(value):
            return ()  # what a public function of this layer has learned of the classes of its arguments is no state
        if isinstance(value, FunctionType):
            self.note_variables(value)
            attributes = self.attributes(value, location) if vars(value) and not is_foreign(module_of(value)) else []
            return [*roots_of(value), *attributes]
        if isinstance(value, MethodType):
            self.note_variables(value)
            return [(location.attribute("__self__"), value.__self__), *roots_of(value.__func__)]
        if isinstance(value, HOLDERS):
            if isinstance(value, attrgetter | methodcaller):
                self.uses_any = True
                self.read.update(names_of(value))
            return [(location, x) for x in gc.get_referents(value) if not isinstance(x, type | ModuleType)]
        if isinstance(value, memoryview):
            return [(location, value.obj)]
        if isinstance(value, partial):
            return [(location, value.func), (location.attribute("args"), value.args), (location, value.keywords)]
        if isinstance(value, BaseException):
            return [*self._part(value, "args", location), *self.attributes(value, location)]
        if isinstance(value, ContextVar):
            return self._variable(value, ContextValue(value), location.attribute("get()"))
        if isinstance(value, CellType):
            return self._variable(value, Variable(value), location.attribute("cell_contents"))
        if isinstance(value, threading.local):
            return self.attributes(value, location, namespace=vars(value))
        if isinstance(value, np.ndarray):
            elements = self.track(Elements(value)).values() if value.size <= LARGEST else ()
            return [(location.item(i), x) for i, x in enumerate(elements)]
        if isinstance(value, bytearray | array):
            if len(value) <= LARGEST:
                self.track(Bytes(value))
            return ()
        if isinstance(value, IN_MEMORY):
            if sizeof(value) <= LARGEST:
                self.track(Memory(value))
            return ()
        if isinstance(value, MappingProxyType):
            return [(location, x) for x in gc.get_referents(value) if "__module__" not in x]  # not those of a class
        if isinstance(value, ModuleType) and not is_foreign(vars(value).get("__name__")):
            self.modules[id(value)] = value, location
        if isinstance(value, type | ModuleType) or is_without_state(module_of(type(value))):
            return ()
        if isinstance(value, CachedFunction) and not is_foreign(module_of(value)):
            return [*self.attributes(value, location), *self._results(CachedResults(value), location)]
        namespace = namespace_of(value)
        if namespace.__class__ is dict and _is_of_a_project(type(value)):
            self.track(namespace)
            self.plain[id(value)] = value, location, set()
            return ()
        return self.attributes(value, location)

    def _results(self, cache: CachedResults, location: Location) -> list[tuple[Location, Any]]:
        """The results that a function has kept."""
        if len(cache) > LARGEST:
            return []
        return [(location.item(key), result) for key, result in self.track(cache).items()]

    def _variable(self, owner: Any, scope: ContextValue | Variable, location: Location) -> list[tuple[Location, Any]]:
        """The value of a variable that is an object, such as a context variable, and its location."""
        value = scope.get("", MISSING)
        if value is MISSING and isinstance(scope, Variable):
            return []
        self.variables[id(owner), ""] = scope, "", value
        if isinstance(value, Tensor):
            self.held_tensors.add(id(value))
        return [] if value is MISSING else [(location, value)]

    def _part(self, owner: Any, name: str, location: Location) -> list[tuple[Location, Any]]:
        """A part of an object of C's that is no attribute in its ``__dict__``, and its location."""
        self.variables[id(owner), name] = (parts := Parts(owner)), name, parts[name]
        return [(location.attribute(name), parts[name])]

    def _child_lister(self, cls: type) -> Children | None:
        """The function that lists the children of a class's objects, if there is one."""
        if id(cls) not in self._child_listers:  # the id stays valid: ``_user_bases`` holds the class
            listers = {id(known): children for known, children in CHILDREN.items()}
            self._child_listers[id(cls)] = next(
                (listers[id(base)] for base in cls.__mro__ if id(base) in listers), None
            )
        return self._child_listers[id(cls)]

    def attributes(
        self, value: Any, location: Location, excluding: Iterable[str] = (), namespace: dict[str, Any] | None = None
    ) -> list[tuple[Location, Any]]:
        """The attributes of an object: those in ``namespace``, or else in its ``__dict__``, and its slots."""
        namespace = namespace_of(value) if namespace is None else namespace
        attributes = dict(self.track(namespace)) if isinstance(namespace, dict) else {}
        if (slots := Slots.of(value)) is not None:
            attributes.update(self.track(slots).items())
        return [(location.attribute(k), v) for k, v in attributes.items() if k not in excluding]

    def _tensor_children(self, tensor: Tensor, location: Location) -> list[tuple[Location, Any]]:
        self.tensors.setdefault(tensor, location)
        if tensor._owner is not None:
            tensor._owner.release()  # this stores the gradient in its field
        self.track(fields_of(tensor))
        children: list[tuple[Location, Any]] = []
        if tensor._grad is not None:
            children.append((Location(f"{location.path}.grad", ("grad", *location.keys)), tensor._grad))
        if tensor._view is not None:
            self.views[tensor._view] = tensor._view.creation, tensor._view.version
            children.append((location.attribute("_base"), tensor._view.base))
        return children + [(location.attribute(k), v) for k, v in fields_of(tensor).items() if k not in FIELDS]

    def track(self, container: Any) -> Any:
        """Copy a container, to detect later changes; returns the container."""
        if isinstance(container, dict | list | set | deque | Slots | Hidden):
            key = identity_of(container)
            if key not in self.containers:
                self.containers[key] = container, _copied(container)
        return container

    def note_variables(self, function: Any) -> None:
        """Note the values of the variables that a function mentions."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or is_without_state(module_of(function)):
            return
        variables: list[tuple[Any, str]] = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            variables.append((Variable(cell), ""))
            if name == "__class__" and "" in Variable(cell):  # used by ``super()``, which instantiates nothing
                self.classes.update([(id(base), base) for base in self._user_classes(cell.cell_contents)])
        parts = Parts(function)
        variables += [
            (parts, part) for part in ("__code__", "__defaults__", "__kwdefaults__") if parts[part] is not None
        ]
        if not _has_foreign_globals(function):
            mentions = Mentions.of(function.__code__)
            self.read |= mentions.read
            self.called |= mentions.called
            self.strings |= mentions.strings
            self.uses_any |= mentions.uses_any
            self.asks_type |= mentions.asks_type
            variables += [(function.__globals__, name) for name in mentions.names]
            for _, module in _user_modules(function):
                namespace = vars(module)
                variables += [(namespace, name) for name in mentions.names if name in namespace]
        for scope, name in variables:
            value = scope.get(name, MISSING)
            if value is not MISSING and not isinstance(value, ModuleType):
                self.variables.setdefault((identity_of(scope), name), (scope, name, value))

    def rebound(self) -> Iterator[tuple[Any, str, Any]]:
        """The variables that have been rebound, with their old values."""
        for scope, name, value in self.variables.values():
            if scope.get(name, MISSING) is not value:
                yield scope, name, value

    def changed(self) -> Iterator[tuple[Any, Any]]:
        """The containers that have changed, with their old contents."""
        for container, before in self.containers.values():
            if not is_unchanged(container, before):
                yield container, before

    def restore(self) -> None:
        """Restore all containers and variables."""
        for scope, name, value in self.rebound():
            scope[name] = value
        for view, (creation, version) in self.views.items():
            view.creation, view.version = creation, version
        for container, before in self.changed():
            if isinstance(container, Hidden):
                container.restore(before)
            elif isinstance(container, list | deque):
                container.clear()
                container.extend(before)
            else:
                entries = container if isinstance(container, set) else as_dict(container)
                entries.clear()
                entries.update(before)
        changes.attributes = changes.fields = object()


_FUNCTIONS: tuple[Any, ...] = (FunctionType, BuiltinFunctionType)
#: ids, since a class need not have a hash
_PLAIN = frozenset(map(id, (type(None), bool, int, float, complex, str, bytes)))
_PLAIN_CONTAINERS = frozenset(map(id, (dict, list, set, OrderedDict, NotedDict, NotedOrderedDict)))


def _copied(container: Any) -> Any:
    if isinstance(container, Hidden):
        return container.copy()
    if isinstance(container, dict | Slots):
        return dict(as_dict(container).items())
    return list(container)


def is_unchanged(container: Any, before: Any) -> bool:
    """Whether a container still holds the same objects, in the same order."""
    if isinstance(container, Hidden):
        return container.is_unchanged(before)
    if isinstance(container, dict | Slots):
        new, old = list(as_dict(container).items()), list(before.items())
        return len(new) == len(old) and all(k is a and v is b for (k, v), (a, b) in zip(new, old, strict=True))
    if len(container) != len(before):
        return False
    return all(a is b for a, b in zip(container, before, strict=True))


def roots_of(function: Any) -> list[tuple[Location, Any]]:
    """What a function can reach by name: its closure, the globals it mentions, its defaults, and ``self``."""
    if isinstance(function, MethodType):
        return [(Location("self", ("self",)), function.__self__), *roots_of(function.__func__)]
    if not isinstance(function, FunctionType):
        return [(Location(_class_name(function), (_class_name(function),)), function)]
    if is_without_state(module_of(function)) or is_entrance(function):
        return []
    roots: list[tuple[Location, Any]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name != "__class__":
                roots += _of_variable(function, Location(name, (name,)), cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    if not _has_foreign_globals(function):
        scope, names = function.__globals__, Mentions.of(function.__code__).names
        variables = [(name, scope[name]) for name in names if name in scope]
        roots += [(Location(name, (name,)), value) for name, value in variables if not isinstance(value, ModuleType)]
        for path, module in _user_modules(function):
            namespace = vars(module)
            roots += [(Location(f"{path}.{k}", (path, k)), namespace[k]) for k in names if k in namespace]
    defaults = zip(reversed(_arguments(function.__code__)), reversed(function.__defaults__ or ()), strict=False)
    for name, value in chain(defaults, (function.__kwdefaults__ or {}).items()):
        roots.append((Location(name, (name,)), value))
    if function.__kwdefaults__:  # a dict that can be changed
        roots.append((Location("__kwdefaults__", ("__kwdefaults__",)), function.__kwdefaults__))
    return [*roots, *_wrapped(function)]


def _of_variable(function: FunctionType, location: Location, value: Any) -> list[tuple[Location, Any]]:
    """What a function reaches through a variable of its closure."""
    if function.__code__ is _DECORATED and isinstance(value, _GENERATED):  # each call makes another generator
        return [(location.attribute(name), getattr(value, name)) for name in ("func", "args", "kwds")]
    return [(location, value)]


#: the code of a function that a context manager decorates, and the context managers made of generators
_DECORATED = ContextDecorator()(lambda: None).__code__
_GENERATED = type(contextmanager(iter)(()))


def _has_foreign_globals(function: FunctionType) -> bool:
    """Whether the globals of a function hold none of the user's tensors; a wrapper takes another's ``__module__``."""
    scope = function.__globals__
    module = scope.get("__name__", module_of(function))
    # an example in one of this layer's docstrings is typed into the module, and belongs to the reader
    is_example = is_own(module) and function.__code__.co_filename != scope.get("__file__")
    return is_foreign(module) and not is_example


def _wrapped(function: Any) -> list[tuple[Location, Any]]:
    inner = getattr(function, "__wrapped__", None)
    return [] if inner is None else roots_of(inner)


def _class_name(value: Any) -> str:
    return type(value).__name__.lower()


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


def _user_modules(function: FunctionType) -> list[tuple[str, ModuleType]]:
    """The user's modules that a function mentions or imports, and those reachable as their attributes."""
    mentions = Mentions.of(function.__code__)
    names = mentions.names
    modules: dict[int, tuple[str, ModuleType]] = {}
    queue: list[tuple[str, Any]] = [(name, function.__globals__.get(name)) for name in names]
    queue += [(name, sys.modules.get(name)) for name in mentions.imported]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    queue += [(name, Variable(cell).get("", None)) for name, cell in cells]
    while queue:
        path, module = queue.pop()
        if isinstance(module, ModuleType) and id(module) not in modules and not is_library_or_stdlib(module.__name__):
            modules[id(module)] = path, module
            queue += [(f"{path}.{name}", vars(module)[name]) for name in names if name in vars(module)]
    return list(modules.values())


def is_plain_class(cls: type) -> bool:
    """Whether objects of a class are nothing but their attributes, and all its bases are the user's."""
    bases = [base for base in cls.__mro__ if base is not object]
    return all("__slots__" not in vars(base) and not is_library_or_stdlib(module_of(base)) for base in bases)


def _is_of_a_project(cls: type) -> bool:
    """Whether a class is the user's own, so that all functions that use its attributes are found by a walk."""
    return is_plain_class(cls) and not any(
        is_installed(module) for base in cls.__mro__ if (module := module_of(base)) is not None
    )


#: methods that construct an object, and those that are not followed
_CONSTRUCTORS = frozenset(("__init__", "__new__", "__post_init__"))
_IGNORED = frozenset(("__repr__", "__str__", "__init_subclass__"))


def _is_data(value: Any) -> bool:
    """Whether an attribute of a class is neither a function nor a wrapper of one."""
    return not callable(value) and not hasattr(type(value), "__get__")


def _function_of(value: Any) -> Any:
    """The function that a property, a static method or a class method wraps; any other attribute itself."""
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value
