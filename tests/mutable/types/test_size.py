"""Sizes, memory formats and layouts against PyTorch's."""

import copy
import operator
import pickle

import numpy as np
import pytest

from fgrad.mutable.types import formats
from fgrad.mutable.types.size import Size
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")


class Index:
    """An integer by ``__index__`` alone."""

    def __index__(self):
        return 2


@pytest.mark.parametrize(
    "arguments",
    [
        *[(), ([2, 3],), ((2,),), ([],), (range(3),), ({1: 2},), ([True],), ([-1],), ([2**40],), (np.array([1, 2]),)],
        *[([-(2**63)],), ([2**63 - 1],), (["a"],), ([1, 1.0],), ([None],), ([[1]],), ("12",)],
        *[(3,), (None,), ([np.float32(3)],), ([(1,)],)],
    ],
    ids=repr,
)
def test_making(arguments):
    assert outcome(Size, *arguments) == outcome(torch.Size, *arguments)


def test_what_can_be_a_length():
    assert Size([Index(), np.int64(3), True]) == (2, 3, 1)
    assert all(type(each) is int for each in Size([Index(), np.int64(3), True]))
    assert outcome(Size, [Size([1])]) == outcome(torch.Size, [torch.Size([1])])


OPERATIONS = {
    "add": lambda size: size + (1,),
    "add a size": lambda size: size + size,
    "add nothing": lambda size: size + (),
    "radd": lambda size: (1,) + size,
    "sum": lambda size: sum([size, size], ()),
    "mul": lambda size: size * 2,
    "rmul": lambda size: 2 * size,
    "mul by nothing": lambda size: size * -1,
    "slice": lambda size: size[1:],
    "empty slice": lambda size: size[:0],
    "stride": lambda size: size[::2],
    "item": lambda size: size[-1],
    "numel": lambda size: size.numel(),
    "str": str,
    "list": list,
    "index": lambda size: size.index(3),
    "in an f-string": lambda size: f"{size}",
    "equal": lambda size: size == (2, 3, 4),
    "hash": lambda size: hash(size) == hash((2, 3, 4)),
    "less": lambda size: size < (3,),
    "unpacked": lambda size: (*size,),
    "pickled": lambda size: pickle.loads(pickle.dumps(size)),
    "copied": copy.deepcopy,
    "add a list": lambda size: size + [1],
    "add a number": lambda size: size + 3,
    "add None": lambda size: size + None,
    "add a string": lambda size: size + ("a",),
    "radd a float": lambda size: (1.5,) + size,
    "mul by a float": lambda size: size * 1.5,
    "too far": lambda size: size[5],
    "no index": lambda size: size["a"],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    operation = OPERATIONS[name]
    assert outcome(operation, Size([2, 3, 4])) == outcome(operation, torch.Size([2, 3, 4]))


def test_types_of_results():
    for name in ("add", "radd", "mul", "rmul", "slice", "pickled", "copied"):
        assert type(OPERATIONS[name](Size([2, 3, 4]))) is Size
    assert Size([]).numel() == 1 and operator.add(Size([0]), ()).numel() == 0


@pytest.mark.parametrize("kind", ["memory_format", "layout"])
def test_formats(kind):
    theirs = {name: each for name, each in vars(torch).items() if isinstance(each, getattr(torch, kind))}
    assert theirs.pop("_mkldnn", None) is None or kind == "layout"
    for name, each in theirs.items():
        ours = getattr(formats, name)
        assert isinstance(ours, getattr(formats, kind))
        assert repr(ours) == str(ours) == f"{ours}" == repr(each)
        assert pickle.loads(pickle.dumps(ours)) is copy.deepcopy(ours) is ours


@pytest.mark.parametrize("kind", [formats.memory_format, formats.layout])
def test_none_other_can_be_made(kind):
    with pytest.raises(TypeError):
        kind()
