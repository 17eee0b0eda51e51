"""Checks of derivatives against finite differences, for tests."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.api import differences as fd
from fgrad.api.arguments import Leaves, check_function, leaves, with_positions
from fgrad.api.forward import jvp
from fgrad.api.reverse import vjp
from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of ``f`` at ``args`` against central finite differences in the working precision.

    Arguments:
      f: takes and returns pytrees of arrays; integer and boolean arguments are held constant.
      args: a tuple or list of the arguments.
      order: up to which order; each derivative is checked against differences of the one below.
      modes: ``"fwd"``, ``"rev"`` or both; in higher orders every combination.
      atol, rtol: tolerances, not negative; by default what the precision of the arguments allows.
      eps: the step of the differences, relative to arguments larger than one.

    Raises:
      KinkError: the slopes to both sides differ, so that there is no derivative to check; the message names the
        element of the argument and both slopes.
      GradientCheckError: a derivative is wrong; the message names the mode, the order, the element of the argument, and
        what was expected and got.  It is an ``AssertionError``.

    >>> import fgrad.testing, jax.numpy as jnp
    >>> fgrad.testing.check_grads(jnp.sin, (1.0,), order=2)
    >>> fgrad.testing.check_grads(jnp.abs, (0.0,), order=1)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.KinkError: ...

    Source: `jax.test_util.check_grads <https://docs.jax.dev/en/latest/jax.test_util.html>`_.
    """
    if isinstance(modes, str):
        modes = (modes,)
    _check_arguments(f, args, order, modes, {"atol": atol, "rtol": rtol, "eps": eps})
    flat = leaves(tuple(args), "args", "check_grads")
    values = [jax.numpy.asarray(x) for x in flat.values]
    moving = [i for i, x in enumerate(values) if is_inexact(typeof(x))]
    point = [values[i] for i in moving]
    tolerance = fd.default_tolerance(point)
    check = _Check(
        getattr(f, "__name__", "function"), flat, tuple(moving), point, tuple(modes),
        tolerance if atol is None else atol, tolerance if rtol is None else rtol,
        fd.default_step(point) if eps is None else eps,
    )  # fmt: skip

    def function(xs: Sequence[Any]) -> list[Any]:
        out = tree_util.tree_leaves(f(*flat.unflatten(with_positions(values, moving, xs))))
        return [y for y in out if is_inexact(typeof(y))]

    check.run(function, order, 1)


def _check_arguments(f: Any, args: Any, order: Any, modes: Any, numbers: Mapping[str, float | None]) -> None:
    """Refuse arguments of ``check_grads`` that make no sense.

    Raises:
      TypeError, ValueError: one of them is not what it should be; the message names it.
    """
    check_function(f, "check_grads")
    if not isinstance(modes, tuple | list) or not modes or any(mode not in ("fwd", "rev") for mode in modes):
        raise ValueError(f"check_grads: modes must be made of 'fwd' and 'rev', got {errors.shown(modes)}.")
    if isinstance(order, bool) or not isinstance(order, int) or order < 1:
        raise ValueError(f"check_grads: order must be an integer from 1 on, got {errors.shown(order)}.")
    if not isinstance(args, tuple | list):
        raise TypeError(
            f"check_grads: args must be a tuple or list of the arguments, got {type(args).__name__}; use (x,)."
        )
    for name, number in numbers.items():
        if number is not None and not (
            isinstance(number, float | int | np.number) and 0 <= number <= sys.float_info.max
        ):
            raise ValueError(f"check_grads: {name} must be a number from 0 on, got {errors.shown(number)}.")


@frozen(eq=False)
class _Check:
    """One check: at which point, how, and how the elements of the point are called."""

    name: str
    flat: Leaves
    moving: tuple[int, ...]
    point: list[Any]
    modes: tuple[str, ...]
    atol: float
    rtol: float
    step: float

    def run(self, function: fd.Flat, order: int, at: int) -> None:
        """Check the first derivative of ``function``, which is the derivative of order ``at`` of what is checked."""
        direction = fd.directions(self.point, seed=at)
        slopes = fd.slopes(function, self.point, direction, self.step)
        self.refuse_kinks(function, slopes, at)
        tangents = fd.cast(direction, self.point)
        if "fwd" in self.modes:
            got = jvp(function, (self.point,), (tangents,))[1]
            if not self.agrees(got, slopes.central, slopes.close):
                raise self.wrong(function, lambda t: jvp(function, (self.point,), (t,))[1], slopes, got, "forward", at)
            if order > 1:
                self.run(lambda xs: jvp(function, (xs,), (tangents,))[1], order - 1, at + 1)
        if "rev" in self.modes:
            outs, pull = vjp(function, self.point)
            cts = fd.cast(fd.directions([np.ones(y.shape, y.dtype) for y in outs], seed=at + 100), outs)
            (pulled,) = pull(cts)
            expected, close = fd.inner(cts, slopes.central), fd.inner(cts, slopes.close)
            got = fd.inner(pulled, direction)
            if not self.agrees([got], [expected], [close]):
                raise self.wrong(
                    lambda xs: [fd.inner(cts, function(xs))], lambda t: [fd.inner(pulled, t)],
                    fd.Slopes([np.asarray(expected)], [], [], [], [], [], []), [got], "reverse", at,
                )  # fmt: skip
            if order > 1:
                self.run(lambda xs: vjp(function, xs)[1](cts)[0], order - 1, at + 1)

    def agrees(self, got: Sequence[Any], central: Sequence[Any], close: Sequence[Any]) -> bool:
        """Whether a derivative fits the differences over either step: the smaller one may stay clear of a kink."""
        return fd.close_to(got, central, self.atol, self.rtol) or fd.close_to(got, close, self.atol, self.rtol)

    def path(self, k: int, index: tuple[int, ...]) -> str:
        """How the user would write an element of the point: ``args[0]['w'][2, 1]``."""
        return self.flat.paths[self.moving[k]] + (f"[{', '.join(map(str, index))}]" if index else "")

    def refuse_kinks(self, function: fd.Flat, slopes: fd.Slopes, at: int) -> None:
        unit = fd.unit_of(self.point)
        tolerance = max(self.atol, self.rtol)
        general = fd.kink_in(slopes, tolerance, self.step, unit)
        if general is None:
            return
        for k, index, direction in fd.elements(self.point):
            kink = fd.kink_in(fd.slopes(function, self.point, direction, self.step), tolerance, self.step, unit)
            if kink is not None:
                size = abs(direction[k][index])
                raise errors.kink(self.name, self.path(k, index), _short(kink[2] / size), _short(kink[3] / size), at)
        raise errors.kink(self.name, "a random direction of its arguments", _short(general[2]), _short(general[3]), at)

    def wrong(
        self, function: fd.Flat, derivative: Callable[[list[Any]], list[Any]], slopes: fd.Slopes, got: Sequence[Any],
        mode: str, at: int,
    ) -> errors.GradientCheckError:  # fmt: skip
        """The error that names the worst element."""
        worst: tuple[float, Any] = (-1.0, None)
        for k, index, direction in fd.elements(self.point):
            size = abs(direction[k][index])
            expected = fd.slopes(function, self.point, direction, self.step).central
            given = derivative(fd.cast(direction, self.point))
            for e, g in zip(expected, given, strict=True):
                e, g = np.asarray(e) / size, fd.wide(g) / size
                gap = np.nan_to_num(np.abs(e - g), nan=np.inf)
                if gap.size and gap.max() > worst[0]:
                    i = np.unravel_index(int(np.argmax(gap)), gap.shape)
                    worst = (float(gap.max()), (self.path(k, index), _short(e[i]), _short(g[i])))
        if worst[1] is None:
            e, g = slopes.central[0], fd.wide(got[0])
            i = np.unravel_index(int(np.argmax(np.abs(e - g))), e.shape)
            worst = (0.0, ("a random direction of its arguments", _short(e[i]), _short(g[i])))
        where, expected, given = worst[1]
        return errors.wrong_gradient(self.name, mode, at, where, expected, given, self.step)


def _short(x: Any) -> str:
    x = complex(x)
    return f"{x.real:.6g}" if x.imag == 0 else f"{x:.6g}"
