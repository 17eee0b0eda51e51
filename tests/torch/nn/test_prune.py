"""Pruning: masks, what a module has then, hooks, several methods, and errors, as real torch has them."""

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours

theirs: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
needs_torch = pytest.mark.skipif(theirs is None, reason="real torch is the oracle")


def prune_of(torch: Any) -> Any:
    return importlib.import_module(torch.__name__ + ".nn.utils.prune")


def layer(torch: Any) -> Any:
    made = torch.nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(torch.tensor(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)))
        made.bias.copy_(torch.tensor([0.5, -2.0, 1.0]))
    return made


STEPS = {
    "l1": lambda p, m: p.l1_unstructured(m, "weight", amount=5),
    "l1 share": lambda p, m: p.l1_unstructured(m, "weight", amount=0.3),
    "l1 twice": lambda p, m: [p.l1_unstructured(m, "weight", amount=0.5) for _ in range(2)],
    "rows": lambda p, m: p.ln_structured(m, "weight", amount=1, n=2, dim=0),
    "columns twice": lambda p, m: [p.ln_structured(m, "weight", amount=1, n=1, dim=-1) for _ in range(2)],
    "l1, then rows": lambda p, m: [
        p.l1_unstructured(m, "weight", amount=4), p.ln_structured(m, "weight", amount=1, n=2, dim=0),
    ],
    "both parameters": lambda p, m: [
        p.l1_unstructured(m, "weight", amount=2), p.l1_unstructured(m, "bias", amount=1),
    ],
    "global": lambda p, m: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=6
    ),
    "global twice": lambda p, m: [
        p.global_unstructured([(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=0.25)
        for _ in range(2)
    ],
    "identity": lambda p, m: p.identity(m, "bias"),
    "random": lambda p, m: p.random_unstructured(m, "weight", amount=5),
    "random rows": lambda p, m: p.random_structured(m, "weight", amount=2, dim=0),
    "removed": lambda p, m: [p.l1_unstructured(m, "weight", amount=5), p.remove(m, "weight")],
    "too many": lambda p, m: p.l1_unstructured(m, "weight", amount=100),
    "share above 1": lambda p, m: p.l1_unstructured(m, "weight", amount=1.5),
    "no number": lambda p, m: p.l1_unstructured(m, "weight", amount="a"),
    "rows of a vector": lambda p, m: p.ln_structured(m, "bias", amount=1, n=2, dim=0),
    "no such axis": lambda p, m: p.ln_structured(m, "weight", amount=1, n=2, dim=5),
    "not pruned": lambda p, m: p.remove(m, "weight"),
    "no such parameter": lambda p, m: p.identity(m, "nope"),
    "no sequence": lambda p, m: p.global_unstructured(3, pruning_method=p.L1Unstructured, amount=1),
    "another method": lambda p, m: p.global_unstructured([(m, "weight")], pruning_method=p.RandomStructured, amount=1),
}  # fmt: skip


def outcome(torch: Any, name: str) -> Any:
    torch.manual_seed(0)
    module, prune = layer(torch), prune_of(torch)
    error = None
    try:
        STEPS[name](prune, module)
    except Exception as raised:
        error = type(raised).__name__, str(raised).replace(torch.__name__ + ".", "torch.")
    out = module(torch.ones(2, 4)).sum()
    out.backward()
    return (
        error,
        {key: value.tolist() for key, value in module.state_dict().items()},
        [(key, None if p.grad is None else p.grad.tolist()) for key, p in module.named_parameters()],
        [type(hook).__name__ for hook in module._forward_pre_hooks.values()],
        prune.is_pruned(module),
        out.item(),
    )


@needs_torch
@pytest.mark.parametrize("name", STEPS)
def test_as_torch(name: str):
    wanted, found = outcome(theirs, name), outcome(ours, name)
    assert found[:2] == wanted[:2] and found[3:5] == wanted[3:5]
    assert [key for key, _ in found[2]] == [key for key, _ in wanted[2]]
    for (_, a), (_, b) in zip(found[2], wanted[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert found[5] == pytest.approx(wanted[5], rel=1e-6, abs=1e-5)


def test_what_is_left_is_trained():
    prune = prune_of(ours)
    module = layer(ours)
    prune.l1_unstructured(module, "bias", amount=1)
    assert module.bias_mask.tolist() == [0.0, 1.0, 1.0]
    assert list(module.state_dict()) == ["weight", "bias_orig", "bias_mask"] and prune.is_pruned(module)
    optimizer = ours.optim.SGD(module.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        module(ours.ones(1, 4)).sum().backward()
        optimizer.step()
    assert module.bias_orig.tolist() == pytest.approx([0.5, -2.2, 0.8])
    prune.remove(module, "bias")
    assert module.bias.tolist() == pytest.approx([0.0, -2.2, 0.8]) and not prune.is_pruned(module)
    assert isinstance(module.bias, ours.nn.Parameter)


def test_a_method_of_the_user():
    prune = prune_of(ours)

    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = layer(ours)
    EveryOther.apply(module, "bias")
    assert module.bias.tolist() == [0.0, -2.0, 0.0]
    container = EveryOther.apply(module, "bias")
    assert len(container) == 2 and module.bias_mask.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="Can only add pruning methods acting on the parameter named 'bias'"):
        container.add_pruning_method(_named(prune, "weight"))
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        container.add_pruning_method(3)


def _named(prune: Any, name: str) -> Any:
    method = prune.Identity()
    method._tensor_name = name
    return method
