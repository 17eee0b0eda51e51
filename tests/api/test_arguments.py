"""Wrong arguments are refused by name, with the class of error that JAX raises."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors

CALLS = {
    "custom_jvp": lambda: fgrad.custom_jvp(None),  # type: ignore[arg-type]
    "custom_vjp": lambda: fgrad.custom_vjp(None),  # type: ignore[arg-type]
    "vjp": lambda: fgrad.vjp(None, 1.0),  # type: ignore[arg-type]
    "vmap": lambda: fgrad.vmap(None),  # type: ignore[arg-type]
    "eval_shape": lambda: fgrad.eval_shape(None, 1.0),  # type: ignore[arg-type]
    "closure_convert": lambda: fgrad.closure_convert(None, 1.0),  # type: ignore[arg-type]
    "fwd_and_bwd": lambda: fgrad.fwd_and_bwd(None, 0),  # type: ignore[arg-type]
    "define_rule: batching=": lambda: fgrad.define_rule(jnp.sin, batching=()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", CALLS)
def test_what_is_no_function(what):
    with pytest.raises(TypeError, match=f"^{what} takes a function, got "):
        CALLS[what]()


@pytest.mark.parametrize(
    ("name", "value"),
    [("static_argnums", 1.5), ("donate_argnums", "x"), ("static_argnames", 1), ("donate_argnames", 2.0)],
)
def test_arguments_of_jit(name, value):
    with pytest.raises(TypeError, match=f"jit: {name} must be .* got {value!r}"):
        fgrad.jit(lambda x: x, **{name: value})
    assert fgrad.jit(lambda x, n: x * n, static_argnums={1})(2.0, 3) == 6.0


def test_integers_that_are_too_large():
    for n in (2**31, -(2**31) - 1, 2**70):
        with pytest.raises(OverflowError, match=rf"primals\[1\]\['n'\] is {n}, which does not fit"):
            fgrad.vjp(lambda x, d: x * d["n"], 1.0, {"n": n})
    assert fgrad.vjp(lambda x, n: x * n, 1.0, 2**31 - 1)[0] == 2.0**31
    with jax.enable_x64(True):
        assert fgrad.vjp(lambda n: n + 1, 2**31)[0] == 2**31 + 1


def test_what_is_no_pytree():
    for wrong, kind in ((jax.jit, ValueError), (fgrad.grad, errors.PytreeError)):
        with pytest.raises(kind, match="keys"):
            wrong(lambda d: d["a"] * 1.0)({"a": 1.0, 2: 3.0})
    with pytest.raises(errors.PytreeError, match="output has a dict whose keys cannot be sorted"):
        fgrad.vjp(lambda x: {"a": x, 2: x}, 1.0)
    endless: list = []
    endless.append(endless)
    deep = 1.0
    for _ in range(20000):
        deep = [deep]  # type: ignore[assignment]
    for tree in (endless, deep):
        with pytest.raises(errors.PytreeError, match="grad: args is nested too deeply"):
            fgrad.grad(lambda d: 1.0)(tree)
        # JAX itself does not recover from these
        for wrong in (
            lambda tree: fgrad.vmap(lambda x: x)(tree), lambda tree: fgrad.vmap(lambda x: tree)(jnp.ones(2)),
            lambda tree: fgrad.vmap(jnp.sin, in_axes=tree), lambda tree: fgrad.vmap(jnp.sin, out_axes=tree),
            fgrad.stop_gradient, lambda tree: fgrad.closure_convert(jnp.sin, tree),
        ):  # fmt: skip
            with pytest.raises(errors.PytreeError, match="is nested too deeply"):
                wrong(tree)
        with pytest.raises(errors.UnhashableStaticError, match=r"args\[1\]"):
            fgrad.jit(lambda x, static: x, static_argnums=1)(1.0, tree)


def test_files_and_orders():
    graph = fgrad.make_graph(jnp.sin)(1.0)
    with pytest.raises(TypeError, match="saved to a path or to a binary file, got None"):
        graph.save(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loaded from a path or from a binary file, got 3"):
        fgrad.load(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a function cannot be called 3"):
        graph.to_python(3)  # type: ignore[arg-type]
    for order in (float("inf"), 1.5, 0, True):
        with pytest.raises(ValueError, match="order must be an integer from 1 on"):
            fgrad.testing.check_grads(jnp.sin, (1.0,), order=order)  # type: ignore[arg-type]


def test_what_has_no_derivative_is_caught_as_in_jax():
    def called(x):
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), x)

    def beta(x):
        return jax.scipy.special.betainc(x, 2.0, 0.5)

    for f in (called, beta):
        for of in (jax, fgrad):
            with pytest.raises(ValueError):
                of.grad(f)(jnp.float32(1.0))
        with pytest.raises(NotImplementedError):
            fgrad.grad(f)(jnp.float32(1.0))


@pytest.mark.parametrize(("transform", "what"), [(fgrad.grad, "differentiated"), (fgrad.jit, "staged")])
def test_a_leak_names_what_it_leaked_out_of(transform, what):
    kept = []
    transform(lambda x: [kept.append(x), x][1])(1.0)
    with pytest.raises(errors.LeakedTracerError, match=f"function that was being {what}"):
        kept[0] + 1


def test_values_that_cannot_be_shown_are_named_all_the_same():
    class Mine:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    deep: list = []
    for _ in range(20000):
        deep = [deep]
    for value in (Mine(), deep):
        with pytest.raises(TypeError, match="grad takes a function, got <.* of type (Mine|list)"):
            fgrad.grad(value)  # type: ignore[arg-type]


def test_argnums_may_be_gone_through_once():
    both = fgrad.grad(lambda x, y: x * y, argnums=(i for i in (0, 1)))  # type: ignore[arg-type]
    assert [float(g) for g in both(2.0, 3.0)] == [3.0, 2.0] == [float(g) for g in both(2.0, 3.0)]
    doubled = fgrad.jit(lambda n, x: x * n, static_argnums=(i for i in (0,)))
    assert doubled(2, 3.0) == 6.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: fgrad.grad(jnp.sin, argnums=itertools.count()),  # type: ignore[arg-type]
        lambda: fgrad.jacrev(jnp.sin, argnums=itertools.count()),  # type: ignore[arg-type]
        lambda: fgrad.jit(jnp.sin, static_argnums=itertools.count()),  # type: ignore[arg-type]
        lambda: fgrad.jit(jnp.sin, static_argnames=itertools.repeat("x")),
        lambda: fgrad.checkpoint(jnp.sin, static_argnums=itertools.count()),  # type: ignore[arg-type]
        lambda: fgrad.custom_vjp(jnp.sin, nondiff_argnums=itertools.count()),  # type: ignore[arg-type]
    ],
)
def test_names_of_arguments_without_end(call):
    with pytest.raises(TypeError, match="must be an? (int|string) or"):
        call()


def test_a_masked_array_keeps_its_mask_or_is_refused():
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    for of in (jax, fgrad):
        with pytest.raises(ValueError, match="masked array"):
            of.grad(lambda x: x.sum())(masked)


@pytest.mark.parametrize("custom", [fgrad.custom_jvp, fgrad.custom_vjp])
def test_rules_of_a_function_without_a_name(custom):
    with pytest.raises(AttributeError, match="'power' has no rule"):
        custom(functools.partial(jnp.power, 2.0))(3.0)


def test_rules_are_functions():
    with pytest.raises(TypeError, match="custom_vjp: bwd= takes a function, got None"):
        fgrad.custom_vjp(jnp.sin).defvjp(jnp.sin, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"custom_jvp: jvps\[0\] takes a function, got 1"):
        fgrad.custom_jvp(jnp.sin).defjvps(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checkpoint: policy= takes a function, got 1"):
        fgrad.checkpoint(jnp.sin, policy=1)  # type: ignore[arg-type]


COMPLEX = jnp.complex64(1.0)
DERIVATIVES_AT = {
    "an integer": lambda lib: lib.jvp(jnp.sin, (1.0,), (1,)),
    "a real number for a complex one": lambda lib: lib.jvp(jnp.sin, (COMPLEX,), (1.0,)),
    "vjp, an integer": lambda lib: lib.vjp(jnp.sin, 1.0)[1](1),
    "vjp, half precision": lambda lib: lib.vjp(jnp.sin, jnp.bfloat16(1))[1](1.0),
    "linearize, an integer": lambda lib: lib.linearize(jnp.sin, 1.0)[1](1),
    "linear_transpose, a real number": lambda lib: lib.linear_transpose(lambda x: 1j * x, 1.0)(1.0),
    "linear_transpose, a short integer": lambda lib: lib.linear_transpose(lambda x: 2 * x, jnp.int8(1))(3),
}


@pytest.mark.parametrize("name", DERIVATIVES_AT)
def test_a_python_number_of_another_dtype_is_no_derivative(name):
    with pytest.raises((TypeError, ValueError)) as theirs:
        DERIVATIVES_AT[name](jax)
    with pytest.raises(theirs.type):
        DERIVATIVES_AT[name](fgrad)


REDUCING = {
    "grad": lambda lib, axes: lib.grad(jnp.sin, reduce_axes=axes)(1.0),
    "value_and_grad": lambda lib, axes: lib.value_and_grad(jnp.sin, reduce_axes=axes)(1.0)[1],
    "vjp": lambda lib, axes: lib.vjp(jnp.sin, 1.0, reduce_axes=axes)[1](1.0)[0],
}


@pytest.mark.parametrize("name", REDUCING)
def test_axes_to_reduce_over_may_be_empty(name):
    np.testing.assert_allclose(REDUCING[name](fgrad, ()), REDUCING[name](jax, ()), rtol=1e-6)
    for lib in (jax, fgrad):
        with pytest.raises(NotImplementedError):
            REDUCING[name](lib, ("batch",))


@pytest.mark.parametrize("method", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"])
def test_a_repeated_argument_is_refused_with_the_class_of_jax(method):
    for lib in (jax, fgrad):
        with pytest.raises(TypeError):
            getattr(lib, method)(lambda x, y: x * y, argnums=(1, -1))(2.0, 3.0)
    with pytest.raises(errors.PositionError, match="names an argument twice"):
        fgrad.grad(lambda x, y: x * y, argnums=(1, -1))(2.0, 3.0)
