"""Which modules are a library's, so that a walk need not go through them.

NOTE [Where a walk ends]
A walk that followed every name would go through half of the installed packages: a model calls ``einops``, which
mentions ``sys.modules``.  What a library keeps in its globals matters only if it may hold a tensor.  So the walk
follows the closures and defaults of all functions, since they may be the user's, but it follows globals and classes
only of modules that may use tensors: those of the user's project, and those of an installed package that name
something of this layer.  Code that is executed in a namespace without ``__name__`` (``exec(text, {})``) is the user's.
"""

import builtins
import sys
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fgrad.mutable.tensor.node import Node
from fgrad.mutable.types.type_names import MADE_IN_PYTHON

#: the module of code that is executed in a namespace without ``__name__``
USERS = "__main__"
#: packages whose objects hold none of the user's tensors
WITHOUT_STATE = (
    "builtins",
    "jax",
    "jaxlib",
    "numpy",
    "threading",
    "fgrad.mutable",
    "fgrad.graph",
    "fgrad.run",
    "fgrad.torch.ops",
    "logging",
)
#: what the modules of this layer call themselves; the second, where it stands in for PyTorch
_OWN = frozenset(("fgrad", "torch"))
_WITHOUT_STATE = tuple([f"{module}." for module in WITHOUT_STATE])


def module_of(value: FunctionType | type) -> str | None:
    """The module of a function or a class.

    >>> module_of(int), module_of(Path), module_of(eval("lambda: 1", {}))
    ('builtins', 'pathlib', '__main__')
    """
    module = value.__module__
    if isinstance(value, FunctionType):
        return USERS if module is None else module
    if module != "builtins" or vars(builtins).get(value.__name__) is value:
        return module
    return USERS if value.__flags__ & MADE_IN_PYTHON and not issubclass(value, Node) else module


def is_without_state(module: str | None) -> bool:
    """Whether the objects of a module's classes hold nothing of the user's."""
    return module is None or f"{module}.".startswith(_WITHOUT_STATE)


def is_own(module: str | None) -> bool:
    """Whether a module is one of this layer's."""
    return isinstance(module, str) and module.partition(".")[0] in _OWN


def is_library_or_stdlib(module: str | None) -> bool:
    """Whether a module belongs to Python, to this layer, or to a library without state."""
    return (
        module is None
        or is_without_state(module)
        or is_own(module)
        or module.partition(".")[0] in sys.stdlib_module_names
    )


def is_foreign(module: str | None) -> bool:
    """Whether a module's globals and classes hold none of the user's tensors."""
    if is_library_or_stdlib(module):
        return True
    assert module is not None
    loaded = sys.modules.get(module)
    return loaded is not None and _is_foreign(module, len(vars(loaded)))


@cache
def _is_foreign(module: str, size: int) -> bool:
    """Whether a loaded module is foreign; its size tells whether it has been loaded further since."""
    return is_installed(module) and not _uses_tensors(sys.modules[module])


def is_installed(module: str) -> bool:
    """Whether a loaded module belongs to something that was installed, rather than to a project."""
    file = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)
    return isinstance(file, str) and _is_beside_distributions(file)


@cache
def _is_beside_distributions(file: str) -> bool:
    path = Path(file)
    directory = path.parent.parent if path.stem == "__init__" else path.parent
    return next(directory.glob("*.dist-info"), None) is not None


def _uses_tensors(module: ModuleType) -> bool:
    """Whether a module names something of this layer."""
    return any(_comes_from_here(value) for value in vars(module).values())


def _comes_from_here(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return is_own(value.__name__)
    return is_own(module_of(value if isinstance(value, type | FunctionType) else type(value)))
