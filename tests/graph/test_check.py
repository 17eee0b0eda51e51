"""The checker passes what the library makes and names what is wrong with anything else."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings

import fgrad
from fgrad.errors import InvalidGraphError
from fgrad.graph.check import check
from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import REGIONS
from fgrad.jaxcore import ShapedArray, primitive
from tests.graph.programs import PROGRAMS, graph_of, random_graphs

pytestmark = pytest.mark.fast

VECTOR = jax.typeof(jnp.zeros(3))
SIN = intern(primitive("sin"), {"accuracy": None}, [VECTOR])


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_functions_and_of_gradients_are_well_formed(name):
    function = PROGRAMS[name]
    check(graph_of(function))
    if name != "while":
        total = lambda x: sum(jnp.sum(y) for y in jax.tree.leaves(function(x)))  # noqa: E731
        check(graph_of(fgrad.grad(total)))


@settings(max_examples=20, deadline=None)
@given(random_graphs())
def test_random_graphs_are_well_formed(graph):
    check(graph)


def wrong(graph, *parts):
    with pytest.raises(InvalidGraphError) as caught:
        check(graph)
    for part in parts:
        assert part in str(caught.value)


def test_a_value_read_before_it_is_there():
    wrong(Graph((VECTOR,), (), (Node(SIN, (1,)),), (1,)), "reads %1 before", "node: %1: f32[3] = sin %1")


def test_an_output_that_does_not_exist():
    wrong(Graph((VECTOR,), (), (), (3,)), "output 0 is the value %3")


def test_a_negative_number():
    wrong(Graph((VECTOR,), (), (Node(SIN, (-1,)),), (1,)), "before")


def test_an_operand_of_another_type():
    matrix = ShapedArray((2, 2), VECTOR.dtype)
    wrong(Graph((matrix,), (), (Node(SIN, (0,)),), (1,)), "%0 has type f32[2,2] and its operation takes f32[3]")


def test_too_few_operands():
    wrong(Graph((VECTOR,), (), (Node(SIN, ()),), (1,)), "reads 0 values")


def test_an_output_type_that_the_operation_does_not_give():
    lie = Op(SIN.primitive, SIN.params, ("lie",), (VECTOR,), (ShapedArray((4,), VECTOR.dtype),), False)
    wrong(Graph((VECTOR,), (), (Node(lie, (0,)),), (1,)), "is said to have type f32[4] and has f32[3]")


def test_parameters_that_the_operation_refuses():
    lie = Op(primitive("reduce_sum"), {"axes": (7,), "out_sharding": None}, ("lie",), (VECTOR,), (VECTOR,), False)
    wrong(Graph((VECTOR,), (), (Node(lie, (0,)),), (1,)), "its type rule refuses it", "reduce_sum[axes=(7,)]")


def test_a_body_that_does_not_fit_its_operands():
    body = graph_of(jnp.sin, jnp.zeros(2))
    op = intern(REGIONS["remat"], {"body": body, "policy": None, "barrier": False}, [VECTOR])
    wrong(Graph((VECTOR,), (), (Node(op, (0,)),), (1,)), "body input 0 has type f32[2] where f32[3] is expected")


def test_a_scan_whose_carry_changes_type():
    body = graph_of(lambda c, x: (c[:2], x), jnp.zeros(3), jnp.zeros(()))
    params = {"body": body, "num_consts": 0, "num_carry": 1, "length": 3, "reverse": False, "unroll": 1}
    op = intern(REGIONS["scan"], params, [VECTOR, VECTOR])
    wrong(Graph((VECTOR,), (), (Node(op, (0, 0)),), (1,)), "carry output 0 has type f32[2]")


def test_an_error_inside_a_body_says_where_and_shows_the_users_line():
    good = graph_of(lambda x: jnp.sin(x))
    bad = Graph(good.in_types, (), (Node(good.nodes[0].op, (5,), good.nodes[0].source),), good.outputs)
    op = intern(REGIONS["remat"], {"body": bad, "policy": None, "barrier": False}, [VECTOR])
    wrong(Graph((VECTOR,), (), (Node(op, (0,)),), (1,)), "body of node 0 (remat)", "test_check.py:", "sin %5")
