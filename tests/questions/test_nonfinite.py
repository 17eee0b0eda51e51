"""``fgrad.nonfinite``: the operation that is named, the numbers, the way on, and whether the mend helps."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad


def at(line: str, found) -> None:
    """The line that is named is this one."""
    assert found.source is not None and line in found.source.text, found


def root(x):
    h = jnp.where(x > 0.0, jnp.sqrt(x), 0.0)
    return jnp.sum(h)


def test_a_double_where_is_named_tried_and_not_false():
    found = fgrad.nonfinite(root)(jnp.array([4.0, 0.0, 9.0]))
    assert found and found.kind == "NaN"
    assert (found.phase, found.operation) == ("backward", "sqrt")
    assert [(p.name, p.index, p.value) for p in found.places] == [("x", (1,), 0.0)]
    assert found.results == ("d root / d x",)
    assert found.mend.checked and "jnp.where(ok, jnp.sqrt(jnp.where(ok, x, 1.0)), ...)" in found.mend.text
    at("h = jnp.where(x > 0.0", found)


def test_the_mend_that_is_said_is_right():
    def mended(x):
        ok = x > 0.0
        return jnp.sum(jnp.where(ok, jnp.sqrt(jnp.where(ok, x, 1.0)), 0.0))

    x = jnp.array([4.0, 0.0, 9.0])
    assert not fgrad.nonfinite(mended)(x)
    assert np.isfinite(jax.grad(mended)(x)).all() and not np.isfinite(jax.grad(root)(x)).all()


def test_finite_is_false():
    found = fgrad.nonfinite(root)(jnp.array([4.0, 1.0]))
    assert not found and str(found) == "All is finite: the values, and the gradient of root."


@pytest.mark.parametrize("wrap", [fgrad.grad, fgrad.value_and_grad, fgrad.jit, lambda f: fgrad.jit(fgrad.grad(f))])
def test_of_a_gradient_and_of_a_jitted_function(wrap):
    found = fgrad.nonfinite(wrap(root))(jnp.array([4.0, 0.0]))
    assert (found.phase, found.operation, found.mend.checked) == ("backward", "sqrt", True)


def test_a_gradient_within_a_function_says_forward_or_backward():
    def f(x):
        slopes = fgrad.grad(root)(x)
        return slopes * 2.0

    found = fgrad.nonfinite(f)(jnp.array([4.0, 0.0]))
    assert (found.phase, found.operation) == ("backward", "sqrt")
    at("h = jnp.where", found)


ONES = jnp.ones(3)
TRAPS = [
    ("sqrt", "backward", lambda x: jnp.linalg.norm(x), jnp.zeros(3)),
    ("sqrt", "backward", lambda x: jnp.std(x), ONES),
    ("sqrt", "forward", lambda x: jnp.sum(jnp.sqrt(x)), jnp.array([1.0, -1.0])),
    ("log", "forward", lambda x: jnp.sum(jnp.log(x)), jnp.array([1.0, 0.0])),
    ("log", "forward", lambda x: jnp.sum(jnp.where(x > 0, x * jnp.log(x), 0.0)), jnp.array([1.0, 0.0])),
    ("log1p", "forward", lambda x: jnp.sum(jnp.log1p(x)), jnp.array([1.0, -1.0])),
    ("exp", "forward", lambda x: jnp.sum(jnp.log(1 + jnp.exp(x))), jnp.array([1.0, 1000.0])),
    ("exp", "forward", lambda x: jnp.sum(jnp.where(x < 80, jnp.exp(x), 0.0)), jnp.array([1.0, 1000.0])),
    ("div", "forward", lambda x: jnp.sum(1.0 / (x - 1.0)), jnp.array([1.0, 3.0])),
    ("div", "backward", lambda x: jnp.sum(jnp.where(x != 0, 1.0 / x, 0.0)), jnp.array([0.0, 3.0])),
    ("pow", "backward", lambda x: jnp.sum(x**0.5), jnp.array([0.0, 3.0])),
    ("pow", "forward", lambda x: jnp.sum(x**0.3), jnp.array([-1.0, 3.0])),
    ("atan2", "backward", lambda x: jnp.sum(jnp.arctan2(x, 2 * x)), jnp.array([0.0, 3.0])),
    ("acos", "backward", lambda x: jnp.sum(jnp.arccos(x)), jnp.array([1.0, 0.5])),
    ("asin", "backward", lambda x: jnp.sum(jnp.arcsin(x)), jnp.array([-1.0, 0.5])),
    ("atanh", "forward", lambda x: jnp.sum(jnp.arctanh(x)), jnp.array([1.0, 0.5])),
    ("rsqrt", "forward", lambda x: jnp.sum(jax.lax.rsqrt(x)), jnp.array([0.0, 0.5])),
    ("acosh", "backward", lambda x: jnp.sum(jnp.arccosh(x)), jnp.array([1.0, 2.5])),
    ("cbrt", "backward", lambda x: jnp.sum(jnp.cbrt(x)), jnp.array([0.0, 2.5])),
    ("sub", "forward", lambda x: jnp.sum(jax.nn.softmax(jnp.where(x > 9, x, -jnp.inf) + x)), ONES),
]


@pytest.mark.parametrize(("operation", "phase", "f", "x"), TRAPS, ids=[f"{t[0]} {t[1]}" for t in TRAPS])
def test_known_traps_have_a_mend_that_was_tried(operation, phase, f, x):
    assert not np.isfinite(jax.grad(f)(x)).all()
    found = fgrad.nonfinite(f)(x)
    assert (found.operation, found.phase) == (operation, phase)
    assert found.mend is not None and found.mend.checked, found
    assert found.places and found.reason


def test_several_traps_are_mended_together():
    def f(x):
        a = jnp.log(x)
        b = jnp.sqrt(x)
        return jnp.sum(a + b)

    found = fgrad.nonfinite(f)(jnp.array([0.0, 1.0]))
    assert found.operation == "log" and found.mend.checked
    assert "once the same is done at" in found.mend.outcome


def test_a_variance_of_one_element_is_known():
    found = fgrad.nonfinite(lambda x: jnp.std(x, ddof=1))(jnp.ones(1))
    assert found.phase == "constant" and "variance" in found.reason and not found.mend.checked


def test_what_comes_in_with_an_argument_is_named_as_such():
    def f(params, x):
        return jnp.sum(params["w"] * x)

    found = fgrad.nonfinite(f)({"w": jnp.array([1.0, jnp.inf])}, ONES[:2])
    assert (found.phase, found.name, found.kind) == ("argument", "params['w']", "Inf")
    assert found.places[0].index == (1,)


def test_what_is_closed_over_is_named():
    table = jnp.array([1.0, jnp.nan])
    found = fgrad.nonfinite(lambda x: jnp.sum(x * table))(ONES[:2])
    assert (found.phase, found.name) == ("constant", "table")


def test_only_the_chosen_arguments_are_differentiated():
    def f(w, x):
        return w * jnp.sum(jnp.abs(x) ** 0.5)

    assert fgrad.nonfinite(f)(2.0, jnp.zeros(2)).results == ("d f / d x",)
    assert not fgrad.nonfinite(f, argnums=0)(2.0, jnp.zeros(2))
    assert not fgrad.nonfinite(fgrad.grad(f))(2.0, jnp.zeros(2))


def test_a_masked_value_does_no_harm_and_is_not_blamed():
    def f(x):
        unused = jnp.log(jax.lax.stop_gradient(x))  # -inf, not chosen, and no gradient
        y = jnp.where(x > 0.0, x, unused * 0.0)
        z = jnp.where(x > 0.0, x, unused)
        guilty = 1.0 / (x[0] - x[0])
        return jnp.sum(y[:1]) + z[0] + guilty

    found = fgrad.nonfinite(f)(jnp.array([1.0, 0.0]))
    assert found.operation == "div"
    at("guilty =", found)


def test_minus_infinity_in_a_mask_is_fine():
    def attention(q, k, v):
        scores = q @ k.T
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape)) > 0, scores, -jnp.inf)
        return jnp.sum(jax.nn.softmax(scores) @ v)

    q, k, v = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    assert not fgrad.nonfinite(attention)(q, k, v)


# -- real programs ---------------------------------------------------------------------------------------------------


def test_an_mlp():
    def loss(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        p = jax.nn.sigmoid(x @ w + b)
        entropy = y * jnp.log(p) + (1 - y) * jnp.log(1 - p)
        return -jnp.mean(entropy)

    rng = np.random.default_rng(0)
    sizes = (3, 8, 1)
    params = [
        (rng.normal(size=(m, n)).astype(np.float32) * 40, np.zeros(n, np.float32)) for m, n in itertools.pairwise(sizes)
    ]
    x, y = rng.normal(size=(16, 3)).astype(np.float32), rng.integers(0, 2, (16, 1)).astype(np.float32)
    found = fgrad.nonfinite(loss)(params, x, y)
    assert found.operation == "log" and found.phase == "forward" and found.mend.checked
    at("entropy =", found)


def rnn(w, xs):
    def body(h, x):
        z = w * x
        s = jnp.sqrt(z)
        h = jnp.where(z > 0.0, s, 0.0) + h
        return h, h

    h, _ = jax.lax.scan(body, jnp.float32(0.0), xs)
    return h


def test_the_step_of_a_loop_in_backward():
    found = fgrad.nonfinite(rnn)(1.0, jnp.array([1.0, 2.0, 0.0, 3.0]))
    assert (found.phase, found.operation, found.name) == ("backward", "sqrt", "s")
    assert [step for _, step in found.loops] == [2]
    assert found.mend.checked and found.places[0].name == "z"
    at("s = jnp.sqrt(z)", found)


def test_the_step_of_a_loop_in_forward():
    def grow(w):
        def body(h, _):
            h = jnp.exp(w * h)
            return h, None

        return jax.lax.scan(body, jnp.float32(1.0), None, length=9)[0]

    found = fgrad.nonfinite(grow)(1.0)
    values, h = [], np.float32(1.0)
    with np.errstate(over="ignore"):
        while np.isfinite(h):
            values.append(h)
            h = np.exp(h)
    assert [step for _, step in found.loops] == [len(values) - 1]
    assert found.places[0].value == pytest.approx(values[-1], rel=1e-5)


def test_loops_in_loops_and_in_a_gradient():
    def f(x):
        def outer(c, t):
            def inner(d, s):
                return d + jnp.sqrt(t - s), None

            return jax.lax.scan(inner, c, jnp.arange(3.0))[0], None

        return jax.lax.scan(outer, x, jnp.arange(1.0, 4.0))[0]

    found = fgrad.nonfinite(lambda x: fgrad.grad(f)(x) * f(x))(1.0)
    assert found.operation == "sqrt" and [step for _, step in found.loops] == [2, 0]


def test_while_loops_have_no_backward_and_it_is_said():
    def f(x):
        return jax.lax.while_loop(lambda c: c[1] < 5, lambda c: (jnp.log(c[0]), c[1] + 1), (x, 0))[0]

    found = fgrad.nonfinite(f)(2.0)
    assert found.operation == "log" and [step for _, step in found.loops] == [2]


def test_what_has_no_backward_is_looked_at_forward():
    found = fgrad.nonfinite(lambda x: jax.lax.while_loop(lambda c: c < 5.0, lambda c: c * 2.0, x))(2.0)
    assert not found and "there is no backward" in found.looked_at


def test_branches_are_gone_into():
    def f(x):
        return jax.lax.cond(x > 0, lambda x: jnp.sqrt(x), lambda x: jnp.log(-x), x)

    found = fgrad.nonfinite(f)(0.0)
    assert found.operation == "log" and found.mend.checked


def test_rematerialised_blocks_and_jitted_functions_are_gone_into():
    def block(x):
        r = jnp.sqrt(x)
        return r  # noqa: RET504 (the name is what is read)

    found = fgrad.nonfinite(lambda x: jnp.sum(fgrad.checkpoint(block)(jax.jit(lambda x: 2 * x)(x))))(jnp.zeros(2))
    assert (found.operation, found.phase, found.mend.checked, found.name) == ("sqrt", "backward", True, "r")


def test_an_attention_block():
    def attend(params, x, mask):
        q, k, v = (x @ params[name] for name in ("q", "k", "v"))
        scores = q @ k.T / jnp.sqrt(q.shape[-1])
        scores = jnp.where(mask, scores, -jnp.inf)
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return jnp.mean((weights @ v) ** 2)

    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "qkv"}
    x = rng.normal(size=(3, 4)).astype(np.float32)
    mask = jnp.array([[True, False, False], [False, False, False], [True, True, True]])
    found = fgrad.nonfinite(attend)(params, x, mask)
    assert (found.operation, found.phase, found.kind) == ("sub", "forward", "NaN")
    at("weights = jnp.exp(scores", found)
    assert found.places[0].index[0] == 1
    assert found.mend.checked and "masked everywhere" in found.mend.text


def test_an_ode():
    """Two bodies that meet: the distance is 0 at a step."""

    def fall(x0):
        def step(state, _):
            x, v = state
            r = jnp.linalg.norm(x)
            a = -x / r**3
            return (x + 0.5 * v, v + 0.5 * a), r

        (x, _), _ = jax.lax.scan(step, (x0, jnp.array([-2.0, 0.0])), None, length=6)
        return jnp.sum(x)

    found = fgrad.nonfinite(fall)(jnp.array([1.0, 0.0]))
    assert found.operation == "div" and [step for _, step in found.loops] == [1]
    at("a = -x / r**3", found)


def test_a_users_rule():
    @fgrad.custom_vjp
    def scaled(x):
        return x * 2.0

    def forward(x):
        return x * 2.0, x

    def backward(x, ct):
        slope = 2.0 * ct / x
        return (slope,)

    scaled.defvjp(forward, backward)
    found = fgrad.nonfinite(lambda x: jnp.sum(scaled(x)))(jnp.array([1.0, 0.0]))
    assert found.phase == "backward"
    at("slope = 2.0 * ct / x", found)
    assert found.mend.checked


def test_auxiliary_results_are_not_differentiated():
    def loss(x):
        return jnp.sum(x), {"norm": jnp.linalg.norm(x)}

    assert not fgrad.nonfinite(loss)(jnp.zeros(3))
    assert not fgrad.nonfinite(fgrad.grad(loss, has_aux=True))(jnp.zeros(3))


def test_python_branches_on_numbers():
    def f(x, n):
        y = x
        for _ in range(n):
            y = jnp.log(y) if y > 0 else y
        return y

    found = fgrad.nonfinite(f)(0.5, 2)
    assert not found
    assert fgrad.nonfinite(lambda x: jnp.log(x) if x < 1 else x)(0.0).operation == "log"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_formats(dtype):
    found = fgrad.nonfinite(root)(jnp.array([4.0, 0.0], dtype))
    assert found.operation == "sqrt" and found.mend.checked


def test_numbers_of_64_bits():
    with jax.enable_x64(True):
        found = fgrad.nonfinite(lambda x: jnp.sum(jnp.exp(x)))(jnp.array([1.0, 710.0]))
    assert found.operation == "exp" and found.mend.checked and found.places[0].value == 710.0


def test_a_product_of_matrices_that_overflows():
    found = fgrad.nonfinite(lambda x: jnp.sum(x @ x))(jnp.full((2, 2), 1e30))
    assert found.operation == "dot_general" and found.phase == "forward" and found.mend is None
    assert found.places[0].value == pytest.approx(1e30)


def test_debug_nans_does_not_stand_in_the_way():
    with jax.debug_nans(True):
        assert fgrad.nonfinite(root)(jnp.array([4.0, 0.0])).operation == "sqrt"


def test_traced_arguments_are_refused_by_name():
    with pytest.raises(TypeError, match="those of x are not known here"):
        jax.jit(lambda x: fgrad.nonfinite(root)(x))(ONES)


def test_a_decorated_gradient_is_what_it_is():
    @functools.wraps(g := fgrad.grad(root))
    def scaled(x):
        return g(x) * 0.0

    assert fgrad.nonfinite(scaled)(jnp.array([4.0, 0.0])).results == ("root",)


def test_it_prints_and_shows():
    found = fgrad.nonfinite(rnn)(1.0, jnp.array([1.0, 2.0, 0.0, 3.0]))
    assert str(found) == repr(found)
    assert "in step 2 of the loop at" in str(found) and "Checked by running it" in str(found)
    assert "<pre>" in found._repr_html_()


def test_the_mend_of_a_gradient_within_is_tried():
    """The force is a gradient itself; a double where in the energy is what its slope of 0 stands for."""

    def energy(x):
        return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))

    def loss(x):
        return jnp.sum(fgrad.grad(energy)(x) ** 2)

    found = fgrad.nonfinite(loss)(jnp.array([0.0, 1.0]))
    assert found.phase == "backward"
    assert found.mend.checked
    assert "with a slope of 0 there" in found.mend.outcome

    def mended(x):
        ok = x > 0
        return jnp.sum(jnp.where(ok, jnp.sqrt(jnp.where(ok, x, 1.0)), 0.0))

    assert not fgrad.nonfinite(lambda x: jnp.sum(fgrad.grad(mended)(x) ** 2))(jnp.array([0.0, 1.0]))

    def twice(x):  # a trap outside as well, which a slope of 0 does not reach
        return jnp.sum(fgrad.grad(energy)(x)) / x[0]

    assert not fgrad.nonfinite(twice)(jnp.array([0.0, 1.0])).mend.checked
