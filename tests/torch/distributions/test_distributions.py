"""Every distribution of the table shows what PyTorch's shows: values, gradients, draws, texts."""

from typing import Any

import pytest

import fgrad.torch as ours
from tests.torch.distributions.agreement import (
    gradients_of,
    parameters_of,
    same,
    same_gradients,
    shown,
    theirs,
    value_of,
)
from tests.torch.distributions.table import CASES, Case

# PyTorch takes sound draws of this distribution for singular ones, and so do we
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")

PROPERTIES = [
    "batch_shape", "event_shape", "mean", "mode", "variance", "stddev", "support", "has_rsample",
    "has_enumerate_support", "arg_constraints",
]  # fmt: skip
METHODS = ["entropy", "perplexity", "enumerate_support"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_properties_agree(case: Case) -> None:
    for name in PROPERTIES:
        found, wanted = (
            shown(torch, lambda: getattr(case.make(torch, *parameters_of(torch, case)), name))
            for torch in (ours, theirs)
        )
        same(found, wanted)
    for name in METHODS:
        found, wanted = (
            shown(torch, lambda: getattr(case.make(torch, *parameters_of(torch, case)), name)())
            for torch in (ours, theirs)
        )
        same(found, wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_log_prob_and_its_gradients_agree(case: Case) -> None:
    results, gradients = [], []
    for torch in (ours, theirs):
        parameters = parameters_of(torch, case)
        result = case.make(torch, *parameters).log_prob(value_of(torch, case))
        results.append(result)
        gradients.append(gradients_of(torch, result, parameters))
    same(*results)
    same_gradients(*gradients)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_distribution_functions_agree(case: Case) -> None:
    def cdf(torch: Any) -> Any:
        return case.make(torch, *parameters_of(torch, case)).cdf(value_of(torch, case))

    def icdf(torch: Any) -> Any:
        return case.make(torch, *parameters_of(torch, case)).icdf(torch.tensor([0.1, 0.5, 0.95]))

    for function in (cdf, icdf):
        found, wanted = (shown(torch, lambda: function(torch)) for torch in (ours, theirs))
        same(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_entropies_by_the_normalizer_agree(case: Case) -> None:
    results = []
    for torch in (ours, theirs):
        distribution = case.make(torch, *parameters_of(torch, case))
        family = torch.distributions.ExponentialFamily
        if isinstance(distribution, family):
            results.append(shown(torch, lambda: family.entropy(distribution)))
    same(*results or (0, 0), rtol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_of_a_seed_agree(case: Case) -> None:
    found, wanted = [], []
    for torch, results in ((ours, found), (theirs, wanted)):
        torch.manual_seed(3)
        distribution = case.make(torch, *parameters_of(torch, case))
        results.append(distribution.sample())
        results.append(distribution.sample((4, 2)))
        results.append(torch.rand(2))
    for a, b in zip(found, wanted, strict=True):
        same(a, b)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_with_gradients_agree(case: Case) -> None:
    results, gradients = [], []
    for torch in (ours, theirs):
        torch.manual_seed(5)
        parameters = parameters_of(torch, case)
        result = shown(torch, lambda: case.make(torch, *parameters).rsample((3,)))
        results.append(result)
        # PyTorch writes to what the gradient of a Wishart draw needs
        if isinstance(result, torch.Tensor) and not case.name.startswith("Wishart"):
            gradients.append(gradients_of(torch, result, parameters))
    same(*results)
    if gradients:
        same_gradients(*gradients, rtol=case.rtol)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_expansion_and_text_agree(case: Case) -> None:
    found, wanted = [], []
    for torch, results in ((ours, found), (theirs, wanted)):
        distribution = case.make(torch, *parameters_of(torch, case))
        results.append(repr(distribution))
        wide = distribution.expand((2, *distribution.batch_shape))
        torch.manual_seed(0)
        results += [repr(wide), wide.sample((2,)), wide.log_prob(value_of(torch, case))]
        results.append(shown(torch, lambda: wide.mean))
    for a, b in zip(found, wanted, strict=True):
        same(a, b)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_agree(case: Case) -> None:
    def wrong(torch: Any, which: int) -> Any:
        parameters = [each.detach() for each in parameters_of(torch, case)]
        parameters[which] = parameters[which] * float("nan")
        return case.make(torch, *parameters)

    def outside(torch: Any) -> Any:
        return case.make(torch, *parameters_of(torch, case)).log_prob(value_of(torch, case) * float("nan"))

    def misshaped(torch: Any) -> Any:
        return case.make(torch, *parameters_of(torch, case)).log_prob(torch.ones(7, 5))

    def no_tensor(torch: Any) -> Any:
        return case.make(torch, *parameters_of(torch, case)).log_prob("a")

    calls = [outside, misshaped, *[lambda torch, i=i: wrong(torch, i) for i in range(len(case.parameters))]]
    if case.name not in ("Gamma", "Chi2"):
        calls.append(no_tensor)
    for call in calls:
        found, wanted = (shown(torch, lambda: call(torch)) for torch in (ours, theirs))
        same(found, wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_arguments_are_checked_under_vmap(case: Case) -> None:
    parameters, value = parameters_of(ours, case), value_of(ours, case)
    wanted = case.make(ours, *parameters).log_prob(value)
    found = ours.func.vmap(lambda v: case.make(ours, *parameters).log_prob(v))(ours.stack([value, value]))
    ours.testing.assert_close(found, ours.stack([wanted, wanted]), equal_nan=True)


def test_parameters_of_one_example_are_refused() -> None:
    scales = ours.tensor([[1.0, 2.0], [1.0, -1.0]])
    with pytest.raises(ValueError, match="scale"):
        ours.func.vmap(lambda scale: ours.distributions.Normal(0.0, scale).log_prob(ours.ones(2)))(scales)
    with pytest.raises(ValueError, match="support"):
        ours.func.vmap(lambda value: ours.distributions.Exponential(1.0).log_prob(value))(scales)
