"""The kinds of derivative rule, and the table with one rule per primitive.

A rule states a *kind*; the passes derive both modes from it, so that no derivative is written twice.
Rules use only ``jax.lax`` functions: they are recorded into graphs like any other code, so every derivative
can be differentiated again.  Their recordings show what they read (inputs, output, or neither), and only that
is saved for the backward pass.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from attrs import field, frozen

from fgrad.deferred import Table


@frozen
class Zero:
    """The derivative vanishes wherever it exists (``floor``, comparisons, ``argmax``, random bits)."""

    reason: str = "piecewise constant or integer-valued"


@frozen
class Undefined:
    """There is no derivative here; asking for one raises an error with this reason."""

    reason: str


@frozen(init=False)
class Elementwise:
    """One diagonal linear map per argument: ``scale(t, out, *ins, **params)`` multiplies ``t`` by the slope.

    A diagonal map is its own transpose, so one function serves forward mode (``t`` is the tangent of that
    argument) and reverse mode (``t`` is the cotangent of the output).  ``None`` for an argument means that
    the output does not depend on it differentiably.  ``t`` has the output's shape; where an argument is a
    scalar that the primitive broadcast, the pass sums the result.
    """

    scales: tuple[Callable[..., Any] | None, ...]

    def __init__(self, *scales: Callable[..., Any] | None):
        self.__attrs_init__(scales)  # type: ignore[attr-defined]


@frozen
class Linear:
    """The primitive is linear, jointly, in its inexact arguments (or in those that ``args`` lists).

    ``transpose(ct, *ins, **params)`` returns a tuple with one cotangent per input, ``None`` for those that
    are not linear; it may read the linear inputs' shape and dtype only, never their values.  ``ct`` is an
    array, or a tuple of arrays for primitives with multiple results.
    """

    transpose: Callable[..., Any]
    args: tuple[int, ...] | None = None


@frozen
class Bilinear:
    """The primitive is linear in each of its first two arguments when the other is fixed.

    ``lhs(ct, x, y, **params)`` gives the cotangent of ``x`` (and reads only ``y``);
    ``rhs(ct, x, y, **params)`` gives that of ``y`` (and reads only ``x``).
    """

    lhs: Callable[..., Any]
    rhs: Callable[..., Any]


@frozen
class General:
    """A rule in either mode, or in both; a missing mode is derived by transposing the other.

    ``vjp(cts, outs, *ins, **params)`` returns a tuple of cotangents, one per input, ``None`` for zero.
    ``jvp(tangents, outs, *ins, **params)`` returns the output tangent(s), ``None`` for zero.
    ``tangents`` is a tuple with ``None`` where an input has no tangent.  ``cts`` and ``outs`` are single
    arrays for single-result primitives and tuples otherwise; a missing output cotangent is an array of
    zeros, and ``None`` where the output is integer.
    """

    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = field(default=None)


@frozen
class OfComplex(General):
    """A rule for complex numbers, as in ``General``; for real ones the derivative is zero, as in ``Zero``."""


@frozen
class Region:
    """A rule for an operation with graphs as parameters, which builds the graphs of its derivative from these.

    ``adjoint(op, needs, live)`` returns a ``fgrad.passes.local.Adjoint``, ``tangents(op, live)`` a ``Local``.
    ``varied(op, needs)`` returns for each output whether it depends differentiably on the inputs that ``needs`` marks;
    without it they all do.
    """

    adjoint: Callable[..., Any]
    tangents: Callable[..., Any]
    varied: Callable[..., Any] | None = None


Rule: TypeAlias = Zero | Undefined | Elementwise | Linear | Bilinear | General | Region

RULES: Table[Rule] = Table()
"""From a primitive's name (for users' rules, the primitive itself) to its rule; some are imported late."""


def define(names: str, rule: Rule) -> None:
    """Add ``rule`` for each of the space-separated primitive ``names``.

    Raises:
      ValueError: a primitive already has a rule.

    >>> from fgrad.rules.kinds import RULES
    >>> RULES["floor"]
    Zero(reason='piecewise constant or integer-valued')
    """
    for name in names.split():
        if name in RULES.rows:
            raise ValueError(f"primitive {name!r} already has a rule: {RULES[name]!r}")
        RULES[name] = rule
