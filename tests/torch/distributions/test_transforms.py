"""Transforms and the registries of constraints show what PyTorch's show."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.distributions.agreement import same, shown, theirs

VECTOR = [0.3, -0.7, 1.2]
MATRIX = [[0.3, 1.0, -0.2], [0.5, -0.4, 0.1], [0.2, 0.3, 0.6]]

#: a transform, and an argument
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "affine": (lambda t: t.distributions.AffineTransform(1.0, -2.0), VECTOR),
    "affine of vectors": (lambda t: t.distributions.AffineTransform(1.0, t.tensor(VECTOR), event_dim=1), MATRIX),
    "affine of a number": (lambda t: t.distributions.AffineTransform(0.5, 3.0, event_dim=1), MATRIX),
    "exp": (lambda t: t.distributions.ExpTransform(), VECTOR),
    "power": (lambda t: t.distributions.PowerTransform(t.tensor(2.5)), [0.5, 1.0, 3.0]),
    "sigmoid": (lambda t: t.distributions.SigmoidTransform(), VECTOR),
    "softplus": (lambda t: t.distributions.SoftplusTransform(), VECTOR),
    "tanh": (lambda t: t.distributions.TanhTransform(), VECTOR),
    "abs": (lambda t: t.distributions.AbsTransform(), VECTOR),
    "softmax": (lambda t: t.distributions.SoftmaxTransform(), VECTOR),
    "stick-breaking": (lambda t: t.distributions.StickBreakingTransform(), MATRIX),
    "stick-breaking, at its ends": (lambda t: t.distributions.StickBreakingTransform(), [[99.0, -99.0, 0.5]]),
    "lower Cholesky": (lambda t: t.distributions.LowerCholeskyTransform(), MATRIX),
    "positive definite": (lambda t: t.distributions.PositiveDefiniteTransform(), MATRIX),
    "correlation Cholesky": (lambda t: t.distributions.CorrCholeskyTransform(), VECTOR),
    "composition": (
        lambda t: t.distributions.ComposeTransform(
            [t.distributions.ExpTransform(), t.distributions.AffineTransform(1, 2)]
        ),
        VECTOR,
    ),
    "composition of vectors": (
        lambda t: t.distributions.ComposeTransform(
            [t.distributions.AffineTransform(0.0, 2.0), t.distributions.StickBreakingTransform()]
        ),
        MATRIX,
    ),
    "inverse": (lambda t: t.distributions.ExpTransform().inv, [0.5, 1.0, 3.0]),
    "inverse of a composition": (
        lambda t: t.distributions.ComposeTransform(
            [t.distributions.ExpTransform(), t.distributions.AffineTransform(1, 2)]
        ).inv,
        [1.5, 2.0, 4.0],
    ),
    "independent": (lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1), MATRIX),
    "reshape": (lambda t: t.distributions.ReshapeTransform((3, 3), (9,)), MATRIX),
    "cat": (
        lambda t: t.distributions.CatTransform(
            [t.distributions.ExpTransform(), t.distributions.TanhTransform()], dim=0, lengths=[1, 2]
        ),
        VECTOR,
    ),
    "stack": (
        lambda t: t.distributions.StackTransform(
            [t.distributions.ExpTransform(), t.distributions.TanhTransform(), t.distributions.SigmoidTransform()], dim=1
        ),
        MATRIX,
    ),
    "distribution function": (
        lambda t: t.distributions.CumulativeDistributionTransform(t.distributions.Normal(0.0, 1.0)),
        VECTOR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("t", [ours, theirs])
def test_a_transform_has_one_inverse(t):
    transform = t.distributions.ExpTransform()
    assert transform._inv is None and transform.inv is transform.inv and transform.inv.inv is transform
    composed = t.distributions.ComposeTransform([transform, transform.inv])
    inverse = composed.inv
    assert composed.inv is inverse and inverse.inv is composed


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_agree(name: str) -> None:
    make, argument = TRANSFORMS[name]
    found, wanted = [], []
    for torch, results in ((ours, found), (theirs, wanted)):
        transform, x = make(torch), torch.tensor(argument, requires_grad=True)
        y = transform(x)
        results += [y, transform.inv(y), repr(transform), repr(transform.inv)]
        slope = shown(torch, lambda: transform.log_abs_det_jacobian(x, y))
        results.append(slope)
        if isinstance(slope, torch.Tensor) and slope.requires_grad:
            results.append(torch.autograd.grad(slope.sum(), x)[0])
        for each in ("sign", "bijective", "domain", "codomain", "event_dim"):
            results.append(shown(torch, lambda: getattr(transform, each)))
        results.append(shown(torch, lambda: torch.Size(transform.forward_shape(x.shape))))
        results.append(shown(torch, lambda: torch.Size(transform.inverse_shape(y.shape))))
    for a, b in zip(found, wanted, strict=True):
        same(a, b)


CONSTRAINTS: list[Callable[[Any], Any]] = [
    lambda c: c.real,
    lambda c: c.real_vector,
    lambda c: c.positive,
    lambda c: c.nonnegative,
    lambda c: c.greater_than(1.0),
    lambda c: c.greater_than_eq(1.0),
    lambda c: c.less_than(2.0),
    lambda c: c.unit_interval,
    lambda c: c.interval(-1.0, 3.0),
    lambda c: c.half_open_interval(0.0, 1.0),
    lambda c: c.simplex,
    lambda c: c.lower_cholesky,
    lambda c: c.positive_definite,
    lambda c: c.positive_semidefinite,
    lambda c: c.corr_cholesky,
    lambda c: c.boolean,
    lambda c: c.one_hot,
    lambda c: c.symmetric,
    lambda c: c.independent(c.positive, 1),
    lambda c: c.cat([c.real, c.positive], 0, [1, 2]),
    lambda c: c.stack([c.real, c.positive], 0),
    lambda c: c.integer_interval(0, 3),
    lambda c: c.multinomial(3),
    lambda c: c.MixtureSameFamilyConstraint(c.positive),
]


@pytest.mark.parametrize("which", range(len(CONSTRAINTS)))
def test_registries_and_checks_agree(which: int) -> None:
    make = CONSTRAINTS[which]
    found, wanted = [], []
    for torch, results in ((ours, found), (theirs, wanted)):
        constraint = make(torch.distributions.constraints)
        for name in ("biject_to", "transform_to"):
            results.append(shown(torch, lambda: getattr(torch.distributions, name)(constraint)))
        results += [repr(constraint), constraint.is_discrete, constraint.event_dim]
        for value in ([0.0, 1.0, 0.0], [0.2, 0.3, 0.5], [-1.0, 2.0, float("nan")], MATRIX, [[1.0, 0.0], [0.6, 0.8]]):
            tensor = torch.tensor(value)
            if tensor.dim() >= constraint.event_dim and ("Cat(" not in repr(constraint) or len(value) == 3):
                results.append(shown(torch, lambda: constraint.check(tensor)))
    for a, b in zip(found, wanted, strict=True):
        same(a, b)


@pytest.mark.parametrize("dim", [-1, -2, 0, 1])
def test_the_event_of_stacked_transforms(dim: int) -> None:
    """A dimension counted from the end is one of the event, as those of the slices' events are."""

    def run(torch: Any) -> Any:
        d = torch.distributions
        parts = [d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()]
        transform = d.StackTransform(parts, dim)
        draws = d.TransformedDistribution(d.Normal(torch.zeros(3, 3), torch.ones(3)), [transform])
        found = draws.log_prob(torch.full((3, 3), 0.4))
        return [transform.domain.event_dim, tuple(draws.batch_shape), tuple(draws.event_shape)], found.tolist()

    (events, found), (wanted, numbers) = run(ours), run(theirs)
    assert events == wanted
    for row, expected in zip(found, numbers, strict=True):
        assert row == pytest.approx(expected, rel=1e-5)
