"""The layers above the core whose programs can be compared: each enters itself when it is imported."""

from collections.abc import Callable
from typing import Any, Protocol

from fgrad.graph.port import Port


class Layer(Protocol):
    """Another layer whose programs can be compared."""

    def is_program(self, fun: Callable[..., Any]) -> bool:
        """Whether a function is sure to be one of this layer's."""
        ...

    def arrays(self, tree: Any) -> Any:
        """Arguments with the layer's tensors as arrays."""
        ...

    def differentiated(self, fun: Callable[..., Any]) -> Callable[..., tuple[Any, list[Any], dict[str, Any]]]:
        """A pure function of arrays: the results, the gradient of each inexact leaf, and those of what is not among the
        arguments, by name; None for a gradient that nothing leads to."""
        ...


#: of each layer that is imported, what makes it
LAYERS: list[Port[Callable[[], Layer]]] = []


def layers() -> list[Layer]:
    """The layers that are imported."""
    return [port.call() for port in LAYERS]
