"""JAX as the oracle."""

from collections.abc import Callable
from typing import Any

import jax

#: what a function raises under ``jax.jit`` that needs a number
NEEDS_NUMBERS = (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError)


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled as one program, where it can be: un-jitted, JAX compiles one for each operation."""

    def call(*args: Any) -> Any:
        try:
            return jax.jit(f)(*args)
        except NEEDS_NUMBERS:
            return f(*args)

    return call
