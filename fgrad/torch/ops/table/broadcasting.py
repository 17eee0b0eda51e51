"""Broadcasting of operands, and derivative rules that need not handle it."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from jax import numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.write.copying import mismatch


def check_broadcast(*arrays: Any) -> None:
    """Raise PyTorch's error for shapes that do not broadcast."""
    first = arrays[0].shape
    for other in arrays[1:]:
        if (error := mismatch(first, other.shape)) is not None:
            raise error
        first = jnp.broadcast_shapes(first, other.shape)


def aligned(*arrays: Any) -> list[Any]:
    """The arrays broadcast to one shape."""
    check_broadcast(*arrays)
    return jnp.broadcast_arrays(*arrays)


def sum_to(ct: Any, shape: Sequence[int]) -> Any:
    """The cotangent of an array of a shape from that of the array broadcast."""
    ct = jnp.sum(ct, tuple(range(ct.ndim - len(shape))))
    axes = tuple([i for i, n in enumerate(shape) if n == 1 != ct.shape[i]])
    return jnp.sum(ct, axes, keepdims=True)


def derivative(
    vjp: Callable[..., Any], jvp: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give an elementwise function the pull-back ``vjp(ct, out, *arrays)``, which reads what PyTorch's reads.

    The push-forward is its transpose unless one is given.  Arrays are broadcast outside, so neither handles it.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        ruled = define_rule(function, vjp=vjp, jvp=jvp)
        return wraps(function)(lambda *arrays: ruled(*aligned(*arrays)))

    return enter
