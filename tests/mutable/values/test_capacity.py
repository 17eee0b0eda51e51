"""How much memory there is, and the errors for what would take more."""

import numpy as np
import pytest

from fgrad.mutable.values import capacity
from fgrad.mutable.values.capacity import (
    LARGEST,
    Vast,
    check_room,
    check_storage,
    checked_for_capacity,
    number_of_elements,
    storage_size,
)
from fgrad.mutable.values.evaluation import Routine, array_type, recorded

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("size", "error", "text"),
    [
        (-1, RuntimeError, "negative number: 18446744073709551615"),
        (1 << 60, RuntimeError, "you tried to allocate 1152921504606846976 bytes"),
        (1 << 70, ValueError, "Overflow when unpacking long long"),
    ],
)
def test_what_cannot_be_allocated(size: int, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        check_room(size)


def test_there_is_room_for_nothing_and_for_all_there_is():
    check_room(0)
    check_room(capacity.memory())


def test_there_is_less_room_where_addresses_are_limited(monkeypatch):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(capacity, "memory", lambda: 1 << 47)
    assert capacity.room() <= 1 << 47
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 46, limits[1]))
        assert 0 < capacity.room() < 1 << 46
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "wanted"),
    [
        ((2, 3), None, 0, 24),
        ((2, 3), (3, 1), 2, 32),
        ((2, 3), (10, 1), 1, 4 * 14),
        ((2, 3), (0, 0), 0, 4),
        ((2, 0), (1, 1), 5, 0),
        ((0,), None, 5, 0),
    ],
)
def test_the_bytes_of_a_storage(sizes: tuple[int, ...], strides: tuple[int, ...] | None, offset: int, wanted: int):
    assert storage_size(sizes, strides, offset, 4) == wanted


def test_sizes_beyond_64_bits_overflow():
    with pytest.raises(RuntimeError, match=r"overflowed with sizes=\[4611686018427387904, 4\]"):
        storage_size((1 << 62, 4), None, 0, 4)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        number_of_elements((1 << 62, 4))
    assert number_of_elements((LARGEST, 1)) == LARGEST
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        check_storage((1 << 40,), 8)


def test_a_result_without_room_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch):
    routine = Routine(recorded(lambda x: [x + x], [array_type((4,), np.float32)]))
    assert checked_for_capacity(routine) is routine
    monkeypatch.setattr(capacity, "memory", lambda: 8)
    vast = checked_for_capacity(routine)
    assert isinstance(vast, Vast) and vast.graph is routine.graph
    with pytest.raises(RuntimeError, match="you tried to allocate 16 bytes"):
        vast([np.ones(4, np.float32)])
