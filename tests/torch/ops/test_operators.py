"""Python's operators on tensors, and the attributes that transpose and take parts, against real torch."""

import operator
import warnings
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.ops.playing import assert_close, first_part, node_of
from tests.torch.ops.sample import normal

theirs = pytest.importorskip("torch")

BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
INPLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift")

TENSORS = {
    "real": np.array([1.5, -2.5, 3.0]),
    "integer": np.array([3, 1, 2]),
    "bool": np.array([True, False, True]),
    "single": np.array([1.5, 2.5, -1.0], "float32"),
}
OTHERS: dict[str, Any] = {
    "int": 2, "float": 1.5, "bool": True, "complex": 1 + 2j, "scalar": np.float64(2.5), "count": np.int64(2),
    "text": "a", "none": None, "list": [1], **TENSORS,
}  # fmt: skip


def tensor(torch: Any, x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    made = torch.tensor(x)
    return made.requires_grad_() if made.is_floating_point() else made


def outcome(function: Any, *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*operands)
        except Exception as error:
            return error


def assert_same(mine: Any, other: Any) -> None:
    if isinstance(other, Exception):
        assert type(mine) is type(other), (mine, other)
        assert first_part(str(mine)) == first_part(str(other))
        return
    if isinstance(mine, Exception):
        raise mine
    if not isinstance(other, theirs.Tensor):
        assert mine is other or mine == other
        return
    assert str(mine.dtype) == str(other.dtype)
    assert_close(mine, other, 1e-6, "value")
    assert node_of(mine) == node_of(other)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("one", TENSORS)
@pytest.mark.parametrize("name", (*BINARY, *COMPARISONS))
def test_operators(name: str, one: str, other: str):
    function = getattr(operator, name)
    found = [outcome(function, tensor(t, TENSORS[one]), tensor(t, OTHERS[other])) for t in (ours, theirs)]
    assert_same(*found)


@pytest.mark.parametrize("other", [name for name in OTHERS if name not in TENSORS and name != "list"])
@pytest.mark.parametrize("one", TENSORS)
@pytest.mark.parametrize("name", BINARY)
def test_reflected_operators(name: str, one: str, other: str):
    function = getattr(operator, name)
    found = [outcome(function, OTHERS[other], tensor(t, TENSORS[one])) for t in (ours, theirs)]
    assert_same(*found)


@pytest.mark.parametrize("other", [name for name in OTHERS if name not in ("text", "none", "list")])
@pytest.mark.parametrize("one", TENSORS)
@pytest.mark.parametrize("name", INPLACE)
def test_inplace_operators(name: str, one: str, other: str):
    found = []
    for torch in (ours, theirs):
        target = tensor(torch, TENSORS[one]).clone()
        result = outcome(getattr(operator, name), target, tensor(torch, OTHERS[other]))
        assert isinstance(result, Exception) or result is target
        found.append(result)
    assert_same(*found)


@pytest.mark.parametrize("one", TENSORS)
@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
def test_unary_operators(name: str, one: str):
    found = [outcome(getattr(operator, name), tensor(t, TENSORS[one])) for t in (ours, theirs)]
    assert_same(*found)


@pytest.mark.parametrize(
    "name", ["__add__", "__radd__", "__rsub__", "__rtruediv__", "__eq__", "__iadd__", "__lt__", "__rpow__"]
)
def test_foreign_operands_are_not_answered(name: str):
    for torch in (ours, theirs):
        assert getattr(torch.ones(2), name)("a") is NotImplemented


def test_tensors_stay_hashable_by_identity():
    x, y = ours.ones(2), ours.ones(2)
    assert len({x, y, x}) == 2


MATRICES = {"matrix": normal(2, 3), "batch": normal(2, 3, 4), "vector": normal(3), "number": normal()}
MATRICES |= {f"complex {name}": normal(*x.shape, seed=1, dtype="complex128") for name, x in MATRICES.items()}


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "real"])
def test_attributes(name: str, shape: str):
    found = []
    for torch in (ours, theirs):
        x = torch.tensor(MATRICES[shape]).requires_grad_()
        result = outcome(lambda x: getattr(x, name), x)
        found.append(result)
    mine, other = found
    if isinstance(other, Exception):
        assert type(mine) is type(other)
        assert str(mine) == str(other)
        return
    assert mine.stride() == other.stride()
    assert_same(mine, other)


def test_parts_can_be_written():
    for torch in (ours, theirs):
        c = torch.tensor([1 + 2j, 3 + 4j])
        c.real = torch.tensor([5.0, 6.0])
        c.imag = 7
        assert c.tolist() == [5 + 7j, 6 + 7j]
        x = torch.tensor([1.0, 2.0])
        x.real = torch.tensor([3.0, 4.0])
        assert x.tolist() == [3.0, 4.0]
        with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
            x.imag = 1
