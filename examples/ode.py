"""Fit the parameters of a differential equation whose solver decides for itself how many steps it takes.

    python examples/ode.py

The solver is a ``lax.while_loop`` with an adaptive step.  Reverse mode cannot go through a loop of unknown length;
forward mode can, and for two parameters it is the cheaper one anyway.  So the fit is Gauss-Newton on ``fgrad.jacfwd``.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp

import fgrad

TIMES = jnp.linspace(0.5, 8.0, 16)
TOLERANCE = 1e-5


def pendulum(state: Any, params: Any) -> Any:
    """A damped pendulum: angle and speed to their rates of change."""
    angle, speed = state
    return jnp.stack([speed, -params["stiffness"] * jnp.sin(angle) - params["damping"] * speed])


def solve(params: Any, start: Any, end: Any, state: Any) -> Any:
    """The state at time ``end``: Heun's method, with the difference from Euler's as the estimate of the error."""

    def unfinished(carry: Any) -> Any:
        time, _, _ = carry
        return time < end

    def advance(carry: Any) -> Any:
        time, step, state = carry
        step = jnp.minimum(step, end - time)
        first = pendulum(state, params)
        second = pendulum(state + step * first, params)
        error = jnp.max(jnp.abs(second - first)) * step / 2
        accepted = error < TOLERANCE
        # how the step is chosen is no part of the solution, so no derivative is wanted of it
        factor = fgrad.stop_gradient(jnp.clip(0.9 * jnp.sqrt(TOLERANCE / (error + 1e-12)), 0.3, 2.0))
        new = state + step * (first + second) / 2
        time = jnp.where(accepted, time + step, time)
        return time, step * factor, jnp.where(accepted, new, state)

    return jax.lax.while_loop(unfinished, advance, (start, jnp.float32(0.1), state))[2]


def angles(params: Any) -> Any:
    """The angle at each of ``TIMES``."""

    def to_next(carry: Any, end: Any) -> Any:
        start, state = carry
        state = solve(params, start, end, state)
        return (end, state), state[0]

    return jax.lax.scan(to_next, (jnp.float32(0.0), jnp.array([1.5, 0.0])), TIMES)[1]


@fgrad.jit
def improve(params: Any, measured: Any) -> tuple[Any, Any]:
    """A step of Gauss and Newton: the misfit, and better parameters."""
    misfit = angles(params) - measured
    jacobian = fgrad.jacfwd(angles)(params)
    names = sorted(params)
    change = jnp.linalg.lstsq(jnp.stack([jacobian[name] for name in names], axis=1), -misfit)[0]
    return jnp.sqrt(jnp.mean(misfit**2)), {name: params[name] + change[i] for i, name in enumerate(names)}


def main() -> int:
    truth = {"stiffness": jnp.float32(2.0), "damping": jnp.float32(0.3)}
    noise = 0.01 * jax.random.normal(jax.random.key(0), TIMES.shape)
    measured = angles(truth) + noise
    params = {"stiffness": jnp.float32(1.6), "damping": jnp.float32(0.1)}
    for step in range(8):
        misfit, params = improve(params, measured)
        found = ", ".join(f"{name} {float(value):.3f}" for name, value in params.items())
        print(f"step {step}: misfit {float(misfit):.4f}; then {found}")
    return 0 if all(abs(float(params[name] - truth[name])) < 0.05 for name in truth) else 1


if __name__ == "__main__":
    sys.exit(main())
