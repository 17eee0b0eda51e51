"""Distributions whose parameters are on an accelerator."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as torch
from tests.accelerators import on, two_accelerators

D = torch.distributions
__all__ = ["two_accelerators"]
pytestmark = [pytest.mark.usefixtures("two_accelerators"), pytest.mark.filterwarnings("ignore:Singular sample")]

MADE: list[Callable[[Any, Any], Any]] = [
    lambda p, eye: D.Bernoulli(p), lambda p, eye: D.Beta(p, p), lambda p, eye: D.Binomial(5, p),
    lambda p, eye: D.Categorical(p), lambda p, eye: D.Cauchy(0.0, p), lambda p, eye: D.Chi2(p),
    lambda p, eye: D.ContinuousBernoulli(p), lambda p, eye: D.Dirichlet(p), lambda p, eye: D.Exponential(p),
    lambda p, eye: D.FisherSnedecor(p, p), lambda p, eye: D.Gamma(p, 1.0), lambda p, eye: D.Geometric(p),
    lambda p, eye: D.Gumbel(p, p), lambda p, eye: D.HalfCauchy(p), lambda p, eye: D.HalfNormal(p),
    lambda p, eye: D.Kumaraswamy(p, p), lambda p, eye: D.LKJCholesky(3, p[0]), lambda p, eye: D.Laplace(p, p),
    lambda p, eye: D.LogNormal(p, p), lambda p, eye: D.LogisticNormal(p, p),
    lambda p, eye: D.LowRankMultivariateNormal(p, eye[:, :1], p), lambda p, eye: D.Multinomial(5, p),
    lambda p, eye: D.MultivariateNormal(p, eye), lambda p, eye: D.MultivariateNormal(p, precision_matrix=eye),
    lambda p, eye: D.NegativeBinomial(5, p), lambda p, eye: D.Normal(p, 1.0), lambda p, eye: D.OneHotCategorical(p),
    lambda p, eye: D.Pareto(p, p), lambda p, eye: D.Poisson(p), lambda p, eye: D.RelaxedBernoulli(p[0], p),
    lambda p, eye: D.RelaxedOneHotCategorical(p[0], p), lambda p, eye: D.StudentT(p), lambda p, eye: D.Uniform(0.0, p),
    lambda p, eye: D.VonMises(p, p), lambda p, eye: D.Weibull(p, p), lambda p, eye: D.Wishart(9.0, eye),
    lambda p, eye: D.MixtureSameFamily(D.Categorical(p), D.Normal(p, p)),
    lambda p, eye: D.Independent(D.Normal(p, p), 1),
    lambda p, eye: D.TransformedDistribution(D.Normal(p, p), [D.transforms.SigmoidTransform()]),
]  # fmt: skip


@pytest.mark.parametrize("make", MADE)
def test_samples_and_densities_stay(make: Any):
    distribution = make(torch.full((3,), 0.5, device="cuda:1"), torch.eye(3, device="cuda:1"))
    sample = distribution.sample()
    on(sample, 1)
    on(distribution.log_prob(sample), 1)
    if distribution.has_enumerate_support and not isinstance(distribution, D.Binomial):
        on(distribution.enumerate_support(), 1)
