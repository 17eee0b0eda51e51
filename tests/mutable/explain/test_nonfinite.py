"""``torch.nonfinite``, and what anomaly mode says beside PyTorch's text; real PyTorch says what is finite."""

import warnings

import numpy as np
import pytest

import fgrad.torch as torch

real = pytest.importorskip("torch")


def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)


def test_a_double_where():
    x = leaf(4.0, 0.0)
    h = torch.where(x > 0, x.sqrt(), 0.0)
    loss = h.sum()
    found = torch.nonfinite(loss)
    assert found and found.results == ("d loss / d x",)
    assert (found.phase, found.operation, found.kind) == ("backward", "sqrt", "NaN")
    assert [(p.name, p.index, p.value) for p in found.places] == [("x", (1,), 0.0)]
    assert found.mend.checked and "torch.where(ok, torch.sqrt(torch.where(ok, x, 1.0)), ...)" in found.mend.text
    assert "h = torch.where" in found.source.text


def test_asking_changes_nothing():
    x = leaf(4.0, 0.0)
    ran = []
    x.register_hook(ran.append)
    loss = (x.sqrt() * x).sum()
    torch.nonfinite(loss)
    assert x.grad is None and not ran
    loss.backward()
    assert x.grad is not None and len(ran) == 1


def both(function, *numbers):
    """What is found in our run of a function, and whether PyTorch's value and gradient are finite."""
    theirs = real.tensor(numbers, requires_grad=True)
    value = function(real, theirs).sum()
    value.backward()
    finite = bool(real.isfinite(value)) and bool(real.isfinite(theirs.grad).all())
    x = leaf(*numbers)
    return torch.nonfinite(function(torch, x).sum()), finite


CASES = [
    ("sqrt", lambda t, x: t.sqrt(x), (1.0, 0.0)),
    ("sqrt", lambda t, x: t.sqrt(x), (1.0, -1.0)),
    ("log", lambda t, x: t.log(x), (1.0, 0.0)),
    ("log2", lambda t, x: t.log2(x), (1.0, 0.0)),
    ("div", lambda t, x: x / x, (1.0, 0.0)),
    ("reciprocal", lambda t, x: t.reciprocal(x), (1.0, 0.0)),
    ("exp", lambda t, x: t.log(1 + t.exp(x)), (1.0, 100.0)),
    ("exp", lambda t, x: t.exp(x) / t.exp(x).sum(), (1.0, 100.0)),
    ("pow", lambda t, x: x**0.5, (1.0, 0.0)),
    ("pow", lambda t, x: x**1.3, (1.0, -2.0)),
    ("acos", lambda t, x: t.acos(x), (1.0, 0.5)),
    ("asin", lambda t, x: t.asin(x), (1.0, 0.5)),
    ("atanh", lambda t, x: t.atanh(x), (1.0, 0.5)),
    ("rsqrt", lambda t, x: t.rsqrt(x), (1.0, 0.0)),
    ("acosh", lambda t, x: t.acosh(x), (1.0, 2.0)),
    ("atan2", lambda t, x: t.atan2(x, x), (1.0, 0.0)),
]


@pytest.mark.parametrize(("operation", "function", "numbers"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_known_traps(operation, function, numbers):
    found, finite = both(function, *numbers)
    if finite:  # atan2(0, 0) has the gradient 0 in PyTorch
        assert not found
        return
    assert found.operation == operation, found
    assert found.mend.checked, found


FINITE = [
    lambda t, x: x.norm(),
    lambda t, x: t.std(x),
    lambda t, x: t.nn.functional.softplus(x * 1000),
    lambda t, x: t.logsumexp(x * 1000, 0),
    lambda t, x: t.xlogy(x, x + 1),
    lambda t, x: t.nn.functional.normalize(x, dim=0),
]


@pytest.mark.parametrize("function", FINITE)
def test_what_is_finite_in_pytorch_is_false(function):
    found, finite = both(function, 0.0, 0.0)
    assert finite and not found, found


def test_a_value_that_was_not_kept():
    x, mask = leaf(1.0, 2.0), torch.tensor([0.0, float("nan")])
    y = x + mask
    loss = y.exp().sum()
    found = torch.nonfinite(loss)
    assert found.kind == "NaN" and found.operation == "exp" and "not kept" in found.reason


def test_an_argument_that_is_not_finite():
    w, x = leaf(1.0, 2.0), torch.tensor([1.0, float("inf")])
    found = torch.nonfinite((w * x).sum())
    assert (found.phase, found.name, found.kind) == ("argument", "x", "Inf")
    w = leaf(1.0, float("nan"))
    assert torch.nonfinite((w * 2).sum()).name == "w"


def test_a_tensor_without_history():
    assert torch.nonfinite(torch.tensor([1.0, float("nan")])).kind == "NaN"
    assert not torch.nonfinite(torch.ones(2))


def test_a_freed_graph_is_refused():
    x = leaf(1.0, 2.0)
    loss = x.exp().sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"were freed by the backward at .*retain_graph=True"):
        torch.nonfinite(loss)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        h = self.inner(x)
        return self.out(h)


def test_a_training_loop_with_a_mistake():
    """The probabilities are computed without a bound; after some steps one of them is 0."""
    torch.manual_seed(0)
    net = Net()
    data, labels = torch.randn(8, 3), torch.tensor([0, 1] * 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=300.0)
    for _ in range(50):
        scores = torch.exp(net(data))
        p = scores / scores.sum(1, keepdim=True)
        picked = p[torch.arange(8), labels]
        loss = -torch.log(picked).mean()
        found = torch.nonfinite(loss)
        if found:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert found.phase == "forward" and found.operation in ("exp", "log") and found.mend.checked
    assert "scores = torch.exp" in found.source.text or "torch.log(picked)" in found.source.text


def test_a_module_is_named():
    class Root(torch.nn.Module):
        def forward(self, x):
            return x.sqrt()

    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), Root())
    with torch.no_grad():
        net[0].weight.fill_(0.0)
        net[0].bias.fill_(0.0)
    found = torch.nonfinite(net(torch.ones(2, 3)).sum())
    assert (found.operation, found.phase, found.module) == ("sqrt", "backward", "2")
    assert "in the module 2" in str(found)


def test_attention_with_a_row_that_is_masked_everywhere():
    x = torch.randn(1, 3, 4, requires_grad=True)
    mask = torch.zeros(3, 3)
    mask[1] = float("-inf")
    scores = x @ x.transpose(1, 2) + mask
    weights = torch.softmax(scores, -1)
    found = torch.nonfinite((weights @ x).sum())
    assert found.kind == "NaN" and found.operation in ("softmax", "add")
    assert "mask" in found.mend.text if found.operation == "softmax" else True


def test_a_custom_function():
    class Divided(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / x

    x = leaf(1.0, 0.0)
    found = torch.nonfinite(Divided.apply(x).sum())
    assert (found.phase, found.operation) == ("backward", "DividedBackward")
    assert "return grad / x" in found.source.text and found.reason.startswith("div: ")
    assert [p.value for p in found.places] == [1.0, 0.0]


def test_views_and_writes():
    x = leaf(1.0, 0.0, 2.0)
    y = x * 1.0
    y[1:].sqrt_()
    loss = y.sum()
    assert torch.nonfinite(loss).results == ("d loss / d x",)
    z = x * 1.0
    z[0] = 5.0
    assert not torch.nonfinite(z.sum())


def test_doubles_and_half_precision():
    x = torch.tensor([1.0, 710.0], dtype=torch.float64, requires_grad=True)
    assert torch.nonfinite(x.exp().sum()).places[0].value == 710.0
    x = torch.tensor([1.0, 0.0], dtype=torch.bfloat16, requires_grad=True)
    assert torch.nonfinite(x.sqrt().sum()).mend.checked


def anomalous(function, module, x):
    """The error of a backward in anomaly mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with module.autograd.detect_anomaly(), pytest.raises(RuntimeError) as raised:
            function(module, x).sum().backward()
    return str(raised.value)


def test_anomaly_mode_begins_with_pytorchs_text_and_goes_on():
    def function(t, x):
        h = t.where(x > 0, x.sqrt(), t.zeros(2))
        return h * 1.0

    theirs = anomalous(function, real, real.tensor([4.0, 0.0], requires_grad=True))
    ours = anomalous(function, torch, leaf(4.0, 0.0))
    assert ours.startswith(theirs + "\n\n")
    assert "It arose in backward, in the derivative of sqrt" in ours and "x[1] = 0.0" in ours
    # the other operand of where was not kept, so nothing can be tried
    assert "torch.where(ok, torch.sqrt(torch.where(ok, x, 1.0)), ...)" in ours and "not tried" in ours


def test_anomaly_mode_lets_go_of_what_was_saved_all_the_same():
    x = leaf(4.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            loss = x.sqrt().sum()
            loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.25, 0.5])
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_it_prints_and_shows():
    found = torch.nonfinite(leaf(4.0, 0.0).log().sum())
    assert str(found) == repr(found) and "<pre>" in found._repr_html_()


def test_a_division_by_an_integer():
    x = torch.ones(2, requires_grad=True)
    found = torch.nonfinite((x / torch.tensor([0, 1])).sum())
    assert found.operation == "div" and "a division by 0" in str(found)


def test_anomaly_mode_looks_at_mapped_gradients():
    def run(t):
        half = t.func.vmap(t.func.grad(lambda x: (x - 1).sqrt().mul(x).sum()))
        with warnings.catch_warnings(), t.autograd.detect_anomaly():
            warnings.simplefilter("ignore")
            good = half(t.tensor([[2.0, 3.0], [4.0, 5.0]])).flatten().tolist()
            with pytest.raises(RuntimeError) as raised:
                half(t.tensor([[2.0, 3.0], [0.5, 5.0]]))
        return [round(x, 4) for x in good], str(raised.value).splitlines()[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(torch) == run(real)
