"""The operations, each entered in the table by the file of its family, and all their names.

What nearly every program needs is imported at once, the rest at first use (``families``).
"""

from pkgutil import iter_modules
from typing import Any

from fgrad.torch.ops.creation import creation as _creation  # noqa: F401  (they enter their rows)
from fgrad.torch.ops.dispatcher import packet
from fgrad.torch.ops.elementwise import comparison as _comparison  # noqa: F401
from fgrad.torch.ops.families import functions, rows
from fgrad.torch.ops.indexing import subscripts as _subscripts  # noqa: F401
from fgrad.torch.ops.linalg import products as _products  # noqa: F401
from fgrad.torch.ops.reductions import reductions as _reductions  # noqa: F401
from fgrad.torch.ops.table import operators as _operators  # noqa: F401
from fgrad.torch.ops.table.table import TABLE

globals().update({name: entry.call for name, entry in TABLE.rows.items() if entry.function})
TABLE.defer("fgrad.torch", rows())
_LATE = frozenset(functions())
#: the rooms, some of which may not have been imported yet
ROOMS = frozenset(module.name for module in iter_modules(__path__))


class Namespace:
    """The operators of one namespace, as attributes of ``torch.ops``."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if self._name not in _OF_PYTORCH or name.startswith("__"):
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        setattr(self, name, packet(self._name, name))
        return getattr(self, name)


_OF_PYTORCH = frozenset(("aten", "prim", "prims", "quantized", "quantized_decomposed"))


def load_library(path: str) -> None:
    """Refuse a library of operations in machine code.

    Raises:
      OSError: always, so that programs with a fallback use it.
    """
    raise OSError(f"torch.ops.load_library: {path} is machine code for PyTorch, which cannot run here.")


def __getattr__(name: str) -> Any:
    if name in ROOMS or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = TABLE[name].call if name in _LATE else Namespace(name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
