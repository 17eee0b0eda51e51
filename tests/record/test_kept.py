"""NOTE [Kept values]: masks and metrics that a differentiated function stores do not hold their recordings."""

import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad

TRANSFORMS = {
    "grad": lambda f: fgrad.grad(f),
    "value_and_grad": lambda f: fgrad.value_and_grad(f),
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: fgrad.vjp(f, x)[1](jnp.ones(())),
    "linearize": lambda f: lambda x: fgrad.linearize(f, x)[1](x),
    "hessian": lambda f: fgrad.hessian(f),
    "grad of grad": lambda f: fgrad.grad(lambda x: fgrad.grad(f)(x).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_list_of_metrics_does_not_hold_the_arguments(transform):
    kept, arguments = [], []

    def loss(x):
        kept.append((x > 1.5).mean())
        return (x**3).sum()

    step = transform(loss)
    for i in range(60):
        x = jnp.arange(4.0) + i % 3
        arguments.append(weakref.ref(x))
        step(x)
        del x
    assert sum(argument() is not None for argument in arguments) < 30
    expected = [((np.arange(4.0) + i % 3) > 1.5).mean() for i in range(60)]
    times = len(kept) // 60
    np.testing.assert_allclose(np.array([float(x) for x in kept[::times]]), expected)


def test_what_jax_maps_is_not_computed_out_of_its_place():
    kept = []

    def loss(x):
        kept.append(x > 1.5)
        return x**3

    step = jax.vmap(fgrad.grad(loss))
    for _ in range(20):
        np.testing.assert_allclose(step(jnp.arange(3.0)), 3 * np.arange(3.0) ** 2)


def test_a_value_that_carries_a_derivative_is_refused_after_many_others():
    kept, masks = [], []

    def loss(x):
        kept.append(jnp.sin(x))
        masks.append(x > 0)
        return x * 2.0

    for i in range(20):
        fgrad.grad(loss)(float(i))
    with pytest.raises(fgrad.errors.LeakedTracerError):
        kept[0] + 1
    assert [bool(x) for x in masks] == [i > 0 for i in range(20)]


def test_pull_backs_that_are_held_still_run():
    kept, pullbacks = [], []

    def loss(x):
        kept.append(x > 1)
        return x**2

    for i in range(20):
        pullbacks.append(fgrad.vjp(loss, float(i))[1])
    assert [float(pullback(1.0)[0]) for pullback in pullbacks] == [2.0 * i for i in range(20)]
    assert [bool(x) for x in kept] == [i > 1 for i in range(20)]


def test_of_two_that_are_held_in_one_another_both_are_right():
    outer, inner = [], []

    def loss(x):
        outer.append(x > 1)

        def second(y):
            inner.append((y > 2) & outer[-1])
            return x * y**2

        return fgrad.grad(second)(x)

    for i in range(20):
        fgrad.grad(loss)(float(i))
    assert [bool(x) for x in inner] == [i > 2 for i in range(20)]
    assert [bool(x) for x in outer] == [i > 1 for i in range(20)]
