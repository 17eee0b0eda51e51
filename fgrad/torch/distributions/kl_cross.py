"""Divergences of distributions of two kinds.

The divergence is minus the first's entropy, minus its mean of the second's log density; that mean needs only a few
moments.
"""

import math
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions.bernoulli import Bernoulli
from fgrad.torch.distributions.beta import Beta
from fgrad.torch.distributions.binomial import Binomial
from fgrad.torch.distributions.continuous_bernoulli import ContinuousBernoulli
from fgrad.torch.distributions.exponential import Exponential
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.gumbel import Gumbel
from fgrad.torch.distributions.kl_registry import register_kl
from fgrad.torch.distributions.laplace import Laplace
from fgrad.torch.distributions.normal import Normal
from fgrad.torch.distributions.pareto import Pareto
from fgrad.torch.distributions.poisson import Poisson
from fgrad.torch.distributions.uniform import Uniform
from fgrad.torch.distributions.utils import euler_constant

# -- where the second's support is too small ---------------------------------------------------------------------------

_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
_OUTSIDE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: _BOUNDED,
    Gamma: _BOUNDED,
    Gumbel: (*_BOUNDED, Exponential, Gamma),
    Laplace: (*_BOUNDED, Exponential, Gamma),
    Normal: (*_BOUNDED, Exponential, Gamma),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    return ops.full_like(p.mean.detach(), math.inf)


for _first, _seconds in _OUTSIDE.items():
    for _second in _seconds:
        register_kl(_first, _second)(_infinite)


# -- moments -----------------------------------------------------------------------------------------------------------


def _mean_x_log_x(x: Tensor) -> Tensor:
    """An antiderivative of the logarithm."""
    return ops.xlogy(x, x) - x  # zero at zero


def _mean_log(p: Any) -> Tensor:
    """The mean of the logarithm of a draw."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -p.rate.log() - euler_constant
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_mean_x_log_x(p.high) - _mean_x_log_x(p.low)) / (p.high - p.low)


def _mean_exp(p: Any, rate: Tensor) -> Tensor:
    """The mean of ``exp(-rate * x)``."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate) ** -p.concentration
    if isinstance(p, Normal):
        return (-p.loc * rate + (p.scale * rate).pow(2) / 2).exp()
    return ((-p.low * rate).exp() - (-p.high * rate).exp()) / ((p.high - p.low) * rate)


def _inside(p: Any, low: Any, high: Any, result: Tensor) -> Tensor:
    """The result where the support is within bounds, and infinity elsewhere."""
    bounds = p.support
    outside = ops.as_tensor(bounds.lower_bound < low) | ops.as_tensor(bounds.upper_bound > high)
    return ops.where(outside, math.inf, result)


# -- by the second -----------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _to_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Tensor:
    square = (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return -p.entropy() + 0.5 * (math.log(2 * math.pi) + square) + q.scale.log()


@register_kl(Pareto, Normal)
def _pareto_to_normal(p: Any, q: Any) -> Tensor:
    return ops.where(p.alpha <= 2, math.inf, _to_normal(p, q))


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Pareto, Exponential)
def _pareto_to_exponential(p: Any, q: Any) -> Tensor:
    return ops.where(p.alpha <= 1, math.inf, _to_exponential(p, q))


@register_kl(Uniform, Exponential)
def _uniform_to_exponential(p: Any, q: Any) -> Tensor:
    return _inside(p, 0, math.inf, _to_exponential(p, q))


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def _to_gamma(p: Any, q: Any) -> Tensor:
    density = q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * _mean_log(p)
    return -p.entropy() - density + q.rate * p.mean


@register_kl(Pareto, Gamma)
def _pareto_to_gamma(p: Any, q: Any) -> Tensor:
    return ops.where(p.alpha <= 1, math.inf, _to_gamma(p, q))


@register_kl(Uniform, Gamma)
def _uniform_to_gamma(p: Any, q: Any) -> Tensor:
    return _inside(p, 0, math.inf, _to_gamma(p, q))


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _to_gumbel(p: Any, q: Any) -> Tensor:
    rate = q.scale.reciprocal()
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) * rate + (q.loc * rate).exp() * _mean_exp(p, rate)


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Any, q: Any) -> Tensor:
    shift = p.loc - q.loc
    ratio = shift / p.scale
    density = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.pow(2)).exp()
    distance = density + shift * ops.erf(math.sqrt(0.5) * ratio)
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Beta, Uniform)
def _to_uniform(p: Any, q: Any) -> Tensor:
    return _inside(p, q.low, q.high, -p.entropy() + (q.high - q.low).log())


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_to_uniform(p: Any, q: Any) -> Tensor:
    bounds = p.support
    infinite = (q.low >= bounds.lower_bound) | (q.high <= bounds.upper_bound)  # PyTorch's comparisons
    return ops.where(infinite, math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p: Any, q: Any) -> Tensor:
    density = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return _inside(p, q.scale, math.inf, -p.entropy() - density)


@register_kl(Uniform, Beta)
def _uniform_to_beta(p: Any, q: Any) -> Tensor:
    mirrored = (_mean_x_log_x(1 - p.low) - _mean_x_log_x(1 - p.high)) / (p.high - p.low)
    log_beta = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    density = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * mirrored - log_beta
    return _inside(p, 0, 1, -p.entropy() - density)


@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._log_norm()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    infinite = (p.high >= q.support.upper_bound) | (p.low <= q.support.lower_bound)  # PyTorch's comparisons
    return ops.where(infinite, math.inf, _to_continuous_bernoulli(p, q))
