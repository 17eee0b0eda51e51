"""The strides of results, against real torch where it says them."""

import itertools

import pytest

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.operation.output_strides import is_channels_last, laid_out_in, ordered
from fgrad.mutable.types.dtypes import float32

theirs = pytest.importorskip("torch")

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("first", "second"), [*itertools.product(itertools.permutations(range(3)), repeat=2)])
def test_axes_lie_as_the_operands_do(first: tuple[int, ...], second: tuple[int, ...]):
    """The first operand decides, then the next."""
    strides = [laid_out_in(order, (2, 3, 4)) for order in (first, second)]
    wanted = theirs.add(*[theirs.empty_strided((2, 3, 4), s) for s in strides]).stride()
    assert (ordered(tuple([((2, 3, 4), s) for s in strides]), (2, 3, 4)) or (12, 4, 1)) == wanted


def test_what_is_broadcast_decides_nothing():
    found = ordered((((3, 1), (1, 0)), ((2, 3, 4), (1, 2, 6))), (2, 3, 4))
    wanted = theirs.add(theirs.empty_strided((3, 1), (1, 0)), theirs.empty_strided((2, 3, 4), (1, 2, 6))).stride()
    assert found == wanted


def test_row_major_operands_give_none():
    assert ordered((((2, 3), (3, 1)), ((), ())), (2, 3)) is None


@pytest.mark.parametrize("strides", [(12, 1, 4, 2), (12, 6, 2, 1), (1, 1, 1, 1), (0, 0, 0, 0), (24, 1, 8, 2)])
def test_channels_last_is_judged_as_in_pytorch(strides: tuple[int, ...]):
    geometry = Geometry((1, 2, 3, 2), strides, 0, float32)
    given = theirs.empty_strided((1, 2, 3, 2), strides)
    found = theirs.nn.functional.max_pool2d(given, 1)
    assert is_channels_last(geometry) == (found.stride() == (12, 1, 4, 2))


def test_a_layout_is_dense_in_its_order():
    assert laid_out_in((0, 2, 3, 1), (2, 3, 4, 5)) == (60, 1, 15, 3)
    assert laid_out_in((1, 0), (2, 0)) == (1, 2)
