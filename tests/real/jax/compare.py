"""One program, run with ``jax`` and with ``fgrad``."""

import builtins
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import fgrad


def compare(program: Callable[[Any], Any], rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """``program(jax)`` and ``program(fgrad)`` give the same pytree of numbers, up to rounding."""
    theirs, ours = program(jax), program(fgrad)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def compare_errors(program: Callable[[Any], Any]) -> None:
    """Both raise, and what fgrad raises is caught where one catches JAX's error."""
    raised = []
    for lib in (jax, fgrad):
        try:
            jax.block_until_ready(program(lib))
        except Exception as error:
            raised.append(error)
    theirs, ours = raised
    kind = next(k for k in type(theirs).__mro__ if getattr(builtins, k.__name__, None) is k)
    assert isinstance(ours, kind)
