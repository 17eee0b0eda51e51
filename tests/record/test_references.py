"""References (``jax.new_ref``) as values that are threaded through, against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad import errors
from tests.api.compare import same


def twice(x):
    ref = jax.new_ref(x)
    ref[...] = jnp.sin(ref[...])
    ref[...] += x
    return ref[...]


def parts(x):
    ref = jax.new_ref(jnp.zeros(3))
    ref[0] = x
    ref[1] = x * x
    return jnp.sum(ref[:] ** 2)


def in_scan(x):
    ref, other = jax.new_ref(jnp.float32(1.0)), jax.new_ref(x)

    def body(c, y):
        ref[...] = ref[...] * jnp.sin(y * x)
        return c + ref[...] * other[...], ref[...]

    c, ys = lax.scan(body, 0.0, jnp.arange(1.0, 4.0))
    return c + ref[...] + ys.sum()


def rows(x):
    ref = jax.new_ref(jnp.zeros(4))
    lax.scan(lambda _, i: (ref.__setitem__(i, jnp.sin(x * i)), None), None, jnp.arange(4), reverse=True)
    return jnp.sum(ref[...] ** 2)


def in_loop(x):
    ref = jax.new_ref(x)
    lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(..., ref[...] * x), None)
    return ref[...]


def in_branch(x):
    ref, other = jax.new_ref(x), jax.new_ref(2 * x)
    lax.cond(x > 0, lambda: ref.__setitem__(..., ref[...] * x), lambda: other.__setitem__(..., x))
    lax.cond(x < 0, lambda: ref.__setitem__(..., ref[...] * x), lambda: other.__setitem__(..., x))
    return ref[...] * other[...]


def in_jit(x):
    ref = jax.new_ref(x)

    @jax.jit
    def times(ref, y):
        ref[...] = ref[...] * y

    times(ref, x)
    times(ref, x)
    return ref[...]


def in_remat(x):
    ref = jax.new_ref(x)

    @jax.checkpoint
    def body(x):
        inner = jax.new_ref(x)
        inner[...] *= jnp.sin(x)
        return inner[...]

    ref[...] = ref[...] * body(x)
    return ref[...]


def in_vmap(x):
    def square(x):
        ref = jax.new_ref(x)
        ref[...] = ref[...] * x
        return ref[...]

    return jnp.sum(jax.vmap(square)(jnp.stack([x, 2 * x])))


def number_outside(x):
    ref = jax.new_ref(jnp.float32(3.0))

    def body(c, _):
        ref[...] = ref[...] + lax.stop_gradient(c)
        return c * x, None

    return lax.scan(body, x, None, length=3)[0] * lax.stop_gradient(ref[...])


FUNCTIONS = [
    twice, parts, in_scan, rows, in_loop, in_branch, in_jit, in_remat, in_vmap, number_outside
]  # fmt: skip


def places(x):
    ref = jax.new_ref(x * jnp.arange(1.0, 25.0).reshape(2, 3, 4))
    i = jnp.array([0, 1])
    total = jnp.sum(jnp.sin(ref[i, :, i]) * jnp.arange(6.0).reshape(2, 3))
    ref[0, :, ::2] = x * ref[1, :, :2]
    ref[1, i] = ref[0, i] * ref[1, 2]
    ref.at[1, 2][1] = x * x
    jax.ref.addupdate(ref, (slice(None), 1), x * jnp.ones((2, 4)))
    old = jax.ref.swap(ref, (0, 0, 0), x)
    return total + old + jnp.sum(jnp.cos(jax.ref.freeze(ref)))


def placed(x):
    """``places`` without references: JAX fails on it."""
    array = x * jnp.arange(1.0, 25.0).reshape(2, 3, 4)
    i = jnp.array([0, 1])
    total = jnp.sum(jnp.sin(array[i, :, i]) * jnp.arange(6.0).reshape(2, 3))
    array = array.at[0, :, ::2].set(x * array[1, :, :2])
    array = array.at[1, i].set(array[0, i] * array[1, 2])
    array = array.at[1, 2, 1].set(x * x)
    array = array.at[:, 1].add(x)
    return total + array[0, 0, 0] + jnp.sum(jnp.cos(array.at[0, 0, 0].set(x)))


def test_places_in_a_reference():
    x = 0.7
    same(fgrad.value_and_grad(places)(x), jax.value_and_grad(placed)(x), 1e-4, weak=False)
    same(jax.jit(fgrad.value_and_grad(places))(x), jax.value_and_grad(placed)(x), 1e-4, weak=False)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_derivatives_through_references(f):
    x = 0.7
    theirs = jax.jit(f)
    same(fgrad.value_and_grad(f)(x), jax.value_and_grad(theirs)(x), weak=False)
    same(jax.jit(fgrad.grad(f))(x), jax.grad(theirs)(x), weak=False)
    same(fgrad.jvp(f, (x,), (1.0,)), jax.jvp(theirs, (x,), (1.0,)), weak=False)
    same(fgrad.jit(f)(x), jax.jit(f)(x), weak=False)
    same(fgrad.grad(fgrad.jit(f))(x), jax.grad(theirs)(x), weak=False)
    if f is number_outside:
        return
    # JAX has no second derivatives here
    step = 1e-2
    second = (jax.grad(theirs)(x + step) - jax.grad(theirs)(x - step)) / (2 * step)
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f))(x), second, rtol=2e-2, atol=1e-3)


def test_the_graph_is_pure():
    for f in FUNCTIONS:
        text = fgrad.make_graph(f)(0.7).to_text()
        assert not any(name in text for name in ("Ref", "swap", "get "))


def test_a_loop_whose_condition_reads_what_its_body_writes():
    def f(x):
        ref = jax.new_ref(x)

        def body(c):
            ref[...] = ref[...] * x
            return c + ref[...]

        return lax.while_loop(lambda c: (c < 9.0) & (ref[...] < 9.0), body, x) + ref[...]

    pushed = jax.jit(lambda x: jax.jvp(f, (x,), (1.0,)))(2.0)
    same(fgrad.jvp(f, (2.0,), (1.0,)), pushed, weak=False)


def test_a_block_that_is_recomputed_writes_outside_of_it():
    def f(x):
        ref = jax.new_ref(x)
        jax.checkpoint(lambda x: ref.__setitem__(..., ref[...] * x))(x)
        return ref[...]

    # JAX gives 1.0
    assert fgrad.grad(f)(0.5) == 1.0
    same(fgrad.value_and_grad(lambda x: jnp.sin(f(x)))(0.5), (jnp.sin(0.25), jnp.cos(0.25)), weak=False)


def test_references_from_outside_keep_numbers():
    def counted(of):
        seen, total = jax.new_ref(jnp.zeros(2)), jax.new_ref(jnp.float32(0.0))

        def f(x, total):
            seen[0] = lax.stop_gradient(x)
            total[...] += 1
            return x * total[...] * seen[0]

        return of.grad(f)(2.0, total), of.grad(f)(3.0, total), seen[...], total[...]

    same(counted(fgrad), counted(jax))


def test_a_reference_of_an_outer_function_is_a_constant_of_the_inner():
    def f(of):
        def outer(x):
            ref = jax.new_ref(x)
            slope = of.grad(lambda y: y * y * ref[...])(2.0)
            ref[...] = slope * ref[...]
            return ref[...]

        return outer

    assert fgrad.grad(f(fgrad))(3.0) == 24.0


def test_a_differentiated_value_is_not_written_into_a_reference_from_outside():
    ref = jax.new_ref(jnp.float32(0.0))
    with pytest.raises(errors.UndefinedDerivativeError, match="from outside of the differentiated function"):
        fgrad.grad(lambda x: [ref.__setitem__(..., x), ref[...] * x][1])(2.0)
    assert ref[...] == 0


def test_a_reference_does_not_leak():
    kept = []
    fgrad.grad(lambda x: [kept.append(jax.new_ref(x)), x][1])(1.0)
    with pytest.raises(errors.LeakedTracerError):
        fgrad.grad(lambda x: x * kept[0][...])(1.0)


def test_jit_takes_references():
    def step(ref, x):
        ref[1] = ref[0] * x
        ref[0] += 1
        return jnp.sum(ref[...])

    def run(of):
        ref = jax.new_ref(jnp.arange(3.0))
        jitted = of.jit(step)
        return jitted(ref, 2.0), jitted(ref, 3.0), ref[...]

    same(run(fgrad), run(jax))
