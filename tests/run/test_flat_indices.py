"""Indices compared with the end of an axis."""

import numpy as np

from fgrad.run.flat_indices import all_below


def frozen(*numbers: int) -> np.ndarray:
    array = np.array(numbers)
    array.setflags(write=False)
    return array


def test_an_array_is_below_what_it_was_found_to_be_below_and_not_below_less():
    array = frozen(0, 3, 5)
    assert all_below(array, 6)
    assert all_below(array, 7)
    assert all_below(array[1:, None], 6)
    assert not all_below(array, 5)
    assert not all_below(array[1:], 5)
    assert not all_below(frozen(0, 3, 6), 6)
    assert not all_below(frozen(-1), 6)


def test_an_array_that_may_be_written_is_compared_each_time():
    array = np.array([0, 3, 5])
    assert all_below(array, 6)
    array[0] = 6
    assert not all_below(array, 6)


def test_an_array_in_the_place_of_another_is_compared():
    for numbers in ([0, 1], [2, 9], [1, 0]):
        assert all_below(frozen(*numbers), 3) == (max(numbers) < 3)


def test_a_view_of_other_numbers_in_the_same_memory_is_compared():
    array = frozen(1 << 32, 0)
    assert all_below(array, (1 << 32) + 1)
    assert not all_below(array.view(np.int32)[:1] - 1, 2)


def test_integers_of_a_type_that_is_too_narrow_for_the_end():
    for dtype in (np.int8, np.int16):
        assert all_below(np.array([0, 100], dtype), 70000)
        assert not all_below(np.array([0, -1], dtype), 70000)
    assert all_below(np.array([0, 255], np.uint8), 300)
