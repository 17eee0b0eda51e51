"""Python numbers on whose values a program does not depend.

NOTE [Symbolic numbers]
A compiled ``step(i)`` should not need a program for each ``i``.  So once a number among the arguments has had two
values, the function is recorded with a *symbolic* number in its place.  It looks like an ``int``, a ``float`` or one of
NumPy's of 64 bits (``isinstance`` and ``__class__`` say so), but it is of another class, so Python can do
nothing with it behind our back:

- Arithmetic with other numbers is recorded, and done again by Python at each call: its results are symbolic, too.
- An operation on tensors that gets one, or a view that begins at one, takes it as an input of the program.
- A comparison has a fixed outcome: the program applies as long as it comes out the same.
- So are the functions of ``math``, called as such (``math.cos(n)``).
- Whatever else Python does with it (a shape, ``range``, a key, ``str``, ``np.sin``) needs its value, which is guarded
  like an outcome.

A program is recorded once for all values that agree in these.

NOTE [Late numbers]
``loss.item()`` in a compiled step asks for a number that only the program will know.  Most such numbers are merely
added up, put into an attribute or returned.  So it is a symbolic number, too, a *late* one, which the program computes:
after it has run, Python does the arithmetic on late numbers, and the effects follow.  Where Python needs the value
itself (a comparison, a shape, ``print``), the recording continues in pieces, from there on with the values of all.

- Arithmetic on late numbers is tried on samples, to learn the class of its result.  If a result is of another class,
  or an error (a logarithm of zero), the results of the program are dropped, and the call runs uncompiled.
- ``math.isnan``, ``isinf`` and ``isfinite`` of late numbers are expected to find nothing (NOTE [Expectations]).
"""

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field

from fgrad.mutable.types.number_program import ARITHMETIC, OUTCOMES, Late, NumberProgram, Step, number_of
from fgrad.seam import RawSource, here


@define(eq=False)
class SymbolicNumbers:
    """The symbolic numbers of a recorded call.

    Attributes:
      steps: all operations on them, in order, with their values when they were recorded; first the inputs.
      inputs: how many inputs there are.
      results: the late numbers that are elements of tensors, with the traced values of these.
      fixed: the steps whose values are guarded, with the user's line that needed the first.
      as_input: makes a traced value of a step's number, as an input of the program.
      cast: a traced value of one element as one of another type, without dimensions.
      ask: called when Python needs the values of late numbers, with the traced value of one; afterwards all are known.
      made: all of these objects, weakly.
      are_settled: whether the call goes on with these values, so that no more of them are guarded.
    """

    as_input: Callable[[int, Any], Any]
    cast: Callable[[Any, Any], Any]
    ask: Callable[[Any], None]
    steps: list[Step] = field(factory=list)
    inputs: int = 0
    results: dict[int, Any] = field(factory=dict)
    fixed: dict[int, RawSource | None] = field(factory=dict)
    made: list["weakref.ref[SymbolicNumber]"] = field(factory=list)
    are_settled: bool = False
    #: the indices of the steps, by function and operands, or by a constant
    _indices: dict[Any, int] = field(factory=dict)
    _arrays: dict[int, Any] = field(factory=dict)

    def input(self, value: Any) -> "SymbolicNumber":
        """A symbolic number that is an input."""
        self.steps.append(Step(None, (), value))
        self.inputs += 1
        return _CLASSES[value.__class__](self, self.inputs - 1)

    def result(self, kind: type, traced: Any) -> "SymbolicNumber":
        """A late number of a class: the element of a tensor, as a traced value (NOTE [Late numbers])."""
        self.steps.append(Step(None, (), Late(kind(_SAMPLE))))
        index = len(self.steps) - 1
        self.results[index] = traced
        return _CLASSES[kind](self, index)

    def learn(self, value_of: Callable[[Any], Any]) -> None:
        """Give all late numbers their values, from those of traced values."""
        for i, step in enumerate(self.steps):
            if i in self.results:
                self.steps[i] = evolve(step, value=number_of(value_of(self.results[i]), step.value))
            elif isinstance(step.value, Late) and step.function is not None:
                self.steps[i] = evolve(step, value=step.function(*[self.steps[k].value for k in step.operands]))
        self.results.clear()

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """The result of a function of numbers, some of them symbolic."""
        values = [plain(x) for x in operands]
        if any(isinstance(x, Late) for x in values):
            if function is operator.truediv and not isinstance(values[1], Late) and operands[1] is not values[1]:
                self.outcome(OUTCOMES["ne"], operands[1], 0)  # then there is a quotient
            sample = _on_samples(function, values)
            if sample.__class__ not in _CLASSES:
                self._ask_for(operands)
                return function(*map(plain, operands))
            value, kind = Late(sample), sample.__class__
        else:
            try:
                value = function(*values)
            except Exception:  # the caller may know what to do then
                for x in operands:
                    concrete(x)
                raise
            kind = value.__class__
        if len(operands) == 2 and kind is int:
            known = self._simplified(function, *operands)
            if known is not None:
                return known
        if kind not in _CLASSES:  # a complex number
            for x in operands:
                if isinstance(x, SymbolicNumber):
                    self.value_of(x)
            return value
        return _CLASSES[kind](self, self._step(function, operands, value))

    def _ask_for(self, operands: Sequence[Any]) -> None:
        """Have the late ones among some numbers computed now, and with them all."""
        pending = [x._index for x in operands if isinstance(x, SymbolicNumber) and isinstance(x._value, Late)]
        while pending:
            index = pending.pop()
            if index in self.results:
                self.ask(self.results[index])
                return
            pending += self.steps[index].operands

    def _simplified(self, function: Callable[..., Any], one: Any, other: Any) -> Any:
        """The result of arithmetic on integers, if it is one of the operands, or always the same.

        The start of a view in memory is often a multiple of a stride, by which it is divided again.
        """
        if function is operator.add:
            return next((x for x, y in ((one, other), (other, one)) if type(y) is int and y == 0), None)
        if type(other) is not int:
            return None
        if function in (operator.mul, operator.floordiv) and other == 1:
            return one
        if function is operator.mod and other == 1:
            return 0
        product = self.steps[one._index]
        if function in (operator.floordiv, operator.mod) and product.function is operator.mul:
            factor = self.steps[product.operands[1]]
            if factor.function is None and product.operands[1] >= self.inputs and factor.value == other:
                index = product.operands[0]
                return 0 if function is operator.mod else SymbolicInteger(self, index)
        return None

    def outcome(self, function: Callable[..., bool], *operands: Any) -> bool:
        """The outcome of a test, which is guarded."""
        if any(isinstance(plain(x), Late) for x in operands):
            if function in _USUAL:
                self._fix(self._step(function, operands, _USUAL[function]))
                return _USUAL[function]
            self._ask_for(operands)
        value = function(*map(plain, operands))
        self._fix(self._step(function, operands, value))
        return value

    def value_of(self, number: "SymbolicNumber") -> Any:
        """The value of a number, which is guarded."""
        if isinstance(number._value, Late):
            self._ask_for([number])
        self._fix(number._index)
        return number._value

    def _fix(self, index: int) -> None:
        if not self.are_settled:
            self.fixed.setdefault(index, here())

    def array(self, number: "SymbolicNumber", dtype: Any) -> Any:
        """A number as a traced value of one element."""
        if number._index in self.results:
            return self.cast(self.results[number._index], np.dtype(dtype))
        if isinstance(number._value, Late):
            self._ask_for([number])
        kind = np.dtype(dtype).type
        index = self._step(kind, (number,), kind(number._value))
        if index not in self._arrays:
            self._arrays[index] = self.as_input(index, np.dtype(dtype))
        return self._arrays[index]

    def _step(self, function: Callable[..., Any], operands: Sequence[Any], value: Any) -> int:
        indices = tuple([x._index if isinstance(x, SymbolicNumber) else self._constant(x) for x in operands])
        return self._entered((function, indices), Step(function, indices, value))

    def _constant(self, value: Any) -> int:
        return self._entered((value.__class__, repr(value)), Step(None, (), value))

    def _entered(self, key: Any, step: Step) -> int:
        index = self._indices.get(key)
        if index is None:
            index = self._indices[key] = len(self.steps)
            self.steps.append(step)
        return index

    def recorded(self) -> "NumberProgram":
        """What has been recorded so far."""
        late = set[int]()
        for i, step in enumerate(self.steps):
            if i in self.results or not late.isdisjoint(step.operands):
                late.add(i)
        return NumberProgram(tuple(self.steps), self.inputs, dict(self.fixed), tuple(sorted(late)))


class SymbolicNumber:
    """A Python number that stands for all values that a program is called with (NOTE [Symbolic numbers])."""

    __slots__ = ("_numbers", "_index", "__weakref__")
    _kind: type

    #: NumPy's numbers leave arithmetic with one to it
    __array_priority__ = 1000

    def __init__(self, numbers: SymbolicNumbers, index: int):
        self._numbers: SymbolicNumbers = numbers
        self._index: int = index
        numbers.made.append(weakref.ref(self))

    @property
    def _value(self) -> Any:
        """The value that it has in this recording."""
        return self._numbers.steps[self._index].value

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._kind

    def _concrete(self) -> Any:
        return self._numbers.value_of(self)

    def __bool__(self) -> bool:
        return self._numbers.outcome(bool, self)

    def __hash__(self) -> int:
        return hash(self._concrete())

    def __int__(self) -> int:
        return int(self._concrete())

    def __float__(self) -> float:
        return float(self._concrete())

    def __complex__(self) -> complex:
        return complex(self._concrete())

    def __str__(self) -> str:
        return str(self._concrete())

    def __repr__(self) -> str:
        return repr(self._concrete())

    def __format__(self, spec: str) -> str:
        return format(self._concrete(), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._kind, (self._concrete(),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._concrete(), dtype)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._kind, name):
            raise AttributeError(f"{self._kind.__name__!r} object has no attribute {name!r}")
        return getattr(self._concrete(), name)

    def __round__(self, digits: int | None = None) -> Any:
        return self._numbers.apply(round, self) if digits is None else self._numbers.apply(round, self, digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


class SymbolicInteger(SymbolicNumber):
    """A symbolic ``int``."""

    __slots__ = ()
    _kind = int

    def __index__(self) -> int:
        return self._concrete()


class SymbolicNumPyInteger(SymbolicInteger):
    """A symbolic ``numpy.int64``, which operations take as the ``int`` of its ``item()``."""

    __slots__ = ()
    _kind = np.int64

    def item(self) -> Any:
        return self._numbers.apply(int, self)


class SymbolicFloat(SymbolicNumber):
    """A symbolic ``float``."""

    __slots__ = ()
    _kind = float


class SymbolicNumPyFloat(SymbolicFloat):
    """A symbolic ``numpy.float64``, which operations take as the ``float`` of its ``item()``."""

    __slots__ = ()
    _kind = np.float64

    def item(self) -> Any:
        return self._numbers.apply(float, self)


def plain(x: Any) -> Any:
    """The present value of a number, which a program must not depend on; that of a late one may be unknown."""
    return x._value if isinstance(x, SymbolicNumber) else x


def concrete(x: Any) -> Any:
    """The value of a number, which a program may depend on from now on."""
    return x._concrete() if isinstance(x, SymbolicNumber) else x


def applied(function: Callable[..., Any], *operands: Any) -> Any:
    """A function of numbers that has no effects; if one of them is symbolic, it is recorded."""
    for x in operands:
        if isinstance(x, SymbolicNumber):
            return x._numbers.apply(function, *operands)
    return function(*operands)


def _on_samples(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The result of a function with samples in place of unknown values; None if that is an error."""
    try:
        return function(*[x.sample if isinstance(x, Late) else x for x in values])
    except (ArithmeticError, ValueError):
        return None


def as_array(x: SymbolicNumber, dtype: Any) -> Any:
    """A symbolic number as a traced value of one element."""
    return x._numbers.array(x, dtype)


def place(x: Any) -> Any:
    """Equal for equal numbers, and for symbolic ones that are the same expression."""
    return (id(x._numbers), x._index) if isinstance(x, SymbolicNumber) else x


_CLASSES: dict[type, type[SymbolicNumber]] = {
    int: SymbolicInteger,
    float: SymbolicFloat,
    np.float64: SymbolicNumPyFloat,
    np.int64: SymbolicNumPyInteger,
}
#: the classes of numbers that may be symbolic
SYMBOLIC = frozenset(_CLASSES)
_OPERANDS = (bool, int, float, np.float64, np.int64)
#: stands for all late numbers; no zero, and in the domains of most functions
_SAMPLE = 1
#: the expected outcomes of tests of late numbers
_USUAL: dict[Any, bool] = {math.isnan: False, math.isinf: False, math.isfinite: True}


def _arithmetic(function: Callable[..., Any], is_reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: SymbolicNumber, other: Any) -> Any:
        if other.__class__ not in _OPERANDS:
            return NotImplemented
        return self._numbers.apply(function, *((other, self) if is_reflected else (self, other)))

    return method


def _comparison(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def method(self: SymbolicNumber, other: Any) -> Any:
        if other.__class__ not in _OPERANDS:
            return NotImplemented
        return self._numbers.outcome(function, self, other)

    return method


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: self._numbers.apply(function, self)


for _function in ARITHMETIC:
    _name = _function.__name__.strip("_")
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(_function, False))
    setattr(SymbolicNumber, f"__r{_name}__", _arithmetic(_function, True))
for _name, _function in OUTCOMES.items():
    setattr(SymbolicNumber, f"__{_name}__", _comparison(_function))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(SymbolicNumber, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("floor", "ceil", "trunc"):
    setattr(SymbolicNumber, f"__{_name}__", _unary(getattr(math, _name)))
