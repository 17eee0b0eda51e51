"""``DataParallel`` without GPUs against PyTorch's."""

from typing import Any

import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played


def play(torch: Any, tell: Story) -> None:
    torch.manual_seed(0)
    module = torch.nn.DataParallel(torch.nn.Linear(2, 1), dim=1)
    tell(repr(module), list(module.state_dict()), module.device_ids, isinstance(module, torch.nn.Module))
    tell([round(v, 4) for v in module(torch.ones(2)).tolist()], torch.nn.parallel.DataParallel is torch.nn.DataParallel)
    module(input=torch.ones(2)).backward()
    tell(module.module.weight.grad)
    tell.attempt(torch.nn.parallel.data_parallel, module, torch.ones(2))
    other = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    tell(str(other.load_state_dict(module.state_dict())))


def test_data_parallel_is_pytorchs():
    pytorch = pytest.importorskip("torch")
    if pytorch.cuda.is_available():
        pytest.skip("PyTorch would use the GPU")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def test_what_is_no_tensor_is_for_every_device():
    scatter = fgrad.torch.nn.parallel.scatter
    assert scatter((1, {"a": [2]}), [0, 1]) == [(1, {"a": [2]})] * 2
    with pytest.raises(NotImplementedError, match="computes on one device"):
        scatter(fgrad.torch.ones(2), [0])


def test_what_needs_several_processes_refuses():
    net = fgrad.torch.nn.Linear(2, 1)
    sgd = fgrad.torch.optim.SGD
    for call in (
        lambda: fgrad.torch.nn.parallel.DistributedDataParallel(net),
        lambda: fgrad.torch.distributed.optim.ZeroRedundancyOptimizer(net.parameters(), sgd),
    ):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()


def test_names_of_parameters():
    module = fgrad.torch.nn.DataParallel(fgrad.torch.nn.Linear(2, 1))
    assert [name for name, _ in module.named_parameters()] == ["module.weight", "module.bias"]
