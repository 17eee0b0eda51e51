"""Rules for reductions over sliding windows, and for the two primitives that are each other's transpose in max-pooling.

A window reduction of an array equals the elementwise reduction of its *terms*: for each offset in the window, the
strided slice of the padded array at that offset.  Taking a term is linear, and its transpose pads.  The rules use XLA's
operation for the derivative where there is one, else the terms.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import attrs
import jax
import numpy as np
from attrs import frozen
from jax import lax

from fgrad.jaxcore import primitive
from fgrad.rules.arithmetic import constant, zeros
from fgrad.rules.kinds import RULES, General, Linear, Undefined, define
from fgrad.rules.reduction import reducer

Pairs = Sequence[tuple[int, int]]


@frozen
class _Windows:
    """The parameters of a window primitive, with lax's names and in lax's order."""

    window_dimensions: Sequence[int]
    window_strides: Sequence[int]
    padding: Pairs
    base_dilation: Sequence[int]
    window_dilation: Sequence[int]

    def _config(self) -> list[tuple[int, int, int]]:
        return [(low, high, d - 1) for (low, high), d in zip(self.padding, self.base_dilation, strict=True)]

    def _starts(self) -> list[tuple[int, ...]]:
        ranges = [range(0, n * d, d) for n, d in zip(self.window_dimensions, self.window_dilation, strict=True)]
        return list(itertools.product(*ranges))

    def terms(self, x: Any, fill: Any, out_shape: Sequence[int]) -> list[Any]:
        """One array of ``out_shape`` for each offset in the window; the padding is ``fill``."""
        padded = lax.pad(x, fill, self._config())
        span = [(n - 1) * s + 1 if n else 0 for n, s in zip(out_shape, self.window_strides, strict=True)]
        return [
            lax.slice(padded, start, [a + n for a, n in zip(start, span, strict=True)], self.window_strides)
            for start in self._starts()
        ]

    def put_back(self, terms: Sequence[Any], x: Any, fill: Any) -> tuple[Any, Any]:
        """The transpose of ``terms``: the cotangents of ``x`` and of ``fill``."""
        sizes = [0 if n == 0 else (n - 1) * d + 1 for n, d in zip(x.shape, self.base_dilation, strict=True)]
        shape = [n + low + high for n, (low, high) in zip(sizes, self.padding, strict=True)]
        padded = jax.ShapeDtypeStruct(shape, x.dtype)
        total = None
        for term, start in zip(terms, self._starts(), strict=True):
            (placed,) = _transpose("slice")(term, padded, start_indices=start, strides=self.window_strides)
            total = placed if total is None else lax.add(total, placed)
        return _transpose("pad")(total, x, fill, padding_config=self._config())


def _transpose(name: str) -> Any:
    rule = RULES[name]
    assert isinstance(rule, Linear)
    return rule.transpose


# -- sums -------------------------------------------------------------------------------------------------------------


def _reduce_window_sum(ct: Any, x: Any, **params: Any) -> Any:
    if 0 in ct.shape:
        return (zeros(x),)
    windows = _Windows(**params)
    config = []
    for n, m, w, s, (low, _), b, d in zip(
        x.shape, ct.shape, windows.window_dimensions, windows.window_strides, windows.padding,
        windows.base_dilation, windows.window_dilation, strict=True,
    ):  # fmt: skip
        # Windows of the same size slide over the cotangent at stride b; the first one ends at the entry that saw x_0.
        span = (w - 1) * d
        before = span - low
        config.append((before, (n - 1) * b + span - before - (m - 1) * s, s - 1))
    spread = lax.pad(ct, constant(0, ct), config)
    summed = lax.reduce_window(
        spread, constant(0, ct), lax.add, windows.window_dimensions, windows.base_dilation, [(0, 0)] * x.ndim,
        window_dilation=windows.window_dilation,
    )  # fmt: skip
    return (summed,)


define("reduce_window_sum", Linear(_reduce_window_sum))


# -- extrema ----------------------------------------------------------------------------------------------------------

#: by the comparison under which the earlier of two entries is selected: that, the extremum, and its identity
_COMPARE = {"ge": (lax.ge, lax.max, -np.inf), "le": (lax.le, lax.min, np.inf)}


def _is_complex(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, np.complexfloating)


def _keeps(select: str, best: Any, term: Any) -> Any:
    """Whether each entry of ``best`` is selected before that of ``term``; JAX orders complex numbers only in maxima."""
    compare, extremum, _ = _COMPARE[select]
    return lax.eq(extremum(best, term), best) if _is_complex(best) else compare(best, term)


def _fill(select: str) -> float:
    return _COMPARE[select][2]


def _scatter_selected(ct: Any, x: Any, select: str, windows: _Windows) -> Any:
    """Each entry of ``ct`` at the position of the entry of ``x`` that its window selects, the first of equal ones."""
    if not _xla_scatters(x, windows):
        return _scatter_terms(ct, x, select, windows)
    dilated = lax.pad(x, constant(_fill(select), x), [(0, 0, d - 1) for d in windows.base_dilation])
    scattered = primitive("select_and_scatter_add").bind(
        ct, dilated, select_prim=primitive(select), window_dimensions=tuple(windows.window_dimensions),
        window_strides=tuple(windows.window_strides), padding=tuple(windows.padding),
    )  # fmt: skip
    return lax.slice(scattered, (0,) * x.ndim, scattered.shape, windows.base_dilation)


def _xla_scatters(x: Any, windows: _Windows) -> bool:
    """Whether XLA has the operation: for real numbers, no window dilation, no cropping; it crashes without axes."""
    plain = all(d == 1 for d in windows.window_dilation) and all(
        low >= 0 and high >= 0 for low, high in windows.padding
    )
    return plain and x.size > 0 and x.ndim > 0 and not _is_complex(x)


def _scatter_terms(ct: Any, x: Any, select: str, windows: _Windows) -> Any:
    fill = _fill(select)
    best = lax.full_like(ct, fill)
    winner = lax.full_like(ct, -1, "int32")
    terms = windows.terms(x, constant(fill, x), ct.shape)
    for number, term in enumerate(terms):
        keep = _keeps(select, best, term)
        best = lax.select(keep, best, term)
        winner = lax.select(keep, winner, lax.full_like(winner, number))
    shares = [lax.select(lax.eq(winner, constant(k, winner)), ct, zeros(ct)) for k in range(len(terms))]
    return windows.put_back(shares, x, constant(0, x))[0]


def _gather_selected(t: Any, x: Any, select: str, windows: _Windows, out_shape: Sequence[int]) -> Any:
    """The transpose: from each window the entry of ``t`` at the position of the entry of ``x`` that it selects."""
    if x.dtype.itemsize < 8:
        return primitive("select_and_gather_add").bind(t, x, select_prim=primitive(select), **attrs.asdict(windows))
    # On CPUs, JAX 0.10 packs tangent and operand into 64 bits, which loses half of the digits of a float64.
    fill = _fill(select)
    best = lax.full(out_shape, fill, x.dtype)
    picked = lax.full(out_shape, 0, t.dtype)
    tangents = windows.terms(t, constant(0, t), out_shape)
    for term, tangent in zip(windows.terms(x, constant(fill, x), out_shape), tangents, strict=True):
        keep = _keeps(select, best, term)
        best, picked = lax.select(keep, best, term), lax.select(keep, picked, tangent)
    return picked


define(
    "reduce_window_max", General(vjp=lambda ct, out, x, **params: (_scatter_selected(ct, x, "ge", _Windows(**params)),))
)

define(
    "reduce_window_min", General(vjp=lambda ct, out, x, **params: (_scatter_selected(ct, x, "le", _Windows(**params)),))
)


def _select_and_scatter_add(ct: Any, source: Any, x: Any, *, select_prim: Any, **params: Any) -> Any:
    ones = (1,) * x.ndim
    windows = _Windows(**params, base_dilation=ones, window_dilation=ones)
    return _gather_selected(ct, x, select_prim.name, windows, source.shape), None


define("select_and_scatter_add", Linear(_select_and_scatter_add, args=(0,)))


def _select_and_gather_add(ct: Any, t: Any, x: Any, *, select_prim: Any, **params: Any) -> Any:
    return _scatter_selected(ct, x, select_prim.name, _Windows(**params)), None


define("select_and_gather_add", Linear(_select_and_gather_add, args=(0,)))

define(
    "select_and_scatter",
    Undefined("it runs a function of its own for each entry; JAX binds it only while compiling select_and_scatter_add"),
)


# -- any reducer ------------------------------------------------------------------------------------------------------


def _reduce_window(cts: Any, outs: Any, *ins: Any, jaxpr: Any, consts: Any = (), **params: Any) -> Any:
    combine, (left, right), *_ = reducer("reduce_window", jaxpr)
    x, start = ins
    (ct,), (out,) = cts, outs
    windows = _Windows(**params)
    # The padding has the initial value too.
    terms = windows.terms(x, start, out.shape)
    folded = [lax.broadcast(start, out.shape)]
    for term in terms:
        folded.append(combine(folded[-1], term))
    shares = []
    for before, term, after in zip(folded[-2::-1], terms[::-1], folded[:0:-1], strict=True):
        shares.append(right(ct, after, before, term))
        ct = left(ct, after, before, term)
    ct_x, ct_start = windows.put_back(shares[::-1], x, start)
    return ct_x, lax.add(ct_start, lax.reduce_sum(ct, tuple(range(ct.ndim))))


define("reduce_window", General(vjp=_reduce_window))
