"""Values that no argument expects, or few do; each is made anew for each call."""

import collections
import decimal
import fractions
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Hostile:
    """An object whose own methods fail."""

    def __repr__(self) -> str:
        raise ZeroDivisionError("repr")

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("eq")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ZeroDivisionError("bool")

    def __len__(self) -> int:
        raise ZeroDivisionError("len")


class Arraylike:
    """An object that fails where it is asked for its array."""

    shape, dtype = (2,), np.dtype("float32")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ZeroDivisionError("array")


Point = collections.namedtuple("Point", "x y")


def cyclic_list() -> Any:
    found: list[Any] = [1.0]
    found.append(found)
    return found


def cyclic_dict() -> Any:
    found: dict[str, Any] = {"x": 1.0}
    found["self"] = found
    return found


def deep_list() -> Any:
    found: Any = 1.0
    for _ in range(20000):
        found = [found]
    return found


def leaked() -> Any:
    """A tracer of a trace that is over."""
    kept: list[Any] = []
    jax.make_jaxpr(lambda x: kept.append(x) or x)(1.0)
    return kept[0]


def deleted() -> Any:
    """An array whose memory has been freed."""
    x = jnp.arange(3.0) + 1
    x.delete()
    return x


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63-1": lambda: -(2**63) - 1,
    "10**400": lambda: 10**400,
    "True": lambda: True,
    "complex": lambda: 1 + 2j,
    "str": lambda: "x",
    "empty str": lambda: "",
    "bytes": lambda: b"x",
    "object": object,
    "hostile": Hostile,
    "ellipsis": lambda: ...,
    "slice": lambda: slice(0, 2),
    "list": list,
    "tuple": lambda: (),
    "dict": dict,
    "list of str": lambda: ["a", "b"],
    "pair of None": lambda: (None, None),
    "ragged": lambda: [[1.0], [2.0, 3.0]],
    "generator": lambda: (x for x in (0, 1)),
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "deque": lambda: collections.deque([1.0]),
    "namedtuple": lambda: Point(1.0, None),
    "lambda": lambda: lambda: None,
    "partial": lambda: functools.partial(math.pow, 2),
    "class": lambda: int,
    "exception": lambda: ValueError("mine"),
    "module": lambda: math,
    "namespace": lambda: types.SimpleNamespace(shape=(2,), dtype="f4"),
    "decimal": lambda: decimal.Decimal("1.5"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "array of objects": lambda: np.array([object(), None]),
    "array of str": lambda: np.array(["a", "b"]),
    "array of dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "array of records": lambda: np.zeros(2, [("a", "f4")]),
    "empty array": lambda: np.zeros((0, 3), np.float32),
    "array of bool": lambda: np.array([True, False]),
    "array of int": lambda: np.arange(3),
    "array of complex": lambda: np.ones(2, np.complex64),
    "array of float16": lambda: np.ones((2, 2), np.float16),
    "array of longdouble": lambda: np.ones(2, np.longdouble),
    "masked array": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "arraylike": Arraylike,
    "dtype": lambda: np.dtype("float32"),
    "key": lambda: jax.random.key(0),
    "spec": lambda: jax.ShapeDtypeStruct((2,), jnp.float32),
    "leaked": leaked,
    "deleted": deleted,
}

#: After JAX's flattening of these, the thread's count of recursions is wrong (jaxlib 0.10.2), so that whatever comes
#: next fails: each call has a thread of its own.
ENDLESS: dict[str, Callable[[], Any]] = {
    "mixed keys": lambda: {"a": 1.0, 2: 3.0},
    "cyclic list": cyclic_list,
    "cyclic dict": cyclic_dict,
    "deep list": deep_list,
}
