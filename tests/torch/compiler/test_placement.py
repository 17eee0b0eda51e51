"""Compiled calls on accelerators, and on the CPU beside them."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.values import device_of_value as placing, evaluation
from fgrad.torch.compiler import placement
from tests.accelerators import on, two_accelerators

F = torch.nn.functional
__all__ = ["two_accelerators"]
pytestmark = pytest.mark.usefixtures("two_accelerators")

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, 0.01),
}


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one.detach().cpu().numpy(), other.detach().cpu().numpy(), rtol=1e-4, atol=1e-6)


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def trained(place: str, make: Any, compiled: bool) -> Any:
    """The losses of some steps, and what they have left."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(*layers).to(place)
    optimizer = make(model.parameters())
    inputs, labels = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])

    def step(inputs: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs.to(place)), labels.to(place))
        loss.backward()
        optimizer.step()
        return loss, loss.detach().cpu()

    run = torch.compile(step, fullgraph=True) if compiled else step
    losses = []
    for _ in range(5):
        there, here = run(inputs, labels)
        assert (str(there.device), str(here.device)) == (place, "cpu")
        losses.append(here.item())
    left = [*model.state_dict().values(), *[parameter.grad for parameter in model.parameters()]]
    left += [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    assert {str(x.device) for x in left} == {place}
    return losses, left


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("place", ["cpu", "cuda:0", "cuda:1"])
def test_steps_stay_on_their_device(name: str, place: str):
    losses, left = trained(place, OPTIMIZERS[name], True)
    wanted, uncompiled = trained(place, OPTIMIZERS[name], False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    for one, other in zip(left, uncompiled, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_cpu_where_jax_would_choose_an_accelerator(monkeypatch: pytest.MonkeyPatch, name: str):
    for module in (placing, evaluation, placement):
        monkeypatch.setattr(module, "accelerated", lambda: True)
    monkeypatch.setattr(placing.elsewhere, "exist", True)
    with jax.default_device(jax.devices("cpu")[1]):
        trained("cpu", OPTIMIZERS[name], True)


def test_a_module_alone():
    model = network().cuda()
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, fullgraph=True)
    for _ in range(3):
        for each in (model, compiled):
            each(torch.ones(5, 3, device="cuda")).square().sum().backward()
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        on(one.grad)
        close(one.grad, other.grad)


def test_gradients_go_back_to_their_leaves():
    model = network().cuda()

    def loss(x: Any) -> Any:
        return model(x.cuda()).square().sum()

    compiled = torch.compile(loss, fullgraph=True)
    for _ in range(3):
        one, other = torch.ones(5, 3, requires_grad=True), torch.ones(5, 3, requires_grad=True)
        compiled(one).backward()
        loss(other).backward()
        assert one.grad.device.type == "cpu"
        close(one.grad, other.grad)


def test_what_is_written_elsewhere():
    count, total = torch.zeros(()), torch.zeros(3, device="cuda:1")

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        count.add_(1)
        total.add_(x.to("cuda:1"))
        return total * 2, count + total.sum().cpu()

    for i in range(1, 5):
        twice, number = step(torch.ones(3))
        assert count.device.type == number.device.type == "cpu"
        assert (count.item(), total.tolist(), number.item()) == (i, [i] * 3, 4 * i)
        on(total, 1)
        on(twice, 1)


def test_pieces():
    model = network().cuda()

    def function(x: Any) -> Any:
        y = model(x.cuda()).sum()
        return (y,) if y.item() > 1000 else (y * 2, (y * 3).cpu())

    compiled = torch.compile(function)
    for _ in range(3):
        there, here = compiled(torch.ones(2, 3))
        on(there)
        assert here.device.type == "cpu"
        close(there, function(torch.ones(2, 3))[0])


def test_several_accelerators():
    @torch.compile
    def function(x: Any) -> Any:
        return ((x.to("cuda:0") * 2).to("cuda:1") + 1).sin(), x.cos()

    for _ in range(3):
        there, here = function(torch.ones(2))
        on(there, 1)
        assert here.device.type == "cpu"
        close(there, torch.full((2,), 3.0).sin())
    assert "several accelerators" in str(torch.compiler.explain(function)(torch.ones(2)))


def test_new_tensors():
    def function(x: Any) -> Any:
        like = torch.zeros(2, device=x.device) + x, torch.full_like(x, 3), x.new_ones(2)
        return *like, torch.arange(3, device="cuda"), torch.randn(2, device="cuda"), torch.ones(2)

    compiled = torch.compile(function, fullgraph=True)
    torch.manual_seed(0)
    found = [compiled(torch.ones(2, device="cuda")) for _ in range(3)]
    torch.manual_seed(0)
    for one, other in zip(found, [function(torch.ones(2, device="cuda")) for _ in range(3)], strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.device == b.device
            close(a, b)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_operands_apart(fullgraph: bool):
    compiled = torch.compile(lambda x, y: x + y, fullgraph=fullgraph)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        compiled(torch.ones(2, device="cuda"), torch.ones(2))


def test_an_argument_that_moves_is_another_program():
    compiled = torch.compile(lambda x: x * 2, fullgraph=True)
    for place in ("cpu", "cuda:0", "cuda:1", "cpu", "cuda:0"):
        assert str(compiled(torch.ones(2, device=place)).device) == place


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_pure_step(name: str):
    model = network().cuda()
    optimizer = OPTIMIZERS[name](model.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(5, 3, device="cuda")
    twin = copy.deepcopy((model, optimizer))
    function, state = torch.pure(step)(x)
    for _ in range(3):
        state, loss = jax.jit(function)(state, jnp.ones((5, 3)))
    function.load(state)
    for value in (*model.parameters(), *[v for each in optimizer.state.values() for v in each.values()]):
        on(value)
    moved = [parameter.detach().clone() for parameter in model.parameters()]
    model.load_state_dict(twin[0].state_dict())
    optimizer.load_state_dict(twin[1].state_dict())
    for _ in range(3):
        wanted = step(x)
    assert float(loss) == pytest.approx(wanted.item(), rel=1e-4)
    for one, other in zip(moved, model.parameters(), strict=True):
        close(one, other)
