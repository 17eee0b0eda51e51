"""References (``jax.new_ref``) as values that are threaded through, against JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad import errors
from tests.api.compare import same
from tests.oracle import compiled


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
    expected = compiled(jax.value_and_grad(placed))(x)
    same(fgrad.value_and_grad(places)(x), expected, 1e-4, weak=False)
    same(jax.jit(fgrad.value_and_grad(places))(x), expected, 1e-4, weak=False)


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


@pytest.mark.parametrize("has_aux", [False, True])
def test_forward_mode_at_references(has_aux: bool):
    def f(x, refs):
        refs["a"][...] = jnp.sin(refs["a"][...]) * x
        y = refs["a"][...] * refs["b"][0]
        return (y, {"twice": 2 * x}) if has_aux else y

    def run(lib):
        primals, tangents = [
            {"a": jax.new_ref(jnp.float32(a)), "b": jax.new_ref(jnp.float32([b, b]))} for a, b in ((2, 3), (0.5, 4))
        ]
        found = lib.jvp(f, (3.0, primals), (1.0, tangents), has_aux=has_aux)
        return found, jax.tree.map(lambda r: r[...], (primals, tangents))

    same(run(fgrad), run(jax))


@pytest.mark.parametrize("has_aux", [False, True])
def test_linearizing_at_references(has_aux: bool):
    def f(ref, x):
        ref[...] = jnp.sin(ref[...]) * x
        out = ref[0] * x + ref[1]
        return (out, {"x": x}) if has_aux else out

    found = []
    for lib in (jax, fgrad):
        ref, tangent = jax.new_ref(jnp.arange(3.0)), jax.new_ref(jnp.ones(3))
        out, push, *aux = lib.linearize(f, ref, 2.0, has_aux=has_aux)
        found.append((out, aux, ref[...], push(tangent, 1.5), tangent[...], push(tangent, 0.5), tangent[...]))
    same(*found)
    with pytest.raises(errors.MismatchError, match="tangents.0. has the wrong type"):
        push(jnp.ones(3), 1.0)


def test_forward_mode_at_references_in_transformations():
    def cubed(lib):
        def outer(x):
            ref, tangent = jax.new_ref(x), jax.new_ref(jnp.ones_like(x))

            def f(r):
                r[...] = jnp.sin(r[...])
                return r[...] ** 3

            return *lib.jvp(f, (ref,), (tangent,)), ref[...], tangent[...]

        return outer

    x = jnp.arange(1.0, 3.0)
    for transform in (
        lambda _, f: jax.jit(f)(x),
        lambda _, f: jax.vmap(f)(x),
        lambda lib, f: lib.jvp(f, (x,), (x,)),
        lambda lib, f: lib.grad(lambda x: sum(map(jnp.sum, f(x))))(x),
        lambda lib, f: lib.jit(f)(x),
    ):
        same(transform(fgrad, cubed(fgrad)), transform(jax, cubed(jax)), weak=False)


def test_forward_mode_at_references_of_integers():
    def run(lib, tangent):
        count = jax.new_ref(jnp.int32([2, 3]))

        def f(count, x):
            count[0] += 1
            return x * count[...]

        return lib.jvp(f, (count, 3.0), (tangent, 1.0)), count[...]

    none = np.zeros(2, jax.dtypes.float0)
    # later versions of JAX make no references to float0
    tangents = [none, jax.new_ref(none)] if jax.__version_info__ < (0, 11) else [none]
    for tangent in tangents:
        same(run(fgrad, tangent), run(jax, tangent))
    for tangent in (none[:1], jax.new_ref(jnp.int32([0, 0]))):
        with pytest.raises(errors.MismatchError, match=r"tangents\[0\]"):
            run(fgrad, tangent)


def test_forward_mode_at_a_reference_that_is_closed_over_too():
    ref, tangent = jax.new_ref(2.0), jax.new_ref(1.0)
    for f in (
        lambda r: r[...] * ref[...],
        lambda r: r[...] * tangent[...],
        lambda r: [ref.__setitem__(..., 3.0), r[...]][1],
        lambda r: lax.fori_loop(0, 2, lambda _, x: x * ref[...], r[...]),
        lambda r: jax.jit(lambda x: x * ref[...])(r[...]),
        lambda r: r[...] * fgrad.grad(lambda x: x * ref[...])(1.0),
    ):
        with pytest.raises(errors.UndefinedDerivativeError, match="closed over. Way out: use the argument"):
            fgrad.jvp(f, (ref,), (tangent,))
    assert (ref[...], tangent[...]) == (2.0, 1.0)


@pytest.mark.parametrize("transform", [fgrad.grad, fgrad.value_and_grad])
def test_a_reference_that_the_function_made_is_no_output(transform):
    for x in (1.0, jnp.float32(1.0)):
        with pytest.raises(errors.ReferenceArgumentError, match="the function's output is a reference"):
            transform(jax.new_ref)(x)


@pytest.mark.parametrize(
    "transform",
    [
        lambda lib, f, x: lib.grad(f, has_aux=True)(x)[1],
        lambda lib, f, x: lib.value_and_grad(f, has_aux=True)(x)[0][1],
        lambda lib, f, x: lib.jacrev(f, has_aux=True)(x)[1],
        lambda lib, f, x: lib.vjp(f, x, has_aux=True)[2],
        lambda lib, f, x: lib.jvp(f, (x,), (x,), has_aux=True)[2],
        lambda lib, f, x: lib.linearize(f, x, has_aux=True)[2],
    ],
)
def test_a_reference_that_the_function_made_is_auxiliary_data(transform):
    def f(x):
        ref, number = jax.new_ref(x), jax.new_ref(jnp.arange(2))
        ref[...] = ref[...] * x
        return jnp.sum(x), (ref, {"same": ref, "number": number, "value": x})

    for call in (lambda run: run(), lambda run: jax.jit(run)(), lambda run: fgrad.jit(run)()):
        found = []
        for lib in (jax, fgrad):

            def run(lib=lib):
                ref, rest = transform(lib, f, jnp.float32(3.0))
                assert rest["same"] is ref
                ref[...] += 1.0
                return ref[...], rest["number"][...], rest["value"]

            found.append(call(run))
        same(*found)


def test_the_derivative_of_what_a_reference_in_auxiliary_data_holds():
    def outer(lib):
        def f(x):
            slope, ref = lib.grad(lambda x: (x**2, jax.new_ref(x**3)), has_aux=True)(x)
            return slope * ref[...]

        return f

    assert fgrad.grad(outer(fgrad))(2.0) == jax.grad(outer(jax))(2.0) == jax.grad(outer(fgrad))(2.0)


def test_an_argument_that_is_auxiliary_data():
    def f(x, ref):
        ref[...] *= x
        return ref[...] * x, (ref, x)

    for lib in (jax, fgrad):
        ref, tangent = jax.new_ref(2.0), jax.new_ref(1.0)
        assert lib.vjp(f, 3.0, ref, has_aux=True)[2][0] is ref
        assert lib.linearize(f, 3.0, ref, has_aux=True)[2][0] is ref
        assert lib.jvp(f, (3.0, ref), (1.0, tangent), has_aux=True)[2][0] is ref
        assert ref[...] == 54.0


def test_references_from_outside_are_auxiliary_data():
    outside = jax.new_ref(2.0)
    assert fgrad.grad(lambda x: (x, outside), has_aux=True)(1.0)[1] is outside

    def nested(x):
        ref = jax.new_ref(x)
        slope, same_ref = fgrad.grad(lambda y: (y * ref[...], ref), has_aux=True)(1.0)
        return slope * same_ref[...]

    assert fgrad.grad(nested)(3.0) == 6.0


def test_references_that_have_no_gradient_or_tangent():
    ref = jax.new_ref(1.0)
    for transform in (fgrad.grad, fgrad.value_and_grad, fgrad.jacrev):
        with pytest.raises(errors.ReferenceArgumentError, match=r"args\[0\] is a reference .*\n.*pass what it holds"):
            transform(lambda r: r[...])(ref)
        with pytest.raises(errors.ReferenceArgumentError, match=r"args\[0\] is a reference"):
            jax.jit(lambda x, transform=transform: transform(lambda r: r[...])(jax.new_ref(x)))(1.0)
    with pytest.raises(errors.MismatchError, match=r"tangents\[0\]"):
        fgrad.jvp(lambda r: r[...], (ref,), (1.0,))
    with pytest.raises(ValueError, match="occurs twice in primals"):
        fgrad.jvp(lambda r, s: r[...], (ref, ref), (jax.new_ref(1.0), jax.new_ref(1.0)))
    tangent = jax.new_ref(1.0)
    with pytest.raises(ValueError, match="occurs twice in tangents"):
        fgrad.jvp(lambda r, s: r[...], (ref, jax.new_ref(2.0)), (tangent, tangent))
    with pytest.raises(ValueError, match="occurs twice in tangents"):
        fgrad.linearize(lambda r, s: r[...], ref, jax.new_ref(2.0))[1](tangent, tangent)


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


def test_forward_mode_of_a_function_that_returns_its_reference():
    def run(lib):
        ref, tangent = jax.new_ref(jnp.float32(2.0)), jax.new_ref(jnp.float32(0.5))

        def f(x, r):
            r[...] = r[...] * x
            return {"own": jax.new_ref(jnp.sin(x)), "given": r, "value": x * r[...]}

        out, out_tangent = lib.jvp(f, (3.0, ref), (1.0, tangent))
        assert out["given"] is ref and out_tangent["given"] is tangent
        return [[x[...] for x in jax.tree.leaves(tree)] for tree in (out, out_tangent)]

    same(run(fgrad), run(jax), weak=False)


def test_reverse_mode_at_references_that_are_written():
    def run(lib):
        ref, cotangent = jax.new_ref(jnp.zeros(3)), jax.new_ref(jnp.ones(3))
        y, pull = lib.vjp(lambda r, x: r.__setitem__(0, jnp.sin(x)), ref, 2.0)
        found = pull.with_refs(cotangent, jax.ad.GradValue())(None)
        assert isinstance(found[0], jax.ad.GradRef)
        return found[1], ref[...], cotangent[...]

    same(run(fgrad), run(jax))


def looped(x, refs):
    lax.fori_loop(0, 3, lambda i, _: refs["r"].__setitem__(i, refs["r"][i] * x), None)
    return refs["r"][...].sum() * x + refs["n"][...]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_reverse_mode_at_references_that_are_read(wrap):
    # JAX has no reverse mode of functions that read them
    value, last = jnp.arange(1.0, 4.0), jnp.float32([3.0, 0.0, -1.0])

    @wrap
    def run(x):
        refs = {"n": jax.new_ref(jnp.int32(4)), "r": jax.new_ref(value)}
        y, pull, aux = fgrad.vjp(lambda x, refs: (looped(x, refs), refs["r"][0]), x, refs, has_aux=True)
        cotangent = jax.new_ref(last)
        wanted = jax.ad.GradValue(), {"n": jax.ad.DontWant(), "r": cotangent}
        found = pull.with_refs(*wanted)(2.0)
        assert isinstance(found[1]["n"], jax.ad.DidntWant) and isinstance(found[1]["r"], jax.ad.GradRef)
        return y, aux, found[0], refs["r"][...], cotangent[...]

    def pure(x, value):
        ref = jax.new_ref(value)
        y = looped(x, {"r": ref, "n": jax.new_ref(4)})
        return y, ref[...]

    (y, new), pull = jax.vjp(pure, jnp.float32(2.0), value)
    slope, first = pull((jnp.float32(2.0), last))
    same(run(jnp.float32(2.0)), (y, new[0], slope, new, first), weak=False)


def test_the_cotangent_of_a_reference_is_in_a_reference():
    _, pull = fgrad.vjp(lambda x, r: x * r[...], 3.0, jax.new_ref(2.0))
    assert pull.in_tree.num_leaves == 2 and pull.out_tree.num_leaves == 1
    with pytest.raises(errors.ReferenceArgumentError, match=r"primals\[1\] is a reference .*\n.*with_refs"):
        pull(1.0)
    for wrong in (jax.ad.GradValue(), 1.0, jax.new_ref(jnp.ones(2))):
        with pytest.raises(errors.MismatchError, match=r"refs\[1\]"):
            pull.with_refs(jax.ad.GradValue(), wrong)
    with pytest.raises(errors.MismatchError, match="an entry for each"):
        pull.with_refs(jax.ad.GradValue())
    again = jax.tree.unflatten(jax.tree.structure(pull), jax.tree.leaves(pull))
    assert again.with_refs(jax.ad.GradValue(), jax.ad.DontWant())(1.0)[0] == 2.0
    with pytest.raises(errors.ReferenceArgumentError, match="the function's output"):
        fgrad.vjp(lambda x, r: r, 3.0, jax.new_ref(2.0))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda x: jax.lax.map(f, x[None])[0]])
def test_running_statistics_in_a_reference_from_outside(wrap):
    def run(lib):
        mean = jax.new_ref(jnp.zeros(2))

        def loss(x):
            mean[...] = 0.9 * mean[...] + 0.1 * lax.stop_gradient(x)
            return jnp.sum((x - mean[...]) ** 2)

        step = wrap(lib.grad(loss))
        return step(jnp.arange(2.0)), step(jnp.ones(2)), mean[...]

    same(run(fgrad), run(jax))


def test_an_inner_function_writes_values_of_an_outer_one():
    def outer(x):
        ref = jax.new_ref(x)

        def inner(y):
            ref[...] = x * ref[...] * lax.stop_gradient(y)
            return y**2

        return fgrad.grad(inner)(x) + ref[...]  # 2 x + 3 x ** 2, since 3 stands for x

    assert fgrad.grad(outer)(3.0) == 20.0
    assert jax.jit(fgrad.grad(outer))(3.0) == 20.0
    ref = jax.new_ref(0.0)
    with pytest.raises(errors.UndefinedDerivativeError, match="from outside of the differentiated function"):
        fgrad.grad(lambda x: fgrad.grad(lambda y: [ref.__setitem__(..., 2 * x), y * x][1])(1.0))(2.0)


@pytest.mark.parametrize("checkpoint", [jax.checkpoint, fgrad.checkpoint], ids=["jax", "fgrad"])
@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit], ids=["plain", "fgrad.jit"])
def test_a_block_that_is_recomputed_takes_references(wrap, checkpoint):
    block = checkpoint(lambda x, held, scale: jnp.sum(jnp.sin(x) * held["ref"][...] * scale), static_argnums=2)
    f = lambda x, ref: block(x, {"ref": ref}, 2.0)  # noqa: E731
    x = jnp.array([0.5, -1.5, 2.0])
    ref = jax.new_ref(3 * x)
    same(wrap(fgrad.grad(f))(x, ref), jax.grad(f)(x, ref))
    same(wrap(fgrad.grad(lambda x: f(x, ref)))(x), jax.grad(f)(x, ref))
    same(f(x, ref), jnp.sum(jnp.sin(x) * x * 6.0))
    own = lambda x: f(x, jax.new_ref(x))  # noqa: E731
    same(wrap(fgrad.grad(own))(x), 2.0 * (jnp.cos(x) * x + jnp.sin(x)))


# -- references in backward rules ------------------------------------------------------------------------------------


@jax.custom_vjp
def added_up(ref, x):
    return x


def _add_up(ref, ct):
    ref[...] += ct
    return None, ct


added_up.defvjp(lambda ref, x: (x, ref), _add_up)


@jax.custom_vjp
def stored_at(ref, i, x):
    return x


def _store_at(residuals, ct):
    ref, i = residuals
    ref[i] = ct
    return None, None, 2.0 * ct


stored_at.defvjp(lambda ref, i, x: (x, (ref, i)), _store_at)


def stored_in_scan(x, ref):
    return lax.scan(lambda c, i: (stored_at(ref, i, jnp.sin(c)), None), x, jnp.arange(3))[0].sum()


def added_in_loop(x, ref):
    return lax.fori_loop(0, 3, lambda _, c: added_up(ref, jnp.sin(c)), x * jnp.ones((3, 1))).sum()


def added_in_jit(x, ref):
    return jax.jit(lambda x: jax.jit(lambda x: added_up(ref, x * jnp.ones((3, 1))))(x))(x).sum()


def added_in_remat(x, ref):
    block = jax.checkpoint(lambda x, ref: lax.scan(lambda c, _: (added_up(ref, c), c), x, None, length=2)[0])
    return jnp.sum(jnp.sin(block(x * jnp.ones((3, 1)), ref)))


def read_and_added_in_scan(x, ref):
    """What the function itself reads is a constant, whatever the rules write."""

    def body(c, _):
        return added_up(ref, jnp.sin(c) * ref[...]), None

    ref[...] += 1.0
    return lax.scan(body, x * jnp.ones((3, 1)), None, length=2)[0].sum()


IN_BACKWARD_RULES = [stored_in_scan, added_in_loop, added_in_jit, added_in_remat, read_and_added_in_scan]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("f", IN_BACKWARD_RULES, ids=lambda f: f.__name__)
def test_a_backward_rule_writes_a_reference(f, wrap):
    def pulled_back_twice(library, x):
        ref = jax.new_ref(jnp.zeros((3, 3)))
        out, pull_back = library.vjp(lambda x: f(x, ref), x)
        return out, pull_back(1.0), pull_back(2.0), jax.ref.freeze(ref)

    x = jnp.array([0.5, -1.5, 2.0])
    same(wrap(lambda x: pulled_back_twice(fgrad, x))(x), jax.jit(lambda x: pulled_back_twice(jax, x))(x))


def test_a_graph_with_a_reference_from_outside_is_shown():
    ref = jax.new_ref(jnp.zeros((3, 3)))
    assert "Ref{float32[3,3]} = const a reference" in str(fgrad.make_graph(lambda x: added_in_jit(x, ref))(jnp.ones(3)))


@jax.custom_vjp
def counted(x, count):
    return jnp.sin(x)


def _count(residuals, ct):
    x, count = residuals
    count[...] += 1
    return ct * jnp.cos(x) * count[...].astype(x.dtype), None


counted.defvjp(lambda x, count: (jnp.sin(x), (x, count)), _count)


def of_integers_in_loop(x, count):
    y = lax.scan(lambda c, _: (counted(c, count), None), x, None, length=3)[0]
    return lax.fori_loop(0, 2, lambda _, c: jax.jit(counted)(c, count), y).sum()


def of_integers_in_branch(x, count):
    return lax.cond(x.sum() > 0, lambda x: counted(x, count), lambda x: counted(counted(x, count), count), x).sum()


def of_integers_without_branch(x, count):
    return counted(x, count).sum()


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("start", [np.int32(70000), np.int8(-3), np.uint32(4294967290)], ids=lambda s: s.dtype.name)
@pytest.mark.parametrize(
    ("f", "same_for_jax"),
    # JAX has no derivative of a branch that takes a reference
    [(of_integers_in_loop, of_integers_in_loop), (of_integers_in_branch, of_integers_without_branch)],
    ids=lambda f: f.__name__,
)
def test_a_backward_rule_in_a_loop_counts_in_integers(f, same_for_jax, start, wrap):
    def pulled_back(library, f, x):
        count = jax.new_ref(jnp.asarray(start))
        gradient = library.grad(lambda x: f(x, count))(x)
        return gradient, jax.ref.freeze(count)

    x = jnp.array([0.5, -1.5, 2.0])
    same(wrap(lambda x: pulled_back(fgrad, f, x))(x), jax.jit(lambda x: pulled_back(jax, same_for_jax, x))(x))


def created_here(x):
    """Backward begins with what the reference holds in the end, and goes from the last call to the first."""
    count = jax.new_ref(x)
    y = counted(x, count)
    count[...] = count[...] * 3.0
    return (counted(y, count) * counted(x, count)).sum()


def created_in_jit(x):
    return jax.jit(created_here)(x)


def created_in_remat(x):
    return jax.checkpoint(created_here)(x)


def created_in_loop(x):
    return lax.scan(lambda c, _: (_created_in_body(c), None), x, None, length=2)[0].sum()


def created_in_python_loop(x):
    return _created_in_body(_created_in_body(x)).sum()


def created_in_branch(x):
    return lax.cond(x.sum() > 0, _created_in_body, jnp.sin, x).sum()


def created_in_python_branch(x):
    return _created_in_body(x).sum()


def _created_in_body(x):
    count = jax.new_ref(jnp.int32(2))
    return counted(counted(x, count), count)


def created_before_loop(x):
    count, other = jax.new_ref(jnp.int32(2)), jax.new_ref(2.0)
    y = lax.scan(lambda c, _: (counted(counted(c, count), other), None), counted(x, count), None, length=2)[0]
    return (counted(y, other) * count[...]).sum()


def created_for_a_constant(x):
    count = jax.new_ref(jnp.int32(2))
    return (x * counted(jnp.ones(3), count) * counted(x, count)).sum()


def created_in_vmap(x):
    return jax.vmap(created_here)(x).sum()


#: JAX has no derivative where a jitted function, a branch or, from 0.12 on, a ``checkpoint`` creates the reference; in
#: a loop it creates only one
OWN = [
    (created_here, created_here), (created_in_jit, created_here), (created_in_remat, created_here),
    (created_in_loop, created_in_python_loop), (created_in_branch, created_in_python_branch),
    (created_before_loop, created_before_loop), (created_in_vmap, created_in_vmap),
    (created_for_a_constant, created_for_a_constant),
]  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize(("f", "same_for_jax"), OWN, ids=lambda f: f.__name__)
def test_a_backward_rule_uses_a_reference_that_was_created_in_the_function(f, same_for_jax, wrap):
    x = jnp.array([0.5, -1.5, 2.0])
    expected = jax.jit(jax.value_and_grad(same_for_jax))(x)
    same(wrap(fgrad.value_and_grad(f))(x), expected)
    same(wrap(fgrad.value_and_grad(fgrad.jit(f)))(x), expected)


def _counts(x, ref):
    ref[...] += 1
    return x * 2.0


def _counts_otherwise(x, ref):
    ref[...] += 10
    return x * 2.0 + 0 * ref[...], x


@pytest.mark.parametrize("jit", [None, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("forward", ["calls the function", "writes otherwise"])
def test_of_a_function_and_its_forward_rule_one_runs(forward, symbolic_zeros, jit):
    def run(lib, jit):
        f = jax.custom_vjp(_counts)

        def fwd(x, ref):
            x = x.value if symbolic_zeros else x
            ref = ref.value if symbolic_zeros else ref
            return (f(x, ref), x) if forward == "calls the function" else _counts_otherwise(x, ref)

        f.defvjp(fwd, lambda x, ct: (ct * x, None), symbolic_zeros=symbolic_zeros)
        ref = jax.new_ref(jnp.zeros(()))

        def h(x):
            return f(f(x, ref), ref) + f(jnp.float32(3.0), ref) + f(lax.stop_gradient(x), ref)

        found = []
        for g in (h, lib.grad(h), lib.grad(lambda x: lib.grad(h)(x) * x)):
            found += [(jit or (lambda g: g))(g)(jnp.float32(2.0)), ref[...]]
        y, pull = lib.vjp(h, jnp.float32(2.0))
        return [*found, y, pull(jnp.float32(1.0)), pull(jnp.float32(1.0)), ref[...]]

    same(run(fgrad, jit), run(jax, jit and jax.jit))


@pytest.mark.parametrize("jit", [None, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32])
def test_rules_in_a_loop_run_where_their_function_is_differentiated(dtype, jit):
    def run(lib, jit):
        @jax.custom_vjp
        def f(x, forward, backward):
            forward[...] += 1
            return jnp.sin(x)

        def fwd(x, forward, backward):
            forward[...] = 2 * forward[...] + 10
            return jnp.sin(x), (x, backward)

        def bwd(residuals, ct):
            x, backward = residuals
            backward[...] = 3 * backward[...] + 1
            return jnp.cos(x) * ct, None, None

        f.defvjp(fwd, bwd)
        refs = [jax.new_ref(jnp.zeros((), dtype)) for _ in range(2)]

        def step(y, n):
            return f(y, *refs) + jax.jit(f)(y, *refs), f(n, *refs)

        def g(x):
            jax.jit(f)(x, *refs)  # nobody reads its result, so its backward rule does not run
            return lax.scan(step, x, jnp.arange(3.0))[0]

        def with_a_constant(x):
            return x * g(lax.stop_gradient(x))

        found = []
        for h in (g, lib.grad(g), lib.grad(lib.grad(g)), lib.grad(with_a_constant), lambda x: lib.vjp(g, x)[0]):
            found += [(jit or (lambda h: h))(h)(1.3), *(ref[...] for ref in refs)]
            for ref in refs:
                ref[...] = jnp.zeros((), dtype)
        return found

    same(run(fgrad, jit), run(jax, jit and jax.jit))


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
def test_a_rule_writes_what_is_being_differentiated(around):
    """This has no derivative, so a reference from outside may hold it."""

    def run(lib):
        @jax.custom_vjp
        def f(x, ref):
            ref[...] += x
            return jnp.sin(x)

        def fwd(x, ref):
            ref[...] -= x
            return jnp.sin(x), x

        f.defvjp(fwd, lambda x, ct: (jnp.cos(x) * ct, None))
        ref = jax.new_ref(jnp.float32(0.0))

        def g(x):
            return around(lambda x: f(f(x, ref), ref) * x)(x)

        return g(0.7), ref[...], lib.grad(g)(0.7), ref[...]

    same(run(fgrad), run(jax), weak=False)


def forward_ruled(symbolic_zeros):
    """A function with a rule that writes a reference otherwise than the function does, and the tangent's."""

    @jax.custom_jvp
    def f(ref, x):
        ref[...] += 2.0 * x
        return 3.0 * x

    def rule(primals, tangents):
        (ref, x), (d_ref, dx) = primals, tangents
        ref[...] += 20.0 * x
        if not isinstance(dx, jax.custom_derivatives.SymbolicZero):
            d_ref[...] += 3.0 * dx
            dx = 5.0 * dx
        return 3.0 * x, dx

    f.defjvp(rule, symbolic_zeros=symbolic_zeros)
    return f


def _once(f, x):
    ref = jax.new_ref(x * x)
    return f(ref, x) * x + ref[...]


def _of_a_constant(f, x):
    ref = jax.new_ref(x * x)
    return f(ref, 2.0) * x + ref[...]


def _in_scan(f, x):
    ref = jax.new_ref(0.0)
    y, _ = lax.scan(lambda c, _: (f(ref, c), ref[...]), x, None, length=3)
    return y * x + ref[...] ** 2


def _in_cond(f, x):
    ref = jax.new_ref(0.0)
    y = lax.cond(x > 0, lambda c: f(ref, c), lambda c: c * ref[...], x)
    return y * x + jnp.sin(ref[...])


def _in_jit(f, x):
    ref = jax.new_ref(1.0)
    return jax.jit(lambda ref, x: f(ref, x))(ref, x) * x * ref[...]


@pytest.mark.parametrize("how", ["jvp", "value_and_grad", "linearize", "jvp of grad"])
@pytest.mark.parametrize("around", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("program", [_once, _of_a_constant, _in_scan, _in_cond, _in_jit], ids=lambda f: f.__name__[1:])
def test_a_rule_for_forward_mode_takes_references(program, symbolic_zeros, around, how):
    f = functools.partial(program, forward_ruled(symbolic_zeros))

    def derived(library):
        if how == "jvp":
            return lambda x: library.jvp(f, (x,), (2.0,))
        if how == "linearize":
            return lambda x: [library.linearize(f, x)[0], library.linearize(f, x)[1](2.0)]
        if how == "jvp of grad":
            return lambda x: library.jvp(library.grad(f), (x,), (1.0,))
        return library.value_and_grad(f)

    # JAX's versions differ in the weakness of a cotangent that passes through a reference
    for found, expected in zip(
        jax.tree.leaves(around(derived(fgrad))(1.5)), jax.tree.leaves(derived(jax)(1.5)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_rule_for_forward_mode_counts_in_integers():
    @jax.custom_jvp
    def f(ref, x):
        ref[...] += 1
        return 3.0 * x

    @f.defjvp
    def rule(primals, tangents):
        primals[0][...] += 10
        return 3.0 * primals[1], 5.0 * tangents[1]

    def counted(x):
        ref = jax.new_ref(0)
        return f(ref, f(ref, x)) * x, ref[...]

    same(fgrad.value_and_grad(counted, has_aux=True)(1.5), jax.value_and_grad(counted, has_aux=True)(1.5))
    same(fgrad.make_graph(counted)(1.5)(1.5), counted(1.5))


@pytest.mark.parametrize("how", ["jvp", "grad", "jit"])
def test_a_rule_for_forward_mode_writes_into_a_reference_from_outside(how):
    @jax.custom_jvp
    def f(ref, x):
        ref[...] += 2.0 * x
        return 3.0 * x

    @f.defjvp
    def rule(primals, tangents):
        (ref, x), (_, dx) = primals, tangents
        ref[...] += 20.0 * x
        return 3.0 * x, 5.0 * dx

    def run(library):
        outside = jax.new_ref(0.0)

        def g(x):
            return f(outside, x) * x

        if how == "jvp":
            return library.jvp(g, (1.5,), (2.0,)), outside[...]
        if how == "jit":
            return jax.jit(library.grad(g))(1.5), outside[...]
        return library.grad(g)(1.5), outside[...]

    same(run(fgrad), run(jax), weak=False)


def _logged(library, kind, by_argument):
    """A function that appends 1 to a log from outside, while its forward rule appends 2 and its backward rule 3."""
    log, count = jax.new_ref(jnp.zeros(6)), jax.new_ref(0)

    def append(value, log, count):
        log[count[...]] = value
        count[...] += 1

    def function(log, count, x):
        append(1.0, log, count)
        return jnp.sin(x)

    def jvp(primals, tangents):
        append(2.0, *primals[:2])
        return jnp.sin(primals[2]), tangents[2] * (jnp.cos(primals[2]) if kind == "jvp" else 0.0)

    def fwd(log, count, x):
        append(2.0, log, count)
        return jnp.sin(x), (log, count, x)

    def bwd(residuals, ct):
        append(3.0, *residuals[:2])
        return None, None, ct * jnp.cos(residuals[2])

    if by_argument:
        ruled = (library.custom_vjp if kind == "vjp" else library.custom_jvp)(function)
        ruled.defvjp(fwd, bwd) if kind == "vjp" else ruled.defjvp(jvp)
        return log, lambda x: ruled(log, count, x)
    ruled = (library.custom_vjp if kind == "vjp" else library.custom_jvp)(lambda x: function(log, count, x))
    if kind == "vjp":
        ruled.defvjp(lambda x: (fwd(log, count, x)[0], x), lambda x, ct: bwd((log, count, x), ct)[2:])
    else:
        ruled.defjvp(lambda primals, tangents: jvp((log, count, *primals), (None, None, *tangents)))
    return log, ruled


_CALLS = {
    "once": lambda f: f,
    "twice": lambda f: lambda x: f(f(x)),
    "of a constant": lambda f: lambda x: f(lax.stop_gradient(x)) * x,
    "in a scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "in a branch": lambda f: lambda x: lax.cond(x > 0, f, jnp.cos, x),
    "in jit": jax.jit,
}


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("kind", ["jvp", "zero", "vjp"])
@pytest.mark.parametrize("by_argument", [True, False], ids=["argument", "closed over"])
def test_either_a_function_or_its_rules_write_outside_in_the_order_of_the_passes(by_argument, kind, call):
    if call.startswith("in") and (not by_argument or (kind != "vjp" and jax.__version_info__ >= (0, 11))):
        pytest.skip("refused")
    constant, calls = call == "of a constant", 2 if call in ("twice", "in a scan") else 1
    forward = [1] if constant else [2] * calls
    backward = [3] * calls if kind == "vjp" and not constant else []

    def check(derived, expected):
        log, f = _logged(fgrad, kind, by_argument)
        derived(_CALLS[call](f))
        np.testing.assert_array_equal(log[...], [*expected, *[0] * (6 - len(expected))])

    check(lambda f: fgrad.vjp(f, 1.0), forward)
    check(lambda f: fgrad.grad(f)(1.0), forward + backward)
    if not constant:  # JAX's jit does not take the function alone
        check(lambda f: jax.jit(fgrad.grad(f))(1.0), forward + backward)
    if kind != "vjp":
        check(lambda f: fgrad.linearize(f, 1.0), forward)
        check(lambda f: fgrad.jvp(f, (1.0,), (2.0,)), forward)
        check(lambda f: fgrad.grad(fgrad.grad(f))(1.0), forward)


def test_forward_rules_in_a_block_write_outside_once():
    """JAX runs them in the backward pass again."""
    log, f = _logged(fgrad, "vjp", True)
    fgrad.grad(fgrad.checkpoint(f))(1.0)
    np.testing.assert_array_equal(log[...], [2, 3, 0, 0, 0, 0])


def test_compiled_rules_that_close_over_references_are_refused():
    log = jax.new_ref(jnp.zeros(6))
    pure = jax.custom_jvp(jnp.sin)
    pure.defjvp(lambda primals, tangents: (log.__setitem__(0, 1.0), jnp.sin(*primals), *tangents)[1:])
    with pytest.raises(errors.UndefinedDerivativeError, match="make it an argument"):
        fgrad.grad(jax.jit(pure))(1.0)
