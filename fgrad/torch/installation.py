"""``install()`` makes ``import torch`` mean this package, so that libraries written for PyTorch run on it.

For programs whose libraries import ``torch`` themselves, in a process without PyTorch: call it before they are
imported.

>>> import sys
>>> import fgrad.torch
>>> if 'torch' not in sys.modules:
...     with fgrad.torch.install():
...         import torch
...         print(torch is fgrad.torch)
... else:
...     print(True)
True
"""

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import Distribution
from types import ModuleType
from typing import Any

from fgrad.deferred import import_at_first_use
from fgrad.torch.version import __version__

_HERE = "fgrad.torch"
_THERE = "torch"
#: packages of a PyTorch, and what they are here
_PACKAGES = {_THERE: _HERE, "functorch": f"{_HERE}._functorch.deprecated"}


#: packages through whose ``__dict__`` libraries look for classes, so that those imported late are imported at once
_READ_AS_DICTS = (f"{_HERE}.distributions", f"{_HERE}.optim", f"{_HERE}.optim.lr_scheduler")
#: modules of Python's own that PyTorch imports, and that libraries use without importing them
_BROUGHT_ALONG = ("multiprocessing.connection", "multiprocessing.spawn", "urllib.request")
#: functions by which libraries load machine code for PyTorch; without it these libraries have code in Python
_LOADING_MACHINE_CODE = {"torchaudio._extension.utils": "_load_lib"}


class _PythonOnly(SourceFileLoader):
    """Loads a library's module, whose function that loads machine code finds none here."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        setattr(module, _LOADING_MACHINE_CODE[module.__name__], lambda library: False)


class _Loader:
    """Loads a module that is already imported."""

    def __init__(self, module: ModuleType):
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # the import has set the spec of the other name
        module.__spec__ = self._spec
        for package in _READ_AS_DICTS:
            # one inside of it is read through it, and may never be imported by its own name
            if f"{package}.".startswith(f"{module.__name__}."):
                filled = import_at_first_use(package)
                for name in getattr(filled, "__all__", ()):
                    getattr(filled, name)


class _Torch(Distribution):
    """The ``importlib.metadata`` of ``torch``."""

    def read_text(self, filename: str) -> str | None:
        texts = {"METADATA": f"Metadata-Version: 2.1\nName: {_THERE}\nVersion: {__version__}\n"}
        return texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        return path


class _Finder:
    """Finds ``torch.nn`` where ``fgrad.torch.nn`` is, ``functorch``, which comes with PyTorch, and what is adapted."""

    def __init__(self) -> None:
        #: the package's own spec, while it is replaced
        self.replaced: ModuleSpec | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in _LOADING_MACHINE_CODE:
            found = PathFinder.find_spec(name, path, target)
            if found is not None and found.origin is not None:
                found.loader = _PythonOnly(name, found.origin)
            return found
        package, dot, inner = name.partition(".")
        if package not in _PACKAGES:
            return None
        try:
            return _spec(name, import_at_first_use(_PACKAGES[package] + dot + inner))
        except ModuleNotFoundError:
            # no other finder may look: an installed PyTorch must not be mixed in
            raise ModuleNotFoundError(
                f"No module named {name!r}: fgrad.torch has nothing of that name.", name=name
            ) from None

    def find_distributions(self, context: Any) -> Iterator[Distribution]:
        if context.name == _THERE:
            yield _Torch()

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


def _spec(name: str, module: ModuleType) -> ModuleSpec:
    is_package = hasattr(module, "__path__")
    spec = ModuleSpec(name, _Loader(module), origin=getattr(module, "__file__", None), is_package=is_package)  # type: ignore[arg-type]
    if is_package:
        spec.submodule_search_locations = list(module.__path__)
    return spec


class Installation:
    """Returned by ``install``: a context manager that calls ``uninstall`` on exit."""

    def __enter__(self) -> "Installation":
        return self

    def __exit__(self, *exception: object) -> None:
        uninstall()


_finder = _Finder()


def _imported() -> list[str]:
    """The modules of a PyTorch that are imported."""
    return [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]


def _rename(here: ModuleType, before: str, after: str) -> None:
    """Change the package that the classes of tensors are from: opt_einsum, for one, asks it to choose a library."""
    for each in (here.Tensor, here.nn.Parameter):
        each.__module__ = each.__module__.replace(before, after, 1)


def install() -> Installation:
    """Make ``import torch`` mean ``fgrad.torch`` from here on, in this process.

    Returns:
      a context manager; its exit, or ``uninstall()``, undoes it.  Libraries imported in between keep what they have.

    Raises:
      RuntimeError: PyTorch is imported already.
    """
    here = sys.modules[_HERE]
    present = sys.modules.get(_THERE)
    if present is here:
        return Installation()
    if present is not None or _imported():
        where = getattr(present, "__file__", None) or "somewhere"
        raise RuntimeError(
            f"fgrad.torch.install: another torch is imported in this process, from {where}, and what uses it would "
            "not go with what is imported next.\nWay out: call fgrad.torch.install() before anything imports torch."
        )
    for name in _BROUGHT_ALONG:
        importlib.import_module(name)
    _finder.replaced = here.__spec__
    here.__name__ = _THERE
    _rename(here, _HERE, _THERE)
    here.__spec__ = _spec(_THERE, here)
    sys.modules[_THERE] = here
    sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]
    return Installation()


def uninstall() -> None:
    """Undo ``install``."""
    here = sys.modules[_HERE]
    if sys.modules.get(_THERE) is not here:
        return
    for name in _imported():
        del sys.modules[name]
    sys.meta_path.remove(_finder)  # type: ignore[arg-type]
    here.__name__ = _HERE
    _rename(here, _THERE, _HERE)
    here.__spec__ = _finder.replaced
