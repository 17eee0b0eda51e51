"""Loops of unknown length that have a reverse mode: ``bounded_while``."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, tree_util

from fgrad import errors
from fgrad.api.arguments import check_function, leaves
from fgrad.api.checkpoint import checkpoint
from fgrad.jaxcore import is_concrete, typeof
from fgrad.jaxtypes import is_inexact

#: how many steps, or groups of steps, are saved at each level
BASE = 16

State = tuple[Any, Any]


def bounded_while(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, *, max_steps: int) -> Any:
    """``lax.while_loop`` with a bound on its steps, so that it has a reverse mode, also under ``jit``.

    The steps are grouped by sixteen, these groups by sixteen, and so on.  The first state of each group that is reached
    is saved, and the others are recomputed in the backward pass: this takes the memory of some
    ``16 * log16(max_steps)`` states, and computes each step ``log16(max_steps)`` times more often.  Groups that are not
    reached cost a test.

    Arguments:
      cond: from the state, a pytree of arrays, to a boolean: whether to take another step.
      body: from the state to the next one, of the same structure, shapes and types.
      init: the first state.
      max_steps: the maximal number of steps, a Python int.

    Returns:
      The last state.  If ``cond`` still holds after ``max_steps`` steps and the numbers are not known yet (under
      ``jit`` and ``vmap``), all its inexact numbers are NaN.

    Raises:
      LoopBoundError: ``cond`` still holds after ``max_steps`` steps.
      MismatchError: ``body`` returns another structure, shape or type than it takes.
      ValueError: ``max_steps`` is not a positive int.

    >>> import fgrad
    >>> def root(a):  # Newton's method
    ...     return fgrad.bounded_while(lambda x: abs(x * x - a) > 1e-3, lambda x: (x + a / x) / 2, a, max_steps=50)
    >>> round(float(fgrad.jit(fgrad.grad(root))(4.0)), 3)
    0.25

    Source: recomputation by levels is that of `Griewank and Walther, Algorithm 799
    <https://doi.org/10.1145/347837.347846>`_, with groups of one size.
    """
    check_function(cond, "bounded_while: cond")
    check_function(body, "bounded_while: body")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(
            f"bounded_while: max_steps is the maximal number of steps, a positive int; got {errors.shown(max_steps)}."
        )
    first = leaves(init, "init", "bounded_while")
    init = first.unflatten([jnp.asarray(x, typeof(x).dtype) for x in first.values])
    _check(jax.eval_shape(body, init), init)

    def continues(state: State) -> Any:
        carry, count = state
        return jnp.logical_and(cond(carry), count < max_steps)

    def step(state: State) -> State:
        carry, count = state
        return tree_util.tree_map(lambda x: jnp.asarray(x, typeof(x).dtype), body(carry)), count + 1

    reached = 1
    while reached < max_steps:
        step = checkpoint(functools.partial(_repeated, continues, step))
        reached *= BASE
    last, _ = lax.cond(continues((init, 0)), step, lambda state: state, (init, jnp.asarray(0)))
    return _marked(last, cond(last), max_steps)


def _repeated(continues: Callable[[State], Any], step: Callable[[State], State], state: State) -> State:
    """``BASE`` steps, or fewer if the loop ends earlier."""

    def one(state: State, _: None) -> tuple[State, None]:
        return lax.cond(continues(state), step, lambda state: state, state), None

    return lax.scan(one, state, None, length=BASE)[0]


def _marked(last: Any, too_few: Any, max_steps: int) -> Any:
    """The last state, marked or refused if the loop has not ended."""
    if is_concrete(too_few):
        if too_few:
            raise errors.loop_bound(max_steps)
        return last
    return tree_util.tree_map(lambda x: jnp.where(too_few, jnp.nan, x) if is_inexact(typeof(x)) else x, last)


def _check(carry: Any, init: Any) -> None:
    tree, wanted = tree_util.tree_structure(carry), tree_util.tree_structure(init)
    if tree != wanted:
        raise errors.mismatch("bounded_while: the result of body", str(wanted), str(tree), "the first state")
    for (path, x), y in zip(tree_util.tree_leaves_with_path(init), tree_util.tree_leaves(carry), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            where = "bounded_while: the result of body, " + tree_util.keystr(path) + ","
            raise errors.mismatch(
                where, typeof(x).str_short(), f"{y.dtype}[{','.join(map(str, y.shape))}]", "the first state"
            )
