"""What the tables keep alive of arrays that rules read from outside."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.graph import held
from fgrad.graph.op import Kept
from fgrad.run.cache import Cache

SIZE = held.LITTLE


def test_the_bytes_that_a_key_holds():
    assert held.held(("rule", [jnp.ones(3)], None, 1.0)) == 12


def test_the_oldest_entries_are_dropped():
    table = dict.fromkeys(range(held.ENTRIES + 3))
    holding = held.Holding(table.pop)
    for key in list(table):
        holding.enter(key, held.BYTES)
    assert list(table) == list(range(3, held.ENTRIES + 3))


def test_what_a_table_has_dropped_is_not_held_on():
    table = Cache(1)
    array = np.ones(SIZE)
    gone = weakref.ref(array)
    for key in (("rule", Kept(array)), "other"):
        table.enter(key, None)
    del array, key
    assert list(table) == ["other"]
    assert gone() is None


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_arrays_of_rules_made_in_a_loop_go(kind, monkeypatch):
    monkeypatch.setattr(held, "BYTES", 16 * SIZE)
    monkeypatch.setattr(held, "ENTRIES", 2)
    fgrad.clear_cache()
    for i in range(12):
        data = jnp.full(SIZE, float(i))
        f = getattr(jax, kind)(jnp.sin)
        if kind == "custom_jvp":
            f.defjvp(lambda primals, tangents, data=data: (jnp.sin(primals[0]), data[0] * tangents[0]))
        else:
            f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct, data=data: (data[0] * ct,))
        assert fgrad.grad(f)(1.0) == i
    gc.collect()
    assert sum(x.shape == (SIZE,) for x in jax.live_arrays()) < 6
