"""Divergences of every pair that PyTorch knows, with their gradients."""

from typing import Any

import pytest
from attrs import evolve

import fgrad.torch as ours
from tests.torch.distributions.agreement import gradients_of, parameters_of, same, same_gradients, shown, theirs
from tests.torch.distributions.table import CASES

#: what the second distribution has in place of the table's parameters
OTHERS = {0.5: 0.75, 2.0: 3.0, 5.0: 4.5, 0.7: 0.8}
NAMES = [case for case in CASES if " of " not in case.name]


def _other(values: Any) -> Any:
    return [_other(each) for each in values] if isinstance(values, list) else OTHERS.get(values, values)


def _both(torch: Any, p: Any, q: Any) -> tuple[Any, list[Any]]:
    q = evolve(q, parameters=tuple(_other(list(q.parameters))))
    first, second = parameters_of(torch, p), parameters_of(torch, q)
    return torch.distributions.kl_divergence(p.make(torch, *first), q.make(torch, *second)), first + second


# every third one, and the others with the thorough tests
@pytest.mark.parametrize(
    "p", [pytest.param(p, marks=[pytest.mark.thorough] if i % 3 else []) for i, p in enumerate(NAMES)], ids=str
)
def test_divergences_agree(p: Any) -> None:
    for q in NAMES:
        known = shown(theirs, lambda: _both(theirs, p, q)[0])
        same(shown(ours, lambda: _both(ours, p, q)[0].detach()), known.detach() if hasattr(known, "detach") else known)
        if isinstance(known, theirs.Tensor) and known.requires_grad and bool(known.isfinite().all()):
            found, wanted = (gradients_of(torch, *_both(torch, p, q)) for torch in (ours, theirs))
            same_gradients(found, wanted)


def test_divergences_of_continuous_bernoulli_and_uniform() -> None:
    """Where PyTorch's comparisons of the bounds make it infinite, as is its gradient zero."""

    def run(torch: Any, low: float, high: float) -> Any:
        d = torch.distributions
        a, b, c = (torch.tensor([x], requires_grad=True) for x in (low, high, 0.3))
        p, q = d.Uniform(a, b), d.ContinuousBernoulli(c)
        found = [d.kl_divergence(p, q), d.kl_divergence(q, p)]
        return [(x.tolist(), [g.tolist() for g in torch.autograd.grad(x, (a, b, c), retain_graph=True)]) for x in found]

    for low, high in ((0.0, 1.0), (0.2, 0.7), (-1.0, 2.0)):
        for (found, slopes), (wanted, expected) in zip(run(ours, low, high), run(theirs, low, high), strict=True):
            assert found == pytest.approx(wanted, rel=1e-4)
            assert [x for (x,) in slopes] == pytest.approx([x for (x,) in expected], rel=1e-3, abs=1e-5)
