"""What is imported when it is first asked for: names of a package, and rows of a table.

What a first program does not need costs it nothing.  A package lists names by the module that has each, and gets a
``__getattr__`` (PEP 562) that imports it; type checkers read the same imports under ``TYPE_CHECKING``.  A table, which
modules fill as they are imported, lists the names of the rows that others will enter.

NOTE [Imports in threads]
Python holds a lock for each module while it is imported, and takes that of ``a.b`` before that of ``a``.  A package
that imports its own modules takes them in the other order, so that two threads which import both at once wait for each
other; Python notices, and one of them gets an error, or a module that is half made.  So packages whose modules users
import by name only list these, and imports, a module counting as one of its package, run in no circle
(``test_imports_of_threads_meet_in_one_order``).  ``fgrad`` and ``fgrad.torch`` are imported whole, before threads
begin.  What is imported at its first use is imported while no other thread does so, its package first.
"""

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import FrameType, ModuleType
from typing import Any, TypeVar

Row = TypeVar("Row")

#: held by the thread that imports something at its first use
_turn = threading.RLock()
# a child has the thread that forked alone: an import that another thread had begun would never end there
os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)

#: what a package has for its own use
_OWN = {"TYPE_CHECKING", "Any", "deferred", "_deferred", "submodules"}


def import_at_first_use(name: str) -> ModuleType:
    """A module, by its full name, imported while no other thread imports one so: see NOTE [Imports in threads].

    >>> import_at_first_use("fgrad.deferred").__name__
    'fgrad.deferred'
    """
    if _in_import():
        return _imported(name)
    with _turn:
        return _imported(name)


def _imported(name: str) -> ModuleType:
    package = name.rpartition(".")[0]
    if package and package not in sys.modules:
        _imported(package)
    return importlib.import_module(name)


def _in_import() -> bool:
    """Whether this thread is running a module of fgrad's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and f"{frame.f_globals.get('__name__')}.".startswith("fgrad."):
            return True
        frame = frame.f_back
    return False


def is_imported(module: ModuleType) -> bool:
    """Whether the import of a module has ended: until then another thread would find it half made.

    >>> is_imported(sys)
    True
    """
    return not getattr(module.__spec__, "_initializing", False)


def module_by_name(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module in one text.

    >>> module_by_name({"fgrad.graph.op": "Op intern"})
    {'Op': 'fgrad.graph.op', 'intern': 'fgrad.graph.op'}
    """
    return {name: module for module, text in names.items() for name in text.split()}


_own_dict = vars(ModuleType)["__dict__"].__get__
#: the packages of which all listed names have been imported
_complete: set[str] = set()


class _Package(ModuleType):
    """A package whose ``vars`` has all listed names: programs choose a class by ``torch.optim.__dict__[name]``."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        own = _own_dict(self)
        if self.__name__ not in _complete and is_imported(self) and not _in_import():
            _complete.add(self.__name__)
            for name in own["__dir__"]():
                getattr(self, name)
        return own

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By name: ``cloudpickle``, which knows how to pickle a module, asks those of other classes."""
        return importlib.import_module, (self.__name__,)


class _PackageOfNamesakes(_Package):
    """A package in which a function has the name of its module: the name is the function's.

    Python binds a module to its name in the package each time that it has imported one.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        is_module = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        super().__setattr__(name, getattr(value, name, value) if is_module else value)


def deferred(
    package: str, names: Mapping[str, str], unlisted: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that imports some names when they are first asked for.

    ``from package import *`` gives the public names that ``dir`` lists, unless the package sets ``__all__``.

    Arguments:
      package: its full name.
      names: by the full name of a module, the names in it; by the name of the package itself, modules of it.
      unlisted: more modules of it, which ``dir`` does not list before they are imported.

    >>> get, listed = deferred("fgrad", {"fgrad": "deferred", "fgrad.graph.op": "Op intern"})
    >>> get("deferred").__name__
    'fgrad.deferred'
    >>> get("other")
    Traceback (most recent call last):
    AttributeError: module 'fgrad' has no attribute 'other'
    """
    listed = module_by_name(names)
    module_of = {**dict.fromkeys(unlisted, package), **listed}

    namesakes = any(module == f"{package}.{name}" for name, module in listed.items())
    sys.modules[package].__class__ = _PackageOfNamesakes if namesakes else _Package

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return [each for each in dir(sys.modules[package]) if each[0] != "_"]
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module == package:
            value: Any = import_at_first_use(f"{package}.{name}")
        else:
            value = getattr(import_at_first_use(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*_own_dict(sys.modules[package]), *listed} - _OWN)

    return __getattr__, __dir__


class Table(MutableMapping[Any, Row]):
    """Rows by name, entered by modules as they are imported; some of these are imported when a row is asked for.

    Attributes:
      rows: those entered so far.
      late: by the name of a row, the module that enters it when it is asked for, until that has been imported.

    >>> table = Table()
    >>> table["here"] = 1
    >>> table.defer("fgrad", {"deferred": ["there"]})
    >>> sorted(table), "there" in table
    (['here', 'there'], True)
    """

    def __init__(self) -> None:
        self.rows: dict[Any, Row] = {}
        self.late: dict[Any, str] = {}

    def defer(self, package: str, names: Mapping[str, Iterable[Any]]) -> None:
        """List rows that modules of a package will enter: by the name of a module in it, the names of its rows."""
        self.late.update({row: f"{package}.{module}" for module, rows in names.items() for row in rows})

    def get(self, key: Any, default: Any = None) -> Any:
        """The row of a name, or ``default``."""
        if key in self.late:
            self._import(self.late[key])
        row = self.rows.get(key)
        return default if row is None else row

    def _import(self, name: str) -> None:
        """Import a module that enters rows; while a thread does so, others that ask for these wait."""
        if is_imported(import_at_first_use(name)):
            for row, module in [*self.late.items()]:
                if module == name:
                    self.late.pop(row, None)

    def __getitem__(self, key: Any) -> Row:
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def __setitem__(self, key: Any, row: Row) -> None:
        self.rows[key] = row

    def __delitem__(self, key: Any) -> None:
        del self.rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self.rows or key in self.late

    def __iter__(self) -> Iterator[Any]:
        return iter({**self.rows, **self.late})

    def __len__(self) -> int:
        return len({**self.rows, **self.late})
