"""The distributions, with parameters and values to ask about, as functions of the module and its distributions."""

from collections.abc import Callable
from typing import Any

from attrs import frozen


@frozen
class Case:
    """A distribution made by ``make(torch, *parameters)``, and a value in its support.

    ``rtol`` is for the gradients of draws, which PyTorch has only to a few digits for Beta and Dirichlet draws.
    """

    name: str
    make: Callable[..., Any]
    parameters: tuple[Any, ...]
    value: Any
    rtol: float = 1e-3

    def __str__(self) -> str:
        return self.name


def _of(name: str, *parameters: Any, value: Any, rtol: float = 1e-3, label: str = "", **options: Any) -> Case:
    def make(torch: Any, *tensors: Any) -> Any:
        return getattr(torch.distributions, name)(*tensors, **options)

    return Case(label or name, make, parameters, value, rtol)


def _keyword(name: str, keyword: str, *parameters: Any, value: Any) -> Case:
    def make(torch: Any, *tensors: Any) -> Any:
        return getattr(torch.distributions, name)(*tensors[:-1], **{keyword: tensors[-1]})

    return Case(f"{name} by {keyword}", make, parameters, value)


def _independent(torch: Any, loc: Any, scale: Any) -> Any:
    return torch.distributions.Independent(torch.distributions.Normal(loc, scale), 1)


def _mixture(torch: Any, weights: Any, loc: Any, scale: Any) -> Any:
    d = torch.distributions
    return d.MixtureSameFamily(d.Categorical(weights), d.Normal(loc, scale))


def _vector_mixture(torch: Any, weights: Any, loc: Any, scale: Any) -> Any:
    d = torch.distributions
    return d.MixtureSameFamily(d.Categorical(weights), d.Independent(d.Normal(loc, scale), 1))


def _transformed(torch: Any, loc: Any, scale: Any) -> Any:
    d = torch.distributions
    base = d.Normal(loc, scale)
    return d.TransformedDistribution(
        base, [d.AffineTransform(1.0, 2.0), d.TanhTransform(), d.AffineTransform(0.5, -3.0)]
    )


PLACES = [0.3, -1.0, 2.0]
SCALES = [0.5, 1.5, 2.5]
SHAPES = [0.7, 2.0, 5.5]
CHANCES = [0.2, 0.5, 0.9]
WEIGHTS = [[0.2, 0.5, 0.3], [1.0, 2.0, 4.0]]
COVARIANCE = [[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]]
FACTOR = [[1.5, 0.0, 0.0], [0.5, 1.2, 0.0], [0.1, -0.2, 0.8]]
CORRELATION = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.6, 0.64]]
INSIDE = [0.1, 0.4, 0.8]
ABOVE = [0.4, 1.3, 3.0]
COUNTS = [0.0, 2.0, 3.0]

CASES = [
    _of("Normal", PLACES, SCALES, value=[0.0, 1.0, -2.0]),
    _of("Normal", 0.5, 2.0, value=[0.0, 1.0], label="Normal of numbers"),
    _of("Bernoulli", CHANCES, value=[1.0, 0.0, 1.0]),
    _keyword("Bernoulli", "logits", PLACES, value=[1.0, 0.0, 1.0]),
    _of("Categorical", WEIGHTS, value=[0, 2]),
    _keyword("Categorical", "logits", WEIGHTS, value=[1, 2]),
    _of("Uniform", PLACES, [1.3, 2.0, 5.0], value=[1.0, 0.0, 2.0]),
    Case("Independent", _independent, (PLACES, SCALES), [0.1, 0.2, 0.3]),
    _of("MultivariateNormal", PLACES, COVARIANCE, value=[0.1, 0.2, 0.3]),
    _keyword("MultivariateNormal", "precision_matrix", PLACES, COVARIANCE, value=[0.1, 0.2, 0.3]),
    _keyword("MultivariateNormal", "scale_tril", [PLACES, SCALES], FACTOR, value=[0.1, 0.2, 0.3]),
    _of("OneHotCategorical", WEIGHTS, value=[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    _of("OneHotCategoricalStraightThrough", WEIGHTS, value=[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    Case("Multinomial", lambda t, p: t.distributions.Multinomial(5, p), (WEIGHTS,), [[1.0, 2.0, 2.0], [0.0, 5.0, 0.0]]),
    Case("Binomial", lambda t, p: t.distributions.Binomial(5, p), (CHANCES,), COUNTS),
    Case("Binomial by logits", lambda t, p: t.distributions.Binomial(5, logits=p), (PLACES,), COUNTS),
    _of("Beta", SHAPES, SCALES, value=INSIDE, rtol=2e-2),
    _of("Dirichlet", [SHAPES, SCALES], value=[[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], rtol=2e-2),
    _of("Gamma", SHAPES, SCALES, value=ABOVE),
    _of("Exponential", SCALES, value=ABOVE),
    _of("Poisson", SCALES, value=COUNTS),
    _of("Laplace", PLACES, SCALES, value=PLACES[::-1]),
    _of("LogNormal", PLACES, SCALES, value=ABOVE),
    _of("HalfNormal", SCALES, value=ABOVE),
    _of("HalfCauchy", SCALES, value=ABOVE),
    _of("Cauchy", PLACES, SCALES, value=ABOVE),
    _of("StudentT", [0.9, 1.7, 5.0], PLACES, SCALES, value=ABOVE),
    _of("Gumbel", PLACES, SCALES, value=ABOVE),
    _of("Chi2", SHAPES, value=ABOVE),
    _of("Geometric", CHANCES, value=COUNTS),
    _keyword("Geometric", "logits", PLACES, value=COUNTS),
    _of("NegativeBinomial", SHAPES, CHANCES, value=COUNTS),
    _keyword("NegativeBinomial", "logits", SHAPES, PLACES, value=COUNTS),
    _of("Pareto", SCALES, [0.8, 1.5, 4.0], value=[1.0, 2.0, 3.0]),
    _of("Weibull", SCALES, SHAPES, value=ABOVE),
    _of("Kumaraswamy", SCALES, SHAPES, value=INSIDE),
    _of("VonMises", PLACES, SCALES, value=ABOVE),
    Case("Wishart", lambda t, n, c: t.distributions.Wishart(n, c), (5.0, COVARIANCE), COVARIANCE),
    Case(
        "Wishart of whole numbers",
        lambda t, c: t.distributions.Wishart(t.tensor([5, 7]), t.stack([c, c * 2])),
        (COVARIANCE,),
        COVARIANCE,
    ),
    Case("LKJCholesky", lambda t, c: t.distributions.LKJCholesky(3, c), (SCALES,), CORRELATION),
    _of("LowRankMultivariateNormal", PLACES, [[1.0, 0.5], [0.2, 1.0], [0.3, 0.4]], SCALES, value=[0.1, 0.2, 0.3]),
    _of("ContinuousBernoulli", [0.2, 0.5, 0.9], value=INSIDE),
    _keyword("ContinuousBernoulli", "logits", [-30.0, 0.7, 40.0], value=INSIDE),
    _of("LogisticNormal", PLACES, SCALES, value=[0.1, 0.2, 0.3, 0.4]),
    _of("InverseGamma", SHAPES, SCALES, value=ABOVE),
    _of("FisherSnedecor", [1.5, 3.0, 6.0], [1.5, 3.0, 6.0], value=ABOVE),
    _of("GeneralizedPareto", PLACES, SCALES, [0.0, 0.3, -0.4], value=[1.0, 0.0, 4.0]),
    _of("RelaxedBernoulli", 0.7, CHANCES, value=INSIDE),
    _of("RelaxedOneHotCategorical", 0.7, WEIGHTS, value=[[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]),
    Case("MixtureSameFamily", _mixture, ([0.2, 0.5, 0.3], PLACES, SCALES), [0.5, 1.5]),
    Case("MixtureSameFamily of vectors", _vector_mixture, ([0.4, 0.6], [PLACES, SCALES], [SCALES, SHAPES]), PLACES),
    Case("TransformedDistribution", _transformed, (PLACES, SCALES), [1.0, 0.5, 2.0]),
]  # fmt: skip
