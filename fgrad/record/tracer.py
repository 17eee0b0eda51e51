"""The tracer: a JAX tracer with a number on a tape.

Any JAX code accepts it, because it is a JAX tracer.  Its own operators take the fast lane, and ``bool``, ``int``,
``item`` and ``print`` compute the value if the recording knows its inputs.

NOTE [No way out through NumPy]
A number copied out of a recording loses its derivative silently: the gradient would be zero.  So the methods by which
other libraries copy one (``__array__``, ``__float__``, ``tolist``, ...) refuse a value through which a derivative
passes, and return the number otherwise: for integers, booleans, results of ``stop_gradient``.  A write into a NumPy
array and ``math.sin`` call ``__float__`` and cannot be distinguished from ``float``.  Code that only branches on a
number or shows it (``bool``, ``int``, ``item``, ``print``) gets it, as in JAX.
"""

import operator
from typing import Any

import jax
import numpy as np

from fgrad.graph.source import Source
from fgrad.jaxcore import ShapedArray, Tracer as JaxTracer, current_trace, is_evaluating, staged_number
from fgrad.jaxtypes import is_inexact
from fgrad.record import refusals
from fgrad.record.origin import because


class Tracer(JaxTracer[Any]):
    """A value being recorded; it behaves as a ``jax.Array`` of its shape and dtype."""

    __slots__ = ("number",)
    #: libraries that serve several array packages read there whose array it is
    __module__ = JaxTracer.__module__
    _trace: Any
    aval: ShapedArray
    number: int

    def _contents(self) -> list[tuple[str, Any]]:
        contents = [("number", self.number)]
        return [*contents, ("staged", staged_number())] if is_inexact(self.aval) else contents

    # -- concrete on demand --------------------------------------------------------------------------------

    def to_concrete_value(self) -> Any:
        """The value without the tracers around it, computed now, or None if only its type is known."""
        trace = self._trace
        value = trace.concrete(self.number) if trace.open else trace.value_after_end(self)
        return value.to_concrete_value() if isinstance(value, JaxTracer) else value

    def _innermost(self) -> "Tracer":
        """The last tracer around the value."""
        value = self._trace.concrete(self.number)
        return value._innermost() if type(value) is Tracer else self

    def _value(self, what: str) -> Any:
        value = self.to_concrete_value()
        if value is None:
            raise refusals.not_concrete(self._innermost(), what)
        return value

    def _free_value(self, what: str) -> Any:
        """The value for code that copies it; see NOTE [No way out through NumPy]."""
        value = self._value(what)
        if is_inexact(self.aval) and self._trace.carries(self.number):
            raise refusals.copied_out(self, what)
        return value

    def __bool__(self) -> bool:
        return bool(self._value("bool()"))

    def __int__(self) -> int:
        return int(self._value("int()"))

    def __float__(self) -> float:
        return float(self._free_value("float() (or a write into a NumPy array, or math)"))

    def __complex__(self) -> complex:
        return complex(self._free_value("complex() (or a write into a NumPy array, or cmath)"))

    def __index__(self) -> int:
        return operator.index(self._value("an integer index"))

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def __round__(self, ndigits: int | None = None) -> Any:
        rounded = jax.numpy.round(self, ndigits or 0)
        # like Python's floats
        return rounded.astype(int) if ndigits is None else rounded

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._free_value("numpy.asarray()"), dtype=dtype)

    def item(self, *args: Any) -> Any:
        return np.asarray(self._value(".item()")).item(*args)

    def tolist(self) -> Any:
        return np.asarray(self._free_value(".tolist()")).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return np.asarray(self._free_value(".tobytes()")).tobytes(order)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return format(self._value("a formatted string"), spec)

    def __repr__(self) -> str:
        try:
            value = self.to_concrete_value()
        except Exception:
            value = None
        kind = self.aval.str_short()
        return f"Traced<{kind}>" if value is None else f"Traced<{kind}>({np.asarray(value)})"

    def _short_repr(self) -> str:
        return repr(self)

    def full_lower(self) -> Any:
        # JAX calls this when a tracer reaches its evaluating trace: it was kept, or a rule closes over it
        trace = current_trace()
        return self._trace.seen_from(trace, self) if is_evaluating(trace) or not self._trace.open else self

    def block_until_ready(self) -> "Tracer":
        return self

    def _origin_msg(self) -> str:
        return f"\n{because(self)}"

    @property
    def source(self) -> Source | None:
        """The user's line that computed this value."""
        return self._trace.source_of(self.number)
