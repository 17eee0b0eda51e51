"""ott: optimal transport, differentiated at its optimum."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pointcloud = pytest.importorskip("ott.geometry.pointcloud")
linear_problem = pytest.importorskip("ott.problems.linear.linear_problem")
linear = pytest.importorskip("ott.solvers.linear")
X, Y = jax.random.normal(jax.random.key(0), (4, 2)), jax.random.normal(jax.random.key(1), (5, 2))


def solved(x):
    geometry = pointcloud.PointCloud(x, Y, epsilon=0.5)
    solver = linear.sinkhorn.Sinkhorn(threshold=1e-4, max_iterations=100)
    return solver(linear_problem.LinearProblem(geometry))


def test_the_cost():
    compare(lambda lib: lib.value_and_grad(lambda x: solved(x).reg_ot_cost)(X), rtol=1e-3, atol=1e-4)


def test_the_plan():
    cost = jnp.arange(20.0).reshape(4, 5)
    compare(lambda lib: lib.jit(lib.grad(lambda x: jnp.sum(solved(x).matrix * cost)))(X), rtol=1e-2, atol=1e-3)
