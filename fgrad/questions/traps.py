"""Known traps: where an operation or its slope is not finite, and what to write instead, in a form that can be tried.

Each trap knows for which operands it shuts.  Two fixes can be tried in a graph.  The *guard* is the double ``where``:
the operand is replaced where the trap shuts, which changes nothing if the result there is not selected.  The *bound*
keeps the operand out of the trap, which changes the value a little.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from attrs import frozen

from fgrad.graph.graph import Graph
from fgrad.jaxcore import ShapedArray
from fgrad.record.stager import stage_closed

Operands = Sequence[Any]


@frozen
class Trap:
    """One trap.

    Attributes:
      shuts: from the operands to where it shuts, an array of booleans.
      forward: what is wrong with the value there.
      backward: what is wrong with the slope there.
      operands: which operands are guarded and bounded.
      safe: a harmless number for these.
      call: the source of the operation, with ``{x}`` and ``{y}``; ``{np}`` is the library.
      bound: from one of these operands to one outside the trap.
      bounded: its source.
      advice: what to do if neither can be tried or something else is better.
    """

    shuts: Callable[..., Any]
    forward: str
    backward: str
    call: str = ""
    operands: tuple[int, ...] = (0,)
    safe: float = 1.0
    bound: Callable[..., Any] | None = None
    bounded: str = ""
    advice: str = ""

    def guarded(self, operation: Callable[[Operands], Operands], types: Sequence[ShapedArray]) -> Graph:
        """An operation with a harmless operand where the trap shuts."""
        shuts, safe = self.shuts, self.safe
        return self._changed(operation, types, lambda x, xs: jnp.where(shuts(*xs), jnp.full_like(x, safe), x))

    def kept_out(self, operation: Callable[[Operands], Operands], types: Sequence[ShapedArray]) -> Graph:
        """An operation with its operands kept out of the trap."""
        bound = self.bound
        assert bound is not None
        return self._changed(operation, types, lambda x, xs: jnp.asarray(bound(x), x.dtype))

    def _changed(
        self,
        operation: Callable[[Operands], Operands],
        types: Sequence[ShapedArray],
        change: Callable[[Any, Operands], Any],
    ) -> Graph:
        def function(*xs: Any) -> list[Any]:
            return list(operation([change(x, xs) if i in self.operands else x for i, x in enumerate(xs)]))

        return stage_closed(function, types)


def _format(x: Any) -> Any:
    """The limits of the format in which an operation computes; a tensor may be divided by an integer."""
    return jnp.finfo(x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.float32)


def _small(x: Any) -> float:
    """A small number whose square root and reciprocal are far from the ends of the format."""
    return 1e-12 if _format(x).bits > 16 else 1e-4


def _near(x: Any) -> float:
    return max(1e-6, float(_format(x).eps) * 4)


def _largest(x: Any) -> float:
    return float(np.log(float(_format(x).max)))


def _above(x: Any) -> Any:
    return jnp.maximum(x, _small(x))


def _inside(x: Any) -> Any:
    return jnp.clip(x, -1 + _near(x), 1 - _near(x))


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


def _of_exp(name: str, both: bool = False) -> Trap:
    return Trap(
        shuts=lambda x: (jnp.abs(x) if both else x) > _largest(x),
        forward=f"{name} overflows: its result is larger than the largest number of the format",
        backward=f"{name} overflows, and its slope with it",
        call=f"{{np}}.{name}({{x}})",
        safe=0.0,
        # far below overflow, because later operations add and multiply
        bound=lambda x: jnp.clip(x, -min(80.0, _largest(x) - 1) if both else None, min(80.0, _largest(x) - 1)),
        bounded="{np}.clip({x}, max=80.0)",
        advice="Better than a bound, if it is one of these: softmax, logsumexp, log_softmax, logaddexp and softplus as "
        "functions of the library subtract the maximum first.",
    )


def _of_log(name: str) -> Trap:
    return Trap(
        lambda x: x <= 0,
        "the logarithm of 0 is -Inf, that of a negative number NaN",
        f"the slope of {name} is 1 / x, or a multiple of it, which is infinite at 0",
        f"{{np}}.{name}({{x}})",
        bound=_above,
        bounded="{np}.clip({x}, min=1e-12)",
    )


def _of_arc(name: str) -> Trap:
    return Trap(
        shuts=lambda x: jnp.abs(x) >= 1,
        forward=f"{name} is not defined outside of -1 to 1",
        backward=f"the slope of {name} is infinite at -1 and 1",
        call=f"{{np}}.{name}({{x}})",
        safe=0.0,
        bound=_inside,
        bounded="{np}.clip({x}, -1 + 1e-6, 1 - 1e-6)",
    )


def _limited(x: Any) -> Any:
    most = float(_format(x).max) / 4
    return jnp.clip(x, -most, most)


def _of_infinities() -> Trap:
    return Trap(
        lambda x, y: jnp.isinf(x) & jnp.isinf(y),
        "Inf and -Inf, or two Inf that are subtracted, give NaN",
        "Inf and -Inf give NaN",
        operands=(0, 1),
        bound=_limited,
        advice="if the infinity is that of a mask, one row may be masked everywhere: mask with a large finite number, "
        "such as -1e30, in place of -Inf, or leave one element of each row unmasked.",
    )


TRAPS: dict[str, Trap] = {
    "log": _of_log("log"),
    "log2": _of_log("log2"),
    "log10": _of_log("log10"),
    "log1p": Trap(
        lambda x: x <= -1,
        "log1p of -1 is -Inf, that of less NaN",
        "the slope of log1p is 1 / (1 + x), which is infinite at -1",
        "{np}.log1p({x})",
        safe=0.0,
        bound=lambda x: jnp.maximum(x, -1 + _near(x)),
        bounded="{np}.clip({x}, min=-1 + 1e-6)",
    ),
    "sqrt": Trap(
        lambda x: x <= 0,
        "the square root of a negative number is NaN",
        "the slope of sqrt is 1 / (2 * sqrt(x)), which is infinite at 0",
        "{np}.sqrt({x})",
        bound=_above,
        bounded="{np}.clip({x}, min=1e-12)",
    ),
    "rsqrt": Trap(
        lambda x: x <= 0,
        "1 / sqrt(x) is infinite at 0, and NaN below",
        "the slope of 1 / sqrt(x) is infinite at 0",
        "1 / {np}.sqrt({x})",
        bound=_above,
        bounded="{np}.clip({x}, min=1e-12)",
    ),
    "cbrt": Trap(
        lambda x: x == 0,
        "the cube root is not finite",
        "the slope of cbrt is infinite at 0",
        "{np}.cbrt({x})",
        bound=lambda x: jnp.where(x == 0, _small(x), x),
        bounded="{np}.where({x} == 0, 1e-12, {x})",
    ),
    "div": Trap(
        lambda x, y: y == 0,
        "a division by 0 gives Inf, that of 0 by 0 NaN",
        "the slopes of x / y are 1 / y and -x / y**2, which are infinite at y = 0",
        "{x} / {y}",
        operands=(1,),
        bound=lambda y: jnp.where(y == 0, _small(y) ** 0.5, y),
        bounded="{np}.where({y} == 0, 1e-6, {y})",
    ),
    "reciprocal": Trap(
        lambda x: x == 0,
        "1 / x is infinite at 0",
        "the slope of 1 / x is -1 / x**2, which is infinite at 0",
        "1 / {x}",
        bound=lambda x: jnp.where(x == 0, _small(x) ** 0.5, x),
        bounded="{np}.where({x} == 0, 1e-6, {x})",
    ),
    "exp": _of_exp("exp"),
    "exp2": _of_exp("exp2"),
    "expm1": _of_exp("expm1"),
    "cosh": _of_exp("cosh", True),
    "sinh": _of_exp("sinh", True),
    "pow": Trap(
        lambda x, y: x <= 0,
        "a power of 0 with a negative exponent is infinite, one of a negative number with a fraction is NaN",
        "the slope of x**y is y * x**(y - 1), which is infinite at 0 for exponents below 1",
        "{x} ** {y}",
        bound=_above,
        bounded="{np}.clip({x}, min=1e-12)",
    ),
    "integer_pow": Trap(
        lambda x: x == 0,
        "a negative power of 0 is infinite, and a power of a large number overflows",
        "a negative power of 0 has an infinite slope",
        "{x} ** n",
        bound=lambda x: jnp.where(x == 0, _small(x) ** 0.5, x),
        bounded="{np}.where({x} == 0, 1e-6, {x})",
    ),
    "atan2": Trap(
        lambda y, x: (x == 0) & (y == 0),
        "atan2 is finite",
        "the slopes of atan2(y, x) are x / (x**2 + y**2) and -y / (x**2 + y**2), which are 0 / 0 where both are 0",
        "{np}.arctan2({x}, {y})",
        operands=(1,),
    ),
    "acos": _of_arc("arccos"),
    "asin": _of_arc("arcsin"),
    "atanh": _of_arc("arctanh"),
    "erf_inv": _of_arc("erfinv"),
    "erfinv": _of_arc("erfinv"),
    "acosh": Trap(
        lambda x: x <= 1,
        "arccosh is not defined below 1",
        "the slope of arccosh is infinite at 1",
        "{np}.arccosh({x})",
        safe=2.0,
        bound=lambda x: jnp.maximum(x, 1 + _near(x)),
        bounded="{np}.clip({x}, min=1 + 1e-6)",
    ),
    "lgamma": Trap(_is_pole, "lgamma is infinite at 0 and the negative integers", "digamma is", "gammaln({x})"),
    "digamma": Trap(_is_pole, "digamma is infinite at 0 and the negative integers", "its slope is", "digamma({x})"),
    "sub": _of_infinities(),
    "add": _of_infinities(),
    "mul": Trap(
        lambda x, y: (jnp.isinf(x) & (y == 0)) | (jnp.isinf(y) & (x == 0)),
        "0 * Inf is NaN, and a product of large numbers overflows",
        "0 * Inf is NaN",
        operands=(0, 1),
        bound=_limited,
        advice="To leave elements out, choose with where in place of multiplying by a mask of zeros, on the operand of "
        "the operation that makes the infinity too.",
    ),
    "cholesky": Trap(
        lambda x: jnp.isnan(x).any(),
        "the matrix is not positive definite",
        "the matrix is singular, or nearly so",
        advice="Add a small multiple of the identity: cholesky(a + 1e-6 * eye(n)).",
    ),
    "eigh": Trap(
        lambda x: jnp.isnan(x).any(),
        "the matrix has elements that are not finite",
        "two eigenvalues are equal: the slope of an eigenvector divides by their difference",
        advice="Use a function of the matrix that does not depend on the choice of eigenvectors, or break the tie.",
    ),
}
