"""Promotion: every pair of dtypes in every pair of categories, against PyTorch."""

import itertools

import numpy as np
import pytest

from fgrad.mutable.types import dtypes, promotion
from fgrad.mutable.types.promotion import Category
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")

NUMBERS = [True, 3, 1.5, 2j]


@pytest.fixture(params=["float16", "bfloat16", "float32", "float64"])
def default_dtype(request):
    """Runs a test under each default dtype."""
    dtypes.set_default_dtype(dtypes.NAMES[request.param])
    torch.set_default_dtype(getattr(torch, request.param))
    yield
    dtypes.set_default_dtype(dtypes.float32)
    torch.set_default_dtype(torch.float32)


def theirs(of):
    return getattr(torch, of.name)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_results_of_two_operands(default_dtype):
    """Every dtype with and without dimensions, and every kind of number, beside each other."""
    operands = [(promotion.number(each), each) for each in NUMBERS]
    for of, (category, shape) in itertools.product(dtypes.ALL, enumerate([(), (1,)], start=1)):
        operands.append(((of, Category(category)), torch.empty(shape, dtype=theirs(of))))
    for (one, its_one), (other, its_other) in itertools.product(operands, repeat=2):
        expected = outcome(torch.result_type, its_one, its_other)
        assert outcome(promotion.result, (one, other)) == expected, (one, other)


def test_results_of_three_tensors():
    some = (dtypes.uint8, dtypes.int8, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
    for ofs in itertools.product(some, repeat=3):
        for shapes in itertools.product([(), (1,)], repeat=3):
            expected = torch.clamp(*(torch.zeros(s, dtype=theirs(of)) for s, of in zip(shapes, ofs, strict=True))).dtype
            operands = tuple(promotion.tensor(of, len(shape)) for of, shape in zip(ofs, shapes, strict=True))
            assert repr(promotion.result(operands)) == repr(expected), operands


def test_each_category_yields_to_the_next():
    vector = promotion.tensor(dtypes.float32, 1)
    scalar, number = promotion.tensor(dtypes.complex128, 0), promotion.number(1)
    assert promotion.result((number, scalar, vector)) is dtypes.complex64
    assert promotion.result((vector,)) is dtypes.float32
    with pytest.raises(ValueError, match="at least one operand"):
        promotion.result(())


@pytest.mark.parametrize(
    "value", [np.bool_(True), np.int8(1), np.uint64(1), np.float16(1), np.float64(1), np.complex128(1)], ids=repr
)
def test_numbers_of_numpy(value):
    one = torch.tensor([1], dtype=torch.int8)
    mine = promotion.result((promotion.tensor(dtypes.int8, 1), promotion.number(value)))
    assert repr(mine) == repr(torch.result_type(one, value))


@pytest.mark.parametrize("function", ["promote_types", "can_cast"])
def test_pairs_of_dtypes(function):
    for one, other in itertools.product([*dtypes.ALL, *dtypes.FLOAT8, float, "float32"], repeat=2):
        its_one, its_other = (theirs(each) if isinstance(each, dtypes.dtype) else each for each in (one, other))
        expected = outcome(getattr(torch, function), its_one, its_other)
        assert outcome(getattr(promotion, function), one, other) == expected, (one, other)
