"""What a function reads from outside: variables, globals and attributes, as they are now.

NOTE [What a rule reads]
A custom rule is recorded once, and found again by the function that is the rule.  Without ``jit`` a rule
that reads a number from outside (an attribute of an object, an entry of a dict) must see it change, so what it reads is
part of its key.  It is found by the names in the code: exact for numbers, strings, arrays and what holds them in
variables, containers and attributes.  Functions that are called are looked into as well; results of calls are not.
"""

import functools
import itertools
import types
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from fgrad.graph.held import is_of_library
from fgrad.graph.op import Kept, freeze
from fgrad.jaxcore import is_unhashable

_PLAIN = (int, float, complex, str, bytes, bool, np.generic, np.dtype)
#: how many calls or containers deep one looks, and how long a container may be
_DEPTH, _LENGTH = 4, 64
#: a larger array is compared by identity
_BYTES = 1 << 16


def surroundings(function: Callable[..., Any]) -> tuple[Hashable, ...]:
    """The values that ``function`` reads from outside, as a key."""
    functions: dict[types.FunctionType, list[Any]] = {}
    _reach(function, functions, _DEPTH)
    names = {name: None for f in functions for name in _names(f.__code__)}
    values = [value for outside in functions.values() for value in outside]
    if not isinstance(function, types.FunctionType):
        values.append(function)
    return tuple([part for value in values for part in _of_value(value, names, _DEPTH)])


def of_transformation(value: Any) -> Hashable:
    """The key of an argument of a transformation of JAX's, which are often tuples of the user's static arguments."""
    if type(value) is tuple:
        return ("tuple", *map(of_transformation, value))
    return of_argument(value.val) if is_unhashable(value) else freeze(value)


def of_argument(value: Any) -> Hashable:
    """The key of a static argument: its value, and what its functions read from outside.

    An object's methods may read anything, so the key of an object is like no other.
    """
    if type(value) in (tuple, list):
        return (type(value), *map(of_argument, value))
    if type(value) is dict:
        return (dict, *[(of_argument(name), of_argument(x)) for name, x in value.items()])
    if isinstance(value, functools.partial):
        return (functools.partial, *map(of_argument, (value.func, value.args, value.keywords)))
    if value is None or isinstance(value, _PLAIN) or (isinstance(value, np.ndarray) and value.dtype != object):
        return freeze(value)
    if isinstance(value, jax.Array) or (callable(value) and is_of_library(getattr(value, "__module__", None))):
        return Kept(value)
    function = getattr(value, "__wrapped__", value)  # that of jax.jit
    if isinstance(function, types.FunctionType):
        return (Kept(value), surroundings(function))
    return Kept((value,))  # a new tuple, which tells the bytes that the object holds


def _reach(value: Any, functions: dict[types.FunctionType, list[Any]], depth: int) -> None:
    """Find the functions that a call may run, and what each has from outside."""
    if isinstance(value, types.MethodType):
        value = value.__func__
    elif isinstance(value, functools.partial):
        value = value.func
    if depth and isinstance(value, types.FunctionType) and value not in functions:
        functions[value] = outside = _outside(value)
        for held in outside:
            _reach(held, functions, depth - 1)


def _outside(function: types.FunctionType) -> list[Any]:
    """The values of a function's variables from outside: captured ones, globals, defaults."""
    values = [_contents(cell) for cell in function.__closure__ or ()]
    own = function.__globals__
    if not is_of_library(own.get("__name__")):
        values += [own[name] for name in _names(function.__code__) if name in own]
        values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return values


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _of_value(value: Any, names: Collection[str], depth: int) -> Iterator[Hashable]:
    """The key of a value from outside, read by code that mentions these names."""
    if isinstance(value, _PLAIN):
        yield freeze(value)
    elif isinstance(value, jax.Array):
        yield Kept(value)
    elif isinstance(value, np.ndarray):
        yield freeze(value) if value.dtype != object and value.nbytes <= _BYTES else Kept(value)
    elif isinstance(value, types.FunctionType) or not depth:
        return
    elif isinstance(value, types.ModuleType):
        if not is_of_library(value.__name__):
            yield from _of_attributes(value, (), names, 1)
    elif isinstance(value, list | tuple | dict):
        items = itertools.islice(value.items() if isinstance(value, dict) else value, _LENGTH)
        yield tuple([part for item in items for part in _of_value(item, names, depth - 1)])
    elif isinstance(value, types.MethodType):
        yield from _of_value(value.__self__, names, depth - 1)
    elif isinstance(value, functools.partial):
        yield from _of_value([*value.args, *value.keywords.values()], names, depth)
    else:
        kind = value if isinstance(value, type) else type(value)
        if not is_of_library(kind.__module__):
            yield from _of_attributes(value, kind.__mro__, names, depth - 1)


def _of_attributes(value: Any, classes: Sequence[type], names: Collection[str], depth: int) -> Iterator[Hashable]:
    """The key of an object's attributes with these names; no code of the object runs."""
    own = getattr(value, "__dict__", {})
    for name in names:
        owner = next((vars(c) for c in classes if name in vars(c)), None) if name not in own else own
        if owner is not None:
            found = owner[name]
            slot = isinstance(found, types.MemberDescriptorType)
            yield from _of_value(getattr(value, name, None) if slot else found, names, depth)


@functools.lru_cache(1 << 10)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in a function's code and in the functions that it defines."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for names in inner for name in names)]))
