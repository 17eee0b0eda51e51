"""Running operations while JAX checks each result for NaNs and infinities (``jax_debug_nans``, ``jax_debug_infs``)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fgrad.jaxcore import typeof

if TYPE_CHECKING:
    from fgrad.graph.graph import Node


class Checked:
    """Runs nodes; an infinity that a constant brings in is an error only if it reaches a result.

    JAX checks what leaves a ``jit``, and not the masks of infinities inside, as that of a softmax.  A graph is what is
    inside.
    """

    __slots__ = ("bind", "arrays", "excused")

    def __init__(self, bind: "Callable[[Node, Sequence[Any]], Sequence[Any]]", args: Sequence[Any]):
        self.bind: Callable[[Node, Sequence[Any]], Sequence[Any]] = bind
        #: the arrays that the caller gave; Python numbers of a recorded function are inputs of its graph as well
        self.arrays: frozenset[int] = frozenset(id(x) for x in args if np.ndim(x))
        #: the first operation that was let pass, and its error
        self.excused: tuple[Node, FloatingPointError] | None = None

    def __call__(self, node: "Node", args: Sequence[Any]) -> Sequence[Any]:
        try:
            return self.bind(node, args)
        except FloatingPointError as error:
            brought = [x for x in args if _is_refused(x)]
            if not brought or any(id(x) in self.arrays for x in brought):
                raise
            self.excused = self.excused or (node, error)
            with jax.debug_nans(False), jax.debug_infs(False):
                return self.bind(node, args)

    def error_of(self, results: Sequence[Any]) -> "tuple[Node, FloatingPointError] | None":
        """The operation that was let pass, and its error, if it should not have been."""
        return self.excused if self.excused is not None and any(map(_is_refused, results)) else None


def _is_refused(x: Any) -> bool:
    """Whether a value has a NaN or infinity of the kind that JAX looks for."""
    if not jax.numpy.issubdtype(typeof(x).dtype, np.inexact) or not getattr(x, "is_fully_addressable", True):
        return False
    numbers = np.asarray(x)
    nans, infs = jax.config.jax_debug_nans, jax.config.jax_debug_infs  # type: ignore[attr-defined]
    return bool((nans and np.isnan(numbers).any()) or (infs and np.isinf(numbers).any()))
