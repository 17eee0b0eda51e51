"""Levels of ``vmap``: whole batches outside, single examples inside."""

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.context.modes import modes
from fgrad.mutable.transforms.levels import (
    below,
    capturing,
    check_write,
    is_mapped,
    mapping,
    value_in,
    value_out,
    value_sum,
)

pytestmark = pytest.mark.fast

BATCH = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_batch_goes_in_and_comes_out():
    with mapping(2, "error") as level:
        inside = value_in(BATCH, level)
        assert inside.shape == (3,) and is_mapped(inside, level)
        np.testing.assert_array_equal(value_out(inside, level), BATCH)
        np.testing.assert_array_equal(value_sum(inside, level), BATCH.sum(0))


def test_a_value_from_outside_is_the_same_for_each_example():
    with mapping(2, "error") as level:
        assert not is_mapped(BATCH, level)
        assert value_sum(BATCH, level) is BATCH
        np.testing.assert_array_equal(value_out(BATCH, level), np.stack([BATCH, BATCH]))


def test_levels_nest():
    with mapping(2, "error") as outer, mapping(3, "error") as inner:
        value = value_in(value_in(BATCH, outer), inner)
        assert value.shape == () and is_mapped(value, outer) and is_mapped(value, inner)
        np.testing.assert_array_equal(value_out(value_out(value, inner), outer), BATCH)
        np.testing.assert_array_equal(value_out(value_sum(value, outer), inner), BATCH.sum(0))


def test_what_runs_below_a_level_is_outside_of_it():
    with mapping(2, "error") as outer, mapping(3, "error") as inner:
        with below(inner):
            assert modes.maps == (outer,) and modes.level == outer.number
        assert modes.maps == (outer, inner)
    assert modes.maps == () and modes.level == 0


def test_a_tensor_from_outside_cannot_hold_one_value_for_each_example():
    tensor = torch.zeros(3)
    with mapping(2, "error") as level, pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        check_write(tensor, value_in(BATCH, level))


def test_a_function_that_is_recorded_writes_to_no_tensor_from_outside():
    tensor = torch.zeros(3)
    with capturing(), pytest.raises(RuntimeError, match="functionalize"):
        check_write(tensor[:2], BATCH)
