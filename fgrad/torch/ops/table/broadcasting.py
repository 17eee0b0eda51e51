"""Operands of one shape, and rules of functions that do not know of broadcasting."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from jax import numpy as jnp

from fgrad.api.rules import define_rule


def check_broadcast(*arrays: Any) -> None:
    """Raise PyTorch's error for shapes that do not broadcast."""
    first = arrays[0].shape
    for other in arrays[1:]:
        shape = other.shape
        for back in range(1, min(len(first), len(shape)) + 1):
            a, b = first[-back], shape[-back]
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                    f"{max(len(first), len(shape)) - back}"
                )
        first = jnp.broadcast_shapes(first, shape)


def aligned(*arrays: Any) -> list[Any]:
    """The arrays broadcast to one shape."""
    check_broadcast(*arrays)
    return jnp.broadcast_arrays(*arrays)


def derivative(
    vjp: Callable[..., Any], jvp: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give an elementwise function the pull-back ``vjp(ct, out, *arrays)``, which reads what PyTorch's reads.

    The push-forward is its transpose unless one is given.  Shapes are made one outside, so that neither knows of
    broadcasting.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        ruled = define_rule(function, vjp=vjp, jvp=jvp)
        return wraps(function)(lambda *arrays: ruled(*aligned(*arrays)))

    return enter
