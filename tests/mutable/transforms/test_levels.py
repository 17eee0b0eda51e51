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


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_written_to_a_dual_tensor_in_a_map_is_history_outside(times):
    def written(a):
        a.add_(1)
        a.mul_(2)
        return a.sin()

    derive = written
    for _ in range(times):
        derive = torch.func.jacfwd(derive)
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    base = leaf * 3
    view = base[1:]
    jacobian = derive(view)
    assert view._version == 1 + 1
    (gradient,) = torch.autograd.grad(jacobian.sum() + base.sum(), leaf)
    inner = 2 * (3 * 2 + 1)
    slope = {1: -2 * np.sin(inner), 2: -4 * np.cos(inner)}[times]
    np.testing.assert_allclose(gradient.numpy(), [3, 6 + 6 * slope], rtol=1e-5)


def test_a_leaf_is_not_written_as_a_dual_tensor_in_a_map():
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        torch.func.jacfwd(lambda a: a.mul_(2))(leaf)
