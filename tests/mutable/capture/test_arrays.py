"""Arrays that a function can reach: their elements are compared, and put back."""

from array import array as Array
from types import MappingProxyType

import numpy as np
import pytest

from fgrad.mutable.capture.arrays import Bytes, Elements
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


@pytest.mark.parametrize("kept", [Array("d", [1.0, 2.0]), bytearray(b"ab")])
def test_arrays_of_python_are_seen_and_put_back(kept):
    snapshot = Snapshot().walk(roots_of(lambda: kept))
    before = kept[:]
    for change in (lambda: kept.__setitem__(0, 7), lambda: kept.append(3)):
        assert not [*snapshot.changed()]
        change()
        assert [type(x) for x, _ in snapshot.changed()] == [Bytes]
        snapshot.restore()
        assert kept == before


def test_the_dict_behind_a_proxy_is_seen():
    settings = {"scale": 1.0}
    shown = MappingProxyType(settings)
    snapshot = Snapshot().walk(roots_of(lambda: (shown, vars(Snapshot))))
    settings["scale"] = 2.0
    assert [x for x, _ in snapshot.changed()] == [settings]
