"""JAX's ``custom_vjp``: the residuals of ``fwd``, and calls of ``bwd``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.jaxcore import ShapedArray, Tracer, typeof
from fgrad.jaxtypes import is_inexact, symbolic_zero, zeros_of

#: a residual: its number in the graph of ``fwd`` and None, or a known value
Residual = tuple[int, Any]


def residuals(
    args: Sequence[int],
    outs: Sequence[int],
    known: Sequence[Any],
    trees: Any,
    lead: Sequence[int],
    references: Mapping[int, Any],
) -> tuple[list[Residual], Sequence[int]]:
    """The residuals of ``fwd`` and its results.

    Arguments:
      args: the numbers of its arguments but for ``references``, which are by position.
      outs, known: its outputs, and the values of those that are not traced, None for the others.
      trees: JAX's description of its outputs, from which JAX has removed residuals that are arguments.
      lead: the constants that the function closes over.
    """
    _, res_tree, forwards = trees
    pruned = res_tree.num_leaves - sum(f is not None for f in forwards)
    kept = iter(zip(outs[:pruned], known[:pruned], strict=True))
    others = iter(args)
    count = len(args) + len(references)
    flat = [(-1, references[i]) if i in references else (next(others), None) for i in range(count)]
    # ``forwards`` numbers fwd's flat arguments, after the constants, or as (value, flag) pairs
    numbered = [*[(number, None) for number in lead], *flat]
    in_pairs = any(f is not None and f >= len(numbered) for f in forwards)
    forwarded = [next(kept) if f is None else flat[f // 2] if in_pairs else numbered[f] for f in forwards]
    return forwarded, outs[pruned:]


@frozen(eq=False)
class BwdCall:
    """``bwd`` as a function of the residuals and of the inexact cotangents.

    Attributes:
      bwd: the user's function as JAX has wrapped it.
      label: the name of the function that has the rule.
      write: stores the outputs of ``fwd`` where ``bwd`` reads them.
      residuals: the values of known ones; None for those that were saved.
      out_types: the types of the results.
      live: which results have a cotangent, for a rule with symbolic zeros; else None.
      types: the types of the arguments but for references.
      positions: their positions in the call.
    """

    bwd: Any
    label: str
    write: Callable[[], None]
    residuals: Sequence[Any]
    out_types: Sequence[ShapedArray]
    live: Sequence[bool] | None
    types: Sequence[ShapedArray]
    positions: Sequence[int]

    def cotangents(self, *flat: Any) -> dict[int, Any]:
        """The cotangents by argument, without zeros and those of integers."""
        count = sum(value is None for value in self.residuals)
        saved, cts = iter(flat[:count]), iter(flat[count:])
        all_residuals = [next(saved) if value is None else value for value in self.residuals]
        full = [next(cts) if is_inexact(t) else np.zeros(t.shape, jax.dtypes.float0) for t in self.out_types]
        if self.live is not None:
            full = [
                ct if is_live else symbolic_zero(t)
                for ct, t, is_live in zip(full, self.out_types, self.live, strict=True)
            ]
        self.write()
        try:
            result = self.bwd.call_wrapped(*all_residuals, *full)
        except Exception as error:
            errors.in_rule(error, "bwd", self.label, self.bwd.f)
            raise
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], list | tuple):
            result = result[0]  # JAX 0.12 returns (cotangents, log)
        by_argument = [(result[i], t) for i, t in zip(self.positions, self.types, strict=True)]
        return {k: cotangent_of(t, ct) for k, (ct, t) in enumerate(by_argument) if _is_value(ct) and is_inexact(t)}

    def dense(self, *flat: Any) -> list[Any]:
        """The cotangents of all arguments that can have one, including zeros."""
        cotangents = self.cotangents(*flat)
        wanted = [(k, t) for k, t in enumerate(self.types) if is_inexact(t)]
        return [cotangents[k] if k in cotangents else zeros_of(t) for k, t in wanted]


def cotangent_of(type: ShapedArray, ct: Any) -> Any:
    """What a rule returns as a cotangent, in the dtype of its argument: JAX takes any dtype, and a Python number.

    One that would lose its imaginary part stays as it is.
    """
    got = typeof(ct).dtype
    loses_imaginary_part = _is_complex(got) and not _is_complex(type.dtype)
    return ct if got == type.dtype or loses_imaginary_part else jax.lax.convert_element_type(ct, type.dtype)


def _is_complex(dtype: Any) -> bool:
    return jax.dtypes.issubdtype(dtype, np.complexfloating)


def _is_value(x: Any) -> bool:
    """Whether this is a number or an array, and not a symbolic zero."""
    return not hasattr(x, "aval") or isinstance(x, jax.Array | Tracer | np.ndarray | complex | float | int)
