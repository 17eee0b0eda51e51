"""Rematerialisation: ``checkpoint`` saves a block's inputs instead of its intermediates, and recomputes these later."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import Leaves, check_function, flattened, leaves, names, positions, with_positions
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import remat as remat_region
from fgrad.graph.remat_policies import as_record
from fgrad.graph.source import here
from fgrad.jaxcore import copied, current_trace, is_evaluating, primitive, set_trace, typeof
from fgrad.record.recorder import Recorder
from fgrad.record.recording import Recording
from fgrad.record.stager import stage


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool | tuple[bool, ...] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """``fun`` with rematerialisation: a backward pass saves only its inputs and recomputes the intermediates.

    Arguments:
      fun: takes and returns pytrees of arrays, and takes references.  Left out, ``checkpoint`` returns a decorator.
      prevent_cse: keep the compiler from merging the recomputation with the first computation, which would undo the
        saving.  Inside ``scan`` it is not needed, and False is faster.
      policy: which intermediates may be saved after all; see ``checkpoint_policies``.
      static_argnums, static_argnames: arguments passed to ``fun`` unchanged, not traced.

    Returns:
      A function with the same results and derivatives.

    Raises:
      ValueError: a call has no argument at one of ``static_argnums``.
      ArgumentTypeError: an argument that is not static is not made of arrays; the message names its path.

    >>> import fgrad, jax.numpy as jnp
    >>> block = fgrad.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=fgrad.checkpoint_policies.dots_saveable)
    >>> fgrad.grad(block)(0.0)
    Array(1., dtype=float32, weak_type=True)

    Source: `jax.checkpoint <https://docs.jax.dev/en/latest/_autosummary/jax.checkpoint.html>`_.
    """
    options = {
        "prevent_cse": prevent_cse, "policy": policy,
        "static_argnums": static_argnums, "static_argnames": static_argnames,
    }  # fmt: skip
    if fun is None:
        return lambda fun: checkpoint(fun, **options)
    check_function(fun, "checkpoint")
    static = set(positions(static_argnums, "static_argnums", "checkpoint") or ())
    named_statics = set(names(static_argnames, "static_argnames", "checkpoint") or ())
    if policy is not None:
        check_function(policy, "checkpoint: policy=")
    cse = prevent_cse if isinstance(prevent_cse, tuple) else (prevent_cse,)
    if not all(isinstance(x, bool) for x in cse):
        raise TypeError(f"checkpoint: prevent_cse must be a bool or a tuple of bools, got {errors.shown(prevent_cse)}.")

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        for i in static:
            if not -len(args) <= i < len(args):
                raise ValueError(
                    f"checkpoint: static_argnums names positional argument {i}, but the function was called with "
                    f"{len(args)} positional argument{'s' * (len(args) != 1)}."
                )
        dynamic = [None if i in static or i - len(args) in static else x for i, x in enumerate(args)]
        named = {name: x for name, x in kwargs.items() if name not in named_statics}
        dynamic_args = (tuple(dynamic), named)
        outputs: list[Leaves] = []

        def call(arguments: Any) -> Any:
            new, new_named = arguments
            new_args = [args[i] if i in static or i - len(args) in static else x for i, x in enumerate(new)]
            return fun(*new_args, **{**kwargs, **new_named})

        try:
            flat = leaves(dynamic_args, "arguments", "checkpoint")
        except errors.ReferenceArgumentError:
            # the block reads and writes a reference as one that it closes over
            every, tree = tree_util.tree_flatten(dynamic_args)
            arrays = [i for i, x in enumerate(every) if not isinstance(x, jax.ref.Ref)]

            def block(*values: Any) -> Any:
                return call(tree_util.tree_unflatten(tree, with_positions(every, arrays, values)))

            return checkpoint(block, prevent_cse=prevent_cse, policy=policy)(*[every[i] for i in arrays])

        def on_values(values: Sequence[Any]) -> Any:
            return call(flat.unflatten(values))

        def flat_fun(*tracers: Any) -> list[Any]:
            out = leaves(on_values(tracers), "output", "checkpoint: the function's output")
            outputs.append(out)
            return out.values

        trace = current_trace()
        if is_evaluating(trace):
            out, tree = flattened(on_values([*map(_array, flat.values)]), "output", "checkpoint: the function's output")
            return tree_util.tree_unflatten(tree, [_array(x) for x in out])
        # a recording runs the function in an inner recording, which may know values; other traces know only types
        types = [typeof(x) for x in flat.values]
        recording = isinstance(trace, Recording)
        body, lifted = trace.inner(flat_fun, flat.values) if recording else stage(flat_fun, types)
        values = [*flat.values, *lifted]
        params = {"body": body, "policy": as_record(policy), "barrier": False if any(cse) else None}
        return outputs.pop().unflatten(_emit(trace, intern(remat_region, params, [typeof(x) for x in values]), values))

    return checkpointed


def _array(value: Any) -> Any:
    """A number or a NumPy array as a JAX array, which it would be if the function were traced."""
    numbers = isinstance(value, bool | int | float | complex | np.generic | np.ndarray)
    return copied(value) if numbers and typeof(value).dtype != jax.dtypes.float0 else value


#: ``remat`` is another name of ``checkpoint``, as in JAX
remat = checkpoint


def _emit(trace: Any, op: Op, values: Sequence[Any]) -> Sequence[Any]:
    """Apply ``op`` in the innermost recording that has one of the values, or under JAX's trace."""
    while isinstance(trace, Recorder) and not trace.records(values):
        trace = trace.parent
    if isinstance(trace, Recording):
        return trace.emit(op, values, here(2))
    with set_trace(trace):
        return op.bind(values)


def checkpoint_name(x: Any, name: str) -> Any:
    """``x``, a pytree of arrays, with a name by which a policy can save it.

    Raises:
      TypeError: ``name`` is not a string, or something in ``x`` is not an array.

    >>> import fgrad, jax.numpy as jnp
    >>> fgrad.checkpoint_name(jnp.array(1.0), "activations")
    Array(1., dtype=float32, weak_type=True)

    Source: `jax.ad_checkpoint.checkpoint_name <https://docs.jax.dev/en/latest/_autosummary/jax.checkpoint_policies.html>`_.
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: name must be a string, got {errors.shown(name)}.")
    flat = leaves(x, "x", "checkpoint_name")
    return flat.unflatten([primitive("name").bind(leaf, name=name) for leaf in flat.values])
