"""Probability distributions: draws, densities, entropies and divergences, differentiable in their parameters.

>>> import fgrad.torch as torch
>>> normal = torch.distributions.Normal(torch.tensor([0.0]), torch.tensor([1.0]))
>>> torch.distributions.kl_divergence(normal, torch.distributions.Normal(1.0, 1.0))
tensor([0.5000])

Source: https://docs.pytorch.org/docs/2.13/distributions.html
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.distributions import (
        bernoulli as bernoulli,
        beta as beta,
        binomial as binomial,
        categorical as categorical,
        cauchy as cauchy,
        chi2 as chi2,
        constraint_registry as constraint_registry,
        constraints as constraints,
        continuous_bernoulli as continuous_bernoulli,
        dirichlet as dirichlet,
        distribution as distribution,
        elementwise as elementwise,
        exp_family as exp_family,
        exponential as exponential,
        fishersnedecor as fishersnedecor,
        gamma as gamma,
        generalized_pareto as generalized_pareto,
        geometric as geometric,
        gumbel as gumbel,
        half_cauchy as half_cauchy,
        half_normal as half_normal,
        independent as independent,
        inverse_gamma as inverse_gamma,
        kl as kl,
        kl_cross as kl_cross,
        kl_registry as kl_registry,
        kl_same as kl_same,
        kumaraswamy as kumaraswamy,
        laplace as laplace,
        lkj_cholesky as lkj_cholesky,
        log_normal as log_normal,
        logistic_normal as logistic_normal,
        lowrank_multivariate_normal as lowrank_multivariate_normal,
        mixture_same_family as mixture_same_family,
        multinomial as multinomial,
        multivariate_normal as multivariate_normal,
        negative_binomial as negative_binomial,
        normal as normal,
        one_hot_categorical as one_hot_categorical,
        pareto as pareto,
        parts as parts,
        poisson as poisson,
        probabilities as probabilities,
        relaxed_bernoulli as relaxed_bernoulli,
        relaxed_categorical as relaxed_categorical,
        simplex_draws as simplex_draws,
        simplices as simplices,
        studentT as studentT,
        transform as transform,
        transformed_distribution as transformed_distribution,
        transforms as transforms,
        uniform as uniform,
        utils as utils,
        von_mises as von_mises,
        weibull as weibull,
        wishart as wishart,
    )
    from fgrad.torch.distributions.bernoulli import Bernoulli as Bernoulli
    from fgrad.torch.distributions.beta import Beta as Beta
    from fgrad.torch.distributions.binomial import Binomial as Binomial
    from fgrad.torch.distributions.categorical import Categorical as Categorical
    from fgrad.torch.distributions.cauchy import Cauchy as Cauchy
    from fgrad.torch.distributions.chi2 import Chi2 as Chi2
    from fgrad.torch.distributions.constraint_registry import biject_to as biject_to, transform_to as transform_to
    from fgrad.torch.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
    from fgrad.torch.distributions.dirichlet import Dirichlet as Dirichlet
    from fgrad.torch.distributions.distribution import Distribution as Distribution
    from fgrad.torch.distributions.exp_family import ExponentialFamily as ExponentialFamily
    from fgrad.torch.distributions.exponential import Exponential as Exponential
    from fgrad.torch.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
    from fgrad.torch.distributions.gamma import Gamma as Gamma
    from fgrad.torch.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
    from fgrad.torch.distributions.geometric import Geometric as Geometric
    from fgrad.torch.distributions.gumbel import Gumbel as Gumbel
    from fgrad.torch.distributions.half_cauchy import HalfCauchy as HalfCauchy
    from fgrad.torch.distributions.half_normal import HalfNormal as HalfNormal
    from fgrad.torch.distributions.independent import Independent as Independent
    from fgrad.torch.distributions.inverse_gamma import InverseGamma as InverseGamma
    from fgrad.torch.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
    from fgrad.torch.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
    from fgrad.torch.distributions.laplace import Laplace as Laplace
    from fgrad.torch.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
    from fgrad.torch.distributions.log_normal import LogNormal as LogNormal
    from fgrad.torch.distributions.logistic_normal import LogisticNormal as LogisticNormal
    from fgrad.torch.distributions.lowrank_multivariate_normal import (
        LowRankMultivariateNormal as LowRankMultivariateNormal,
    )
    from fgrad.torch.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
    from fgrad.torch.distributions.multinomial import Multinomial as Multinomial
    from fgrad.torch.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
    from fgrad.torch.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
    from fgrad.torch.distributions.normal import Normal as Normal
    from fgrad.torch.distributions.one_hot_categorical import (
        OneHotCategorical as OneHotCategorical,
        OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
    )
    from fgrad.torch.distributions.pareto import Pareto as Pareto
    from fgrad.torch.distributions.poisson import Poisson as Poisson
    from fgrad.torch.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
    from fgrad.torch.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from fgrad.torch.distributions.studentT import StudentT as StudentT
    from fgrad.torch.distributions.transformed_distribution import TransformedDistribution as TransformedDistribution
    from fgrad.torch.distributions.transforms import (
        AbsTransform as AbsTransform,
        AffineTransform as AffineTransform,
        CatTransform as CatTransform,
        ComposeTransform as ComposeTransform,
        CorrCholeskyTransform as CorrCholeskyTransform,
        CumulativeDistributionTransform as CumulativeDistributionTransform,
        ExpTransform as ExpTransform,
        IndependentTransform as IndependentTransform,
        LowerCholeskyTransform as LowerCholeskyTransform,
        PositiveDefiniteTransform as PositiveDefiniteTransform,
        PowerTransform as PowerTransform,
        ReshapeTransform as ReshapeTransform,
        SigmoidTransform as SigmoidTransform,
        SoftmaxTransform as SoftmaxTransform,
        SoftplusTransform as SoftplusTransform,
        StackTransform as StackTransform,
        StickBreakingTransform as StickBreakingTransform,
        TanhTransform as TanhTransform,
        Transform as Transform,
        identity_transform as identity_transform,
    )
    from fgrad.torch.distributions.uniform import Uniform as Uniform
    from fgrad.torch.distributions.von_mises import VonMises as VonMises
    from fgrad.torch.distributions.weibull import Weibull as Weibull
    from fgrad.torch.distributions.wishart import Wishart as Wishart
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints "
            "continuous_bernoulli dirichlet distribution elementwise exp_family exponential fishersnedecor gamma "
            "generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma kl kl_cross "
            "kl_registry kl_same kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
            "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal negative_binomial normal "
            "one_hot_categorical pareto parts poisson probabilities relaxed_bernoulli relaxed_categorical "
            "simplex_draws simplices studentT transform transformed_distribution transforms uniform utils von_mises "
            "weibull wishart",
            f"{__name__}.bernoulli": "Bernoulli",
            f"{__name__}.beta": "Beta",
            f"{__name__}.binomial": "Binomial",
            f"{__name__}.categorical": "Categorical",
            f"{__name__}.cauchy": "Cauchy",
            f"{__name__}.chi2": "Chi2",
            f"{__name__}.constraint_registry": "biject_to transform_to",
            f"{__name__}.continuous_bernoulli": "ContinuousBernoulli",
            f"{__name__}.dirichlet": "Dirichlet",
            f"{__name__}.distribution": "Distribution",
            f"{__name__}.exp_family": "ExponentialFamily",
            f"{__name__}.exponential": "Exponential",
            f"{__name__}.fishersnedecor": "FisherSnedecor",
            f"{__name__}.gamma": "Gamma",
            f"{__name__}.generalized_pareto": "GeneralizedPareto",
            f"{__name__}.geometric": "Geometric",
            f"{__name__}.gumbel": "Gumbel",
            f"{__name__}.half_cauchy": "HalfCauchy",
            f"{__name__}.half_normal": "HalfNormal",
            f"{__name__}.independent": "Independent",
            f"{__name__}.inverse_gamma": "InverseGamma",
            f"{__name__}.kl": "kl_divergence register_kl",
            f"{__name__}.kumaraswamy": "Kumaraswamy",
            f"{__name__}.laplace": "Laplace",
            f"{__name__}.lkj_cholesky": "LKJCholesky",
            f"{__name__}.log_normal": "LogNormal",
            f"{__name__}.logistic_normal": "LogisticNormal",
            f"{__name__}.lowrank_multivariate_normal": "LowRankMultivariateNormal",
            f"{__name__}.mixture_same_family": "MixtureSameFamily",
            f"{__name__}.multinomial": "Multinomial",
            f"{__name__}.multivariate_normal": "MultivariateNormal",
            f"{__name__}.negative_binomial": "NegativeBinomial",
            f"{__name__}.normal": "Normal",
            f"{__name__}.one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
            f"{__name__}.pareto": "Pareto",
            f"{__name__}.poisson": "Poisson",
            f"{__name__}.relaxed_bernoulli": "RelaxedBernoulli",
            f"{__name__}.relaxed_categorical": "RelaxedOneHotCategorical",
            f"{__name__}.studentT": "StudentT",
            f"{__name__}.transformed_distribution": "TransformedDistribution",
            f"{__name__}.transforms": "AbsTransform AffineTransform CatTransform ComposeTransform "
            "CorrCholeskyTransform CumulativeDistributionTransform ExpTransform IndependentTransform "
            "LowerCholeskyTransform PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform "
            "SoftmaxTransform SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform "
            "identity_transform",
            f"{__name__}.uniform": "Uniform",
            f"{__name__}.von_mises": "VonMises",
            f"{__name__}.weibull": "Weibull",
            f"{__name__}.wishart": "Wishart",
        },
    )

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
