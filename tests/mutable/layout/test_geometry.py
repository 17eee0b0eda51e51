"""Lenses read and write where strides say: NumPy's own strided views are the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fgrad.mutable.layout.geometry import (
    Geometry,
    contiguous_strides,
    extent,
    is_contiguous,
    is_dense,
    lens,
    overlaps,
    viewed_strides,
)
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types.dtypes import complex64, float32, float64

pytestmark = pytest.mark.fast

#: the views of a storage of so many elements that are tried
COUNT = 24
VIEWS = {
    "row": ((3,), (1,), 4),
    "column": ((4,), (6,), 1),
    "transposed": ((6, 4), (1, 6), 0),
    "box": ((2, 3), (6, 1), 8),
    "every other": ((3, 2), (4, 2), 1),
    "expanded": ((3, 2), (0, 1), 5),
    "diagonal": ((4,), (7,), 0),
    "number": ((), (), 9),
    "empty": ((0, 3), (3, 1), 2),
    "overlapping": ((3, 3), (2, 1), 0),
}


def strided(memory: np.ndarray, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    steps = [s * memory.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(memory[offset:], sizes, steps)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_reads_what_its_strides_name(name: str):
    memory = np.arange(COUNT, dtype=np.float32)
    found = Storage(memory, float32).read(Geometry(*VIEWS[name], float32))
    np.testing.assert_array_equal(found, strided(memory, *VIEWS[name]))


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("expanded", "overlapping")])
def test_a_view_writes_there_and_nowhere_else(name: str):
    memory = np.arange(COUNT, dtype=np.float32)
    storage = Storage(memory.copy(), float32)
    new = -1 - np.arange(np.prod(VIEWS[name][0]), dtype=np.float32).reshape(VIEWS[name][0])
    storage.write(Geometry(*VIEWS[name], float32), new)
    strided(memory, *VIEWS[name])[...] = new
    np.testing.assert_array_equal(storage.array, memory)


@pytest.mark.parametrize("larger", [complex64, float64])
def test_memory_that_is_no_whole_number_of_larger_elements(larger):
    memory = np.arange(5, dtype=np.float32)
    storage, geometry = Storage(memory.copy(), float32), Geometry((2,), (1,), 0, larger)
    np.testing.assert_array_equal(storage.read(geometry), memory[:4].view(larger.numpy))
    storage.write(geometry, np.full(2, 3, larger.numpy))
    memory[:4].view(larger.numpy)[:] = 3
    np.testing.assert_array_equal(storage.array, memory)


def test_strides_that_nest_are_a_box_and_others_are_places():
    layout = Storage(np.zeros(COUNT, np.float32), float32).layout
    assert lens(layout, Geometry(*VIEWS["box"], float32))[0].box is not None
    assert lens(layout, Geometry(*VIEWS["overlapping"], float32))[0].box is None


def test_rows_share_one_lens():
    layout = Storage(np.zeros((4, 6), np.float32), float32).layout
    first, at_first = lens(layout, Geometry((6,), (1,), 0, float32))
    third, at_third = lens(layout, Geometry((6,), (1,), 12, float32))
    assert first == third and at_first != at_third


@given(st.lists(st.integers(0, 4), max_size=4).map(tuple))
@settings(max_examples=50, deadline=None)
def test_row_major_strides_are_numpys(sizes: tuple[int, ...]):
    strides = contiguous_strides(sizes)
    assert is_contiguous(sizes, strides) and is_dense(sizes, strides) and not overlaps(sizes, strides)
    assert extent(sizes, strides, 0) == int(np.prod(sizes))
    if 0 not in sizes:
        assert strides == tuple(s // 4 for s in np.zeros(sizes, np.float32).strides)


def test_strides_of_another_shape():
    assert viewed_strides((2, 6), (6, 1), (2, 3, 2)) == (6, 2, 1)
    assert viewed_strides((6, 2), (1, 6), (12,)) is None
    assert viewed_strides((3, 2), (0, 1), (3, 2, 1)) == (0, 1, 1)
