"""What a pure function may not do to Python's own objects: their values would be constants of its graph.

The tensors that a step makes or replaces are state.  Numbers, texts, functions, the elements of sets, how many entries
a list or a dict has, and objects that are put in the place of others are not: a step that changes one does something
else at its next call, and its graph does not.
"""

from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, NoneType
from typing import Any

import jax
import numpy as np

from fgrad.mutable.capture.arrays import Bytes, Elements
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.scopes import MISSING, Items, as_dict, entries_of
from fgrad.mutable.capture.snapshot import Snapshot
from fgrad.mutable.context.torch_function.wrap import BuiltIn
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.types.number_program import same_number
from fgrad.torch.compiler.containers import take_apart
from fgrad.torch.compiler.effects import TRANSIENT

CHANGED = (
    "torch.pure: the function changes {path} from {before!r} to {after!r}, a Python value that would be constant in a "
    "pure function. Way out: do that outside of the function, or keep it in a tensor."
)
ELEMENTS = (
    "torch.pure: the function changes the elements of {path}, which would be constant in a pure function. Way out: do "
    "that outside of the function, or keep them in a tensor."
)
MADE = (
    "torch.pure: the function sets {path} to {after!r}, which was not there before, a Python value that would be "
    "constant in a pure function. Way out: do that outside of the function, or call it once before it is made pure."
)
GREW = (
    "torch.pure: the function {does} {path} at each call, and a pure function has one structure before and after. Ways "
    "out: return what it adds, or do that outside of the function."
)

REPLACED = (
    "torch.pure: the function puts another object at {path} at each call, {after!r}, whose contents would be constant "
    "in a pure function. Way out: write to the tensors of the object that is there, or do that outside of the function."
)

_NUMBERS = (bool, int, float)
_VALUES = (*_NUMBERS, complex, str, bytes, NoneType, FunctionType, BuiltinFunctionType, BuiltIn, MethodType, type)
_CONTAINERS = (tuple, list, dict)


def check_unchanged(snapshot: Snapshot, again: bool) -> None:
    """Raise an error if a function has changed Python values that outlive the call.

    Arguments:
      again: whether this was the second call, which makes no new entries any more.

    Raises:
      RuntimeError: it has; the message says which.
    """
    fields = {id(fields_of(x)) for x in snapshot.tensors}
    for container, before in snapshot.changed():
        if isinstance(container, Elements | Bytes):
            raise RuntimeError(ELEMENTS.format(path=_path(container.owner, snapshot)))
        if isinstance(container, set):
            raise RuntimeError(CHANGED.format(path=_path(container, snapshot), before=set(before), after=container))
        entries = Items(container) if isinstance(container, deque) else as_dict(container)
        if entries is None:
            continue
        old, is_tensors = dict(entries_of(before)), id(container) in fields
        for key, value in old.items():
            if is_tensors and key in TRANSIENT:
                continue
            _check_same(Holding(entries, key), value, snapshot, again and not is_tensors)
        if not is_tensors:
            for key in [key for key, _ in entries.items() if key not in old]:
                _check_new(Holding(entries, key), snapshot, again)
    for scope, name, value in snapshot.rebound():
        _check_same(Holding(scope, name), value, snapshot, again)


def _path(owner: Any, snapshot: Snapshot) -> str:
    return snapshot.objects[id(owner)][0].path


def _check_new(holding: Holding, snapshot: Snapshot, again: bool) -> None:
    """Check an entry that was not there before."""
    if again:
        raise RuntimeError(GREW.format(does="adds", path=holding.location(snapshot).path))
    leaves, value = list[Any](), holding.read()
    take_apart(value, leaves)
    if leaves and all(type(x) in _VALUES for x in leaves):
        raise RuntimeError(MADE.format(path=holding.location(snapshot).path, after=value))


def _check_same(holding: Holding, old: Any, snapshot: Snapshot, again: bool) -> None:
    """Check an entry, an attribute or a variable that was there before."""
    one, two, new = list[Any](), list[Any](), holding.read()
    if new is MISSING:
        raise RuntimeError(GREW.format(does="deletes", path=holding.location(snapshot).path))
    pairs = list[tuple[Any, Any]]()
    if take_apart(old, one) == take_apart(new, two):
        pairs = list(zip(one, two, strict=True))
    elif all(type(x) in _VALUES for x in (*one, *two)):
        pairs = [(old, new)]
    elif again and isinstance(old, _CONTAINERS) and isinstance(new, _CONTAINERS):
        raise RuntimeError(GREW.format(does="adds to or removes from", path=holding.location(snapshot).path))
    for before, after in pairs:
        if is_tensor(before) or is_tensor(after) or is_same(after, before):
            continue
        are_values = isinstance(before, _CONTAINERS) or (type(before) in _VALUES and type(after) in _VALUES)
        if are_values or again:  # the first call may make an object that stays
            message = CHANGED if are_values else REPLACED
            raise RuntimeError(message.format(path=holding.location(snapshot).path, before=before, after=after))


def is_same(value: Any, old: Any) -> bool:
    """Whether a value is the one that the function was made with."""
    if type(value) in _NUMBERS and type(old) in _NUMBERS:
        return type(value) is type(old) and same_number(value, old)
    if value is old:
        return True
    if isinstance(value, np.ndarray | jax.Array):
        return np.array_equal(value, old)
    are_equal = value == old
    return np.ndim(are_equal) == 0 and bool(are_equal)
