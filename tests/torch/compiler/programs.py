"""Steps of training, as users write them, and what their objects hold: the programs that captures are tested on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define

import fgrad.torch as torch
from fgrad.torch.nn import functional as F


@define(eq=False)
class Program:
    """A step, batches for it, and what it changes."""

    step: Callable[..., Any]
    batches: list[tuple[Any, ...]]
    model: Any
    optimizer: Any

    def state(self) -> dict[str, Any]:
        """Everything that a step may change, as values to compare."""
        found: dict[str, Any] = {}
        for name, x in [*self.model.named_parameters(), *self.model.named_buffers()]:
            found[name] = of_tensor(x)
            found[f"{name}.grad"] = None if x.grad is None else of_tensor(x.grad)
        for param, state in self.optimizer.state_dict()["state"].items():
            for key, value in state.items():
                found[f"{param}.{key}"] = of_tensor(value) if isinstance(value, torch.Tensor) else value
        found["generator"] = torch.get_rng_state().numpy().copy()
        return found


def of_tensor(x: Any) -> Any:
    shown = np.array(x.detach().numpy())
    return shown, x._version, x.requires_grad, x.is_leaf, x.stride()


def same(found: Any, wanted: Any, exact: bool = False) -> None:
    """Check that two states are the same, values up to rounding."""
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if isinstance(value, tuple):
            assert found[name][1:] == value[1:], name
            close(found[name][0], value[0], exact, name)
        elif isinstance(value, np.ndarray):
            assert (found[name] == value).all(), name
        elif isinstance(value, float):
            close(found[name], value, exact, name)
        else:
            assert found[name] == value, name


def close(found: Any, wanted: Any, exact: bool, name: str = "") -> None:
    if exact:
        assert np.array_equal(found, wanted), name
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def classifier(optimizer: Callable[[Any], Any] | None = None, seed: int = 0) -> Program:
    """Batch norm, dropout, clipping and momentum, by closures."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False),
        torch.nn.BatchNorm1d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 3),
    )
    descent = optimizer or (lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9))
    optimizer = descent(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    batches = [(torch.randn(16, 4), torch.randint(0, 3, (16,))) for _ in range(4)]
    return Program(step, batches, model, optimizer)
