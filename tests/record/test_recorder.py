"""The recorder: constants, closures, leaks, effects, threads, long chains, levels."""

import gc
import threading
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.run import executable
from fgrad.run.background import wait_for_compilations


def test_a_later_write_to_numpy_changes_nothing():
    a = np.ones(3, np.float32)
    y, pull = fgrad.vjp(lambda x: x * a, jnp.arange(3.0))
    a[:] = 7.0
    assert np.allclose(pull(jnp.ones(3))[0], 1.0)
    graph = fgrad.make_graph(lambda x: x * a)(jnp.ones(3))
    a[:] = 9.0
    assert np.allclose(graph(jnp.ones(3)), 7.0)
    b = np.ones(3, np.float32)
    y, pull = fgrad.vjp(lambda x: x * x, b)
    b[:] = 5.0
    assert np.allclose(pull(jnp.ones(3))[0], 2.0)


def test_numpy_written_between_two_uses():
    def f(x):
        a = np.ones(2, np.float32)
        y = x * a
        a[:] = 3.0
        return jnp.sum(y + x * a)

    assert np.allclose(fgrad.grad(f)(jnp.ones(2)), 4.0)


def test_leaked_tracer_is_named():
    kept = []

    def f(x):
        kept.append(jnp.sin(x))  # the leak
        return x * x

    fgrad.grad(f)(1.0)
    for use in (lambda t: t + 1.0, jnp.cos, float, fnp.cos, lambda t: fgrad.grad(lambda x: x * t)(1.0)):
        with pytest.raises(fgrad.errors.LeakedTracerError, match=r"test_recorder.py:\d+"):
            use(kept[0])


#: what may be done with a value
USES = {
    "operator": lambda t: 2 * t,
    "jax.numpy": jnp.exp,
    "fgrad.numpy": fnp.exp,
    "numpy": np.asarray,
    "number": lambda t: float(t[0]),
    "list": lambda t: t.tolist(),
    "closed over": lambda t: fgrad.grad(lambda x: (x * t).sum())(jnp.ones(3)),
    "argument": lambda t: fgrad.grad(lambda x, t: (x * t).sum())(jnp.ones(3), t),
    "vjp": lambda t: fgrad.vjp(lambda x: x * t, jnp.ones(3))[1](jnp.ones(3))[0],
    "jitted": lambda t: jax.jit(lambda: 2 * t)(),
    "a loop": lambda t: jax.lax.scan(lambda c, _: (c * t, None), jnp.ones(3), None, length=2)[0],
    "text": lambda t: f"{t[0]:.1f}",
}

#: transformations, and compositions that end several recordings
TRANSFORMS = {
    "grad": lambda lib, f: lib.grad(f),
    "jvp": lambda lib, f: lambda x: lib.jvp(f, (x,), (x,)),
    "vjp": lambda lib, f: lambda x: lib.vjp(f, x),
    "jacfwd": lambda lib, f: lib.jacfwd(f),
    "hessian": lambda lib, f: lib.hessian(f),
    "nested": lambda lib, f: lib.grad(lambda x: lib.grad(f)(2 * x).sum()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_value_without_derivative_may_be_kept(transform, use):
    def result(lib):
        kept = []

        def f(x):
            kept.append(jnp.sign(x) + (x > 1) + jax.lax.stop_gradient(x))
            return (x * x).sum()

        transform(lib, f)(jnp.array([-1.0, 0.5, 2.0]))
        return use(kept[0])

    ours, theirs = result(fgrad), result(jax)
    assert type(ours) is type(theirs)
    assert ours == theirs if isinstance(ours, str | list | float) else np.allclose(ours, theirs)


@pytest.mark.parametrize(
    "function",
    [
        lambda keep: lambda x: keep(fgrad.grad(lambda y: (keep(x * (y > 0)) * y).sum())(x)).sum(),
        lambda keep: lambda x: jax.jit(lambda x: keep(x > 0) * x)(x).sum(),
        lambda keep: lambda x: with_own_rule(lambda z: keep(z > 0) * z)(x).sum(),
    ],
    ids=["of an enclosing gradient", "staged", "the body of a function with a rule"],
)
def test_a_value_that_is_no_number_may_not_be_kept(function):
    kept = []
    fgrad.grad(function(lambda x: [kept.append(x), x][1]))(jnp.ones(3))
    for value in kept:
        with pytest.raises(jax.errors.UnexpectedTracerError):
            value + 1.0


def with_own_rule(f):
    f = fgrad.custom_vjp(f)
    f.defvjp(lambda z: (z, None), lambda _, g: (g,))
    return f


def test_perturbation_confusion():
    inner = lambda x: fgrad.grad(lambda y: x + y)(1.0)  # noqa: E731
    assert fgrad.grad(lambda x: x * inner(x))(2.0) == 1.0
    assert fgrad.jvp(lambda x: x * fgrad.jvp(lambda y: x * y, (1.0,), (1.0,))[1], (2.0,), (1.0,))[1] == 4.0


def test_debug_print_runs_once(capfd):
    def f(x):
        y = jnp.sin(x)
        jax.debug.print("y = {y:.3f}", y=y)
        return y * y

    fgrad.value_and_grad(f)(1.0)
    jax.effects_barrier()
    assert capfd.readouterr().out == "y = 0.841\n"
    compiled = fgrad.jit(fgrad.grad(f))
    compiled(1.0)
    compiled(2.0)
    jax.effects_barrier()
    assert capfd.readouterr().out == "y = 0.841\ny = 0.909\n"


def test_callbacks_run_once_and_their_results_are_used():
    calls = []

    def host(x):
        calls.append(float(x))
        return np.float32(x * 10)

    def f(x):
        k = jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), jax.lax.stop_gradient(x))
        return x * k

    assert np.allclose(fgrad.grad(f)(2.0), 20.0)
    assert calls == [2.0] * len(calls) and calls
    calls.clear()

    def g(x):
        k = jax.experimental.io_callback(host, jax.ShapeDtypeStruct((), jnp.float32), jax.lax.stop_gradient(x))
        return x * k

    assert np.allclose(fgrad.grad(g)(2.0), 20.0)
    assert calls == [2.0]


def test_a_changing_number_compiles_nothing_new():
    def step(x, rate, n):
        return fgrad.grad(lambda x: fnp.sum(x * rate + n * x))(x)

    x = jnp.ones(3)
    for i in range(3):
        step(x, 0.1 * i, i)
    before = fgrad.cache_info()
    for i in range(50):
        assert np.allclose(step(x, 0.5 * i, i), 1.5 * i)
    assert fgrad.cache_info() == before


@pytest.mark.slow
def test_memory_stays_flat():
    x = jnp.ones(8)
    f = fgrad.grad(lambda x: fnp.sum(fnp.sin(x) * 2.0))
    for _ in range(200):
        f(x)
    wait_for_compilations()  # of other tests
    gc.collect()
    tracemalloc.start()
    for _ in range(200):
        f(x)
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(2_000):
        f(x)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 10_000


def test_caches_are_bounded(monkeypatch):
    monkeypatch.setattr(executable._executables, "limit", 8)
    for i in range(20):
        fgrad.vjp(lambda x, i=i: fnp.sum(x[: i + 1]), jnp.ones(30))
    assert fgrad.cache_info().programs <= 8


def test_eight_threads():
    x = jnp.linspace(0.0, 1.0, 5)
    expected = [np.asarray(jax.grad(lambda x, k=k: jnp.sum(jnp.sin(k * x)))(x)) for k in range(1, 9)]
    wrong = []

    def work(k):
        for _ in range(30):
            found = fgrad.grad(lambda x: fnp.sum(fnp.sin(float(k) * x)))(x)
            if not np.allclose(found, expected[k - 1], rtol=1e-5):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("n", [20_000, 100_000])
def test_long_chain(n):
    def f(x):
        for _ in range(n):
            x = x * 1.00001
        return fnp.sum(x)

    assert np.allclose(fgrad.grad(f)(jnp.ones(4)), 1.00001**n, rtol=1e-1)


@pytest.mark.slow
def test_long_chain_whose_values_are_all_kept():
    n = 30_000

    def f(x):
        for _ in range(n):
            x = fnp.sin(x)
        return x

    values = [np.float64(1.0)]
    for _ in range(n):
        values.append(np.sin(values[-1]))
    assert np.allclose(fgrad.grad(f)(1.0), np.prod(np.cos(values[:-1])), rtol=1e-2, atol=0)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_sharded_arrays(kind):
    assert jax.device_count() >= 8
    mesh = jax.make_mesh((8,), ("d",), axis_types=(getattr(jax.sharding.AxisType, kind),))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(16.0), sharding)

    def f(x):
        y = jnp.sin(x) * x
        if kind == "Auto":
            y = jax.lax.with_sharding_constraint(y, sharding)
        return jnp.sum(y * y) + jnp.max(x[None, :] * 2.0)

    with jax.set_mesh(mesh):
        expected = jax.grad(f)(x)
        for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f)), jax.jit(fgrad.grad(f))):
            for _ in range(3):
                assert np.allclose(g(x), expected, rtol=1e-5)
                assert g(x).sharding.is_equivalent_to(expected.sharding, 1) or kind == "Auto"
    assert fgrad.jit(fgrad.grad(f), out_shardings=sharding)(x).sharding.is_equivalent_to(sharding, 1)


def test_mixed_namespaces_and_closures():
    w = jnp.linspace(-1.0, 1.0, 4)

    def f(x):
        y = fnp.dot(x, w) + jnp.tanh(x).sum()
        return jax.jit(lambda z: z * y)(y) + jax.vmap(lambda z: z * y)(x).sum()

    x = jnp.linspace(0.0, 1.0, 4)
    assert np.allclose(fgrad.grad(f)(x), jax.grad(f)(x), rtol=1e-5)
