"""Custom rules that read what changes between calls, without ``jit``."""

import functools
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad

settings = types.SimpleNamespace(scale=1.0)
scale = 1.0


class Model:
    scale = 1.0


class Slots:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 1.0


def doubled(model):
    return 2 * model.scale


def _set_global(value):
    globals()["scale"] = value


def readers():
    """A function that gives the number which the rule reads, and one that changes it."""
    items, entries, model, slots, array, kept = [1.0], {"a": 1.0}, Model(), Slots(), np.ones(()), 1.0

    def set_kept(value):
        nonlocal kept
        kept = value

    yield "list", lambda: items[0], functools.partial(items.__setitem__, 0)
    yield "dict", lambda: entries["a"], functools.partial(entries.__setitem__, "a")
    yield "function inside", lambda: (lambda: items[0])(), functools.partial(items.__setitem__, 0)
    yield "attribute", lambda: model.scale, functools.partial(setattr, model, "scale")
    yield "of a class", lambda: Model.scale, functools.partial(setattr, Model, "scale")
    yield "by its object", lambda: Model().scale, functools.partial(setattr, Model, "scale")
    yield "slot", lambda: slots.scale, functools.partial(setattr, slots, "scale")
    yield "of a global", lambda: settings.scale, functools.partial(setattr, settings, "scale")
    yield "global", lambda: scale, _set_global
    yield "nonlocal", lambda: kept, set_kept
    yield "called", lambda: doubled(model), functools.partial(setattr, model, "scale")
    yield "numpy", lambda: array + 0, functools.partial(array.__setitem__, ())
    yield "partial", functools.partial(lambda m: m[0], items), functools.partial(items.__setitem__, 0)


def with_rule(make, kind, read):
    if kind == "custom_jvp":
        f = make.custom_jvp(jnp.sin)
        f.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), read() * tangents[0]))
    else:
        f = make.custom_vjp(jnp.sin)
        f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (read() * ct,))
    return f


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("make", [jax, fgrad])
@pytest.mark.parametrize("name, read, change", [*readers()], ids=[name for name, *_ in readers()])
def test_rule_sees_what_changes(name, read, change, make, kind):
    gradient = fgrad.grad(with_rule(make, kind, read))
    for value in (2.0, 3.0, 2.0):
        change(value)
        assert gradient(1.0) == float(read())


def test_rule_is_recorded_once_if_nothing_changes():
    ticks, factor = itertools.count(), [2.0]
    f = fgrad.custom_jvp(jnp.sin)

    @f.defjvp
    def rule(primals, tangents):
        next(ticks)
        return jnp.sin(primals[0]), factor[0] * tangents[0]

    for _ in range(3):
        fgrad.grad(f)(1.0)
    assert next(ticks) == 1


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return self.factor * x


def statics():
    """A static argument, the number that a rule makes of it, and what changes that number; an array is immutable."""
    items, entries, array, scaled = [1.0], {"a": 1.0}, np.ones(()), Scaled(1.0)
    yield "list", items, lambda s: s[0], functools.partial(items.__setitem__, 0)
    yield "dict", entries, lambda s: s["a"], functools.partial(entries.__setitem__, "a")
    yield "numpy", array, lambda s: s + 0, functools.partial(array.__setitem__, ())
    yield "function", lambda: items[0], lambda s: s(), functools.partial(items.__setitem__, 0)
    yield "partial", functools.partial(lambda m: m[0], items), lambda s: s(), functools.partial(items.__setitem__, 0)
    yield "jit", jax.jit(lambda: items[0]), lambda s: s.__wrapped__(), functools.partial(items.__setitem__, 0)
    yield "object", scaled, lambda s: s.times(1.0), functools.partial(setattr, scaled, "factor")
    yield "method", scaled.times, lambda s: s(1.0), functools.partial(setattr, scaled, "factor")


def with_static(make, kind, number):
    if kind == "custom_jvp":
        f = make.custom_jvp(lambda x, s: jnp.sin(x), nondiff_argnums=(1,))
        f.defjvp(lambda s, primals, tangents: (jnp.sin(primals[0]), number(s) * tangents[0]))
    else:
        f = make.custom_vjp(lambda x, s: jnp.sin(x), nondiff_argnums=(1,))
        f.defvjp(lambda x, s: (jnp.sin(x), x), lambda s, x, ct: (number(s) * ct,))
    return f


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("make", [jax, fgrad])
@pytest.mark.parametrize("name, static, number, change", [*statics()], ids=[name for name, *_ in statics()])
def test_rule_sees_what_changes_in_a_static_argument(name, static, number, change, make, kind):
    f = with_static(make, kind, number)
    for value in (2.0, 3.0, 2.0):
        change(value)
        assert fgrad.grad(lambda x: f(x, static))(1.0) == float(number(static))


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("static", [2.0, (1, "a"), {"a": [None]}, jnp.sin, np.ones(2)], ids=lambda s: type(s).__name__)
def test_rule_is_recorded_once_for_equal_static_arguments(static, kind):
    ticks = itertools.count()
    f = with_static(jax, kind, lambda s: 2.0 + 0 * next(ticks))
    for _ in range(3):
        fgrad.grad(lambda x: f(x, static))(1.0)
    assert next(ticks) == 1
