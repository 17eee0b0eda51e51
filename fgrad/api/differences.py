"""Finite differences, to check derivatives and to find kinks.

NOTE [Kinks]
Where a function is smooth, its slopes from the left and from the right over a step h differ by about h times its
curvature, so the difference shrinks with h.  At a kink it stays the same, at a jump it grows.  Two step sizes tell the
cases apart.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen

#: per precision: the step for central differences, and their tolerance
_STEPS = {"float64": 1e-5, "float32": 5e-3, "float16": 6e-2, "bfloat16": 2e-1}
_TOLERANCES = {"float64": 1e-5, "float32": 5e-3, "float16": 5e-2, "bfloat16": 2e-1}
#: how much smaller the second step is
SHRINK = 8
#: the most elements that are searched one by one for the faulty one
MOST_ELEMENTS = 512

Flat = Callable[[Sequence[Any]], list[Any]]


def precision(values: Sequence[Any]) -> str:
    """The name of the lowest real precision among inexact arrays."""
    names = [_real(x.dtype) for x in values]
    return max(names or ["float64"], key=lambda name: _TOLERANCES.get(name, 0.0))


def _real(dtype: Any) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(str(dtype), str(dtype))


def default_step(values: Sequence[Any]) -> float:
    """About the cube root of the precision, where rounding and truncation errors are equal."""
    return _STEPS.get(precision(values), 1e-5)


def default_tolerance(values: Sequence[Any]) -> float:
    return _TOLERANCES.get(precision(values), 1e-5)


def wide(x: Any) -> np.ndarray:
    """The numbers of an array in double precision."""
    x = np.asarray(x)
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def directions(values: Sequence[Any], seed: int) -> list[np.ndarray]:
    """A random direction with entries of the size of the values or of one, whichever is larger."""
    rng = np.random.default_rng(seed)

    def entries(shape: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(0.5, 1.0, shape) * rng.choice([-1.0, 1.0], shape)

    vectors = []
    for x in values:
        x = wide(x)
        direction = entries(x.shape) + (1j * entries(x.shape) if np.iscomplexobj(x) else 0)
        vectors.append(direction * _scale(x))
    return vectors


def _scale(x: np.ndarray) -> np.ndarray:
    return np.maximum(1.0, np.abs(np.where(np.isfinite(x), x, 1.0)))


def cast(direction: Sequence[np.ndarray], values: Sequence[Any]) -> list[Any]:
    """A direction as arrays of the dtypes of ``values``."""
    return [jax.numpy.asarray(t, x.dtype) for t, x in zip(direction, values, strict=True)]


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real pairing of cotangents and tangents, JAX's for complex numbers: the real part of the sum of products."""
    return float(sum(np.sum(wide(x) * wide(y)).real for x, y in zip(a, b, strict=True)))


@frozen(eq=False)
class Slopes:
    """Differences of a flat function along a direction: central, and one-sided over the step and over a smaller one."""

    central: list[np.ndarray]
    #: over the smaller step
    close: list[np.ndarray]
    right: list[np.ndarray]
    left: list[np.ndarray]
    close_right: list[np.ndarray]
    close_left: list[np.ndarray]
    #: the size of the function's values, of which rounding errors are a fraction
    sizes: list[np.ndarray]


def slopes(function: Flat, values: Sequence[Any], direction: Sequence[np.ndarray], step: float) -> Slopes:
    """The slopes of ``function`` at ``values``."""
    here = [wide(y) for y in function(list(values))]

    def at_step(h: float) -> list[np.ndarray]:
        moved = [jax.numpy.asarray(wide(x) + h * t, x.dtype) for x, t in zip(values, direction, strict=True)]
        return [wide(y) for y in function(moved)]

    near_step = step / SHRINK
    up, down, near_up, near_down = at_step(step), at_step(-step), at_step(near_step), at_step(-near_step)
    differences = [
        [(b - a) / h for a, b in zip(first, second, strict=True)]
        for first, second, h in (
            (down, up, 2 * step), (near_down, near_up, 2 * near_step), (here, up, step), (down, here, step),
            (here, near_up, near_step), (near_down, here, near_step),
        )
    ]  # fmt: skip
    return Slopes(*differences, [np.abs(y) for y in here])  # type: ignore[call-arg]


def kink_in(
    measured: Slopes, tolerance: float, step: float, unit: float
) -> tuple[int, tuple[int, ...], Any, Any] | None:
    """The worst kink (see NOTE [Kinks]): output, index in it, left and right slope."""
    worst = None
    worst_gap = 0.0
    for k, (right, left, near_right, near_left, size) in enumerate(
        zip(measured.right, measured.left, measured.close_right, measured.close_left, measured.sizes, strict=True)
    ):
        gap, near = np.abs(right - left), np.abs(near_right - near_left)
        steepness = np.maximum(np.abs(near_right), np.abs(near_left))
        noise = 100 * unit * size * SHRINK / step
        bad = (near > 0.5 * gap) & (near > tolerance * (1 + steepness)) & (near > noise) & np.isfinite(near)
        if bad.any():
            i = np.unravel_index(int(np.argmax(np.where(bad, near, 0))), near.shape)
            if near[i] > worst_gap:
                worst_gap = float(near[i])
                worst = (k, tuple(map(int, i)), near_left[i], near_right[i])
    return worst


def unit_of(values: Sequence[Any]) -> float:
    """The rounding unit of the working precision."""
    return float(jax.numpy.finfo(jax.numpy.dtype(precision(values))).eps)


def close_to(got: Sequence[Any], expected: Sequence[Any], atol: float, rtol: float) -> bool:
    """Whether all numbers agree; NaN agrees with NaN."""
    return all(
        np.allclose(wide(a), wide(b), atol=atol, rtol=rtol, equal_nan=True) for a, b in zip(got, expected, strict=True)
    )


def elements(values: Sequence[Any]) -> Iterator[tuple[int, tuple[int, ...], list[np.ndarray]]]:
    """Each element of each value with the direction that moves it alone; complex elements twice, along 1 and i."""
    total = sum(math.prod(x.shape) for x in values)
    if total > MOST_ELEMENTS:
        return
    for k, x in enumerate(values):
        for index in itertools.product(*map(range, x.shape)):
            for unit in (1.0, 1.0j) if np.iscomplexobj(x) else (1.0,):
                direction = [np.zeros(v.shape, np.complex128 if np.iscomplexobj(v) else np.float64) for v in values]
                direction[k][index] = unit * _scale(wide(x)[index])
                yield k, index, direction
