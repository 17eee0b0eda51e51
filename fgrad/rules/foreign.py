"""Foreign rules: those that the author of a primitive has registered with JAX.

This is the only file that reads ``jax.interpreters.ad``, and only for primitives without a rule of ours.  A rule is
called as JAX calls it, on tracers.  So its operations become part of the graph, and we differentiate and transpose them
like any other code.

NOTE [Foreign rules]
A primitive has up to two of them.  The one for forward mode maps values and tangents to values and tangents; reverse
mode is its transpose, since the output tangents are linear in the tangents.  It may use primitives of the same author,
perhaps the same one, that are linear there: these are transposed by the other rule.  A primitive with that rule may be
linear in only some of its inputs (a solver in the right-hand side, not in the matrix), so the rule is used when a graph
is transposed, and never when a function is differentiated.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.interpreters import ad

from fgrad import errors
from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import is_inexact


def has_foreign_rules(op: Op) -> bool:
    """Whether the author of an operation's primitive has registered rules for it."""
    p = op.primitive
    return (p in ad.primitive_jvps or p in ad.primitive_transposes) and all(
        isinstance(t, ShapedArray) for t in (*op.in_types, *op.out_types)
    )


def pushed(op: Op, ins: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The results of an operation and their tangents, by the author's rule; ``None`` is a zero tangent.

    Raises:
      MissingRuleError: there is a rule for transposing the operation but none for its derivative.
    """
    rule = ad.primitive_jvps.get(op.primitive)
    if rule is None:
        raise errors.missing_rule(op.name)
    tangents = [ad.Zero(t.to_tangent_aval()) if x is None else x for x, t in zip(tangents, op.in_types, strict=True)]
    outs, out_tangents = _called(op, "jvp", rule, tuple(ins), tuple(tangents))
    if not op.primitive.multiple_results:
        outs, out_tangents = (outs,), (out_tangents,)
    pairs = zip(out_tangents, op.out_types, strict=True)
    return list(outs), [_value(t, type) if is_inexact(type) else None for t, type in pairs]


def pulled(op: Op, ins: Sequence[Any], linear: Sequence[bool], cts: Sequence[Any]) -> list[Any]:
    """The cotangents of the inputs in which an operation is ``linear``, by the author's rule; ``None`` for zeros.

    The rule may read the other inputs.  ``cts`` are the cotangents of the results, ``None`` for those that are zero.

    Raises:
      NoTransposeError: there is no rule for transposing the operation, or it refuses these inputs.
    """
    rule = ad.primitive_transposes.get(op.primitive)
    if rule is None:
        raise errors.missing_transpose(op.name)
    args = [
        ad.UndefinedPrimal(t.to_ct_aval()) if is_linear else x
        for x, t, is_linear in zip(ins, op.in_types, linear, strict=True)
    ]
    cts = [ad.Zero(t.to_ct_aval()) if x is None else x for x, t in zip(cts, op.out_types, strict=True)]
    try:
        in_cotangents = _called(op, "transpose", rule, cts if op.primitive.multiple_results else cts[0], *args)
    except AssertionError as error:  # how rules refuse inputs in which the primitive is not linear
        raise errors.no_transpose(op.name, error) from error
    in_cotangents = [*in_cotangents, *[None] * (len(args) - len(in_cotangents))]
    return [
        _value(ct, t) if is_linear else None
        for ct, t, is_linear in zip(in_cotangents, op.in_types, linear, strict=True)
    ]


def _value(result: Any, type: ShapedArray) -> Any:
    """A rule's result for a value of this type: an array, or None for any kind of zero."""
    if result is None or isinstance(result, ad.Zero) or getattr(result, "dtype", None) == jax.dtypes.float0:
        return None
    return result if hasattr(result, "aval") else jax.numpy.asarray(result, type.dtype)


def _called(op: Op, mode: str, rule: Callable[..., Any], *args: Any) -> Any:
    try:
        return rule(*args, **op.params)
    except errors.REFUSALS:
        raise
    except Exception as error:
        errors.blame(error, op.name, mode, _author_function(rule))
        raise


def _author_function(rule: Any) -> Any:
    """The author's own function, without JAX's helpers (such as ``deflinear2``) around it."""
    while isinstance(rule, functools.partial):
        rule = next(filter(callable, rule.args), rule.func)
    return rule
