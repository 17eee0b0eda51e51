"""Numbers, texts and errors that are known without PyTorch."""

import math

import pytest

import fgrad.torch as torch

d = torch.distributions


def test_normal_by_hand() -> None:
    normal = d.Normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
    expected = -0.5 * math.log(2 * math.pi)
    assert normal.log_prob(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([expected, expected - math.log(2)])
    assert normal.cdf(normal.icdf(torch.tensor([0.3, 0.9]))).tolist() == pytest.approx([0.3, 0.9])
    assert repr(normal) == "Normal(loc: torch.Size([2]), scale: torch.Size([2]))"


def test_draws_of_a_seed_are_pytorchs() -> None:
    torch.manual_seed(0)
    assert d.Normal(0.0, 1.0).sample((2,)).tolist() == pytest.approx([1.5409960746765137, -0.293428897857666])
    torch.manual_seed(0)
    assert d.Dirichlet(torch.tensor([1.0, 2.0])).sample().tolist() == pytest.approx([0.686578, 0.313422])


def test_parameters_and_values_are_checked() -> None:
    with pytest.raises(
        ValueError, match=r"^Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\("
    ):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"to be within the support \(Boolean\(\)\)"):
        d.Bernoulli(0.5).log_prob(torch.tensor(0.5))
    with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both"):
        d.Categorical()
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0


def test_a_subclass_with_its_own_constructor_has_to_expand_itself() -> None:
    class Standard(d.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Subclass Standard of Normal"):
        Standard().expand((2,))


def test_beta_movement_is_the_distribution_functions() -> None:
    # for b = 1 the distribution function is x**a, so dx/da = -x log(x) / a
    torch.manual_seed(0)
    a = torch.tensor([0.3, 2.0, 30.0], requires_grad=True)
    x = d.Beta(a, torch.ones(3)).rsample()
    x.sum().backward()
    known = (-x * x.log() / a).detach()
    assert a.grad is not None
    assert a.grad.tolist() == pytest.approx(known.tolist(), rel=1e-4)


@pytest.mark.parametrize("concentration", [0.001, 0.01, 0.3])
def test_beta_movement_near_zero(concentration: float) -> None:
    # the same, where most draws are smaller than the smallest floating-point number
    torch.manual_seed(0)
    a = torch.full((20,), concentration, requires_grad=True)
    x = d.Beta(a, torch.ones(20)).rsample()
    assert x.min() < 1e-3
    x.sum().backward()
    known = (-x * x.log() / a).detach()
    assert a.grad is not None
    assert a.grad.tolist() == pytest.approx(known.tolist(), rel=1e-5, abs=0)


def test_gamma_movement_in_single_precision() -> None:
    slopes = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        a = torch.full((4,), 1e4, dtype=dtype, requires_grad=True)
        d.Gamma(a, torch.ones(4, dtype=dtype)).rsample().sum().backward()
        assert a.grad is not None
        slopes.append(a.grad.tolist())
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-6)


def test_divergences_by_hand() -> None:
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(2.0, 1.0)).item() == pytest.approx(2.0)
    assert d.kl_divergence(d.Uniform(0.0, 2.0), d.Uniform(0.0, 1.0)).item() == math.inf
    for other, value in ((d.Beta(2.0, 2.0), 0.2082), (d.Gamma(2.0, 1.0), 1.5)):
        assert d.kl_divergence(d.Uniform(0.0, 1.0), other).item() == pytest.approx(value, abs=1e-4)
    with pytest.raises(NotImplementedError, match="p type Cauchy and q type Normal"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0))


def test_a_cached_transform_gives_its_argument_back() -> None:
    tanh = d.TanhTransform(cache_size=1)
    x = torch.tensor([20.0])
    assert tanh.inv(tanh(x)) is x
    assert tanh.inv.inv is tanh
