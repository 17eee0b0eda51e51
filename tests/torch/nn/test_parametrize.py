"""Parametrizations against PyTorch's: each scenario is played with both libraries."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import fgrad.torch
import fgrad.torch.nn.utils
from tests.torch.nn.story import Story, assert_same, played

SCENARIOS: list[Callable[[Any, Story], None]] = []


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_parametrizations_are_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def scaling(torch: Any, by: float, invertible: bool = True) -> Any:
    class Scale(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * by

        if invertible:

            def right_inverse(self, x: Any) -> Any:
                return x / by

    return Scale()


def layer(torch: Any) -> Any:
    module = torch.nn.Linear(2, 1)
    torch.nn.init.ones_(module.weight)
    torch.nn.init.zeros_(module.bias)
    return module


@scenario
def registering(torch: Any, tell: Story) -> None:
    parametrize = torch.nn.utils.parametrize
    module = layer(torch)
    tell(
        parametrize.is_parametrized(module),
        parametrize.register_parametrization(module, "weight", scaling(torch, 2.0)) is module,
    )
    tell(repr(module), module.weight, list(module.state_dict()), parametrize.is_parametrized(module, "weight"))
    tell(
        parametrize.is_parametrized(module, "bias"), parametrize.type_before_parametrizations(module) is torch.nn.Linear
    )
    module(torch.ones(1, 2)).sum().backward()
    tell(module.parametrizations.weight.original, module.parametrizations.weight.original.grad)
    module.weight = torch.full((1, 2), 6.0)
    tell(module.weight, module.parametrizations.weight.original, isinstance(module, torch.nn.Linear))
    parametrize.register_parametrization(module, "weight", scaling(torch, 0.5, invertible=False))
    tell(module.weight, repr(module))
    tell.attempt(setattr, module, "weight", torch.ones(1, 2))
    with parametrize.cached():
        tell(module.weight is module.weight)
    tell(module.weight is module.weight)
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.parametrizations.weight.original.fill_(1.0)
    tell(twin.weight, module.weight, type(twin).__name__)
    parametrize.remove_parametrizations(module, "weight")
    tell(repr(module), module.weight, list(module.state_dict()), type(module) is torch.nn.Linear)
    other = parametrize.register_parametrization(layer(torch), "weight", scaling(torch, 2.0))
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    tell(other.weight)


@scenario
def refusals(torch: Any, tell: Story) -> None:
    register = torch.nn.utils.parametrize.register_parametrization

    def giving(result: Any, inverse: Any = None) -> Any:
        class Giving(torch.nn.Module):
            def forward(self, *x: Any) -> Any:
                return result(*x)

            if inverse is not None:

                def right_inverse(self, x: Any) -> Any:
                    return inverse(x)

        return Giving()

    same = lambda x: x  # noqa: E731
    for bad in (
        giving(lambda x: 3), giving(lambda x: x.double()), giving(lambda x: x[:, :1]), giving(same, lambda x: 3),
        giving(same, lambda x: x.double()), giving(lambda a, b: a, lambda x: (x, 3)),
        giving(lambda a, b: a.double(), lambda x: (x, x)),
    ):  # fmt: skip
        tell.attempt(register, layer(torch), "weight", bad)
        module = register(layer(torch), "weight", scaling(torch, 2.0))
        tell.attempt(register, module, "weight", bad)
    tell.attempt(register, layer(torch), "nothing", giving(same))
    tell.attempt(torch.nn.utils.parametrize.remove_parametrizations, layer(torch), "weight")
    tell.attempt(torch.nn.utils.parametrize.ParametrizationList, [], torch.ones(1))
    tell.attempt(torch.nn.utils.parametrizations.spectral_norm, layer(torch), "nothing")
    tell.attempt(torch.nn.utils.parametrizations.spectral_norm, layer(torch), dim=5)
    tell.attempt(torch.nn.utils.parametrizations.spectral_norm, layer(torch), n_power_iterations=0)


@scenario
def weight_norm(torch: Any, tell: Story) -> None:
    norm = torch.nn.utils.parametrizations.weight_norm
    torch.manual_seed(0)
    for module, options in (
        (torch.nn.Linear(2, 3), {}), (torch.nn.Linear(2, 3), {"dim": None}), (torch.nn.Conv1d(2, 3, 2), {"dim": 1}),
    ):  # fmt: skip
        before = module.weight.detach().clone()
        norm(module, **options)
        tell(list(module.state_dict()), [tuple(value.shape) for value in module.state_dict().values()])
        tell(bool(torch.allclose(before, module.weight)), module.weight.grad_fn.name())
        module.weight.pow(2).sum().backward()
        tell([[round(x, 4) for x in p.grad.flatten().tolist()] for p in module.parametrizations.parameters()])
        tell.attempt(torch.nn.utils.parametrize.remove_parametrizations, module, "weight", False)
    older = {"weight_g": torch.ones(3, 1), "weight_v": torch.ones(3, 2), "bias": torch.zeros(3)}
    module = norm(torch.nn.Linear(2, 3))
    tell(repr(module.load_state_dict(older)), [round(x, 4) for x in module.weight.flatten().tolist()])
    tell(torch.nn.utils.parametrize.remove_parametrizations(module, "weight").weight.requires_grad)


@scenario
def spectral_norm(torch: Any, tell: Story) -> None:
    torch.manual_seed(0)
    for module in (torch.nn.Linear(4, 3), torch.nn.ConvTranspose1d(2, 3, 2), torch.nn.BatchNorm1d(3)):
        torch.nn.utils.parametrizations.spectral_norm(module)
        tell(list(module.state_dict()))
        tell([round(x, 4) for x in module.weight.flatten().tolist()])
        (module.weight.flatten() * torch.arange(float(module.weight.numel()))).sum().backward()
        tell([round(x, 3) for x in next(module.parametrizations.parameters()).grad.flatten().tolist()])
        module.eval()
        tell(module.weight.tolist() == module.weight.tolist())


@scenario
def spectral_norm_in_transformations(torch: Any, tell: Story) -> None:
    torch.manual_seed(0)
    module = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3))
    parameters, x = dict(module.named_parameters()), torch.ones(2, 4)

    def loss(parameters: Any) -> Any:
        return torch.func.functional_call(module, parameters, (x,)).square().sum()

    for _ in range(2):
        tell(
            {name: [round(x, 3) for x in g.flatten().tolist()] for name, g in torch.func.grad(loss)(parameters).items()}
        )
    tell([buffer._version for buffer in module.buffers()])


@scenario
def orthogonal(torch: Any, tell: Story) -> None:
    made = torch.nn.utils.parametrizations.orthogonal
    for name in ("matrix_exp", "cayley", "householder", None):
        for sizes in ((3, 3), (2, 3), (3, 2)):
            torch.manual_seed(0)
            module = made(torch.nn.Linear(*sizes), orthogonal_map=name)
            tell(list(module.state_dict()), repr(module), rounded(module.weight))
            tell([buffer._version for buffer in module.buffers()])
            (module.weight * torch.arange(6.0 if sizes[0] != sizes[1] else 9.0).view(sizes[::-1])).sum().backward()
            tell(rounded(module.parametrizations.weight.original.grad))
            module.weight = torch.eye(*sizes[::-1])
            tell(rounded(module.weight))
            torch.manual_seed(0)
            tell.attempt(partial(made, torch.nn.Linear(*sizes), "weight", name, use_trivialization=False))
    tell.attempt(made, torch.nn.Linear(2, 2), "nothing")
    tell.attempt(made, torch.nn.Linear(2, 2), "bias")
    tell.attempt(made, torch.nn.Linear(2, 2), orthogonal_map="wrong")
    tell.attempt(made, torch.nn.Linear(2, 2, dtype=torch.complex64), orthogonal_map="householder")
    tell.attempt(setattr, made(torch.nn.Linear(2, 2)), "weight", torch.ones(3, 2))


def rounded(tensor: Any) -> list[float]:
    return [round(x, 2) + 0.0 for x in tensor.flatten().tolist()]


@scenario
def transferring(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    tell(utils.parametrize.transfer_parametrizations_and_params(first, second) is second)
    utils.parametrizations.weight_norm(first)
    second = utils.parametrize.transfer_parametrizations_and_params(first, torch.nn.ReLU())
    tell(sorted(second.state_dict()), bool((first.weight == second.weight).all()))
    tell.attempt(utils.parametrize.transfer_parametrizations_and_params, first, torch.nn.ReLU(), "bias")
