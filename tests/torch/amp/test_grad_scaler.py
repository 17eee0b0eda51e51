"""``GradScaler`` against PyTorch's: what it does to gradients, when it steps, and how its scale moves."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played

SCENARIOS: list[Callable[[Any, Story], None]] = []


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_scaler_is_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def parts(torch: Any, **settings: Any) -> tuple[Any, Any, Any]:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    return weight, torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu", **settings)


@scenario
def versions_of_gradients(torch: Any, tell: Story) -> None:
    weight, optimizer, scaler = parts(torch)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    tell(str(weight.grad), str(weight.grad._version))
    scaler.step(optimizer)
    tell(str(weight.grad._version), str(weight._version))


@scenario
def a_loop(torch: Any, tell: Story) -> None:
    weight, optimizer, scaler = parts(torch, init_scale=8.0, growth_interval=2)
    for factor in (1.0, 1.0, float("inf"), 1.0, float("nan"), 2.0, 1.0):
        optimizer.zero_grad()
        loss = (weight * factor).sum()
        tell(str(scaler.scale(loss).item()))
        scaler.scale(loss).backward()
        tell(str(weight.grad), scaler.step(optimizer), str(weight.grad), weight)
        scaler.update()
        tell(scaler.get_scale(), scaler.state_dict())


@scenario
def unscaling(torch: Any, tell: Story) -> None:
    weight, optimizer, scaler = parts(torch, init_scale=4.0)
    tell.attempt(scaler.unscale_, optimizer)
    tell.attempt(scaler.step, optimizer)
    tell.attempt(scaler.update)
    losses = scaler.scale([weight.sum(), (weight.sum(), weight.prod())])
    tell(losses, type(losses).__name__, type(losses[1]).__name__)
    tell.attempt(scaler.scale, 3)
    tell.attempt(scaler.step, optimizer)
    losses[0].backward()
    scaler.update(16.0)
    scaler.unscale_(optimizer)
    tell(weight.grad)
    tell.attempt(scaler.unscale_, optimizer)
    tell.attempt(scaler.step, optimizer, closure=lambda: None)
    scaler.step(optimizer)
    tell.attempt(scaler.step, optimizer)
    tell.attempt(scaler.unscale_, optimizer)
    tell.attempt(pickle.dumps, scaler)
    scaler.update(torch.tensor(32.0))
    tell(scaler.get_scale(), weight)
    tell.attempt(scaler.update, torch.ones(2))
    tell.attempt(scaler.update)
    twin = pickle.loads(pickle.dumps(scaler))
    tell(twin.state_dict(), scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval())
    weight.grad = None
    half = torch.ones(1, dtype=torch.float16, requires_grad=True)
    half.grad = torch.ones_like(half)
    tell.attempt(scaler.unscale_, torch.optim.SGD([half], lr=1.0))


@scenario
def states(torch: Any, tell: Story) -> None:
    _, _, scaler = parts(torch)
    tell(scaler.state_dict(), scaler.is_enabled())
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    _, _, other = parts(torch)
    other.scale(torch.ones(1))
    other.load_state_dict({**scaler.state_dict(), "scale": 2.0, "_growth_tracker": 4})
    tell(other.state_dict(), other.scale(torch.ones(1)))
    tell.attempt(other.load_state_dict, {})
    tell.attempt(parts, torch, growth_factor=1.0)
    tell.attempt(parts, torch, backoff_factor=1.0)


@scenario
def disabled(torch: Any, tell: Story) -> None:
    weight, optimizer, scaler = parts(torch, enabled=False)
    loss = weight.sum()
    tell(scaler.scale(loss) is loss, scaler.state_dict(), scaler.get_scale(), scaler.is_enabled())
    loss.backward()
    scaler.unscale_(optimizer)
    tell(scaler.step(optimizer), weight)
    scaler.update()
    scaler.load_state_dict({})
    tell(torch.amp.GradScaler().is_enabled(), torch.cuda.amp.GradScaler().is_enabled())
    tell(torch.cpu.amp.GradScaler().is_enabled(), torch.GradScaler is torch.amp.GradScaler)


def test_steps_that_are_left_out():
    torch = fgrad.torch
    weight, optimizer, scaler = parts(torch)
    scaler.scale(weight.sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.0, 2.0]
    assert scaler.get_scale() == 32768.0
