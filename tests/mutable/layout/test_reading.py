"""Readings: whole views as graphs, against NumPy's strided views."""

import itertools
import math

import numpy as np
import pytest

from fgrad.mutable.layout.geometry import Geometry, Layout, contiguous_strides
from fgrad.mutable.layout.reading import reading
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types.dtypes import float32
from fgrad.seam import evaluate

pytestmark = pytest.mark.fast


def test_a_whole_view_is_a_reading():
    layout = Storage(np.zeros((4, 6), np.float32), float32).layout
    found = reading(layout, Geometry((6, 4), (1, 6), 0, float32))
    assert found is not None
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(evaluate(found.graph, [array])[0], array.T)
    assert reading(layout, Geometry((6,), (1,), 0, float32)) is None


@pytest.mark.parametrize("stored", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("read", list(itertools.permutations(range(3))))
def test_any_order_of_axes(stored, read):
    sizes = (2, 3, 4)
    memory = np.arange(24, dtype=np.float32)
    steps = contiguous_strides(tuple([sizes[i] for i in stored]))
    strides = tuple([steps[stored.index(i)] for i in range(3)])
    array = np.lib.stride_tricks.as_strided(memory, sizes, [4 * n for n in strides])
    # the view has the memory in another shape, with its axes in another order
    view = tuple([(4, 6, 1)[i] for i in read])
    into = contiguous_strides((4, 6, 1))
    geometry = Geometry(view, tuple([into[i] for i in read]), 0, float32)
    assert math.prod(view) == 24
    found = reading(Layout(sizes, strides, float32), geometry)
    expected = np.lib.stride_tricks.as_strided(memory, view, [4 * n for n in geometry.strides])
    np.testing.assert_array_equal(evaluate(found.graph, [array])[0], expected)
    assert len(found.graph.nodes) <= 3
