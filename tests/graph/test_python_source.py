"""Graphs as Python programs: they run, they read well, and recorded they are the same graphs again."""

import inspect
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import fgrad
from fgrad.api.graph_source import python_program
from fgrad.record.stager import stage_closed
from tests.graph.corpus import MORE, graphs
from tests.graph.programs import PROGRAMS, graph_of, random_graphs

#: what is held beside the source: custom rules are their functions, and some primitives JAX exports under no name
HELD = {
    "clipped", "constant", "context_mesh", "debug_print_p", "geqrf_p", "hypot_jvp", "itself", "linear_call",
    "ragged_dot_general_p", "reshard", "scaled_dot_p", "sharding", "unconstrained_dims", "v_while",
    "custom_linear_solve",
}  # fmt: skip
Point = namedtuple("Point", "x y")


def flat_program(graph, constants=None):
    ins, outs = [tuple(0 for _ in numbers) for numbers in (graph.in_types, graph.outputs)]
    names = [f"x{i}" for i in range(len(ins))]
    trees = jax.tree.structure((ins, {})), jax.tree.structure(outs)
    source = python_program(graph, *trees, names, "program", constants)
    scope = {"constants": constants}
    exec(source, scope)
    return source, scope["program"]


def round_trip(graph, held=HELD):
    constants = {}
    source, program = flat_program(graph, constants)
    assert {name.rstrip("0123456789").rstrip("_") for name in constants} <= held, source
    assert stage_closed(lambda *args: list(program(*args)), graph.in_types) == graph, source
    return source


def public_round_trip(graph, *args, **kwargs):
    constants = {}
    source = graph.to_python(constants=constants)
    scope = {"constants": constants}
    exec(source, scope)
    assert fgrad.make_graph(scope["program"])(*args, **kwargs) == graph
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4),
        scope["program"](*args, **kwargs),
        graph(*args, **kwargs),
    )
    return source


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_programs(name):
    round_trip(graph_of({**PROGRAMS, **MORE}[name], jnp.zeros(3, jnp.float32)))


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in {"while"}])
def test_gradients(name):
    def total(x):
        return sum(jnp.sum(y) for y in jax.tree.leaves(PROGRAMS[name](x)))

    round_trip(graph_of(fgrad.grad(total)), {"clipped", "itself", "custom_linear_solve"})


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_every_primitive_of_the_rule_samples():
    for _, graph in graphs(6):
        round_trip(graph)


def test_wide_graphs(x64):
    x = jnp.arange(3.0)
    assert x.dtype == jnp.float64
    source = public_round_trip(fgrad.make_graph(lambda x: jnp.sum(jnp.sin(x) * 0.1))(x), x)
    assert "JAX_ENABLE_X64" in source


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random_graphs())
def test_random_graphs(graph):
    round_trip(graph, {"constant"})


def net(params, x):
    z = x @ params["w"] + params["b"]
    h = jnp.tanh(z)

    def body(c, t):
        y = jnp.sin(c) * t
        return y, y + h

    c, ys = jax.lax.scan(body, h, x)
    return jnp.mean(jax.nn.softmax(ys) ** 2) + jnp.sum(jax.nn.relu(c))


PARAMS, X = {"w": jnp.ones((3, 3)) * 0.1, "b": jnp.array([0.1, 0.2, 0.3])}, jnp.array([0.3, -0.2, 0.9])


def test_the_source_reads_as_the_users():
    source = public_round_trip(fgrad.make_graph(net)(PARAMS, X), PARAMS, X)
    first = inspect.getsourcelines(net)[1]
    lines = [line.strip() for line in source.splitlines()]
    assert "def program(params, x):" in lines
    assert "params_w = params['w']" in lines
    assert any(
        line.startswith("h = jnp.tanh(z) ") and line.endswith(f"# test_python_source.py:{first + 2}") for line in lines
    )
    assert any(line.startswith("(c,), (ys,) = lax.scan(step, (h,), (x,))") for line in lines)
    assert any("jax.nn.relu(c)" in line for line in lines)


def test_a_gradient_is_a_program():
    graph = fgrad.make_graph(net)(PARAMS, X).grad()
    source = public_round_trip(graph, PARAMS, X)
    assert "derivative of tanh" in source
    assert source.splitlines()[-1].strip().startswith("return {'b': ")


def test_arguments_of_every_kind():
    def f(point, *rest, scale, table):
        return {"y": (point.x * scale, None), "z": [rest[0] + table[1]["k"], point.y], "a": rest[1]}

    args, kwargs = (Point(X, X + 1), X, 2.0), {"scale": 3.0, "table": (X, {"k": X})}
    public_round_trip(fgrad.make_graph(f)(*args, **kwargs), *args, **kwargs)


def test_a_result_of_a_class_of_the_users():
    graph = fgrad.make_graph(lambda x: Point(x, x * 2))(X)
    with pytest.raises(ValueError, match="the structure of the result cannot be written"):
        graph.to_python()
    public_round_trip(graph, X)


def test_large_constants_are_not_printed():
    table = jnp.arange(1000.0)
    graph = fgrad.make_graph(lambda x: jnp.sum(table) * x)(1.0)
    with pytest.raises(ValueError, match=r"the constant of type float32\[1000\] cannot be written.*pass a dict"):
        graph.to_python()
    held = {}
    source = graph.to_python("scaled", held)
    assert list(held) == ["constant"]
    assert len(source) < 1000
    assert "def scaled(x):" in source


def test_short_constants_stand_in_the_source():
    table = jnp.array([1.0, np.nan, -np.inf])
    source = public_round_trip(fgrad.make_graph(lambda x: x * table)(X), X)
    assert "np.array([1.0, np.nan, -np.inf], np.float32)" in source


@jax.custom_vjp
def double(x):
    return x * 2.0


double.defvjp(lambda x: (double(x), x), lambda x, ct: (ct * 3.0 + 0.0 * x,))


@jax.custom_jvp
def split(x, k):
    return x * k, k + 1


@split.defjvp
def split_jvp(primals, tangents):
    (x, k), (dx, _) = primals, tangents
    return split(x, k), (5.0 * dx * k, np.zeros((), jax.dtypes.float0))


def test_custom_rules_are_held():
    graph = fgrad.make_graph(lambda x: jnp.sum(double(x)))(X)
    held = {}
    scope = {"constants": held}
    exec(graph.to_python(constants=held), scope)
    assert list(held) == ["double"]
    np.testing.assert_array_equal(fgrad.grad(scope["program"])(X), 3.0)
    assert fgrad.make_graph(scope["program"])(X) == graph


def test_custom_rules_are_written_out():
    def f(x, k):
        y, _ = split(double(double(x)), k)
        return jnp.sum(jax.nn.relu(y) + jax.nn.silu(x) + jax.scipy.special.logsumexp(y))

    for graph in (fgrad.make_graph(f)(X, 3), fgrad.make_graph(fgrad.grad(f))(X, 3)):
        scope = {}
        source = graph.to_python()
        exec(source, scope)
        assert source.count("def double(") <= 1
        jax.tree.map(np.testing.assert_array_equal, scope["program"](X, 3), graph(X, 3))
    scope = {}
    exec(fgrad.make_graph(f)(X, 3).to_python(), scope)
    for grad in (fgrad.grad, jax.grad):
        np.testing.assert_allclose(grad(scope["program"])(X, 3), jax.grad(f)(X, 3), rtol=1e-6)


def test_equal_functions_with_other_rules_stay_apart():
    def scaled(k):
        @jax.custom_vjp
        def turned(x):
            return jnp.sin(x)

        turned.defvjp(lambda x: (turned(x), x), lambda x, ct: (k * ct,))
        return turned

    two, three = scaled(2.0), scaled(3.0)
    scope = {}
    exec(fgrad.make_graph(lambda x: two(x) + three(x))(1.0).to_python(), scope)
    assert fgrad.grad(scope["program"])(1.0) == 5.0


def test_what_cannot_be_written_is_named():
    graph = fgrad.make_graph(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), "float32"), x))(X)
    with pytest.raises(ValueError, match=r"callback.* cannot be written as source.*pass a dict"):
        graph.to_python()


def test_names_that_are_taken():
    def f(jnp, lax, np):
        constants = jnp * lax
        v3 = constants + np
        return v3 - constants

    public_round_trip(fgrad.make_graph(f)(1.0, 2.0, 3.0), 1.0, 2.0, 3.0)
