"""Probability distributions: draws, densities, entropies and divergences, with gradients by their parameters.

>>> import fgrad.torch as torch
>>> normal = torch.distributions.Normal(torch.tensor([0.0]), torch.tensor([1.0]))
>>> torch.distributions.kl_divergence(normal, torch.distributions.Normal(1.0, 1.0))
tensor([0.5000])

Source: https://docs.pytorch.org/docs/2.13/distributions.html
"""

from fgrad.torch.distributions import (
    constraints as constraints,
    transforms as transforms,
)
from fgrad.torch.distributions.bernoulli import Bernoulli
from fgrad.torch.distributions.beta import Beta
from fgrad.torch.distributions.binomial import Binomial
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.cauchy import Cauchy
from fgrad.torch.distributions.chi2 import Chi2
from fgrad.torch.distributions.constraint_registry import biject_to, transform_to
from fgrad.torch.distributions.continuous_bernoulli import ContinuousBernoulli
from fgrad.torch.distributions.dirichlet import Dirichlet
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.exponential import Exponential
from fgrad.torch.distributions.fishersnedecor import FisherSnedecor
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.generalized_pareto import GeneralizedPareto
from fgrad.torch.distributions.geometric import Geometric
from fgrad.torch.distributions.gumbel import Gumbel
from fgrad.torch.distributions.half_cauchy import HalfCauchy
from fgrad.torch.distributions.half_normal import HalfNormal
from fgrad.torch.distributions.independent import Independent
from fgrad.torch.distributions.inverse_gamma import InverseGamma
from fgrad.torch.distributions.kl import kl_divergence, register_kl
from fgrad.torch.distributions.kumaraswamy import Kumaraswamy
from fgrad.torch.distributions.laplace import Laplace
from fgrad.torch.distributions.lkj_cholesky import LKJCholesky
from fgrad.torch.distributions.log_normal import LogNormal
from fgrad.torch.distributions.logistic_normal import LogisticNormal
from fgrad.torch.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from fgrad.torch.distributions.mixture_same_family import MixtureSameFamily
from fgrad.torch.distributions.multinomial import Multinomial
from fgrad.torch.distributions.multivariate_normal import MultivariateNormal
from fgrad.torch.distributions.negative_binomial import NegativeBinomial
from fgrad.torch.distributions.normal import Normal
from fgrad.torch.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from fgrad.torch.distributions.pareto import Pareto
from fgrad.torch.distributions.poisson import Poisson
from fgrad.torch.distributions.relaxed_bernoulli import RelaxedBernoulli
from fgrad.torch.distributions.relaxed_categorical import RelaxedOneHotCategorical
from fgrad.torch.distributions.studentT import StudentT
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from fgrad.torch.distributions.uniform import Uniform
from fgrad.torch.distributions.von_mises import VonMises
from fgrad.torch.distributions.weibull import Weibull
from fgrad.torch.distributions.wishart import Wishart

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "Poisson",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "TransformedDistribution",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
