"""Arrays of NumPy that a function can reach: their elements are compared, and put back."""

import numpy as np
import pytest

from fgrad.mutable.capture.arrays import Elements
from fgrad.mutable.capture.snapshot import Snapshot, roots_of


@pytest.mark.parametrize("array", [np.ones(3), np.array([[1, 2]]), np.array(1.0), np.array([1, "a"], object)])
def test_what_is_written_is_seen_and_put_back(array):
    held = {"array": array}
    snapshot = Snapshot().walk(roots_of(lambda: held))
    before = array.copy()
    assert not [*snapshot.changed()]
    array[...] = 7
    assert [type(x) for x, _ in snapshot.changed()] == [Elements]
    snapshot.restore()
    assert (array == before).all() and not [*snapshot.changed()]


def test_nan_is_itself_and_zeros_have_signs():
    array = np.array([np.nan, 0.0])
    elements, before = Elements(array), array.copy()
    assert elements.is_unchanged(before)
    array[1] = -0.0
    assert not elements.is_unchanged(before)
