"""What the programs of a function are looked up by: the structure of the arguments, all but tensors, and the modes."""

from collections.abc import Collection
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.capture.snapshot import is_plain_class
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.constants import Same, compared
from fgrad.torch.compiler.containers import take_apart
from fgrad.torch.compiler.guards import modes_now
from fgrad.torch.compiler.number_arguments import Place, replaced

_NUMBERS = (int, float, complex, np.number)


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any], places: Collection[Place]) -> tuple[Any, list[Tensor]]:
    """What a program is looked up by, apart from the values of numbers in some places; and the tensors of a call."""
    if places:
        args, kwargs = replaced(args, kwargs, places, lambda place, x: _Any(type(x)))
    leaves = list[Any]()
    structure = take_apart((args, kwargs), leaves)
    return (structure, tuple(map(_static, leaves)), modes_now()), [x for x in leaves if isinstance(x, Tensor)]


@frozen
class _Any:
    """Any number of a class, as a part of the key."""

    kind: type


def _static(x: Any) -> Any:
    """The part of the key for an argument."""
    if isinstance(x, Tensor):
        return Tensor
    if x.__class__ is _Any:
        return x
    return compared(x)


def without_numbers(key: Any) -> Any:
    """A key without the values of numbers."""
    if len(key) == 2:
        return key
    structure, statics, now = key
    return structure, [x[:1] if isinstance(x, tuple) and issubclass(x[0], _NUMBERS) else x for x in statics], now


def weakly_held(key: Any) -> list[Any]:
    """The objects in a key that it does not keep alive."""
    return [] if len(key) == 2 else [x.value for x in key[1] if isinstance(x, Same) and x.is_weak]


def of_new_objects(old: Any, new: Any) -> set[type]:
    """The class of the objects in which two keys differ, if they differ in nothing else.

    See NOTE [Objects among the arguments].
    """
    if len(old) == 2 or len(new) == 2 or (old[0], len(old[1]), old[2]) != (new[0], len(new[1]), new[2]):
        return set()
    pairs = [(x, y) for x, y in zip(old[1], new[1], strict=True) if x != y]
    if not all(isinstance(x, Same) and isinstance(y, Same) for x, y in pairs):
        return set()
    classes = {each.value.__class__ for pair in pairs for each in pair}
    return classes if len(classes) == 1 and all(map(is_plain_class, classes)) else set()
