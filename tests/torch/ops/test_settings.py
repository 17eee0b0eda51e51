"""Numbers that functions take are inputs of their plans: another number plans nothing anew."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from fgrad.mutable.operation.operation import Planned

x = np.random.default_rng(1).normal(size=(3, 4))
labels = np.array([0, 2, 1])
signs = np.array([1.0, -1.0, 1.0])

#: functions of the library, a number and a tensor
SETTINGS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "leaky_relu": lambda t, n, x: t.nn.functional.leaky_relu(x, n),
    "leaky_relu_": lambda t, n, x: t.nn.functional.leaky_relu_(x * 1, n),
    "rrelu": lambda t, n, x: t.nn.functional.rrelu(x, n, n),
    "rrelu_": lambda t, n, x: t.nn.functional.rrelu_(x * 1, n, n),
    "elu": lambda t, n, x: t.nn.functional.elu(x, n),
    "elu_": lambda t, n, x: t.nn.functional.elu_(x * 1, n),
    "celu": lambda t, n, x: t.nn.functional.celu(x, n),
    "celu_": lambda t, n, x: t.nn.functional.celu_(x * 1, n),
    "softplus": lambda t, n, x: t.nn.functional.softplus(x, n, n),
    "softshrink": lambda t, n, x: t.nn.functional.softshrink(x, n),
    "hardshrink": lambda t, n, x: t.nn.functional.hardshrink(x, n),
    "hardtanh": lambda t, n, x: t.nn.functional.hardtanh(x, -n, n),
    "threshold": lambda t, n, x: t.nn.functional.threshold(x, n, n),
    "huber_loss": lambda t, n, x: t.nn.functional.huber_loss(x, 0 * x, delta=n),
    "smooth_l1_loss": lambda t, n, x: t.nn.functional.smooth_l1_loss(x, 0 * x, beta=n),
    "multi_margin_loss": lambda t, n, x: t.nn.functional.multi_margin_loss(x, t.tensor(labels), margin=n),
    "margin_ranking_loss": lambda t, n, x: t.nn.functional.margin_ranking_loss(
        x[:, 0], x[:, 1], t.tensor(signs), margin=n
    ),
    "hinge_embedding_loss": lambda t, n, x: t.nn.functional.hinge_embedding_loss(x[:, 0], t.tensor(signs), margin=n),
    "cosine_embedding_loss": lambda t, n, x: t.nn.functional.cosine_embedding_loss(
        x, x.flip(0), t.tensor(signs), margin=n
    ),
    "triplet_margin_loss": lambda t, n, x: t.nn.functional.triplet_margin_loss(
        x, x.flip(0), x.flip(1), margin=n, p=n + 2, eps=n
    ),
    "cross_entropy": lambda t, n, x: t.nn.functional.cross_entropy(x, t.tensor(labels), label_smoothing=n),
    "gaussian_nll_loss": lambda t, n, x: t.nn.functional.gaussian_nll_loss(x, 0 * x, x * x, eps=n),
    "layer_norm": lambda t, n, x: t.nn.functional.layer_norm(x, (4,), eps=n),
    "rms_norm": lambda t, n, x: t.nn.functional.rms_norm(x, (4,), eps=n),
    "batch_norm": lambda t, n, x: t.nn.functional.batch_norm(x, None, None, training=True, eps=n),
    "batch_norm evaluating": lambda t, n, x: t.nn.functional.batch_norm(
        x, t.zeros(4).double(), t.ones(4).double(), eps=n
    ),
    "group_norm": lambda t, n, x: t.nn.functional.group_norm(x[:, :, None], 2, eps=n),
    "native_group_norm": lambda t, n, x: t.native_group_norm(x, None, None, 3, 4, 1, 2, n)[0],
    "instance_norm": lambda t, n, x: t.nn.functional.instance_norm(x[None], eps=n),
    "local_response_norm": lambda t, n, x: t.nn.functional.local_response_norm(x[None], 2, alpha=n, beta=n, k=n),
    "normalize": lambda t, n, x: t.nn.functional.normalize(x, p=n + 2, eps=n),
    "cosine_similarity": lambda t, n, x: t.nn.functional.cosine_similarity(x, x.flip(0), eps=n),
    "pairwise_distance": lambda t, n, x: t.nn.functional.pairwise_distance(x, x.flip(0), p=n + 2, eps=n),
    "pdist": lambda t, n, x: t.nn.functional.pdist(x, n + 2),
    "cdist": lambda t, n, x: t.cdist(x, x.flip(0), n + 2),
    "dist": lambda t, n, x: t.dist(x, x.flip(0), n + 2),
    "norm": lambda t, n, x: x.norm(n + 2),
    "vector_norm": lambda t, n, x: t.linalg.vector_norm(x, n, 1),
    "renorm": lambda t, n, x: t.renorm(x, n + 2, 0, n),
    "embedding_renorm_": lambda t, n, x: t.embedding_renorm_(x.detach() * 1, t.tensor(labels), n, n + 2),
    "var": lambda t, n, x: t.var(x, correction=n),
    "std": lambda t, n, x: t.std(x, 1, correction=n),
    "std_mean": lambda t, n, x: t.std_mean(x, correction=n)[0],
    "pad": lambda t, n, x: t.nn.functional.pad(x, (1, 1), value=n),
    "logit": lambda t, n, x: t.logit(x, n / 4),
    "attention": lambda t, n, x: t.nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3, scale=n),
    "segment_reduce": lambda t, n, x: t.segment_reduce(
        x[:, 0], "prod", lengths=t.tensor([2, 0, 1]), initial=n
    ),
    "native_dropout": lambda t, n, x: t.native_dropout(x, n / 4, True)[1].double().sum() * 0,
    "pinv": lambda t, n, x: t.linalg.pinv(x, rtol=n / 10),
    "lstsq": lambda t, n, x: t.linalg.lstsq(x[:, :2], x[:, 2:], rcond=n / 10, driver="gelsd")[0],
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_another_number_plans_nothing_anew(name: str, monkeypatch: pytest.MonkeyPatch):
    function, tensor = SETTINGS[name], ours.tensor(x, requires_grad=True)

    def run(number: float) -> None:
        result = function(ours, number, tensor)
        if result.requires_grad:
            result.sum().backward()

    run(0.3)
    run(0.3)  # of a second backward more is planned
    planned: list[str] = []
    plan = Planned.__init__

    def counted(self: Any, operation: Any, *rest: Any) -> None:
        planned.append(operation.name)
        plan(self, operation, *rest)

    monkeypatch.setattr(Planned, "__init__", counted)
    for number in (0.31, 0.4, 0.77):
        run(number)
    assert planned == []


@pytest.mark.parametrize("name", ["leaky_relu_", "elu_", "celu_"])
def test_negative_slopes_in_place_are_refused_in_backward(name: str):
    result = SETTINGS[name](ours, -0.5, ours.tensor(x, requires_grad=True))
    with pytest.raises(RuntimeError, match="with a negative slope"):
        result.sum().backward()


#: not for numbers of 16 bits, or of such that cancel
NOT_OF_HALVES = {"cdist", "pdist", "pinv", "lstsq", "multi_margin_loss", "group_norm", "native_group_norm"}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("name", SETTINGS)
def test_of_each_number_as_in_torch(name: str, dtype: str):
    theirs = pytest.importorskip("torch")
    if dtype == "bfloat16" and name in NOT_OF_HALVES:
        return

    def run(torch: Any, number: Any) -> list[np.ndarray] | str:
        tensor = torch.tensor(x, dtype=getattr(torch, dtype), requires_grad=True)
        try:
            result = SETTINGS[name](torch, number, tensor)
        except (RuntimeError, ValueError):
            return "refused"
        grads = torch.autograd.grad(result.sum(), tensor, allow_unused=True) if result.requires_grad else []
        return [np.array(t.detach().double().tolist()) for t in (result, *grads) if t is not None]

    # PyTorch computes the inverse of celu's number with 32 bits
    tolerance = {"float64": 1e-7 if "celu" in name else 1e-9, "bfloat16": 5e-2}[dtype]
    # an infinite number makes no sense for lstsq; for celu_ PyTorch's gradient there differs between processors
    for number in (0.3, 1, 0.0, -0.0, 0.1 if name in ("lstsq", "celu_") else math.inf):
        mine, other = run(ours, number), run(theirs, number)
        if isinstance(mine, str) or isinstance(other, str):
            assert mine == other
            continue
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, tolerance, tolerance)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_tensor_stands_for_its_number(name: str):
    theirs = pytest.importorskip("torch")

    def run(torch: Any, number: float) -> np.ndarray | type:
        try:
            return np.array(SETTINGS[name](torch, torch.tensor(number), torch.tensor(x)).tolist())
        except Exception as error:
            return type(error)

    for number in (0.3, 1.0):
        mine, other = run(ours, number), run(theirs, number)
        if isinstance(mine, type) or isinstance(other, type):
            assert mine == other
            continue
        np.testing.assert_allclose(mine, other, 1e-6, 1e-6)
