"""Signatures: what the parameters of a function of the table are, and how a call's arguments are bound to them.

NOTE [Former orders]
In PyTorch's first releases the numbers of some functions stood between the tensors: ``torch.addmm(beta, input, alpha,
mat1, mat2)``, ``x.add_(alpha, other)``.  PyTorch still takes them so, and warns.  A row of the table lists such orders.
An order is meant if it is given whole, with a keyword-only parameter in its place.
"""

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.torch_function.protocol import plain
from fgrad.mutable.context.warning import first_time, warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.type_names import type_name

if TYPE_CHECKING:
    # inside the functions that they annotate they are arrays of any kind
    Array = Operand = Fixed = Number = Integer = Arrays = Ints = Dims = Any
else:

    class Array:
        """Annotates a tensor operand."""

    class Operand:
        """Annotates an operand that is a tensor or a Python number."""

    class Fixed:
        """Annotates a tensor operand that has no derivative."""

    class Number:
        """Annotates a Python number that is an input of the program, without a derivative."""

    class Integer:
        """Annotates a Python integer that is an input of the program."""

    class Arrays:
        """Annotates a sequence of tensors."""

    class Ints:
        """Annotates a static tuple of integers that may be given spread out."""

    class Dims:
        """Annotates axes: one, several, or None for all."""


_OPERANDS = (Array, Operand, Fixed, Number, Integer, Arrays)
_CHECKED, _OPTIONAL_INT = (*_OPERANDS, Ints, Dims, int, bool), int | None
#: NumPy's names for parameters, which PyTorch takes too
_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
NUMBERS = (bool, int, float, complex)

#: classes whose values a signature does not take, or refuse, all alike
_UNLIKE: frozenset[type] = frozenset((Size, slice, np.ndarray))
#: how many kinds of calls each function knows
CALLS_KEPT = 1 << 10


@frozen(eq=False)
class Order:
    """Where the arguments of a call go, which follows from their classes: nothing is converted.

    Attributes:
      rest: the defaults that stand behind the arguments.
      operands, params, every: from arguments and these defaults to the operands, the static parameters, and all in the
        order of the parameters.
    """

    rest: tuple[Any, ...]
    operands: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    params: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    every: Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _taker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes elements out of a tuple: a function in C."""
    first = places[0] if places else 0
    if list(places) == list(range(first, first + len(places))):
        return operator.itemgetter(slice(first, first + len(places)))
    return operator.itemgetter(*places)


_EMPTY = inspect.Parameter.empty


def behind_decorators(function: Callable[..., Any]) -> Any:
    """The function that decorators were put around: its code object says what ``inspect.signature`` takes long to."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function


def check_unexpected(function: str, named: Mapping[str, Any]) -> None:
    """Raise PyTorch's error for named arguments that a function does not have."""
    if named:
        raise TypeError(f"{function}() got an unexpected keyword argument '{next(iter(named))}'")


class Signature:
    """Binds a call's arguments to operands and static parameters."""

    __slots__ = (
        "name",
        "names",
        "kinds",
        "defaults",
        "keyword_only",
        "operands",
        "statics",
        "plain",
        "first",
        "checked",
        "former",
        "orders",
    )

    def __init__(self, name: str, function: Callable[..., Any], first: int = 1, former: Sequence[str] = ()):
        self.name: str = name
        #: how errors number the first argument: the tensor whose method is called does not count, in ``of_method``
        self.first: int = first
        function = behind_decorators(function)
        code, annotations, by_name = function.__code__, function.__annotations__, function.__kwdefaults__ or {}
        positional, by_place = code.co_argcount, function.__defaults__ or ()
        self.names: list[str] = [*code.co_varnames[: positional + code.co_kwonlyargcount]]
        self.kinds: list[Any] = [_kind(annotations.get(name)) for name in self.names]
        self.defaults: list[Any] = [_EMPTY] * (positional - len(by_place)) + [*by_place]
        self.defaults += [by_name.get(name, _EMPTY) for name in self.names[positional:]]
        self.keyword_only: list[bool] = [False] * positional + [True] * code.co_kwonlyargcount
        self.operands: list[int] = [i for i, kind in enumerate(self.kinds) if kind in _OPERANDS]
        self.statics: list[int] = [i for i, kind in enumerate(self.kinds) if kind not in _OPERANDS]
        #: how many arguments a call without keywords may have for its arguments to be the first values as they are
        required = max([i + 1 for i, default in enumerate(self.defaults) if default is _EMPTY], default=0)
        self.plain: range = range(required, positional + 1) if Ints not in self.kinds else range(0)
        #: whether there is something to check of the arguments
        named = not code.co_posonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self.checked: bool = named and any(kind is not None for kind in self.kinds)
        #: see NOTE [Former orders]
        self.former: list[list[str]] = [order.split(", ") for order in former]
        #: by the classes of the arguments, and the names of those that are given by name: what ``learn`` has found
        self.orders: dict[tuple[Any, ...], Order] = {}

    def of_method(self, name: str | None = None) -> "Signature":
        """The same of the method, or of one of another name."""
        method = object.__new__(Signature)
        for slot in Signature.__slots__:
            setattr(method, slot, getattr(self, slot))
        method.name = name or self.name
        method.first = 0
        own = self.names[:1]
        method.former = [own + [each for each in order if each not in own] for order in self.former]
        return method

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, defaults filled in."""
        if not kwargs and len(args) in self.plain:
            return [*args, *self.defaults[len(args) :]]
        for order in self.former:
            if self._is_in(order, args, kwargs):
                self._warn_of(order)
                args, kwargs = (), {**dict(zip(order, args, strict=False)), **kwargs}
                break
        names = self.names
        values: list[Any] = [_EMPTY] * len(names)
        for i, value in enumerate(args):
            if i < len(names) and self.kinds[i] is Ints and _spread(value):
                values[i] = tuple(args[i:])
                break
            if i >= len(names) or self.keyword_only[i]:
                most = sum(not k for k in self.keyword_only) - 1 + self.first
                given = len(args) - 1 + self.first
                raise TypeError(
                    f"{self.name}() takes {most} positional argument{'s' * (most != 1)} but {given} "
                    f"{'was' if given == 1 else 'were'} given"
                )
            values[i] = value
        for key, value in kwargs.items():
            if key not in names:
                key = "input" if key == "self" else _OTHER_NAMES.get(key, key)
            if key not in names:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            i = names.index(key)
            if values[i] is not _EMPTY:
                raise TypeError(f"{self.name}() got multiple values for argument '{key}'")
            values[i] = value
        for i, value in enumerate(values):
            if value is _EMPTY:
                if self.defaults[i] is _EMPTY:
                    missing = [n for n, v, d in zip(names, values, self.defaults, strict=True) if v is d]
                    raise TypeError(
                        f"{self.name}() missing {len(missing)} required positional arguments: "
                        + ", ".join(f'"{n}"' for n in missing)
                    )
                values[i] = self.defaults[i]
        return values

    def learn(
        self, args: Sequence[Any], kwargs: dict[str, Any], operands: Sequence[Any], params: Sequence[Any]
    ) -> None:
        """Note how a call was bound, if all calls with arguments of these classes are.

        The operands and the static parameters are what ``split`` has made of it.
        """
        values, given = (*args, *kwargs.values()), [*self.names[: len(args)], *kwargs]
        positional = sum(not only for only in self.keyword_only)
        if len(self.orders) >= CALLS_KEPT or len(args) > positional or (kwargs and self.former):
            return
        if Arrays in self.kinds or Ints in self.kinds:
            return
        if not kwargs.keys() <= set(self.names):
            return
        found = dict(zip([*self.operands, *self.statics], [*operands, *params], strict=True))
        places = [self.names.index(name) for name in given]
        if not all(found[i] is value and self._is_alike(i, value) for i, value in zip(places, values, strict=True)):
            return
        rest = [i for i in range(len(self.names)) if i not in places]
        every = [[*places, *rest].index(i) for i in range(len(self.names))]
        takers = [_taker([every[i] for i in places]) for places in (self.operands, self.statics, range(len(every)))]
        self.orders[(*map(type, values), *kwargs)] = Order(tuple([found[i] for i in rest]), *takers)

    def _is_alike(self, i: int, value: Any) -> bool:
        """Whether all values of the class of one are taken as arguments, if this one is."""
        kind = value.__class__
        if kind is tuple or kind is list:
            return self.kinds[i] is None and len(value) > 0  # of an unchecked parameter, one that is passed on as it is
        return kind in plain and kind not in _UNLIKE

    def _is_in(self, order: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether arguments are in a former order."""
        if kwargs.keys() != set(order[len(args) :]) or len(args) > len(order):
            return False
        placed = [self.names.index(name) for name in order[: len(args)]]
        return any(self.keyword_only[i] for i in placed) and all(map(self._fits, placed, args))

    def _fits(self, i: int, value: Any) -> bool:
        if isinstance(value, Tensor):
            return self.kinds[i] is not Number or not (value._type.shape or value.requires_grad)
        return self.kinds[i] is Number and isinstance(value, (*NUMBERS, np.generic))

    def _warn_of(self, order: Sequence[str]) -> None:
        if not first_time("a former order of arguments"):
            return
        of_function, start = bool(self.first), 1 - self.first
        typed = {
            name: f"{'Number' if kind is Number else 'Tensor'} {name}"
            for name, kind in zip(self.names, self.kinds, strict=True)
        }
        now = [typed[name] for name, only in zip(self.names, self.keyword_only, strict=True) if not only]
        only = [f"{typed[name]} = 1" for name, only in zip(self.names, self.keyword_only, strict=True) if only]
        out = ["Tensor out = None"] if of_function else []
        before = ", ".join([*[typed[name] for name in order[start:]], *(["*", *out] if out else [])])
        after = ", ".join([*now[start:], "*", *only, *out])
        warn(
            f"This overload of {self.name} is deprecated:\n\t{self.name}({before})\nConsider using one of the following"
            f" signatures instead:\n\t{self.name}({after})",
            UserWarning,
        )

    def split(self, values: Sequence[Any], given: int | None = None) -> tuple[list[Any], tuple[Any, ...]]:
        """The operands, sequences of tensors spread out, and the static parameters.

        Of the arguments the first so many were ``given`` by their places, all where that is None.
        """
        kinds = self.kinds
        operands = self.spread(values, given)
        return operands, tuple(
            [x if x.__class__ is kinds[i] else self.static(i, x, given) for i in self.statics for x in (values[i],)]
        )

    def spread(self, values: Sequence[Any], given: int | None = None) -> list[Any]:
        """The operands, sequences of tensors spread out."""
        operands: list[Any] = []
        for i in self.operands:
            value = values[i]
            kind = self.kinds[i]
            if kind is Arrays:
                if isinstance(value, Tensor):
                    raise self.refusal(i, "tuple of Tensors", value, given)
                for x in value:
                    self.check(i, kind, x, given)
                operands += value
            elif kind is Integer:
                operands.append(self.integer(i, value, given))
            else:
                if not isinstance(value, Tensor) and value is not None:
                    value = self.check(i, kind, value, given)
                elif kind is Number and value is not None:
                    value = value.item()
                elif value is None and self.defaults[i] is not None:
                    self.check(i, kind, value, given)
                operands.append(value)
        return operands

    def check(self, i: int, kind: Any, value: Any, given: int | None = None) -> Any:
        """An argument as an operand of its kind."""
        if isinstance(value, Tensor):
            return value
        if kind in (Operand, Number):
            if value.__class__ in NUMBERS:
                return value
            if isinstance(value, np.generic):
                return value.item()
            if isinstance(value, NUMBERS):
                kind_of: Any = next(t for t in NUMBERS if isinstance(value, t))
                return kind_of(value)
        wanted = "Number" if kind is Number else "tuple of Tensors" if kind is Arrays else "Tensor"
        raise self.refusal(i, wanted, value, given)

    def static(self, i: int, value: Any, given: int | None = None) -> Any:
        """A static parameter as something hashable, of the type that is annotated."""
        kind = self.kinds[i]
        if value is not self.defaults[i]:
            if kind is bool and value.__class__ is not bool:
                raise self.refusal(i, "bool", value, given)
            if kind is int:
                return self.integer(i, value, given)
            if kind in (Ints, Dims) and value is not None:
                if isinstance(value, tuple | list):
                    return checked_ints(value, self.name, self.names[i], i + self.first)
                if not _is_index(value):
                    raise self.refusal(i, "tuple of ints", value, given)
            if isinstance(value, np.ndarray):
                raise self.refusal(i, "Number", value, given)
        return _static(value, kind)

    def integer(self, i: int, value: Any, given: int | None) -> int:
        """An argument that must be an integer."""
        if value.__class__ is int:
            return value
        if not _is_index(value):
            raise self.refusal(i, "int", value, given)
        return operator.index(value)

    def refusal(self, i: int, wanted: str, value: Any, given: int | None) -> TypeError:
        """PyTorch's error for an argument of a wrong type, with its place if it was given by that."""
        place = f" (position {i + self.first})" if given is None or i < given else ""
        return TypeError(f"{self.name}(): argument '{self.names[i]}'{place} must be {wanted}, not {type_name(value)}")


def _kind(annotation: Any) -> Any:
    """What is checked of an argument; None if nothing is."""
    if annotation == _OPTIONAL_INT:
        return int
    return annotation if annotation in _CHECKED else None


def _is_index(value: Any) -> bool:
    """Whether PyTorch takes a value for an integer."""
    if isinstance(value, Tensor):
        return not value._type.shape and not value._type.inexact and value._type.dtype is not bool_
    return not isinstance(value, bool | np.bool_ | np.ndarray) and _has_index(value)


def _has_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_element(value: Any, first: bool) -> bool:
    """Whether PyTorch takes a value for one of several integers; it looks less closely at those behind the first."""
    if isinstance(value, Tensor):
        return value._type.numel == 1 and not value._type.inexact
    if isinstance(value, bool):
        return not first
    return not isinstance(value, np.bool_) and _has_index(value)


def checked_ints(values: Sequence[Any], function: str, name: str, position: int) -> tuple[int, ...]:
    """Values as integers, or PyTorch's error for those that are none.

    Arguments:
      function: how errors name the function.
      name: the name of its parameter.
      position: the parameter's place, the first as 1.
    """
    if all([value.__class__ is int for value in values]):  # noqa: C419  (a list is faster here)
        return tuple(values)
    for i, value in enumerate(values):
        if _is_element(value, not i):
            continue
        if i:
            raise TypeError(
                f"{function}(): argument '{name}' failed to unpack the object at pos {i + 1} with error \"type must be "
                f'tuple of ints,but got {type_name(value)}"'
            )
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be tuple of ints, but found element of type "
            f"{type_name(value)} at pos 0"
        )
    return tuple(map(int, values))


def spread_ints(given: Sequence[Any], function: str, name: str, position: int) -> tuple[int, ...]:
    """Integers that are given one by one or as a sequence; see ``checked_ints``."""
    if set(map(type, given)) == {int}:
        return tuple(given)
    if len(given) == 1:
        if isinstance(given[0], tuple | list):
            return checked_ints(given[0], function, name, position)
        if not _is_element(given[0], True):
            wrong = type_name(given[0])
            raise TypeError(f"{function}(): argument '{name}' (position {position}) must be tuple of ints, not {wrong}")
    elif given and not _is_element(given[0], True):
        raise TypeError(f"{function}() takes 1 positional argument but {len(given)} were given")
    return checked_ints(given, function, name, position)


def _spread(value: Any) -> bool:
    return isinstance(value, int | np.integer) or (isinstance(value, Tensor) and not value._type.shape)


def _static(value: Any, kind: Any) -> Any:
    """A static parameter as something hashable."""
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple([_static(x, None) for x in value])
    if isinstance(value, np.generic):
        value = value.item()
    return (value,) if kind is Ints and isinstance(value, int) else value
