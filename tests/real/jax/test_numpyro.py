"""numpyro: the potential energy of a model, the lower bound of variational inference, and densities."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")
infer = pytest.importorskip("numpyro.infer")

Y = jnp.array([2.0, 1.0, -1.0, 0.3])


def schools(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", 4):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, 1.0), obs=y)


def test_potential_energy():
    energy = lambda p: infer.util.potential_energy(schools, (), {"y": Y}, p)  # noqa: E731
    p = {"mu": jnp.array(0.3), "tau": jnp.array(0.1), "theta": jnp.arange(4.0)}
    compare(lambda lib: (lib.value_and_grad(energy)(p), lib.hessian(energy)(p)))


def test_lower_bound():
    guide = infer.autoguide.AutoNormal(schools)
    svi = infer.SVI(schools, guide, numpyro.optim.Adam(0.01), infer.Trace_ELBO())
    p = svi.get_params(svi.init(jax.random.key(0), Y))
    bound = lambda p: infer.Trace_ELBO().loss(jax.random.key(1), p, schools, guide, Y)  # noqa: E731
    compare(lambda lib: lib.value_and_grad(bound)(p))


def test_samples_of_distributions():
    def loss(a):
        total = 0.0
        for d in (
            dist.Gamma(a, a), dist.Beta(a, 2 * a), dist.Dirichlet(jnp.stack([a, 2 * a])), dist.StudentT(a, 0.0, 1.0),
            dist.LogNormal(a, 1.0), dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2) * a), dist.Gumbel(a, 1.0),
        ):  # fmt: skip
            total = total + jnp.sum(d.log_prob(d.sample(jax.random.key(0))))
        return total

    compare(lambda lib: lib.grad(loss)(jnp.array(1.7)), rtol=1e-3)


def test_densities():
    def loss(a, b):
        directions = dist.SineBivariateVonMises(0.1, 0.2, 1.0, 1.5, a / 10)
        return (
            dist.SineSkewed(directions, jnp.array([0.1, 0.2]) * b).log_prob(jnp.array([0.3, 0.2]))
            + dist.LKJCholesky(2, a).log_prob(jnp.array([[1.0, 0.0], [0.6, 0.8]]))
            + dist.TruncatedNormal(a, b, low=-1.0, high=2.0).log_prob(0.3)
            + dist.ZeroInflatedNegativeBinomial2(a, b, gate=0.3).log_prob(2)
            + dist.CAR(0.0, 0.3 * a, b, jnp.array([[0.0, 1.0], [1.0, 0.0]])).log_prob(Y[:2])
        )

    compare(lambda lib: lib.value_and_grad(loss, (0, 1))(1.3, 0.4), rtol=1e-3)
