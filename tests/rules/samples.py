"""The sample table's record: one call of one primitive, with arguments at which to test its rule."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen


@frozen
class Sample:
    """``fun(*args)`` calls ``primitive``; the rule tests differentiate it with respect to its inexact arguments.

    ``args`` are numpy arrays (float64 or complex128 where inexact, integers elsewhere), away from kinks
    unless ``smooth`` is False (then finite differences are left out and only JAX is the oracle).
    ``axis``, where given, is the name under which the leading axis of every argument is mapped by ``vmap``, the
    derivative being taken inside.
    ``in_jax`` is False where JAX has no rule, or a wrong one; finite differences and the agreement of both modes judge.
    ``label`` tells samples of one primitive apart.  ``order`` is the highest derivative order to test.
    """

    primitive: str
    fun: Callable[..., Any] = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    label: str = ""
    smooth: bool = True
    order: int = 2
    tolerance: float = 1e-6
    axis: str = ""
    in_jax: bool = True
