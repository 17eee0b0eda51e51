"""Rematerialisation: values as without it, and what is kept and what is computed again."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors
from tests.api.compare import every_pytree, same, total

X = jnp.array([0.5, -1.5, 2.0])
policies = fgrad.checkpoint_policies


#: as keyword arguments of JAX's policy and of fgrad's
OFFLOADS = {
    "names_which_can_be_saved": ["kept"], "names_which_can_be_offloaded": ["far", "further"],
    "offload_src": "device", "offload_dst": "pinned_host",
}  # fmt: skip


def block(x):
    y = fgrad.checkpoint_name(jnp.sin(x), "far")
    return jnp.sin(fgrad.checkpoint_name(y * jnp.arange(1.0, 4.0), "kept"))


def loss(f):
    return lambda x: jnp.sum(f(f(x)) ** 2)


WRAPPERS = {
    "fgrad": fgrad.checkpoint,
    "fgrad, no fence": functools.partial(fgrad.checkpoint, prevent_cse=False),
    "fgrad, everything": functools.partial(fgrad.checkpoint, policy=policies.everything_saveable),
    "fgrad, dots": fgrad.checkpoint(policy=policies.dots_saveable),
    "fgrad, jax's policy": functools.partial(fgrad.checkpoint, policy=jax.checkpoint_policies.dots_saveable),
    "jax": jax.checkpoint,
    "jax, no fence": functools.partial(jax.checkpoint, prevent_cse=False),
    "jax, policy": functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.everything_saveable),
    "fgrad, offload": functools.partial(
        fgrad.checkpoint, policy=policies.save_and_offload_only_these_names(**OFFLOADS)
    ),
    "fgrad, jax's offload": functools.partial(
        fgrad.checkpoint, policy=jax.checkpoint_policies.save_and_offload_only_these_names(**OFFLOADS)
    ),
    "jax, offload": functools.partial(
        jax.checkpoint, policy=jax.checkpoint_policies.save_and_offload_only_these_names(**OFFLOADS)
    ),
    "jax, fgrad's offload": functools.partial(
        jax.checkpoint, policy=policies.save_and_offload_only_these_names(**OFFLOADS)
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_values_are_those_without(name):
    f, plain = loss(WRAPPERS[name](block)), loss(block)
    same(f(X), plain(X))
    gradient, second = jax.jit(jax.grad(plain))(X), jax.jit(jax.hessian(plain))(X)
    same(fgrad.grad(f)(X), gradient)
    same(fgrad.grad(f)(X), gradient)
    same(jax.jit(fgrad.grad(f))(X), gradient)
    same(fgrad.jit(fgrad.grad(f))(X), gradient)
    same(fgrad.grad(jax.jit(f))(X), gradient)
    same(jax.grad(f)(X), gradient)
    same(jax.jit(fgrad.hessian(f))(X), second, 2e-5)
    same(jax.jit(fgrad.jacrev(fgrad.grad(f)))(X), second, 2e-5)
    same(fgrad.jvp(f, (X,), (X,)), jax.jvp(plain, (X,), (X,)))
    same(fgrad.linearize(f, X)[1](X), jax.jvp(plain, (X,), (X,))[1])
    same(jax.vmap(fgrad.grad(f))(jnp.stack([X, X])), jnp.stack([gradient, gradient]))


def saved(f, *args):
    """How many numbers the backward pass keeps."""
    return sum(np.size(x) for x in jax.tree.leaves(fgrad.vjp(f, *args)[1]))


def test_only_inputs_are_kept():
    deep = lambda x: functools.reduce(lambda y, _: jnp.sin(y) * jnp.cos(y), range(8), x)  # noqa: E731
    x = jnp.linspace(0.1, 1.0, 50)
    assert saved(deep, x) > 8 * 50
    assert saved(fgrad.checkpoint(deep), x) == 50
    assert saved(jax.checkpoint(deep), x) == 50
    assert saved(jax.jit(fgrad.checkpoint(deep)), x) == 50
    assert saved(fgrad.checkpoint(deep, policy=policies.nothing_saveable), x) == 50
    assert saved(fgrad.checkpoint(deep, policy=policies.everything_saveable), x) >= 8 * 50


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit])
def test_policies_choose(wrapped):
    w = jnp.ones((20, 20)) / 20

    def f(x):
        y = fgrad.checkpoint_name(jnp.sin(x), "first")
        z = fgrad.checkpoint_name(jnp.cos(y @ w), "second")
        return jnp.sum(jnp.tanh(z) ** 2)

    x = jnp.linspace(0.0, 1.0, 20)
    expected = jax.grad(f)(x)
    sizes = {}
    for name, policy in {
        "nothing": policies.nothing_saveable,
        "dots": policies.dots_saveable,
        "no batch": policies.dots_with_no_batch_dims_saveable,
        "first": policies.save_only_these_names("first"),
        "all but second": policies.save_any_names_but_these("second"),
        "both": policies.save_only_these_names("first", "second"),
        "either": policies.save_from_both_policies(policies.save_only_these_names("first"), policies.dots_saveable),
        "anything but": policies.save_anything_except_these_names("first"),
        "jax": jax.checkpoint_policies.save_only_these_names("first"),
    }.items():
        g = wrapped(fgrad.checkpoint(f, policy=policy))
        same(fgrad.grad(g)(x), expected, 1e-5)
        sizes[name] = saved(g, x)
    least = sizes["nothing"]
    assert sizes["dots"] == sizes["no batch"] == least + 20
    assert sizes["jax"] == sizes["first"] == sizes["all but second"]
    assert least <= sizes["first"] <= sizes["both"] <= least + 40
    assert sizes["anything but"] > least


def kept_where(api, wrap, f, *args):
    """Size and memory of what the backward pass keeps beside the arguments."""
    leaves = [x for x in jax.tree.leaves(api.vjp(wrap(f), *args)[1]) if isinstance(x, jax.Array)]
    return sorted((x.size, x.sharding.memory_kind) for x in leaves if not any(x.shape == a.shape for a in args))


@pytest.mark.slow
@pytest.mark.parametrize("policy_of", [policies, jax.checkpoint_policies], ids=["fgrad's", "jax's"])
@pytest.mark.parametrize("checkpoint", [fgrad.checkpoint, jax.checkpoint], ids=["fgrad", "jax"])
def test_what_is_offloaded_waits_on_the_host(checkpoint, policy_of):
    w, v = jnp.ones((20, 7)) / 20, jnp.ones((7, 5)) / 7

    def f(x, w, v):
        y = fgrad.checkpoint_name(jnp.cos(x @ w), "far")
        return jnp.tanh(fgrad.checkpoint_name(jnp.sin(y @ v), "kept") ** 2)

    x = jnp.linspace(0.0, 1.0, 20)
    expected = jax.jacrev(f)(x, w, v)
    for policy in (
        policy_of.save_and_offload_only_these_names(**OFFLOADS),
        policy_of.offload_dot_with_no_batch_dims("device", "pinned_host"),
    ):
        wrap = functools.partial(checkpoint, policy=policy)
        assert kept_where(fgrad, wrap, f, x, w, v) == kept_where(jax, wrap, f, x, w, v)
        assert (7, "pinned_host") in kept_where(fgrad, wrap, f, x, w, v)
        gradient = fgrad.vjp(wrap(f), x, w, v)[1](jnp.ones(5))
        assert {g.sharding.memory_kind for g in gradient} == {"device"}
        same(fgrad.jacrev(wrap(f))(x, w, v), expected)

        def looped(f):
            return lambda x: jax.lax.scan(lambda c, _: (c + jnp.sum(f(c, w, v)), None), x, None, 3)[0].sum()

        wrapped = wrap(f)
        for _ in range(3):
            same(fgrad.grad(lambda x, f=wrapped: jnp.sum(f(x, w, v)))(x), jax.grad(lambda x: jnp.sum(f(x, w, v)))(x))
        same(fgrad.grad(looped(wrapped))(x), jax.grad(looped(f))(x))


def test_offloading_policies_are_told_by_value_and_checked():
    both = {**OFFLOADS, "names_which_can_be_saved": ["far"]}
    for policy_of in (policies, jax.checkpoint_policies):
        with pytest.raises(ValueError, match="far"):
            policy_of.save_and_offload_only_these_names(**both)
    assert policies.save_and_offload_only_these_names(**OFFLOADS) == policies.save_and_offload_only_these_names(
        **OFFLOADS
    )
    kept = policies.save_from_both_policies(
        jax.checkpoint_policies.save_and_offload_only_these_names(**OFFLOADS), policies.dots_saveable
    )
    f = lambda x: jnp.sin(jnp.sin(x) @ jnp.ones((3, 2)))  # noqa: E731
    assert (2, "device") in kept_where(fgrad, lambda f: fgrad.checkpoint(f, policy=kept), f, X)


def test_policies_are_told_by_value():
    assert policies.save_only_these_names("a") == policies.save_only_these_names("a")
    assert policies.save_only_these_names("a") != policies.save_any_names_but_these("a")
    assert policies.checkpoint_dots is policies.dots_saveable
    batched = jax.make_jaxpr(lambda a: jnp.einsum("bij,bjk->bik", a, a))(jnp.ones((2, 3, 3))).eqns[-1]
    for eqn in jax.make_jaxpr(lambda a: jnp.einsum("bij,bjk->bik", a, a))(jnp.ones((2, 3, 3))).eqns:
        if eqn.primitive.name == "dot_general":
            batched = eqn
    assert policies.dots_saveable(batched.primitive, **batched.params)
    assert not policies.dots_with_no_batch_dims_saveable(batched.primitive, **batched.params)


def test_compiled_memory_shrinks():
    layer = lambda x, _: (jnp.tanh(x @ jnp.full((64, 64), 0.01) + jnp.sin(x)), None)  # noqa: E731

    def temporary(wrap):
        body = wrap(layer)
        f = lambda x: jnp.sum(jax.lax.scan(body, x, None, length=20)[0])  # noqa: E731
        compiled = jax.jit(fgrad.grad(f)).lower(jnp.ones((64, 64))).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    plain = temporary(lambda f: f)
    for wrap in (fgrad.checkpoint, functools.partial(fgrad.checkpoint, prevent_cse=False), jax.checkpoint):
        assert temporary(wrap) < 0.75 * plain


def test_in_scan_and_nested():
    def run(lib, wrap):
        inner = wrap(lambda c: jnp.sin(c) * c)
        step = wrap(lambda c, a: (inner(c) + a, inner(c)))
        f = lambda x: jnp.sum(jax.lax.scan(step, x[0], x)[1])  # noqa: E731
        return lib.grad(f)(X), lib.jvp(f, (X,), (X,))

    expected = run(jax, lambda f: f)
    for wrap in (fgrad.checkpoint, jax.checkpoint):
        same(run(fgrad, wrap), expected, weak=False)


def test_arguments_of_every_kind():
    f = fgrad.checkpoint(lambda t, k, *, scale: {"y": total(t) * scale, "none": None, "k": k}, static_argnums=1)
    got = fgrad.grad(lambda t: f(t, 3, scale=X[0])["y"])(every_pytree())
    same(got, jax.grad(lambda t: total(t) * X[0])(every_pytree()))
    assert f(every_pytree(), "text", scale=1.0)["k"] == "text"
    g = fgrad.checkpoint(lambda x, mode: x**2 if mode == "square" else x, static_argnames="mode")
    same(fgrad.grad(lambda x: g(x, mode="square"))(3.0), jnp.array(6.0), weak=False)
    with pytest.raises(errors.ArgumentTypeError, match=r"\['mode'\] is not an array"):
        fgrad.grad(lambda x: fgrad.checkpoint(lambda x, mode: x)(x, mode="square"))(3.0)


@pytest.mark.parametrize("x", [3.0, 2, np.arange(3.0)], ids=["float", "int", "numpy"])
def test_numbers_are_arrays_in_the_function(x):
    """Also where nothing is traced: no NumPy arithmetic, and no Python numbers as results."""
    f = lambda d: {"twice": d["x"] * 2}  # noqa: E731
    same(fgrad.checkpoint(f)({"x": x}), jax.checkpoint(f)({"x": x}))


def test_a_static_argument_that_is_not_there():
    f = fgrad.checkpoint(lambda x: x, static_argnums=(5,))
    with pytest.raises(ValueError, match="static_argnums names positional argument 5, .* called with 1 positional"):
        f(1.0)


def test_closing_over_what_is_differentiated():
    f = lambda lib, wrap: lib.grad(lambda a: jnp.sum(wrap(lambda x: jnp.sin(a * x) * a)(X)))(X)  # noqa: E731
    same(f(fgrad, fgrad.checkpoint), f(jax, lambda f: f))
    same(f(jax, fgrad.checkpoint), f(jax, lambda f: f))
    # the outer level is the one that the block belongs to
    g = lambda lib, wrap: lib.grad(lambda a: lib.grad(lambda b: wrap(lambda: a * a)() * b)(2.0))(3.0)  # noqa: E731
    same(g(fgrad, fgrad.checkpoint), g(jax, lambda f: f), weak=False)


def test_values_stay_concrete():
    @fgrad.checkpoint
    def f(x):
        return x * x if x > 0 else -x

    assert fgrad.grad(f)(3.0) == 6.0 and fgrad.grad(f)(-3.0) == -1.0


def test_prints_run_once(capfd):
    @fgrad.checkpoint
    def f(x):
        jax.debug.print("seen {}", x)
        return jnp.sin(x)

    fgrad.grad(f)(1.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("seen") == 1


def test_decorators_and_names():
    @fgrad.remat
    def f(x):
        """Doc."""
        return x

    @fgrad.checkpoint(policy=policies.dots_saveable)
    def g(x):
        return x

    assert (f.__name__, f.__doc__, g.__name__) == ("f", "Doc.", "g")
    assert fgrad.remat is fgrad.checkpoint
    with pytest.raises(TypeError, match="takes a function"):
        fgrad.checkpoint(3)
    same(fgrad.checkpoint_name({"a": X}, "n"), {"a": X})
    same(fgrad.grad(lambda x: fgrad.checkpoint_name(x * x, "n"))(3.0), jnp.array(6.0), weak=False)
