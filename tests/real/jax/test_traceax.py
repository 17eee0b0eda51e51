"""traceax: estimates of a trace."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
traceax = pytest.importorskip("traceax")
lx = pytest.importorskip("lineax")

M = jax.random.normal(jax.random.key(0), (6, 6))
A = M @ M.T + jnp.eye(6)


@pytest.mark.parametrize("name", ["HutchinsonEstimator", "HutchPlusPlusEstimator", "XTraceEstimator"])
def test_an_estimate(name):
    estimator = getattr(traceax, name)()

    def estimate(a):
        return estimator.estimate(jax.random.key(1), lx.MatrixLinearOperator(a * A), 4)[0]

    compare(lambda lib: lib.value_and_grad(estimate)(1.3))


def test_an_estimate_for_a_positive_matrix():
    def estimate(a):
        operator = lx.TaggedLinearOperator(lx.MatrixLinearOperator(a * A), lx.positive_semidefinite_tag)
        return traceax.XNysTraceEstimator().estimate(jax.random.key(1), operator, 3)[0]

    compare(lambda lib: lib.value_and_grad(estimate)(1.3), rtol=1e-3)
