"""What the tables keep alive of arrays that rules read from outside."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.graph import held
from fgrad.graph.op import Kept, freeze
from fgrad.run.cache import Cache

SIZE = held.LITTLE


def test_the_bytes_that_a_key_holds():
    assert held.held(("rule", [jnp.ones(3)], None, 1.0)) == 12


class Model:
    def __init__(self, weights):
        self.weights = weights

    def log(self, x):
        return self.weights, x


def test_a_long_list_is_not_gone_through():
    assert held.held([[None] * held.LENGTH + [jnp.ones(3)], jnp.ones(4)]) == 16


def test_the_bytes_that_functions_hold():
    array = jnp.ones(3)

    def recursive():
        return array, recursive

    assert held.held(("policy", recursive)) == 12
    assert held.held(functools.partial(lambda x, y=array: (x, y), jnp.ones(4))) == 28
    assert held.held({"log": Model(array).log}) == 12
    assert held.held(freeze(jax.make_jaxpr(lambda x: x * array)(1.0))) == 12


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


def _debug_callback(data):
    def loss(x):
        jax.debug.callback(lambda x: x + data[0], x)
        return x

    return fgrad.grad(loss)


def _policy(data):
    return fgrad.grad(jax.checkpoint(jnp.sin, policy=lambda *_, **__: data.ndim == 0))


def _object(data):
    f = jax.custom_vjp(lambda model, x: x * model.weights[0], nondiff_argnums=(0,))
    f.defvjp(lambda model, x: (f(model, x), None), lambda model, _, ct: (ct * model.weights[0],))
    return fgrad.grad(functools.partial(f, Model(data)))


def _custom_vmap(data):
    f = jax.custom_batching.custom_vmap(lambda x: x * data[0])
    f.def_vmap(lambda size, mapped, x: (x * data[0], mapped[0]))
    return fgrad.grad(f)


def _jitted(data):
    return fgrad.grad(jax.jit(lambda x: jnp.sum(x * data)))


def _custom_jvp_in_jit(data):
    return fgrad.grad(jax.jit(lambda x: jnp.sum(jax.nn.relu(x * data))))


def _custom_jvp_in_jit_in_jit(data):
    return fgrad.jit(fgrad.grad(jax.jit(lambda x: jnp.sum(jax.nn.relu(x * data)))))


@pytest.mark.parametrize(
    "make",
    [
        _debug_callback, _policy, _object, _custom_vmap, _jitted, _custom_jvp_in_jit, _custom_jvp_in_jit_in_jit,
    ],
)  # fmt: skip
def test_arrays_of_functions_made_in_a_loop_go(make, monkeypatch):
    monkeypatch.setattr(held, "BYTES", 4 * SIZE)
    monkeypatch.setattr(held, "ENTRIES", 2)
    fgrad.clear_cache()
    arrays = []
    for i in range(8):
        data = jnp.full(SIZE, float(i))
        arrays.append(weakref.ref(data))
        make(data)(1.0)
        del data
    gc.collect()
    assert sum(array() is not None for array in arrays) < 4


def test_an_array_that_a_jitted_function_closes_over_is_an_input():
    fgrad.clear_cache()
    for k in range(3):
        data = jnp.arange(3.0) + k
        assert fgrad.grad(jax.jit(lambda x, data=data: jnp.sum(x * data)))(1.0) == 3 + 3 * k
        assert fgrad.grad(fgrad.jit(lambda x, data=data: jnp.sum(x * data)))(1.0) == 3 + 3 * k
    assert fgrad.cache_info().programs == 1
