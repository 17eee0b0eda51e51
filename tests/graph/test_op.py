"""Operations, their keys and their table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from fgrad.graph.op import freeze


@pytest.mark.parametrize(
    "one, other",
    [(None, np.dtype(np.float64)), (0.0, -0.0), (np.float32(0), np.float32(-0.0)), (0j, complex(0.0, -0.0)), (1, True)],
)
def test_parameters_that_python_calls_equal_are_told_apart(one, other):
    assert one == other
    assert freeze(one) != freeze(other)


def test_parameters_that_are_not_equal_to_themselves_have_a_key():
    for nan in (np.nan, np.float32(np.nan), complex(np.nan, 0.0)):
        assert freeze(nan) == freeze(nan)


def test_a_product_whose_type_is_asked_for_is_another_operation():
    """NumPy calls the dtype float64 equal to None."""
    x = jnp.ones(2, jnp.float32)
    with jax.enable_x64(True):
        for dtype in (np.float64, None):
            graph = fgrad.make_graph(lambda x, dtype=dtype: lax.dot(x, x, preferred_element_type=dtype))(x)
            assert graph(x).dtype == (dtype or np.float32)


def test_graphs_with_other_parameters_have_other_hashes():
    """Else every look-up among the graphs of a loop compares with all of them."""
    graphs = [fgrad.make_graph(lambda x, i=i: x[i : i + 1])(jnp.ones(8)).core for i in range(8)]
    assert len({hash(graph) for graph in graphs}) == len(graphs)
