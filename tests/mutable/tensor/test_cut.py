"""Cuts: which derivatives whoever differentiates a graph of arrays finds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.cut import CutStorage, constant_of, grafted, is_cutting, may_vary
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types.dtypes import float32


def slope(function: Any, at: float = 3.0) -> float:
    return float(jax.grad(function)(jnp.float32(at)))


def test_a_constant_has_the_elements_and_no_derivative():
    assert slope(lambda x: x * constant_of(x)) == 3.0
    known = np.float32(2)
    assert constant_of(known) is known


def test_what_is_grafted_has_the_derivatives_of_the_old():
    assert slope(lambda x: grafted(x * x, 5 * x)) == 5.0
    assert slope(lambda x: grafted(x * x, jnp.float32(1))) == 0.0
    assert float(grafted(np.float32(2), np.float32(1))) == 2.0


def test_derivatives_are_not_grafted_onto_another_shape():
    assert slope(lambda x: grafted(jnp.stack([x, x]), x).sum()) == 0.0


def test_a_cut_storage_shares_elements_and_no_derivatives():
    def function(x: Any) -> Any:
        storage = Storage(jnp.stack([x, x * x]), float32)
        cut = CutStorage(storage)
        return storage.array.sum() + 10 * cut.array.sum()

    assert slope(function) == 7.0


def test_a_write_through_a_cut_storage_reaches_the_other_without_derivatives():
    def function(x: Any) -> Any:
        storage = Storage(jnp.stack([x, x]), float32)
        cut = CutStorage(storage)
        cut.array = jnp.stack([x * x, x * x])
        assert cut.dtype is storage.dtype and cut.strides is storage.strides
        return storage.array.sum() + 10 * cut.array.sum()

    # two elements with the slope 1 that the other had, and ten times two with that of x * x
    assert slope(function) == 2.0 + 10 * 12.0


def test_a_write_to_the_other_is_seen_by_the_cut_storage():
    storage = Storage(np.zeros(2, np.float32), float32)
    cut = CutStorage(storage)
    storage.write(Geometry((1,), (1,), 1, float32), np.array([7], np.float32))
    assert np.asarray(cut.array).tolist() == [0, 7]


def test_integers_and_known_values_cannot_vary():
    def function(x: Any) -> Any:
        assert may_vary(x) and not may_vary(x.astype(jnp.int32))
        return x

    jax.eval_shape(function, jnp.float32(1))
    assert not may_vary(np.float32(1)) and not is_cutting()
    assert not modes.capture
