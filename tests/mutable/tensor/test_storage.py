"""Storages: cells that point to immutable arrays, and counters of the writes."""

from collections import deque

import numpy as np
import pytest

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.storage import WRITES_KEPT, Storage, VersionCounter
from fgrad.mutable.types.dtypes import float32

pytestmark = pytest.mark.fast


def test_a_write_points_to_a_new_array():
    old = np.arange(4, dtype=np.float32)
    storage = Storage(old, float32)
    storage.write(Geometry((2,), (1,), 1, float32), np.array([8, 9], np.float32))
    assert np.asarray(storage.array).tolist() == [0, 8, 9, 3]
    assert old.tolist() == [0, 1, 2, 3]


def test_a_counter_remembers_the_last_writes():
    counter = VersionCounter()
    for i in range(WRITES_KEPT + 2):
        counter.bump(f"op{i}", None, "itself")
    assert counter.value == WRITES_KEPT + 2 and isinstance(counter.writes, deque)
    assert [write.version for write in counter.writes] == [*range(3, WRITES_KEPT + 3)]
    assert counter.writes[-1].operation == f"op{WRITES_KEPT + 1}"


def test_a_storage_that_grows_keeps_its_elements_and_its_first_geometry():
    storage = Storage(np.arange(6, dtype=np.float32).reshape(2, 3), float32, (1, 2))
    storage.resize(8)
    # memory is in the order of the strides
    assert np.asarray(storage.array).tolist() == [0, 3, 1, 4, 2, 5, 0, 0]
    assert storage.home == Geometry((2, 3), (1, 2), 0, float32)
    storage.resize(2)
    assert np.asarray(storage.array).tolist() == [0, 3] and storage.count == 2


def test_another_storage_of_the_same_layout():
    storage = Storage(np.zeros((2, 3), np.float32), float32, (1, 2))
    other = storage.holding(np.ones((2, 3), np.float32))
    assert other.layout == storage.layout and np.asarray(storage.array).sum() == 0
