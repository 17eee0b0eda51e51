"""Tensors on accelerators: host devices of JAX's stand in for them."""

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.values import device_of_value as placing, evaluation
from fgrad.run import executable
from tests.accelerators import held, on, two_accelerators

__all__ = ["two_accelerators"]

F = torch.nn.functional


pytestmark = pytest.mark.usefixtures("two_accelerators")


def test_new_tensors():
    for made in (
        torch.ones(2, 3, device="cuda"), torch.zeros(2, device="cuda:0"), torch.tensor([1.0, 2.0], device="cuda"),
        torch.rand(3, device="cuda"), torch.randn(20, device="cuda"), torch.arange(3, device="cuda"),
        torch.empty(2, device="cuda"), torch.eye(2, device="cuda"), torch.full((2,), 3, device="cuda"),
        torch.ones(70, 70, device="cuda"), torch.ones(2).cuda(), torch.ones(2).to("cuda"),
        torch.randperm(4, device="cuda"),
    ):  # fmt: skip
        on(made)
    on(torch.ones(2, device="cuda:1"), 1)
    with torch.device("cuda:1"):
        on(torch.linspace(0, 1, 3), 1)
    assert str(torch.ones(1, device="cuda")) == "tensor([1.], device='cuda:0')"
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:7")


@pytest.mark.parametrize("numel", [6, 6000])
def test_results_lie_where_the_operands_do(numel: int):
    x = torch.arange(numel, dtype=torch.float32, device="cuda:1").view(-1, 3)
    for result in (
        x + 1, x * x, x @ x.t()[:, :3], x.sum(), x.t(), x[0], x[torch.tensor([0, 1])], x > 2, x.long(), x.sort(1)[0],
        torch.zeros_like(x), torch.rand_like(x), x.new_ones(2), x.clone(), x.detach(), torch.cat([x, x]), x.softmax(1),
        x * torch.tensor(2.0), F.dropout(x), F.rrelu(x, training=True), torch.where(x > 1, x, 0.0), x.double(),
        x.to(torch.int8),
    ):  # fmt: skip
        assert str(result.device) == "cuda:1"
        assert held(result + 0) == jax.devices("cpu")[2]
    np.testing.assert_array_equal((x * 2).cpu().numpy(), np.arange(numel, dtype="float32").reshape(-1, 3) * 2)


def test_draws_lie_where_their_parameters_do():
    p = torch.full((3,), 0.5, device="cuda:1")
    for drawn in (
        torch.bernoulli(p), torch.poisson(p), torch.normal(p, p), torch.normal(0.0, p), torch.multinomial(p, 2),
        torch.binomial(p * 10, p), torch.distributions.Gamma(p, p).sample(), torch.distributions.Dirichlet(p).sample(),
        torch.distributions.Normal(p, p).rsample(), F.gumbel_softmax(p),
        torch.nn.init.orthogonal_(torch.empty(3, 3, device="cuda:1")),
    ):  # fmt: skip
        on(drawn, 1)


def test_what_numpy_computes_lies_there():
    x = torch.tensor([[1, 0, 2], [0, 2, 1]], device="cuda:1")
    y = torch.tensor([[1.0, 0.0, 2.0]], device="cuda:1")
    for computed in (
        x.nonzero(), x.unique(), x.unique(return_counts=True)[1], torch.bincount(x[0]), torch.histc(y), y.quantile(0.5),
        torch.histogram(y, 3)[0], torch.combinations(x[0]), y.T.repeat_interleave(x[0], 0), x.new_tensor([1, 2]),
        F.pad(y[None], (1, 1), mode="circular"), torch.masked.var(y, 1, unbiased=False),
        F.scaled_dot_product_attention(y[None], y[None], y[None], is_causal=True), x.new_ones(1), torch.argwhere(x),
        F.embedding_bag(x, y.T.expand(3, 2), mode="max"), torch.unique_consecutive(x),
        torch.linalg.cholesky_ex(y.T @ y)[1],
    ):  # fmt: skip
        on(computed, 1)


def test_a_graph_is_compiled_whole(monkeypatch: pytest.MonkeyPatch):
    """On an accelerator each primitive that runs by itself is a program to be compiled, too."""
    interpreted: list[Any] = []
    monkeypatch.setattr(executable, "interpret", lambda *args: interpreted.append(args))
    x = torch.linspace(-1, 1, 7, device="cuda", requires_grad=True)
    F.gelu(x).sum().backward()
    on(x.grad)
    assert not interpreted


@pytest.mark.parametrize("numel", [6, 6000])
def test_writes_stay(numel: int):
    x = torch.zeros(numel, device="cuda")
    for write in (
        lambda: x.fill_(2), x.zero_, lambda: x.add_(1), lambda: x.uniform_(), lambda: x.copy_(torch.ones(numel)),
        lambda: x.__setitem__(0, 5.0), lambda: x.__setitem__(slice(0, 2), torch.ones(2)), lambda: x[1:3].zero_(),
        lambda: x.normal_(), lambda: x.masked_fill_(x > 0, 1.0), lambda: torch.nn.init.ones_(x),
    ):  # fmt: skip
        write()
        on(x)
    y = torch.zeros(numel)
    y.copy_(x)
    assert y.device.type == "cpu"
    np.testing.assert_array_equal(y.numpy(), x.cpu().numpy())


def test_gradients_go_back_to_their_leaves():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.to("cuda", torch.float64)
    assert type(y.grad_fn).__name__ == "ToCopyBackward0"
    (y * y).sum().backward()
    assert x.grad.device.type == "cpu" and x.grad.dtype is torch.float32
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
    (g,) = torch.autograd.grad((x.cuda() ** 3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), [6.0, 12.0])
    z = torch.ones(3, device="cuda:1", requires_grad=True)
    z.sum().backward()
    on(z.grad, 1)
    (z.cpu() * 2).sum().backward()
    on(z.grad, 1)
    np.testing.assert_array_equal(z.grad.cpu().numpy(), [3.0, 3.0, 3.0])


def test_tangents_go_along():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        tangent = torch.autograd.forward_ad.unpack_dual(dual.cuda() * 2).tangent
    on(tangent)
    np.testing.assert_array_equal(tangent.cpu().numpy(), [6.0, 6.0])


def test_mapped_values_stay():
    x, weights = torch.ones(4, 3, device="cuda:1"), torch.ones(3, device="cuda:1")
    on(torch.func.vmap(lambda row: (row * weights).sum() + row.detach().clone()[0])(x), 1)
    on(torch.func.vmap(lambda row, number: row * number, (0, None))(x, torch.tensor(2.0)), 1)
    on(torch.func.vmap(torch.func.grad(lambda w, row: (w * row).sin().sum()), (None, 0))(weights, x), 1)
    on(torch.compile(torch.func.vmap(lambda row: row.softmax(0) * weights))(x), 1)


def test_operands_apart():
    x, y = torch.ones(2, device="cuda"), torch.ones(2)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        x + y
    with pytest.raises(RuntimeError, match="at least two devices, cpu and cuda:0!"):
        y.mul_(x)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    assert x.numpy(force=True).tolist() == x.tolist() == [1.0, 1.0]
    assert float(x[0]) == 1.0


def test_modules_train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    beside = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    beside.load_state_dict(model.state_dict())
    model.to("cuda")
    inputs, labels = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    for each, place in ((model, "cuda:0"), (beside, "cpu")):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9)
        for _ in range(10):
            optimizer.zero_grad()
            F.cross_entropy(each(inputs.to(place)), labels.to(place)).backward()
            optimizer.step()
    for (name, one), other in zip(model.state_dict().items(), beside.state_dict().values(), strict=True):
        on(one)
        np.testing.assert_allclose(one.cpu().numpy(), other.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_saved_and_loaded(tmp_path: Any):
    x = torch.arange(3.0, device="cuda:1")
    torch.save({"x": x}, tmp_path / "x.safetensors")
    on(torch.load(tmp_path / "x.safetensors")["x"], 1)
    assert torch.load(tmp_path / "x.safetensors", map_location="cpu")["x"].device.type == "cpu"
    assert torch.load(tmp_path / "x.safetensors", map_location="meta")["x"].is_meta
    on(copy.deepcopy(x), 1)
    on(pickle.loads(pickle.dumps(x)), 1)


def test_the_cpu_where_jax_would_choose_an_accelerator(monkeypatch: pytest.MonkeyPatch):
    hosts = jax.devices("cpu")
    for module in (placing, evaluation):
        monkeypatch.setattr(module, "accelerated", lambda: True)
    monkeypatch.setattr(placing.elsewhere, "exist", True)
    with jax.default_device(hosts[1]):
        x = torch.ones(70, 70, requires_grad=True)
        y = (x @ x).sin().sum()
        y.backward()
        for each in (x, x @ x, x + 1, x[0], y, x.grad, torch.rand(70, 70), torch.tensor([2.0]) * 3):
            assert each.device.type == "cpu"
            assert held(each) in (None, hosts[0])
        on(x.cuda().softmax(1))
