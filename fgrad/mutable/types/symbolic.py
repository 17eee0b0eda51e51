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
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from fgrad.seam import RawSource, here


@frozen(eq=False)
class Step:
    """One operation on numbers: a function of earlier ones, by their indices; without a function, a constant."""

    function: Callable[..., Any] | None
    operands: tuple[int, ...]
    value: Any


@define(eq=False)
class SymbolicNumbers:
    """The symbolic numbers of a recorded call.

    Attributes:
      steps: all operations on them, in order, with their values when they were recorded; first the inputs.
      inputs: how many inputs there are.
      fixed: the steps whose values are guarded, with the user's line that needed the first.
      as_input: makes a traced value of a step's number, as an input of the program.
      are_settled: whether the call goes on with these values, so that no more of them are guarded.
    """

    as_input: Callable[[int, Any], Any]
    steps: list[Step] = field(factory=list)
    inputs: int = 0
    fixed: dict[int, RawSource | None] = field(factory=dict)
    are_settled: bool = False
    #: the indices of the steps, by function and operands, or by a constant
    _indices: dict[Any, int] = field(factory=dict)
    _arrays: dict[int, Any] = field(factory=dict)

    def input(self, value: Any) -> "SymbolicNumber":
        """A symbolic number that is an input."""
        self.steps.append(Step(None, (), value))
        self.inputs += 1
        return _CLASSES[value.__class__](self, self.inputs - 1, value)

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """The result of a function of numbers, some of them symbolic."""
        value = function(*map(plain, operands))
        if len(operands) == 2 and value.__class__ is int:
            known = self._simplified(function, *operands)
            if known is not None:
                return known
        if value.__class__ not in _CLASSES:  # a complex number
            for x in operands:
                if isinstance(x, SymbolicNumber):
                    self.value_of(x)
            return value
        return _CLASSES[value.__class__](self, self._step(function, operands, value), value)

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
            number, factor = [self.steps[i] for i in product.operands]
            if factor.function is None and product.operands[1] >= self.inputs and factor.value == other:
                index = product.operands[0]
                return 0 if function is operator.mod else SymbolicInteger(self, index, number.value)
        return None

    def outcome(self, function: Callable[..., bool], *operands: Any) -> bool:
        """The outcome of a test, which is guarded."""
        value = function(*map(plain, operands))
        self._fix(self._step(function, operands, value))
        return value

    def value_of(self, number: "SymbolicNumber") -> Any:
        """The value of a number, which is guarded."""
        self._fix(number._index)
        return number._value

    def _fix(self, index: int) -> None:
        if not self.are_settled:
            self.fixed.setdefault(index, here())

    def array(self, number: "SymbolicNumber", dtype: Any) -> Any:
        """A number as a traced value of one element."""
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
        return NumberProgram(tuple(self.steps), self.inputs, dict(self.fixed))


@frozen(eq=False)
class NumberProgram:
    """The arithmetic of a recorded call, done again for other inputs.  The attributes are those of the recording."""

    steps: tuple[Step, ...] = ()
    inputs: int = 0
    fixed: dict[int, RawSource | None] = field(factory=dict)

    def signature(self) -> Any:
        """Equal for two recordings of the same call."""
        own = self.steps[self.inputs :]
        steps = [(x.function, x.operands, None if x.function else repr(x.value)) for x in own]
        return steps, [(i, repr(self.steps[i].value)) for i in self.fixed]

    def outcomes(self) -> "NumberProgram":
        """The same, of whose guards only the outcomes of tests remain."""
        return evolve(self, fixed={i: at for i, at in self.fixed.items() if self.steps[i].value.__class__ is bool})

    def determined(self, inputs: Sequence[Any]) -> set[int]:
        """The inputs that have few values besides the recorded one, and not these, as in ``str(n)``."""
        values = self._values(inputs)
        pending = [i for i in self.fixed if self.steps[i].value.__class__ is not bool]
        pending = [i for i in pending if values is None or not same_number(values[i], self.steps[i].value)]
        found = set[int]()
        while pending:
            index = pending.pop()
            if index < self.inputs:
                found.add(index)
            elif self.steps[index].function in _ONE_TO_ONE or isinstance(self.steps[index].function, type):
                pending += self.steps[index].operands
        return found

    def conditions(self, names: Sequence[str]) -> list[tuple[str, RawSource | None]]:
        """What is guarded, as text, with the line that needs it."""
        texts = [(self.steps[i].value, text_of(self.steps, self.inputs, i, names), at) for i, at in self.fixed.items()]
        return [
            (text if value is True else f"not {text}" if value is False else f"{text} == {value!r}", at)
            for value, text, at in texts
        ]

    def at(self, inputs: Sequence[Any]) -> list[Any] | None:
        """All numbers for other inputs, or None if a guarded one, or the class of any, is another than it was."""
        values = self._values(inputs)
        if values is None or not all(same_number(values[i], self.steps[i].value) for i in self.fixed):
            return None
        return values

    def _values(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The values of all steps, or None if the class of any is another than it was."""
        values = list(inputs)
        if any(x.__class__ is not step.value.__class__ for x, step in zip(values, self.steps, strict=False)):
            return None
        try:
            for step in self.steps[self.inputs :]:
                if step.function is None:
                    values.append(step.value)
                    continue
                value = step.function(*[values[i] for i in step.operands])
                if value.__class__ is not step.value.__class__:
                    return None
                values.append(value)
        except (ArithmeticError, ValueError):
            return None
        return values


def text_of(steps: Sequence[Step], inputs: int, index: int, names: Sequence[str]) -> str:
    """A number as an expression of the inputs, which have names."""
    step = steps[index]
    if index < inputs:
        return names[index]
    if step.function is None:
        return repr(step.value)
    operands = [text_of(steps, inputs, i, names) for i in step.operands]
    sign = _SIGNS.get(step.function)
    if sign is not None:
        return f"({operands[0]} {sign} {operands[1]})"
    if isinstance(step.function, type) and issubclass(step.function, np.generic):
        return operands[0]
    return f"{step.function.__name__}({', '.join(operands)})"


def same_number(one: Any, other: Any) -> bool:
    """Whether two numbers of one class are the same: zeros differ in their signs, and NaN is itself."""
    return (one == other and (bool(one) or repr(one) == repr(other))) or (one != one and other != other)


class SymbolicNumber:
    """A Python number that stands for all values that a program is called with (NOTE [Symbolic numbers])."""

    __slots__ = ("_numbers", "_index", "_value")

    #: NumPy's numbers leave arithmetic with one to it
    __array_priority__ = 1000

    def __init__(self, numbers: SymbolicNumbers, index: int, value: Any):
        self._numbers: SymbolicNumbers = numbers
        self._index: int = index
        self._value: Any = value

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._value)

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
        return type(self._value), (self._concrete(),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._concrete(), dtype)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._value, name):
            raise AttributeError(f"{type(self._value).__name__!r} object has no attribute {name!r}")
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

    def __index__(self) -> int:
        return self._concrete()


class SymbolicNumPyInteger(SymbolicInteger):
    """A symbolic ``numpy.int64``, which operations take as the ``int`` of its ``item()``."""

    __slots__ = ()

    def item(self) -> Any:
        return self._numbers.apply(int, self)


class SymbolicFloat(SymbolicNumber):
    """A symbolic ``float``."""

    __slots__ = ()


class SymbolicNumPyFloat(SymbolicFloat):
    """A symbolic ``numpy.float64``, which operations take as the ``float`` of its ``item()``."""

    __slots__ = ()

    def item(self) -> Any:
        return self._numbers.apply(float, self)


def plain(x: Any) -> Any:
    """The present value of a number, which a program must not depend on."""
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
_SIGNS: dict[Any, str] = {}
_ONE_TO_ONE = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pos)


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


def _truth(function: Callable[..., Any]) -> Callable[..., bool]:
    """A comparison, whose outcome is Python's also if the numbers are NumPy's."""
    return lambda one, other: bool(function(one, other))


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: self._numbers.apply(function, self)


for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    _function = getattr(operator, f"__{_name}__")
    _SIGNS[_function] = _sign
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(_function, False))
    setattr(SymbolicNumber, f"__r{_name}__", _arithmetic(_function, True))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    _function = _truth(getattr(operator, _name))
    _SIGNS[_function] = _sign
    setattr(SymbolicNumber, f"__{_name}__", _comparison(_function))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(SymbolicNumber, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("floor", "ceil", "trunc"):
    setattr(SymbolicNumber, f"__{_name}__", _unary(getattr(math, _name)))
