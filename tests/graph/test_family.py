"""Graphs on symbolic sizes, and with numbers in their place."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad.graph.family import Family, symbols
from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.likeness import calls_alike, ruled_alike
from fgrad.jaxcore import ShapedArray
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.record.stager import stage_closed


def array(*shape):
    return ShapedArray(shape, np.dtype(np.float32))


def looped(x, y):
    return lax.scan(lambda carry, row: (carry + row, carry * row), y, x)


cubed = fgrad.define_rule(lambda x: x * x * x, vjp=lambda ct, out, x: (ct * 3 * x * x,))

FUNCTIONS = {
    "product": lambda x, y: [x @ y],
    "sum": lambda x, y: [(x + y).sum(0)],
    "broadcast": lambda x, y: [jnp.broadcast_to(y, x.shape) * x.sum()],
    "loop": looped,
    "branch": lambda x, y: [lax.cond(y.sum() > 0, lambda: x, lambda: -x)],
    "rule": lambda x, y: [cubed(x) + y],
    "loop of a rule": lambda x, y: looped(cubed(x), cubed(y)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_members_are_what_is_recorded(name):
    function = lambda x, y: list(FUNCTIONS[name](x, y))  # noqa: E731
    a, b, *_ = symbols()
    family = Family(stage_closed(function, [array(a, b), array(b)]))
    for n, m in ((9, 11), (32, 8), (100, 1000)):
        recorded = stage_closed(function, [array(n, m), array(m)])
        assert ruled_alike(family.member((n, m), lambda recorded=recorded: recorded), recorded) is not None


def test_members_have_derivatives():
    a, *_ = symbols()
    record = lambda n: stage_closed(lambda x: [cubed(x)], [array(n)])  # noqa: E731
    joint = vjp(Family(record(a)).member((9,), lambda: record(9)), [0], [True])
    x, ct = np.arange(9, dtype=np.float32), np.ones(9, np.float32)
    np.testing.assert_allclose(evaluate(joint.graph, [x, ct])[1], 3 * x * x)


def test_the_derivative_of_a_family_is_the_family_of_the_derivatives():
    a, *_ = symbols()
    record = lambda n: vjp(stage_closed(lambda x: [jnp.tanh(x).sum()], [array(n)]), [0], [True]).graph  # noqa: E731
    assert calls_alike(Family(record(a)).member((12,), lambda: record(12)), record(12))


@fgrad.custom_jvp
def first(x):
    return x[:1]


@first.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    # a rule that cannot be recorded on symbols, with another inside
    return first(x), first(t) * len(range(x.shape[0]))


def test_a_rule_that_depends_on_the_sizes_is_that_of_the_graph_recorded_for_them():
    a, *_ = symbols()
    record = lambda n: stage_closed(lambda x: [jnp.sin(first(first(x) + x) * x)], [array(n)])  # noqa: E731
    member = Family(record(a)).member((9,), lambda: record(9))
    x, ct = np.linspace(0, 1, 9, dtype=np.float32), np.ones(9, np.float32)
    for graph in (member, record(9)):
        joint = vjp(graph, [0], [True]).graph
        again = vjp(joint, [0], [True, True]).graph
        results = [*evaluate(joint, [x, ct]), *evaluate(again, [x, ct, ct, ct])]
        if graph is member:
            found = results
    for mine, theirs in zip(found, results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_numbers_of_elements_are_constants_of_members():
    a, b, *_ = symbols()

    def mean(x):
        count = x.shape[0] * x.shape[1]
        return [x.sum() / lax.convert_element_type(count, x.dtype)]

    family = Family(simplify(stage_closed(mean, [array(a, b)])))
    assert family.counts
    member = simplify(family.member((9, 11), lambda: stage_closed(mean, [array(9, 11)])))
    assert not {"dim_as_value", "convert_element_type"} & {node.op.name for node in member.nodes}
    assert calls_alike(member, simplify(stage_closed(mean, [array(9, 11)])))
    np.testing.assert_allclose(evaluate(member, [np.ones((9, 11), np.float32)])[0], 1)


def test_equal_constants_are_entered_once():
    a, b, *_ = symbols()
    function = lambda x: [x.sum() / lax.convert_element_type(n, x.dtype) for n in x.shape]  # noqa: E731
    family = Family(stage_closed(function, [array(a, b)]))
    for sizes, constants in (((9, 11), 2), ((9, 9), 1)):
        record = lambda sizes=sizes: stage_closed(function, [array(*sizes)])  # noqa: E731
        assert len(family.member(sizes, record).consts) == constants


def test_what_depends_on_more_than_the_bounds_of_a_size_cannot_be_recorded():
    a, *_ = symbols()
    large = lambda x: [x if x.shape[0] > 100 else -x]  # noqa: E731
    with pytest.raises(Exception, match="inconclusive"):
        stage_closed(large, [array(a)])
    small = lambda x: [x if x.shape[0] > 3 else -x]  # noqa: E731
    assert isinstance(stage_closed(small, [array(a)]), Graph)
