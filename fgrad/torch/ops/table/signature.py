"""Signatures: the parameters of a function of the table, and how a call's arguments are bound to them.

Longer than most files: a signature is one object, with a way of binding for each kind of call.

NOTE [Former orders]
In early releases of PyTorch some functions took numbers between the tensors: ``torch.addmm(beta, input, alpha, mat1,
mat2)``, ``x.add_(alpha, other)``.  PyTorch still accepts these orders, with a warning.  A row of the table lists them.
A call uses one if it passes all its parameters, at least one by position that is now keyword-only.
"""

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.torch_function.protocol import plain
from fgrad.mutable.context.warning import first_time, warn
from fgrad.mutable.operation.operands import counts_as_number, getter
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_
from fgrad.mutable.types.size import Size
from fgrad.mutable.types.symbolic import concrete
from fgrad.mutable.types.type_names import type_name

if TYPE_CHECKING:
    # inside the annotated functions they are arrays of any kind
    Array = Operand = Fixed = Number = Float = Integer = Arrays = Ints = Dims = Any
    SymInt = int
else:

    class Array:
        """Annotates a tensor operand."""

    class Operand:
        """Annotates an operand that is a tensor or a Python number."""

    class Fixed:
        """Annotates a tensor operand that has no derivative."""

    class Number:
        """Annotates a Python number that is an input of the program, without a derivative."""

    class Float:
        """Annotates a Python number that is an input of the program as a float, without a derivative."""

    class Integer:
        """Annotates an integer that is an input of the program, and is taken as a ``SymInt`` is."""

    class SymInt:
        """Annotates a static integer that may be symbolic in PyTorch: one in a tensor or NumPy array is taken, too."""

    class Arrays:
        """Annotates a sequence of tensors."""

    class Ints:
        """Annotates a static tuple of integers; a method that has no other argument takes them one by one, too."""

    class Dims:
        """Annotates axes: one, several, or None for all."""


_OPERANDS = (Array, Operand, Fixed, Number, Float, Integer, Arrays)
#: those without a derivative
UNDERIVED = (Fixed, Number, Float, Integer)
_CHECKED = (*_OPERANDS, Ints, Dims, SymInt, int, bool, float)
_OPTIONAL: dict[Any, type] = {int | None: int, float | None: float, SymInt | None: SymInt}
#: NumPy's names for parameters, which PyTorch accepts, too, and those that are different in PyTorch's overloads
_OTHER_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    **dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "indices_or_sections"),
    "element": "elements",
    "test_element": "test_elements",
}
NUMBERS = (bool, int, float, complex)

#: classes of which a signature accepts some values but not others
_MIXED: frozenset[type] = frozenset((Size, slice, np.ndarray))
#: the most bindings that a signature remembers: by the classes of arguments, and by integers
MAX_BINDINGS, MAX_REMEMBERED = 1 << 10, 1 << 12
INTEGER, _TUPLES = frozenset((int,)), frozenset((tuple, Size))


@frozen(eq=False)
class Binding:
    """How a call is bound, if its arguments' classes alone decide that and nothing is converted.

    Attributes:
      defaults: the defaults of the omitted parameters, appended to the arguments.
      operands, params, values: from arguments and defaults to the operands, to the static parameters, and to all values
        in the order of the parameters.
      whole: whether the arguments are the operands, and there is nothing else.
    """

    defaults: tuple[Any, ...]
    operands: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    params: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    values: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    whole: bool


_EMPTY = inspect.Parameter.empty


def behind_decorators(function: Callable[..., Any]) -> Any:
    """The innermost wrapped function, whose code object is much faster to read than ``inspect.signature``."""
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
        "positional",
        "operands",
        "statics",
        "complete",
        "first",
        "only",
        "checked",
        "former",
        "bindings",
        "by_integers",
    )

    def __init__(self, name: str, function: Callable[..., Any], first: int = 1, former: Sequence[str] = ()):
        self.name: str = name
        #: the position of the first argument in errors: 0 for methods, whose ``self`` does not count
        self.first: int = first
        #: the position of integers that may be given one by one: those that are a method's only argument
        self.only: int | None = None
        function = behind_decorators(function)
        code, annotations, keyword_defaults = function.__code__, function.__annotations__, function.__kwdefaults__ or {}
        defaults = function.__defaults__ or ()
        #: how many parameters may be passed by position; the rest are keyword-only
        self.positional: int = code.co_argcount
        self.names: list[str] = [*code.co_varnames[: self.positional + code.co_kwonlyargcount]]
        self.kinds: list[Any] = [_kind(annotations.get(name)) for name in self.names]
        self.defaults: list[Any] = [_EMPTY] * (self.positional - len(defaults)) + [*defaults]
        self.defaults += [keyword_defaults.get(name, _EMPTY) for name in self.names[self.positional :]]
        self.operands: list[int] = [i for i, kind in enumerate(self.kinds) if kind in _OPERANDS]
        self.statics: list[int] = [i for i, kind in enumerate(self.kinds) if kind not in _OPERANDS]
        #: the numbers of positional arguments that need only defaults appended
        required = max([i + 1 for i, default in enumerate(self.defaults) if default is _EMPTY], default=0)
        self.complete: range = range(required, self.positional + 1) if Ints not in self.kinds else range(0)
        #: whether any argument has to be checked
        named = not code.co_posonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self.checked: bool = named and any(kind is not None for kind in self.kinds)
        #: see NOTE [Former orders]
        self.former: list[list[str]] = [order.split(", ") for order in former]
        #: the bindings that ``learn`` has stored, by the classes of the arguments and the names of keyword arguments
        self.bindings: dict[tuple[Any, ...], Binding] = {}
        #: the operands but the first, and the parameters, of calls with a tensor, integers and tuples of these
        self.by_integers: dict[tuple[Any, ...], tuple[list[Any], tuple[Any, ...]]] = {}

    def only_integers(self) -> int | None:
        """The position of integers that are the only argument but the tensor."""
        return 1 if self.positional == 2 and self.kinds[1] in (Ints, Dims) else None

    def of_method(self, name: str | None = None) -> "Signature":
        """The signature of the method, optionally under another name."""
        method = object.__new__(Signature)
        for slot in Signature.__slots__:
            setattr(method, slot, getattr(self, slot))
        method.name = name or self.name
        method.first = 0
        method.by_integers = {}
        method.only = method.only_integers()
        this = self.names[:1]
        method.former = [this + [parameter for parameter in order if parameter not in this] for order in self.former]
        return method

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, defaults filled in."""
        if not self.first and args and not isinstance(args[0], Tensor):
            raise TypeError(
                f"descriptor '{self.name}' for 'torch._C.TensorBase' objects doesn't apply to a "
                f"'{type(args[0]).__name__}' object"
            )
        if not kwargs and len(args) in self.complete:
            return [*args, *self.defaults[len(args) :]]
        for order in self.former:
            if self._is_former(order, args, kwargs):
                self._warn_of(order)
                args, kwargs = (), {**dict(zip(order, args, strict=False)), **kwargs}
                break
        names = self.names
        values: list[Any] = [_EMPTY] * len(names)
        for i, value in enumerate(args):
            if self.only == i and _spread(value) and (self.kinds[i] is Ints or len(args) > i + 1):
                values[i] = tuple(args[i:])
                break
            if i >= self.positional:
                most = self.positional - 1 + self.first
                count = len(args) - 1 + self.first
                raise TypeError(
                    f"{self.name}() takes {most} positional argument{'s' * (most != 1)} but {count} "
                    f"{'was' if count == 1 else 'were'} given"
                )
            values[i] = value
        for key, value in kwargs.items():
            named = key if key in names else "input" if key == "self" else _OTHER_NAMES.get(key, key)
            if named not in names:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            i = names.index(named)
            if values[i] is not _EMPTY:
                raise TypeError(f"{self.name}() got multiple values for argument '{named}'")
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
        """Remember how a call was bound, if every call with arguments of these classes is bound alike.

        ``operands`` and ``params`` are what ``split`` returned for it.
        """
        values, names = (*args, *kwargs.values()), [*self.names[: len(args)], *kwargs]
        if len(self.bindings) >= MAX_BINDINGS or len(args) > self.positional or (kwargs and self.former):
            return
        if Arrays in self.kinds or Ints in self.kinds:
            return
        if not kwargs.keys() <= set(self.names):
            return
        bound = dict(zip([*self.operands, *self.statics], [*operands, *params], strict=True))
        passed = [self.names.index(name) for name in names]
        if not all(bound[i] is value and self._is_typical(i, value) for i, value in zip(passed, values, strict=True)):
            return
        omitted = [i for i in range(len(self.names)) if i not in passed]
        source = [[*passed, *omitted].index(i) for i in range(len(self.names))]
        parts = self.operands, self.statics, range(len(source))
        operands_of, params_of, values_of = [getter([source[i] for i in part]) for part in parts]
        defaults = tuple([bound[i] for i in omitted])
        whole = len(passed) == len(self.names) and source == self.operands
        binding = Binding(defaults, operands_of, params_of, values_of, whole)
        self.bindings[(*map(type, values), *kwargs)] = binding

    def _is_typical(self, i: int, value: Any) -> bool:
        """Whether a parameter that accepts this value accepts all values of its class."""
        kind = value.__class__
        if kind is tuple or kind is list:
            return self.kinds[i] is None and len(value) > 0  # an unchecked parameter is passed on unchanged
        return kind in plain and kind not in _MIXED

    def _is_former(self, order: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the arguments are in a former order."""
        if kwargs.keys() != set(order[len(args) :]) or len(args) > len(order):
            return False
        parameters = [self.names.index(name) for name in order[: len(args)]]
        return any(i >= self.positional for i in parameters) and all(map(self._fits, parameters, args))

    def _fits(self, i: int, value: Any) -> bool:
        if isinstance(value, Tensor):
            return self.kinds[i] is not Number or not (value._type.shape or value.requires_grad)
        return self.kinds[i] in (Number, Operand) and isinstance(value, (*NUMBERS, np.generic))

    def _warn_of(self, order: Sequence[str]) -> None:
        if not first_time("a former order of arguments"):
            return
        of_function, start = bool(self.first), 1 - self.first
        declared = {
            name: f"{'Number' if kind is Number else 'Tensor'} {name}"
            for name, kind in zip(self.names, self.kinds, strict=True)
        }
        positional = [declared[name] for name in self.names[start : self.positional]]
        keywords = [f"{declared[name]} = 1" for name in self.names[self.positional :]]
        out = ["Tensor out = None"] if of_function else []
        before = ", ".join([*[declared[name] for name in order[start:]], *(["*", *out] if out else [])])
        after = ", ".join([*positional, "*", *keywords, *out])
        warn(
            f"This overload of {self.name} is deprecated:\n\t{self.name}({before})\nConsider using one of the following"
            f" signatures instead:\n\t{self.name}({after})",
            UserWarning,
        )

    def split(self, values: Sequence[Any], count: int | None = None) -> tuple[list[Any], tuple[Any, ...]]:
        """The operands, with sequences of tensors unpacked, and the static parameters.

        ``count`` is the number of positional arguments; None if all were.
        """
        kinds = self.kinds
        operands = self.spread(values, count)
        return operands, tuple(
            [
                x if type(x) is kinds[i] else concrete(self.static(i, x, count))
                for i in self.statics
                for x in (values[i],)
            ]
        )

    def remembered(
        self,
        args: tuple[Any, ...],
        split: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Sequence[Any], tuple[Any, ...]]],
    ) -> tuple[Sequence[Any], tuple[Any, ...]]:
        """What ``split`` returns for arguments, remembered if these are a tensor, integers and tuples of integers."""
        rest = args[1:]
        plainly = bool(args) and isinstance(args[0], Tensor) and _are_integers(rest)
        known = self.by_integers.get(rest) if plainly else None
        if known is not None:
            return [args[0], *known[0]], known[1]
        operands, params = split(args, {})
        if plainly and operands and operands[0] is args[0] and len(self.by_integers) < MAX_REMEMBERED:
            self.by_integers[rest] = [*operands[1:]], params
        return operands, params

    def split_known(self, args: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        """What ``split`` returns for arguments all of which are given by position."""
        binding = self.bindings.get(tuple(map(type, args)))
        if binding is not None:
            return (args, ()) if binding.whole else (binding.operands(args), binding.params(args))
        return self.remembered(args, self._learnt)

    def _learnt(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        operands, params = self.split(args)
        self.learn(args, kwargs, operands, params)
        return operands, params

    def spread(self, values: Sequence[Any], count: int | None = None) -> list[Any]:
        """The operands, with sequences of tensors unpacked."""
        operands: list[Any] = []
        for i in self.operands:
            value = values[i]
            kind = self.kinds[i]
            if kind is Arrays:
                if isinstance(value, Tensor):
                    raise self.refusal(i, "tuple of Tensors", value, count)
                for x in value:
                    self.check(i, kind, x, count)
                operands += value
            elif kind is Integer:
                operands.append(self.integer(i, value, count))
            elif kind is Float and value is not None:
                operands.append(self.real(i, value, count))
            else:
                if not isinstance(value, Tensor) and value is not None:
                    value = self.check(i, kind, value, count)
                elif kind is Number and value is not None:
                    value = self.number(i, value, count)
                elif value is None and self.defaults[i] is not None:
                    self.check(i, kind, value, count)
                operands.append(value)
        return operands

    def check(self, i: int, kind: Any, value: Any, count: int | None = None) -> Any:
        """An argument as an operand of its kind."""
        if isinstance(value, Tensor):
            return value
        if kind in (Operand, Number):
            if value.__class__ in NUMBERS:
                return value
            if isinstance(value, np.generic):
                return value.item()
            if isinstance(value, NUMBERS):
                number: Any = next(t for t in NUMBERS if isinstance(value, t))
                return number(value)
        expected = "Number" if kind is Number else "tuple of Tensors" if kind is Arrays else "Tensor"
        raise self.refusal(i, expected, value, count)

    def static(self, i: int, value: Any, count: int | None = None) -> Any:
        """A static parameter as a hashable value of the annotated type."""
        kind = self.kinds[i]
        if value is not self.defaults[i]:
            if kind is bool and value.__class__ is not bool:
                raise self.refusal(i, "bool", value, count)
            if kind is int or kind is SymInt:
                return self.integer(i, value, count)
            if kind in (Ints, Dims) and value is not None:
                if isinstance(value, tuple | list):
                    return checked_ints(value, self.name, self.names[i], i + self.first)
                if not _is_element(value, True) or kind is Ints or isinstance(value, np.ndarray):
                    raise self.refusal(i, "tuple of ints", value, count)
                if isinstance(value, Tensor):
                    return int(value)  # type: ignore[call-overload]
            if isinstance(value, np.ndarray):
                raise self.refusal(i, "Number", value, count)
        return self.number(i, value, count) if isinstance(value, Tensor) else _static(value, kind)

    def number(self, i: int, value: Tensor, count: int | None) -> Any:
        """The number in a tensor that is given for one."""
        if not counts_as_number(value):
            raise self.refusal(i, "float" if self.kinds[i] in (Float, float) else "Number", value, count)
        return value.item()  # type: ignore[attr-defined]

    def integer(self, i: int, value: Any, count: int | None) -> int:
        """An argument that must be an integer."""
        if value.__class__ is int:
            return value
        if not is_index(value, self.kinds[i] is not int):
            raise self.refusal(i, "int", value, count)
        return operator.index(value)

    def real(self, i: int, value: Any, count: int | None) -> float:
        """An argument that PyTorch takes as a float."""
        if value.__class__ is float:
            return value
        if isinstance(value, Tensor):
            value = self.number(i, value, count)
        if not isinstance(value, bool | int | float | np.integer | np.floating):
            raise self.refusal(i, "float", value, count)
        return float(value)

    def refusal(self, i: int, expected: str, value: Any, count: int | None) -> TypeError:
        """PyTorch's error for an argument of the wrong type, with its position if it was given by position."""
        position = f" (position {i + self.first})" if count is None or i < count else ""
        return TypeError(
            f"{self.name}(): argument '{self.names[i]}'{position} must be {expected}, not {type_name(value)}"
        )


def _kind(annotation: Any) -> Any:
    """The annotation by which an argument is checked; None if it is not."""
    annotation = _OPTIONAL.get(annotation, annotation)
    return annotation if annotation in _CHECKED else None


def _are_integers(values: Sequence[Any]) -> bool:
    """Whether all are integers or tuples of integers, of which equal ones are alike: True is none."""
    return INTEGER.issuperset(map(type, values)) or all(
        type(x) is int or (x.__class__ in _TUPLES and INTEGER.issuperset(map(type, x))) for x in values
    )


def is_index(value: Any, symbolic: bool) -> bool:
    """Whether PyTorch accepts a value as an integer, which may be symbolic or not."""
    if isinstance(value, Tensor):
        shape, numel = value._type.shape, value._type.numel
        return (numel == 1 if symbolic else not shape) and not value._type.inexact and value._type.dtype is not bool_
    return not isinstance(value, bool | np.bool_ if symbolic else bool | np.bool_ | np.ndarray) and _has_index(value)


def _has_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_element(value: Any, first: bool) -> bool:
    """Whether PyTorch accepts a value as one of several integers; after the first, it accepts booleans too."""
    if isinstance(value, Tensor):
        return value._type.numel == 1 and not value._type.inexact
    if isinstance(value, bool):
        return not first
    return not isinstance(value, np.bool_) and _has_index(value)


def checked_int(value: Any, function: str, name: str, position: int, symbolic: bool = True) -> int:
    """A value as an integer, which may be symbolic in PyTorch or not, or PyTorch's error: see ``checked_ints``."""
    if not is_index(value, symbolic):
        raise TypeError(f"{function}(): argument '{name}' (position {position}) must be int, not {type_name(value)}")
    return operator.index(value)


def checked_ints(values: Sequence[Any], function: str, name: str, position: int) -> tuple[int, ...]:
    """Values as integers, or PyTorch's error for those that are not.

    Arguments:
      function: the function's name in errors.
      name: the parameter's name.
      position: the parameter's position, counted from 1.
    """
    if all([type(value) is int for value in values]):  # noqa: C419  (a list is faster here)
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


def spread_ints(values: Sequence[Any], function: str, name: str, position: int) -> tuple[int, ...]:
    """Integers given one by one or as a sequence; see ``checked_ints``."""
    if set(map(type, values)) == {int}:
        return tuple(values)
    if len(values) == 1:
        if isinstance(values[0], tuple | list):
            return checked_ints(values[0], function, name, position)
        if not _is_element(values[0], True):
            wrong = type_name(values[0])
            raise TypeError(f"{function}(): argument '{name}' (position {position}) must be tuple of ints, not {wrong}")
    elif values and not _is_element(values[0], True):
        raise TypeError(f"{function}() takes 1 positional argument but {len(values)} were given")
    return checked_ints(values, function, name, position)


def _spread(value: Any) -> bool:
    return isinstance(value, int | np.integer) or (isinstance(value, Tensor | np.ndarray) and _is_element(value, True))


def _static(value: Any, kind: Any) -> Any:
    """A static parameter as a hashable value."""
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple([_static(x, None) for x in value])
    if isinstance(value, np.generic):
        value = value.item()
    value = concrete(value)
    return (value,) if kind is Ints and isinstance(value, int) else value
