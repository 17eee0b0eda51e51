"""The orthogonal polynomials of ``torch.special``, which have no derivative there."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.torch.ops.table.broadcasting import aligned
from fgrad.torch.ops.table.kinds import check_wide
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.promotions import inexact
from fgrad.torch.ops.table.table import Operand

#: from (x, k, polynomial k, polynomial k - 1) to polynomial k + 1
Step = Callable[[Any, Any, Any, Any], Any]


_SIGNATURES = (
    "Tensor x, Tensor n, *, Tensor out = None",
    "Number x, Tensor n, *, Tensor out = None",
    "Tensor x, Number n, *, Tensor out = None",
)


def _enter(name: str, doc: str, function: Callable[..., Any]) -> None:
    """Enter a function of ``torch.special``."""
    settings: dict[str, Any] = {"promote": inexact, "strides": elementwise, "auxiliary": ("result",)}
    made = overload(f"special_{name}", None, name=f"_{name}", **settings)(function)

    def chooser(input: Operand, n: Operand) -> Choice:
        return made, input, n

    chooser.__doc__ = (
        f"{doc}, without a derivative.\n\n    Source: `torch.special "
        "<https://docs.pytorch.org/docs/stable/special.html>`_.\n    "
    )
    overloaded(name=name, namespace="special", signatures=_SIGNATURES)(chooser)


def _polynomial(x: Any, degree: Any, first: Any, step: Step) -> Any:
    """The polynomial of each element's degree, from the one of degree 0, which is 1, and the ``first``."""
    degree = degree.astype(np.int64)

    def advance(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        k, before, now, found = state
        after = step(x, k.astype(x.dtype), now, before)
        return k + 1, now, after, jnp.where(degree == k + 1, after, found)

    one = jnp.ones_like(x)
    found = jnp.where(degree == 0, one, jnp.where(degree == 1, first, 0))
    top = jnp.max(degree, initial=0)
    return lax.while_loop(lambda state: state[0] < top, advance, (np.int64(1), one, first, found))[3]


def _chebyshev(x: Any, k: Any, now: Any, before: Any) -> Any:
    return (x + x) * now - before


def _family(name: str, doc: str, first: Callable[[Any], Any], step: Step, shifted: bool = False) -> None:
    def polynomial(input: Operand, n: Operand) -> Any:
        check_wide(f"{name}_cpu", input)
        x, degree = aligned(input, n)
        x = x + x - 1 if shifted else x
        return _polynomial(x, degree, first(x), step)

    _enter(name, doc, polynomial)


for _kind, _place, _first in (
    ("t", "first", lambda x: x),
    ("u", "second", lambda x: x + x),
    ("v", "third", lambda x: x + x - 1),
    ("w", "fourth", lambda x: x + x + 1),
):
    _doc = f"Chebyshev polynomials of the {_place} kind, of degree ``n``"
    _family(f"chebyshev_polynomial_{_kind}", _doc, _first, _chebyshev)
    _family(f"shifted_chebyshev_polynomial_{_kind}", f"Shifted {_doc}", _first, _chebyshev, shifted=True)

_family(
    "hermite_polynomial_h",
    "Physicists' Hermite polynomials of degree ``n``",
    lambda x: x + x,
    lambda x, k, now, before: (x + x) * now - 2 * k * before,
)
_family(
    "hermite_polynomial_he",
    "Probabilists' Hermite polynomials of degree ``n``",
    lambda x: x,
    lambda x, k, now, before: x * now - k * before,
)
_family(
    "laguerre_polynomial_l",
    "Laguerre polynomials of degree ``n``",
    lambda x: 1 - x,
    lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
)
_family(
    "legendre_polynomial_p",
    "Legendre polynomials of degree ``n``",
    lambda x: x,
    lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
)
