"""Ports: the calls from a floor to one above it.

NOTE [Ports]
Imports go downwards.  The few calls that a lower floor must still make upwards (for the rest of an error message, say)
go through ports: records of a function's name and module, which is imported when the port is first used.  All ports are
in two files, this one for the core and ``fgrad/mutable/ports.py``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fgrad.deferred import import_at_first_use

if TYPE_CHECKING:
    from fgrad.graph.graph import Graph, Node

Function = TypeVar("Function", bound=Callable[..., Any])


class Port(Generic[Function]):
    """A function of a floor above: ``port.call(...)`` calls it.

    Attributes:
      filled_by: the module that has the function.
      name: its name there.
      asked_by: the modules that call it.
      call: the function.

    >>> port = Port("json", "dumps", asked_by=("here",))
    >>> port.call([1, 2])
    '[1, 2]'
    """

    __slots__ = ("asked_by", "call", "filled_by", "name")

    call: Function

    def __init__(self, filled_by: str, name: str, *, asked_by: Sequence[str]):
        self.filled_by: str = filled_by
        self.name: str = name
        self.asked_by: tuple[str, ...] = tuple(asked_by)

    def __getattr__(self, attribute: str) -> Any:
        # only ``call`` is missing, until its first use
        if attribute != "call":
            raise AttributeError(f"a port has no attribute {attribute!r}")
        self.call = getattr(import_at_first_use(self.filled_by), self.name)
        return self.call


#: adds to JAX's error at a NaN or Inf (``jax_debug_nans``) where it comes from
NONFINITE: "Port[Callable[[FloatingPointError, Graph, Sequence[Any], Node], None]]" = Port(
    "fgrad.questions.nonfinite", "explain", asked_by=("fgrad.graph.graph",)
)
