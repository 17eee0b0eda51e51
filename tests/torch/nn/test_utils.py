"""The functions of ``torch.nn.utils`` that change modules, against PyTorch's: scenarios played with both libraries."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played

SCENARIOS: list[Callable[[Any, Story], None]] = []


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_utils_are_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def near(x: Any) -> list[Any]:
    """A tensor's shape, type and elements, but for what may differ in their last bits."""
    return [list(x.shape), str(x.dtype).rpartition(".")[2], *[round(v, 4) + 0.0 for v in x.flatten().tolist()]]


def layer(torch: Any, *sizes: int, kind: str = "Linear") -> Any:
    torch.manual_seed(0)
    return getattr(torch.nn, kind)(*sizes)


def names(module: Any) -> list[list[str]]:
    return [
        [name for name, _ in module.named_parameters()],
        [name for name, _ in module.named_buffers()],
        list(module.state_dict()),
    ]


def gradients(module: Any) -> list[Any]:
    return [near(p.grad) for p in module.parameters()]


@scenario
def weight_norm(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    module = layer(torch, 3, 2)
    tell(utils.weight_norm(module) is module, repr(module), names(module))
    tell(near(module.weight), near(module.weight_g), near(module.weight_v), module.weight.grad_fn.name())
    module(torch.ones(1, 3)).sum().backward()
    tell(gradients(module))
    with torch.no_grad():
        module.weight_g.mul_(2)
    before = module.weight
    module(torch.ones(1, 3))
    tell(before is module.weight, near(before), near(module.weight))
    tell.attempt(utils.weight_norm, module)
    tell.attempt(utils.weight_norm, module, "bias_")
    tell.attempt(copy.deepcopy, module)
    state = module.state_dict()
    other = utils.weight_norm(layer(torch, 3, 2))
    tell(str(other.load_state_dict(state)), near(other(torch.ones(1, 3))))
    tell(utils.remove_weight_norm(module) is module, names(module), near(module.weight), len(module._forward_pre_hooks))
    tell.attempt(utils.remove_weight_norm, module)


@scenario
def weight_norm_of_dimensions(torch: Any, tell: Story) -> None:
    for dim in (0, 1, 2, None, -1):
        module = torch.nn.utils.weight_norm(layer(torch, 2, 3, 2, kind="Conv1d"), dim=dim)
        (module(torch.ones(1, 2, 3)) ** 2).sum().backward()
        tell(list(module.weight_g.shape), near(module.weight), gradients(module), module.weight.grad_fn.name())
    module = torch.nn.utils.weight_norm(layer(torch, 2, 3, kind="LSTM"), "weight_hh_l0")
    tell(names(module))
    tell.attempt(torch.nn.utils.weight_norm, torch.nn.LazyLinear(2))


@scenario
def spectral_norm(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    module = layer(torch, 3, 2)
    tell(utils.spectral_norm(module) is module, repr(module), names(module))
    tell(near(module.weight), near(module.weight_u), near(module.weight_v))
    for _ in range(2):
        module(torch.ones(1, 3)).sum().backward()
        tell(gradients(module), near(module.weight), near(module.weight_u), near(module.weight_v))
    tell(module.weight.grad_fn.name(), module.weight_u._version)
    module.eval()
    module(torch.ones(1, 3))
    tell(near(module.weight), near(module.weight_u), near(module.weight_v))
    tell.attempt(utils.spectral_norm, module)
    state = module.state_dict()
    tell(state._metadata[""])
    other = utils.spectral_norm(layer(torch, 3, 2)).eval()
    tell(str(other.load_state_dict(state)), near(other(torch.ones(1, 3))))
    tell(utils.remove_spectral_norm(module) is module, names(module), near(module.weight))
    # PyTorch leaves the hook for loading there, which then misses keys that nobody needs
    tell(len(module._forward_pre_hooks), len(module._state_dict_hooks))
    tell.attempt(utils.remove_spectral_norm, module)


@scenario
def spectral_norm_of_kinds(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    module = utils.spectral_norm(layer(torch, 2, 3, 2, kind="ConvTranspose1d"), n_power_iterations=3)
    tell(near(module(torch.ones(1, 2, 3))), near(module.weight_u), near(module.weight_v))
    module = utils.spectral_norm(layer(torch, 2, 3, 2, kind="Conv2d"), dim=1)
    tell(near(module(torch.ones(1, 2, 3, 3))), near(module.weight_u), near(module.weight_v))
    tell.attempt(utils.spectral_norm, layer(torch, 2, 2), "weight", 0)
    tell.attempt(utils.spectral_norm, layer(torch, 2, 2), "other")
    tell.attempt(utils.spectral_norm, torch.nn.Linear(2, 2, bias=False), "bias")
    tell.attempt(utils.spectral_norm, torch.nn.LazyLinear(2))


@scenario
def spectral_norm_of_older_states(torch: Any, tell: Story) -> None:
    module = torch.nn.utils.spectral_norm(layer(torch, 2, 3))
    module(torch.ones(1, 2))
    state = module.state_dict()
    del state._metadata[""]["spectral_norm"]
    tell(str(module.load_state_dict(state)))
    state["weight"] = module.weight.detach()
    del state["weight_v"]
    other = torch.nn.utils.spectral_norm(layer(torch, 2, 3))
    tell(str(other.load_state_dict(state)), near(other.weight_v))
    del state["weight_u"]
    tell.attempt(other.load_state_dict, state)


def normalised(torch: Any, kind: str, features: int, affine: bool = True) -> Any:
    bn = layer(torch, features, kind=kind) if affine else getattr(torch.nn, kind)(features, affine=False)
    bn.running_mean.copy_(torch.arange(features) * 0.5)
    bn.running_var.copy_(torch.arange(features) + 1.5)
    if affine:
        with torch.no_grad():
            bn.weight.mul_(2.0)
            bn.bias.add_(torch.arange(features))
    return bn.eval()


@scenario
def fusion(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    for affine in (True, False):
        conv = layer(torch, 2, 3, 2, kind="Conv2d").eval()
        fused = utils.fuse_conv_bn_eval(conv, normalised(torch, "BatchNorm2d", 3, affine))
        tell(repr(fused), near(fused.weight), near(fused.bias), fused.weight.requires_grad, fused is conv)
    up = torch.nn.ConvTranspose1d(2, 3, 2, bias=False).eval()
    torch.nn.init.ones_(up.weight)
    fused = utils.fuse_conv_bn_eval(up, normalised(torch, "BatchNorm1d", 3), transpose=True)
    tell(near(fused.weight), near(fused.bias), fused.bias.requires_grad)
    linear = layer(torch, 2, 3).eval()
    for features in (3, 1):
        fused = utils.fuse_linear_bn_eval(linear, normalised(torch, "BatchNorm1d", features))
        tell(near(fused.weight), near(fused.bias))
    tell.attempt(utils.fuse_linear_bn_eval, linear, normalised(torch, "BatchNorm1d", 2))
    tell.attempt(utils.fuse_linear_bn_eval, linear, torch.nn.BatchNorm1d(3))
    tell.attempt(utils.fuse_conv_bn_eval, up, torch.nn.BatchNorm1d(3, track_running_stats=False).eval())


@scenario
def skipped_initial_values(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    torch.manual_seed(3)
    module = utils.skip_init(torch.nn.Linear, 5, out_features=1, bias=False, dtype=torch.float64)
    tell(repr(module), list(module.weight.shape), str(module.weight.dtype)[-7:], module.weight.requires_grad)
    tell(near(torch.rand(2)))
    tell.attempt(utils.skip_init, torch.nn.ReLU)
    tell.attempt(utils.skip_init, int)


@scenario
def stateless(torch: Any, tell: Story) -> None:
    module = layer(torch, 2, 1)
    state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    tell(near(torch.nn.utils.stateless.functional_call(module, state, torch.tensor([1.0, 2.0]))))
    tell.attempt(torch.nn.utils.stateless.functional_call, module, {"w": state["weight"]}, torch.ones(2), strict=True)
    own = module.weight
    with torch.nn.utils.stateless._reparametrize_module(module, state):
        tell(near(module(torch.tensor([1.0, 2.0]))), module.weight is state["weight"])
    tell(module.weight is own)


@scenario
def memory_formats(torch: Any, tell: Story) -> None:
    utils = torch.nn.utils
    net = torch.nn.Sequential(layer(torch, 3, 2, 2, kind="Conv2d"), layer(torch, 2, 3, 2, kind="Conv3d"))
    tell(utils.convert_conv2d_weight_memory_format(net, torch.channels_last) is net)
    tell([list(p.stride()) for p in net.parameters()])
    utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
    tell([list(p.stride()) for p in net.parameters()], [p.requires_grad for p in net.parameters()])


def test_weight_norm_keeps_the_weight():
    module = layer(fgrad.torch, 3, 2)
    weight = module.weight.detach().numpy()
    with pytest.warns(FutureWarning, match="weight_norm` is deprecated") as seen:
        fgrad.torch.nn.utils.weight_norm(module)
    assert seen[0].filename == __file__
    np.testing.assert_allclose(module.weight.detach().numpy(), weight, rtol=1e-6)
    np.testing.assert_allclose(module.weight_g.detach().numpy()[:, 0], np.linalg.norm(weight, axis=1), rtol=1e-6)


def test_spectral_norm_comes_to_one():
    module = fgrad.torch.nn.utils.spectral_norm(layer(fgrad.torch, 3, 2), n_power_iterations=30)
    module(fgrad.torch.ones(1, 3))
    assert np.linalg.norm(module.weight.detach().numpy(), 2) == pytest.approx(1, rel=1e-5)
