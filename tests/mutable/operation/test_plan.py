"""Plans: what an operation saves is what its rule reads."""

import numpy as np
import pytest
from jax import lax, numpy as jnp

from fgrad.mutable.operation.plan import Plan, planned_graph, types_of
from fgrad.mutable.values.evaluation import Routine, array_type

pytestmark = pytest.mark.fast

VECTOR = array_type((3,), np.dtype(np.float32))


def plan_of(function, *types, **named) -> Plan:
    graph = planned_graph(function, types, "")
    return Plan(Routine(graph), types_of(graph), **named)


def test_exp_saves_its_result_and_sin_its_input():
    exp, sin = plan_of(lambda x: [lax.exp(x)], VECTOR), plan_of(lambda x: [lax.sin(x)], VECTOR)
    assert (exp.pullback((0,)).inputs, exp.pullback((0,)).outputs) == ((), (0,))
    assert (sin.pullback((0,)).inputs, sin.pullback((0,)).outputs) == ((0,), ())


def test_an_operation_may_compute_its_result_again():
    exp = plan_of(lambda x: [lax.exp(x)], VECTOR, reads_outputs=False)
    assert (exp.pullback((0,)).inputs, exp.pullback((0,)).outputs) == ((0,), ())


def test_a_product_saves_the_other_factor_where_it_is_asked_for():
    product = plan_of(lambda x, y: [lax.mul(x, y)], VECTOR, VECTOR)
    assert product.pullback((0,)).inputs == (1,)
    assert product.pullback((1,)).inputs == (0,)
    assert product.pullback((0, 1)).inputs == (0, 1)


def test_what_nothing_reads_is_saved_where_the_operation_says_so():
    total = plan_of(lambda x: [jnp.sum(x)], VECTOR, always_saved=(0,))
    assert total.pullback((0,)).inputs == (0,)


def test_a_sum_passes_its_gradient_on():
    found = plan_of(lambda x, y: [lax.add(x, y)], VECTOR, VECTOR).pullback((0, 1))
    assert found.views == ((0, None), (0, None)) and found.only_views
    assert found.inputs == found.outputs == ()


def test_a_complex_gradient_is_the_conjugate_of_jaxs_cotangent():
    square = plan_of(lambda z: [lax.mul(z, z)], array_type((), np.dtype(np.complex64)))
    (found,) = square.pullback((0,)).routine([np.complex64(1 + 2j), np.complex64(1)])
    assert np.asarray(found) == 2 * (1 - 2j)


def test_an_integer_result_has_no_derivative():
    plan = plan_of(lambda x: [lax.argmax(x, 0, np.int32)], VECTOR)
    assert not plan.differentiable and plan.inexact == ()


def test_tangents_follow_from_the_varied_operands():
    product = plan_of(lambda x, y: [lax.mul(x, y)], VECTOR, VECTOR)
    x, y, dy = (np.float32([1, 2, 3]) * k for k in (1, 2, 3))
    (found,) = product.pushforward((1,)).routine([x, y, dy])
    np.testing.assert_array_equal(found, x * dy)
