"""Dirichlet draws, and their derivatives with respect to the concentrations.

NOTE [Moving along the distribution function]
A draw ``x`` of a distribution function ``F(x; a)`` keeps its place in it when ``a`` changes if
``dx/da = -(dF/da) / F'``.  For a Beta draw, ``dF/da`` is the integral of the density times ``log t - c`` up to ``x``,
where ``c`` is the mean of ``log t``; it is minus the integral from ``x`` on as well.  Below ``exp(c)`` the first one
has terms of one sign only, above it the second one: nothing cancels.  Near 0 the density may grow faster than the
integral's nodes can follow, and the quotient is the sum of a series.  A component of a Dirichlet draw is a Beta draw,
and the others shrink as it grows.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from fgrad.api.rules import define_rule
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.transforms.levels import drawn_for
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.gamma import dirichlet

# nodes and weights for integrals from zero to infinity: exp-sinh quadrature
_STEP = 0.1
_GRID = np.arange(-32, 33) * _STEP
_NODES = np.exp(np.pi / 2 * np.sinh(_GRID))
_WEIGHTS = _NODES * np.pi / 2 * np.cosh(_GRID) * _STEP


def _tail(log_x: Any, log_rest: Any, own: Any, other: Any, lower: Any, center: Any) -> Any:
    """The integral of the density times ``log t - center`` from the near end to ``x``, divided by the density at ``x``.

    ``t``, or one minus it, goes to zero as ``x * exp(-v / own)``; ``log_rest`` is the logarithm of one minus ``x``.
    """
    v = jnp.asarray(_NODES, log_x.dtype)
    log_near = log_x[..., None] - v / own[..., None]
    log_far = jnp.log1p(-jnp.exp(log_near))
    density = jnp.exp((other[..., None] - 1) * (log_far - log_rest[..., None]) - v)
    logarithm = choose(lower[..., None], log_near, log_far)
    terms = choose(density > 0, density * (logarithm - center[..., None]), 0)
    return jnp.exp(log_x) / own * jnp.sum(terms * jnp.asarray(_WEIGHTS, log_x.dtype), axis=-1)


def _near_zero(x: Any, a: Any, b: Any) -> Any:
    """The derivative for a small ``x``: the density's other factor as a binomial series, integrated term by term."""
    center = digamma(a + b) + jnp.log(x)
    power = jnp.ones_like(x)
    # digamma(a) + 1 / a, in which nothing cancels
    series = (digamma(a + 1) - center) / a
    for i in range(1, 11):
        power = power * x * (i - b) / i
        series += power / (a + i) * (digamma(a) - center + 1 / (a + i))
    return x * (1 - x) ** (1 - b) * series


def beta_movement(x: Any, a: Any, b: Any) -> Any:
    """A Beta draw's derivative by its first concentration: see NOTE [Moving along the distribution function]."""
    center = digamma(a) - digamma(a + b)
    log_x, log_rest = jnp.log(x), jnp.log1p(-x)
    lower = log_x < center
    near = choose(lower, log_x, log_rest), choose(lower, log_rest, log_x)
    own, other = choose(lower, a, b), choose(lower, b, a)
    integral = _tail(*near, own, other, lower, center)
    small = (x < 0.1) & ((a + b) * x < 0.5)
    # what is not chosen is finite, and has a finite derivative
    return choose(small, _near_zero(choose(small, x, 0.01), a, b), choose(lower, -integral, integral))


def _gradient(ct: Any, x: Any, concentration: Any, values: Any) -> tuple[Any, Any]:
    others = jnp.sum(concentration, axis=-1, keepdims=True) - concentration
    movement = beta_movement(x, concentration, others) / (1 - x)
    return movement * (ct - jnp.sum(x * ct, axis=-1, keepdims=True)), jnp.zeros_like(values)


_DIRICHLET = Operation(
    "_sample_dirichlet",
    define_rule(lambda concentration, values: values, vjp=_gradient),
    "DirichletBackward0",
    ("self", "values"),
    (),
    frozenset((1,)),
)


def sample_dirichlet(concentration: Tensor) -> Tensor:
    """A point of the simplex for each row of concentrations, differentiable with respect to them."""
    value = drawn_for(lambda each: dirichlet(each, default_generator), concentration._value())
    return apply(_DIRICHLET, (concentration, new_tensor(value, concentration._type)))
