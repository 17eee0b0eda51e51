"""The orthogonal polynomials of ``torch.special``, which have no derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.torch.ops.table.broadcasting import aligned, choose, inexact
from fgrad.torch.ops.table.kinds import check_wide
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
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
    polynomial = overload(f"special_{name}", None, name=f"_{name}", **settings)(function)

    def chooser(input: Operand, n: Operand) -> Choice:
        return polynomial, input, n

    chooser.__doc__ = (
        f"{doc}, without a derivative.\n\n    Source: `torch.special "
        "<https://docs.pytorch.org/docs/stable/special.html>`_.\n    "
    )
    overloaded(name=name, namespace="special", signatures=_SIGNATURES)(chooser)


def _polynomial(x: Any, degree: Any, first: Any, step: Step) -> Any:
    """The polynomial of each element's degree, by recurrence from 1 and the one of degree 1, ``first``."""
    degree = degree.astype(np.int64)

    def advance(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        k, previous, current, value = state
        following = step(x, k.astype(x.dtype), current, previous)
        return k + 1, current, following, choose(degree == k + 1, following, value)

    one = jnp.ones_like(x)
    value = choose(degree == 0, one, choose(degree == 1, first, 0))
    greatest = jnp.max(degree, initial=0)
    return lax.while_loop(lambda state: state[0] < greatest, advance, (np.int64(1), one, first, value))[3]


def _chebyshev(x: Any, k: Any, current: Any, previous: Any) -> Any:
    return (x + x) * current - previous


def _family(name: str, doc: str, first: Callable[[Any], Any], step: Step, shifted: bool = False) -> None:
    def polynomial(input: Operand, n: Operand) -> Any:
        check_wide(f"{name}_cpu", input)
        x, degree = aligned(input, n)
        x = x + x - 1 if shifted else x
        return _polynomial(x, degree, first(x), step)

    _enter(name, doc, polynomial)


for _kind, _ordinal, _first in (
    ("t", "first", lambda x: x),
    ("u", "second", lambda x: x + x),
    ("v", "third", lambda x: x + x - 1),
    ("w", "fourth", lambda x: x + x + 1),
):
    _doc = f"Chebyshev polynomials of the {_ordinal} kind, of degree ``n``"
    _family(f"chebyshev_polynomial_{_kind}", _doc, _first, _chebyshev)
    _family(f"shifted_chebyshev_polynomial_{_kind}", f"Shifted {_doc}", _first, _chebyshev, shifted=True)

_family(
    "hermite_polynomial_h",
    "Physicists' Hermite polynomials of degree ``n``",
    lambda x: x + x,
    lambda x, k, current, previous: (x + x) * current - 2 * k * previous,
)
_family(
    "hermite_polynomial_he",
    "Probabilists' Hermite polynomials of degree ``n``",
    lambda x: x,
    lambda x, k, current, previous: x * current - k * previous,
)
_family(
    "laguerre_polynomial_l",
    "Laguerre polynomials of degree ``n``",
    lambda x: 1 - x,
    lambda x, k, current, previous: ((2 * k + 1 - x) * current - k * previous) / (k + 1),
)
_family(
    "legendre_polynomial_p",
    "Legendre polynomials of degree ``n``",
    lambda x: x,
    lambda x, k, current, previous: ((2 * k + 1) * x * current - k * previous) / (k + 1),
)
