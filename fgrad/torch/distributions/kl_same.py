"""Divergences of two distributions of one kind."""

import math
from typing import Any

from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.autograd import grad
from fgrad.torch.distributions.bernoulli import Bernoulli
from fgrad.torch.distributions.beta import Beta
from fgrad.torch.distributions.binomial import Binomial
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.cauchy import Cauchy
from fgrad.torch.distributions.continuous_bernoulli import ContinuousBernoulli
from fgrad.torch.distributions.dirichlet import Dirichlet
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.exponential import Exponential
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.geometric import Geometric
from fgrad.torch.distributions.gumbel import Gumbel
from fgrad.torch.distributions.half_normal import HalfNormal
from fgrad.torch.distributions.independent import Independent
from fgrad.torch.distributions.kl_registry import kl_divergence, register_kl
from fgrad.torch.distributions.laplace import Laplace
from fgrad.torch.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from fgrad.torch.distributions.multivariate_normal import MultivariateNormal, half_log_det, squared_distance
from fgrad.torch.distributions.normal import Normal
from fgrad.torch.distributions.one_hot_categorical import OneHotCategorical
from fgrad.torch.distributions.pareto import Pareto
from fgrad.torch.distributions.poisson import Poisson
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.uniform import Uniform
from fgrad.torch.distributions.utils import euler_constant, sum_rightmost
from fgrad.torch.linalg import solve_triangular
from fgrad.torch.nn import functional


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    one = p.probs * (functional.softplus(-q.logits) - functional.softplus(-p.logits))
    zero = (1 - p.probs) * (functional.softplus(q.logits) - functional.softplus(p.logits))
    one = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, one))
    return one + ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, math.inf, zero))


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    return (
        q.concentration1.lgamma()
        + q.concentration0.lgamma()
        + total_p.lgamma()
        - (p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma())
        + (p.concentration1 - q.concentration1) * p.concentration1.digamma()
        + (p.concentration0 - q.concentration0) * p.concentration0.digamma()
        + (total_q - total_p) * total_p.digamma()
    )


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    return ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, each)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    widths = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return widths.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    normalizers = p._log_norm() + ops.log1p(-p.probs) - q._log_norm() - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + normalizers


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    mean_logs = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return (
        total_p.lgamma()
        - total_q.lgamma()
        - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
        + ((p.concentration - q.concentration) * mean_logs).sum(-1)
    )


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer between the natural parameters."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot                             be "
            "computed using Bregman divergences"
        )
    with enable_grad():
        params = [param.detach().requires_grad_() for param in p._natural_params]
        normalizer = p._log_normalizer(*params)
        means = grad(normalizer.sum(), params, create_graph=True)
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for param, other, mean in zip(params, others, means, strict=True):
        result = result - sum_rightmost((other - param) * mean, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + ops.lgamma(q.concentration)
        - ops.lgamma(p.concentration)
        + (p.concentration - q.concentration) * ops.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    shift = (q.loc - p.loc) / q.scale
    moment = (shift + (1 + ratio).lgamma()).exp()
    return -ratio.log() - shift + ratio * euler_constant + moment - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * ops.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


def _normals(p_factor: Tensor, q_factor: Tensor, difference: Tensor) -> Tensor:
    """The divergence of two normal distributions of vectors, by their Cholesky factors."""
    n = p_factor.shape[-1]
    batch = ops.broadcast_shapes(p_factor.shape[:-2], q_factor.shape[:-2])
    p_factor, q_factor = p_factor.expand(batch + (n, n)), q_factor.expand(batch + (n, n))
    trace = solve_triangular(q_factor, p_factor, upper=False).pow(2).sum((-2, -1))
    distance = squared_distance(q_factor, difference)
    return half_log_det(q_factor) - half_log_det(p_factor) + 0.5 * (trace + distance - n)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with                          different event shapes "
            "cannot be computed"
        )
    return _normals(p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril, q.loc - p.loc)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        kinds = {True: "Low Rank Multivariate Normal", False: "Multivariate Normal"}
        names = [kinds[isinstance(each, LowRankMultivariateNormal)] for each in (p, q)]
        names = f"two {names[0]}s" if names[0] == names[1] else f"a {names[0]} and a {names[1]}"
        raise ValueError(f"KL-divergence between {names} with different event shapes cannot be computed")
    return _normals(p.scale_tril, q.scale_tril, q.loc - p.loc)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)
