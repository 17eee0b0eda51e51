"""Samples of reductions over sliding windows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from tests.rules.samples import Sample

_rng = np.random.default_rng(19)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _distinct(*shape: int) -> Any:
    """Numbers well apart from each other, in no order."""
    return 0.3 * _rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape) - 1


def _window(
    size: Any, strides: Any = None, padding: Any = None, base_dilation: Any = None, window_dilation: Any = None
) -> dict[str, Any]:
    ones = (1,) * len(size)
    return {
        "window_dimensions": size,
        "window_strides": strides or ones,
        "padding": padding or ((0, 0),) * len(size),
        "base_dilation": base_dilation or ones,
        "window_dilation": window_dilation or ones,
    }


_WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "": ((6,), _window((3,))),
    "strides": ((7,), _window((2,), (3,))),
    "padding": ((5,), _window((3,), (2,), ((1, 2),))),
    "negative padding": ((7,), _window((2,), (2,), ((-1, -2),))),
    "two axes": ((4, 5), _window((2, 3), (2, 1), ((0, 1), (1, 0)))),
    "base dilation": ((4,), _window((2,), (1,), ((1, 1),), (2,))),
    "window dilation": ((7,), _window((3,), (1,), ((1, 0),), None, (2,))),
    "both dilations": ((4,), _window((3,), (2,), ((2, 1),), (2,), (3,))),
    "too wide": ((2,), _window((3,))),
    "0-d": ((), _window(())),
    "empty": ((0, 3), _window((1, 2))),
}


def _samples(name: str, draw: Callable[..., Any]) -> list[Sample]:
    return [
        Sample(name, lambda x, window=window: primitive(name).bind(x, **window), (draw(*shape),), label)
        for label, (shape, window) in _WINDOWS.items()
        # XLA's operation for the derivative of an extremum refuses negative padding, and crashes on no axes at all.
        if name == "reduce_window_sum" or label not in ("negative padding", "0-d")
    ]


def _reduce_window(computation: Callable[..., Any], start: float, **window: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, np.float64(start), computation, **window)


def _select(name: str, select: str, window: dict[str, Any]) -> Callable[..., Any]:
    def fun(source: Any, operand: Any) -> Any:
        return primitive(name).bind(source, operand, select_prim=primitive(select), **window)

    return fun


def _undilated(window: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in window.items() if not key.endswith("dilation")}


_TIED = np.array([1.0, 1.0, 0.0, 2.0, 2.0, 2.0])
# Numbers of few digits, for JAX 0.10 drops half of the digits of a float64 in select_and_gather_add.
_SHORT = np.array([0.5, -1.0, 2.0, 0.25, 1.5, -0.75])


def _of_complex(name: str) -> list[Sample]:
    """JAX orders complex numbers, by their real parts first, but cannot differentiate that."""
    fun = lambda x: primitive(name).bind(x, **_window((2, 2)))  # noqa: E731
    return [Sample(name, fun, (_complex(3, 4),), "complex", in_jax=False)]


SAMPLES: list[Sample] = [
    *_samples("reduce_window_sum", _real),
    Sample(
        "reduce_window_sum", lambda x: primitive("reduce_window_sum").bind(x, **_window((2, 2))), (_complex(3, 3),), "complex"
    ),
    *_samples("reduce_window_max", _distinct),
    *_samples("reduce_window_min", _distinct),
    *_of_complex("reduce_window_max"),
    *_of_complex("reduce_window_min"),
    Sample(
        "reduce_window_max", lambda x: primitive("reduce_window_max").bind(x, **_window((2,))), (_TIED,), "ties", smooth=False
    ),
    Sample(
        "reduce_window_min", lambda x: primitive("reduce_window_min").bind(x, **_window((2,))), (_TIED,), "ties", smooth=False
    ),
    *[
        Sample("reduce_window", _reduce_window(lax.mul, 1, **window), (_real(*shape),), f"mul, {label}")
        for label, (shape, window) in _WINDOWS.items()
    ],
    Sample("reduce_window", _reduce_window(lax.add, 0.5, **_window((2,), (2,))), (_real(5),), "add"),
    Sample("reduce_window", _reduce_window(lax.max, -0.55, **_window((2,))), (_distinct(5),), "max"),
    Sample("reduce_window", _reduce_window(lax.min, -0.55, **_window((2,))), (_distinct(5),), "min"),
    *[
        Sample(
            "select_and_scatter_add", _select("select_and_scatter_add", select, _undilated(window)),
            (_real(*out), _distinct(*shape)), label, smooth=False,
        )
        for select, shape, out, window, label in (
            ("ge", (6,), (5,), _window((2,)), ""),
            ("le", (4, 5), (2, 5), _window((2, 3), (2, 1), ((0, 0), (1, 1))), "smallest, padding"),
        )
    ],
    *[
        Sample(
            "select_and_gather_add", _select("select_and_gather_add", select, window), (_SHORT, np.flip(_SHORT).copy()),
            label, smooth=False, tolerance=1e-4,
        )
        for select, window, label in (
            ("ge", _window((2,)), ""),
            ("le", _window((3,), (2,), ((1, 1),), (2,)), "smallest, base dilation"),
        )
    ],
]  # fmt: skip
