"""The function that ``vjp`` returns as an object, against JAX's; forward and backward pass apart."""

import inspect

import jax
import jax.numpy as jnp
import pytest

import fgrad
from fgrad import errors
from tests.api.compare import same

ad = jax.ad


def test_what_is_kept_is_there_to_be_seen_and_replaced():
    _, pull = fgrad.vjp(lambda d, x: d["a"] * d["b"] * jnp.sin(x), {"a": jnp.float32(2.0), "b": jnp.float32(3.0)}, 1.0)
    assert set(pull.args_res[0]) == {"a", "b"}
    assert len(pull.opaque_residuals) >= 1
    expected = pull(1.0)
    _, again = fgrad.vjp(lambda x, y: x * y, 2.0, 3.0)
    assert again.args_res == [2.0, 3.0] and again.opaque_residuals == []
    again.args_res = [5.0, 7.0]
    assert again(1.0) == (7.0, 5.0)
    again.args_res[0] = None
    with pytest.raises(errors.MismatchError, match="args_res"):
        again(1.0)
    same(jax.jit(lambda f, ct: f(ct))(pull, 1.0), expected)
    assert pull.in_tree == jax.tree.structure(({"a": 0, "b": 0}, 0)) and pull.out_tree == jax.tree.structure(0)


def test_what_only_repeats_something_smaller_is_made_anew():
    def scaled(x, scale):
        return x * jax.lax.broadcast_in_dim(jnp.exp(scale), x.shape, (0,))

    x, scale = jnp.ones((3, 4)), jnp.arange(3.0)
    out, pull = fgrad.vjp(scaled, x, scale)
    assert sorted(kept.size for kept in jax.tree.leaves(pull)) == [3, 12]
    same(pull(out), jax.vjp(scaled, x, scale)[1](out))


def test_cotangents_are_added_to_references():
    def run(of):
        ref = jax.new_ref(jnp.ones(2))
        _, pull = of.vjp(lambda d, x: (d["a"] * x, d["b"] * x), {"a": jnp.ones(2), "b": jnp.arange(2.0)}, jnp.ones(2))
        ct = (jnp.arange(2.0), jnp.ones(2))
        for _ in range(2):
            found = pull.with_refs({"a": ref, "b": ad.DontWant()}, ad.GradValue())(ct)
        return found[1], ref[...], [type(x).__name__ for x in found[0].values()]

    got, expected = run(fgrad), run(jax)
    same(got[:2], expected[:2], weak=False)
    assert got[2] == expected[2]


#: those whose ``vjp`` and ``linearize`` take flags: JAX's from 0.12 on
FLAGGED = [fgrad, jax] if "in_nzs" in inspect.signature(jax.vjp).parameters else [fgrad]


def parts(d, x):
    return {"a": jnp.sin(d["u"]) * d["v"], "b": [x * 2.0, jnp.round(x), d["v"].astype(int), jnp.zeros(3)]}


PRIMALS = {"u": 1.0, "v": jnp.float32(2.0)}, 3.0


@pytest.mark.parametrize("of", FLAGGED, ids=lambda of: of.__name__)
@pytest.mark.parametrize(
    ("in_nzs", "a", "b"),
    [
        (None, True, True),
        (True, True, True),
        (False, False, False),
        ((True, False), True, False),
        ([False, True], False, True),
        (((False, True), True), True, True),
        (({"u": True, "v": False}, False), True, False),
    ],
)
def test_some_primals_have_no_derivative(of, in_nzs, a, b):
    out, pull = of.vjp(parts, *PRIMALS, in_nzs=in_nzs)
    assert pull.out_nzs == {"a": a, "b": [b, False, False, False]}
    _, push = of.linearize(parts, *PRIMALS, in_nzs=in_nzs)
    assert push.out_nzs == pull.out_nzs
    tangents = push({"u": 1.0, "v": jnp.float32(1.0)}, 1.0)
    assert (tangents["a"] != 0, tangents["b"][0] != 0) == (a, b)
    cotangents, of_x = pull(out)
    assert of_x == (12.0 if b else 0.0)
    whole = fgrad.vjp(parts, *PRIMALS)[1](out)[0]
    u, v = (in_nzs[0] if isinstance(in_nzs, list | tuple) else in_nzs,) * 2
    if isinstance(u, tuple):
        u, v = u
    elif isinstance(u, dict):
        u, v = u["u"], u["v"]
    assert cotangents["u"] == (0.0 if u is False else pytest.approx(whole["u"]))
    assert cotangents["v"] == (0.0 if v is False else pytest.approx(whole["v"]))


@pytest.mark.parametrize("of", FLAGGED, ids=lambda of: of.__name__)
def test_primals_that_may_not_be_saved_are_put_back(of):
    _, pull = of.vjp(lambda d, x: d["u"] * d["v"] + x, *PRIMALS, saveable_args=({"u": True, "v": False}, True))
    names = [type(pull.args_res[0][key]).__name__ for key in "uv"]
    assert names[1] == "NotSaveable" and type(pull.args_res[1]).__name__ == "NotNeeded"
    again = jax.tree.unflatten(jax.tree.structure(pull), jax.tree.leaves(pull))
    with pytest.raises(ValueError, match=r"\[0\]\['v'\]"):
        again(1.0)
    again.args_res[0]["v"] = jnp.float32(5.0)
    assert again(1.0)[0]["u"] == 5.0


@pytest.mark.parametrize("of", FLAGGED, ids=lambda of: of.__name__)
@pytest.mark.parametrize(
    "flags", [1, (True,), ((True, True, True), True), (True, (True,)), ({"a": True, "v": True}, True)]
)
def test_flags_of_another_structure_are_refused(of, flags):
    for call in (
        lambda: of.vjp(parts, *PRIMALS, in_nzs=flags),
        lambda: of.vjp(parts, *PRIMALS, saveable_args=flags),
        lambda: of.linearize(parts, *PRIMALS, in_nzs=flags),
    ):
        with pytest.raises(ValueError, match="in_nzs|saveable_args"):
            call()


def test_flags_of_primals_with_references():
    ref = jax.new_ref(jnp.float32(2.0))
    _, pull = fgrad.vjp(lambda r, x: r[...] * x, ref, 3.0, in_nzs=(True, False))
    into = jax.new_ref(jnp.float32(0.0))
    assert pull.with_refs(into, ad.GradValue())(1.0)[1] == 0.0
    assert into[...] == 3.0


def test_what_with_refs_refuses():
    _, pull = fgrad.vjp(jnp.multiply, 2.0, 3.0)
    with pytest.raises(errors.MismatchError, match="an entry for each array"):
        pull.with_refs(ad.GradValue())
    with pytest.raises(errors.MismatchError, match=r"refs\[1\] has the wrong type"):
        pull.with_refs(ad.GradValue(), jax.new_ref(jnp.zeros(3)))


def test_inside_of_jit():
    @jax.jit
    def step(ref, x):
        y, pull = fgrad.vjp(jnp.sin, x)
        pull.with_refs(ref)(1.0)
        pull.with_refs(ref)(1.0)
        return y

    ref = jax.new_ref(jnp.float32(0.0))
    step(ref, 1.0)
    same(ref[...], 2 * jnp.cos(jnp.float32(1.0)))


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("argnums", [0, 1, (1, 0), -1])
def test_forward_and_backward_pass(argnums, jitted):
    def run(of):
        fwd, bwd = of.fwd_and_bwd(lambda x, w: (x @ w, {"n": x.sum()}), argnums, has_aux=True, jitted=jitted)
        out, residuals, aux = fwd(jnp.arange(4.0).reshape(2, 2), jnp.ones((2, 3)))
        return out, aux, bwd(residuals, jnp.ones((2, 3)))

    same(run(fgrad), run(jax))


def test_a_rule_reads_and_writes_references():
    @jax.custom_vjp
    def kept(ref, x):
        return x

    def bwd(ref, ct):
        ref[...] = ct
        return None, 2 * ct

    kept.defvjp(lambda ref, x: (x, ref), bwd)

    def run(of, wrap):
        first, second = jax.new_ref(jnp.float32(0.0)), jax.new_ref(jnp.float32(0.0))
        f = wrap(of.grad(lambda x, ref: kept(ref, jnp.sin(x)) ** 2))
        return [(f(jnp.float32(x), ref), first[...], second[...]) for x in (1.0, 2.0, 3.0) for ref in (first, second)]

    for wrap in (lambda f: f, jax.jit):
        same(run(fgrad, wrap), run(jax, wrap), weak=False)
    same(run(fgrad, fgrad.jit), run(jax, jax.jit), weak=False)
