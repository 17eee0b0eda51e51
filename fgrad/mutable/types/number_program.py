"""The arithmetic on Python numbers that a recorded call does, to be done again for other numbers.

See NOTE [Symbolic numbers] and NOTE [Late numbers].
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from fgrad.seam import RawSource


@frozen
class Late:
    """The value of a late number as long as it is unknown: any of the class of the sample."""

    sample: Any


@frozen(eq=False)
class Step:
    """One operation on numbers: a function of earlier ones, by their indices.

    Without a function it is a constant, or a late number.
    """

    function: Callable[..., Any] | None
    operands: tuple[int, ...]
    value: Any


@frozen(eq=False)
class NumberProgram:
    """The arithmetic of a recorded call, done again for other inputs.  The attributes are those of the recording.

    Attributes:
      late: the steps that are known only after the program has run (NOTE [Late numbers]).
    """

    steps: tuple[Step, ...] = ()
    inputs: int = 0
    fixed: dict[int, RawSource | None] = field(factory=dict)
    late: tuple[int, ...] = ()

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
        """All numbers for other inputs, or None if a guarded one, or the class of any, is another than it was.

        In the places of late numbers are their recorded values.
        """
        values = self._values(inputs)
        if values is None or not self._agree(values, self.fixed.keys() - self.late):
            return None
        return values

    def completed(self, values: Sequence[Any], results: Mapping[int, Any]) -> list[Any] | None:
        """The same with late numbers, from those that are elements of tensors; None as well if there is an error."""
        complete = [*values]
        for i in self.late:
            step = self.steps[i]
            if step.function is None:
                complete[i] = number_of(results[i], step.value)
                continue
            try:
                complete[i] = step.function(*[complete[k] for k in step.operands])
            except (ArithmeticError, ValueError):
                return None
            if isinstance(step.value, Late) and complete[i].__class__ is not step.value.sample.__class__:
                return None
        return complete if self._agree(complete, self.fixed.keys() & self.late) else None

    @property
    def always_completes(self) -> bool:
        """Whether ``completed`` never returns None."""
        return self.fixed.keys().isdisjoint(self.late) and all(map(self._is_total, self.late))

    def _is_total(self, index: int) -> bool:
        """Whether a step has a result of the recorded class for all numbers."""
        function, operands = self.steps[index].function, self.steps[index].operands
        if function is operator.truediv:  # that a divisor is not zero is guarded
            return operands[1] not in self.late
        return function is None or function in _TOTAL

    def _agree(self, values: Sequence[Any], indices: Collection[int]) -> bool:
        return all(same_number(values[i], self.steps[i].value) for i in indices)

    def _values(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The values of all steps, late ones as recorded, or None if the class of any is another than it was."""
        values = list(inputs)
        if any(x.__class__ is not step.value.__class__ for x, step in zip(values, self.steps, strict=False)):
            return None
        try:
            for i, step in enumerate(self.steps[self.inputs :], self.inputs):
                if step.function is None or i in self.late:
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
        return "item()" if isinstance(step.value, Late) else repr(step.value)
    operands = [text_of(steps, inputs, i, names) for i in step.operands]
    sign = _SIGNS.get(step.function)
    if sign is not None:
        return f"({operands[0]} {sign} {operands[1]})"
    if isinstance(step.function, type) and issubclass(step.function, np.generic):
        return operands[0]
    return f"{step.function.__name__}({', '.join(operands)})"


def same_number(one: Any, other: Any) -> bool:
    """Whether two numbers of one class are the same: zeros differ in their signs, and NaN is itself."""
    if isinstance(one, complex):
        return repr(one) == repr(other)
    return (one == other and (bool(one) or repr(one) == repr(other))) or (one != one and other != other)


def number_of(element: Any, value: Late) -> Any:
    """The element of an array as the number that a late one stands for."""
    return value.sample.__class__(np.asarray(element).reshape(())[()])


#: arithmetic on two numbers, with its signs
ARITHMETIC: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lshift: "<<", operator.rshift: ">>",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _truth(function: Callable[..., Any]) -> Callable[..., bool]:
    """A comparison, whose outcome is Python's also if the numbers are NumPy's."""
    return lambda one, other: bool(function(one, other))


#: comparisons of two numbers, by their names
OUTCOMES: dict[str, Callable[..., bool]] = {name: _truth(getattr(operator, name)) for name in _COMPARISONS}
_SIGNS: dict[Any, str] = ARITHMETIC | {OUTCOMES[name]: sign for name, sign in _COMPARISONS.items()}
_ONE_TO_ONE = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pos)
#: the functions that have a result of the same class for all numbers of some classes
_TOTAL = (operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs)
