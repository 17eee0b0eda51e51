"""Tensors of nested sequences of every kind: values, types and errors are PyTorch's."""

import functools
from array import array
from collections import OrderedDict, UserList, deque
from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")


class Row:
    """What has a length and elements, and nothing else."""

    def __init__(self, *elements: Any):
        self.elements = elements

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, place: int) -> Any:
        return self.elements[place]


class Unmeasured(Row):
    def __len__(self) -> int:
        raise ValueError("no length")


class AsArray:
    """What NumPy makes an array of: no sequence."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, 2])


class AsFloat:
    def __float__(self) -> float:
        return 2.5


class Number(IntEnum):
    FOUR = 4


def _endless() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


#: data by the module that has its tensors
DATA: dict[str, Callable[[Any], Any]] = {
    "deque": lambda t: deque([1, 2, 3]),
    "deque of floats": lambda t: deque([1.0, 2]),
    "deque of deques": lambda t: deque([deque([1, 2]), [3, 4]]),
    "lists and deques": lambda t: [deque([1, 2.5]), (3, True)],
    "deque of bools": lambda t: deque([True, False]),
    "deque of complex": lambda t: deque([1j, 2.0]),
    "deque of nothing": lambda t: deque(),
    "deques of nothing": lambda t: [deque(), deque()],
    "deque of tensors": lambda t: deque([t.tensor(1), t.tensor(2.5)]),
    "deque of NumPy numbers": lambda t: deque([np.int8(1), np.uint8(2)]),
    "deque of arrays": lambda t: deque([np.array([1.5]), np.array([2.0])]),
    "deques of other lengths": lambda t: deque([deque([1, 2]), deque([1])]),
    "deque and number": lambda t: [deque([1, 2]), 3],
    "number and deque": lambda t: [3, deque([1, 2])],
    "deque of text": lambda t: deque(["a"]),
    "deque of too large": lambda t: deque([2**63]),
    "UserList": lambda t: UserList([UserList([1.5, 2]), [1, 2]]),
    **{f"array of {code}": lambda t, code=code: array(code, [1, 2]) for code in "bBhHiIlLqQfd"},
    "array of text": lambda t: array("u", "ab"),
    "arrays of Python": lambda t: [array("f", [1, 2]), [3, 4]],
    "range": lambda t: range(5, 0, -2),
    "ranges": lambda t: [range(3), range(1, 4)],
    "memoryview": lambda t: memoryview(b"abc"),
    "memoryviews": lambda t: [memoryview(b"abc"), memoryview(b"def")],
    "memoryview of rows": lambda t: memoryview(np.ones((2, 3))),
    "bytearray": lambda t: bytearray(b"abc"),
    "bytes": lambda t: b"abc",
    "list of bytes": lambda t: [b"ab"],
    "str": lambda t: "abc",
    "list of str": lambda t: ["abc"],
    "list of empty str": lambda t: [""],
    "number, then str": lambda t: [1, "a"],
    "NumPy's str": lambda t: [np.str_("a")],
    "with elements": lambda t: Row(Row(1.0, 2), Row(3, 4)),
    "with no elements": lambda t: Row(),
    "without a length": lambda t: Unmeasured(1),
    "__array__": lambda t: AsArray(),
    "list of __array__": lambda t: [AsArray()],
    "__float__": lambda t: [AsFloat(), 1.0],
    "fraction": lambda t: [Fraction(1, 2)],
    "enumeration": lambda t: [Number.FOUR],
    "set": lambda t: {1, 2},
    "dict": lambda t: {0: 1},
    "ordered dict": lambda t: OrderedDict(a=1),
    "keys": lambda t: {0: 1}.keys(),
    "generator": lambda t: (i for i in range(3)),
    "None": lambda t: None,
    "list of None": lambda t: [1, None],
    "tensors of too many": lambda t: [t.tensor([1, 2])],
    "list, then tensor": lambda t: [[1], t.tensor([2])],
    "tensor, then list": lambda t: [t.tensor([2]), [1]],
    "tensor of floats": lambda t: [t.tensor(1.5)],
    "rows of NumPy": lambda t: [np.array([1, 2]), np.array([3, 4])],
    "rows of NumPy of other lengths": lambda t: [np.array([1, 2]), np.array([1])],
    "numbers of NumPy": lambda t: [np.float32(1), 2],
    "arrays without axes": lambda t: [np.array(1.5)],
    "array of objects": lambda t: np.array([1, 2], dtype=object),
    "bools of NumPy": lambda t: [np.bool_(True)],
    "empty, then full": lambda t: [[], [1]],
    "full, then empty": lambda t: [[1], []],
    "endless": lambda t: _endless(),
    "too deep": lambda t: functools.reduce(lambda inner, _: [inner], range(130), 1),
}
TYPES = (None, "float64", "int32", "bool", "complex64")


@pytest.mark.parametrize("name", DATA)
def test_tensor(name: str):
    for dtype in TYPES:
        agree(Case(name, lambda t, dtype=dtype: t.tensor(DATA[name](t), dtype=dtype and getattr(t, dtype))), torch)


@pytest.mark.parametrize("name", DATA)
def test_other_makers(name: str):
    agree(Case(name, lambda t: t.as_tensor(DATA[name](t))), torch)
    agree(Case(name, lambda t: t.zeros(1).new_tensor(DATA[name](t))), torch)
    agree(Case(name, lambda t: t.FloatTensor(DATA[name](t))), torch)


#: what else a sequence may hold as an index: then each item is the index of an axis
ITEMS: dict[str, Callable[[Any], list[Any]]] = {
    "numbers": lambda t: [1, 0],
    "tensors": lambda t: [t.tensor(1), t.tensor(0)],
    "tensor and number": lambda t: [t.tensor(1), 0],
    "slice": lambda t: [slice(0, 1), 0],
    "None": lambda t: [None, 1],
    "ellipsis": lambda t: [..., 1],
    "lists": lambda t: [[1, 0], [0, 1]],
    "deque": lambda t: [deque([1]), 0],
    "range": lambda t: [range(1), 0],
    "array": lambda t: [np.array([1]), 0],
    "many": lambda t: [[0]] * 40,
    "nothing": lambda t: [],
}
KINDS: tuple[Callable[[list[Any]], Any], ...] = (list, tuple, deque, UserList, lambda items: Row(*items))


@pytest.mark.parametrize("name", ITEMS)
def test_items_of_an_index(name: str):
    def written(t: Any, kind: Any) -> Any:
        x = t.arange(24).view(2, 3, 4)
        x[kind(ITEMS[name](t))] = -1
        return x

    for kind in KINDS:
        agree(Case(name, lambda t, kind=kind: t.arange(24).view(2, 3, 4)[kind(ITEMS[name](t))]), torch)
        agree(Case(name, lambda t, kind=kind: written(t, kind)), torch)
