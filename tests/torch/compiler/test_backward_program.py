"""Gradients of the gradients of compiled calls, against uncompiled ones."""

import gc
import weakref

import pytest

import fgrad.torch as torch
from tests.torch.compiler.programs import close


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 5 * grad * x.square()  # not the derivative, so that it shows which one is used


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no further")


class RaisesTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return Raises.apply(grad)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * 2


def written(w, x):
    y = w * x
    y[0] = x[1] * x[0]
    y.add_(w)
    return y.exp()


FUNCTIONS = {
    "elementwise": lambda w, x: (w * x).tanh().exp(),
    "product": lambda w, x: (x @ w.diag()).sigmoid() @ x.T,
    "detached": lambda w, x: (w * x).sin() * (w * x).detach().cos(),
    "linear": lambda w, x: w * x,
    "passed on": lambda w, x: x + 1,
    "twice the same gradient": lambda w, x: w.expand(2, 2) + x,
    "dropout": lambda w, x: torch.nn.functional.dropout((w * x).sin(), 0.5) * x**2,
    "custom": lambda w, x: Cubed.apply(w * x),
    "written": written,
    "views": lambda w, x: (x.T[0] * w).exp().view(1, 2).expand(2, 2) * x,
    "no grad": lambda w, x: x.exp() * w.detach(),
    "normalised": lambda w, x: torch.nn.functional.batch_norm(x * w, None, None, training=True).exp(),
    "convolved": lambda w, x: torch.nn.functional.conv1d(x[None], w.view(1, 2, 1).exp() * x[:, :1, None]).square(),
}


def compiled(function):
    return torch.compile(function, fullgraph=True)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def derivatives(way, function, order):
    """The values and all derivatives up to an order, of some calls."""
    torch.manual_seed(0)
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    call, seen = way(function), []
    for i in range(3):
        x = torch.tensor([[0.5, -1.0], [2.0, 0.3 + i]], requires_grad=True)
        value = call(w, x * 1.5)
        seen.append(value.detach())
        inputs = [w, x]
        for _ in range(order):
            if not value.requires_grad:
                break
            weights = torch.linspace(0.5, 1.5, value.numel()).view_as(value)
            found = torch.autograd.grad((value * weights).sum(), inputs, create_graph=True, allow_unused=True)
            seen += [None if g is None else g.detach() for g in found]
            seen.append([g is not None and g.requires_grad for g in found])
            value = sum([g.square().sum() for g in found if g is not None])
        if value.requires_grad:
            value.backward()
            seen += [None if leaf.grad is None else leaf.grad.clone() for leaf in (w, x)]
            w.grad = None
    return seen


def compare(found, expected):
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        else:
            assert one == other


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_every_order_are_those_of_the_function_uncompiled(name, order, double):
    found = derivatives(compiled, FUNCTIONS[name], order)
    compare(found, derivatives(lambda function: function, FUNCTIONS[name], order))


def test_a_gradient_penalty_trains_as_it_does_uncompiled(double):
    def trained(way):
        torch.manual_seed(0)
        critic = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1)
        )
        call, optimizer, losses = way(critic), torch.optim.Adam(critic.parameters(), lr=0.05), []
        for _ in range(8):
            x = torch.randn(5, 3, requires_grad=True)
            score = call(x)
            (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
            loss = score.mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert trained(torch.compile) == pytest.approx(trained(lambda model: model), rel=1e-9)


def test_the_second_backward_may_come_after_the_parameters_were_written(double):
    def found(way):
        w, x = torch.tensor([2.0], requires_grad=True), torch.tensor([0.5], requires_grad=True)
        call = way(lambda: (w.exp() * x).sin())  # the product saves the exponential, and not the parameter
        seen = []
        for _ in range(3):
            (g,) = torch.autograd.grad(call(), x, create_graph=True)
            g.backward()
            seen.append((g.item(), w.grad.item(), x.grad.item()))
        return seen

    compare(found(compiled), found(lambda function: function))


@pytest.mark.parametrize("write", ["w", "x", "seed"])
def test_a_saved_tensor_that_is_written_in_between_is_an_error(write):
    for way in (compiled, lambda function: function):
        w, x = torch.tensor([2.0], requires_grad=True), torch.tensor([0.5], requires_grad=True)
        call = way(lambda w, x: w * x * x)
        for _ in range(3):
            seed = torch.ones(1, requires_grad=True)
            (g,) = torch.autograd.grad(call(w, x), x, seed, create_graph=True)
            with torch.no_grad():
                {"w": w, "x": x, "seed": seed}[write].mul_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                g.backward()


def test_a_gradient_that_depends_on_nothing_requires_no_grad():
    for way in (compiled, lambda function: function):
        x = torch.tensor([0.5], requires_grad=True)
        call = way(lambda x: x * 3)
        (g,) = torch.autograd.grad(call(x), x, create_graph=True)
        assert not g.requires_grad
        (g,) = torch.autograd.grad(call(x), x, torch.ones(1, requires_grad=True), create_graph=True)
        assert g.requires_grad


def test_the_error_of_a_function_that_is_differentiable_once_comes_when_it_is_differentiated_twice():
    for way in (compiled, lambda function: function):
        x = torch.tensor([0.5], requires_grad=True)
        (g,) = torch.autograd.grad(way(lambda x: Once.apply(x).exp())(x), x, create_graph=True)
        assert g.item() == pytest.approx(2 * 2.718281828)
        assert torch.autograd.grad(g, x, allow_unused=True, retain_graph=True) == (None,)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.backward()


def test_a_function_that_has_changed_since_the_call_is_refused():
    x, factor = torch.tensor([0.5], requires_grad=True), [2.0]
    call = torch.compile(lambda x: (x * factor[0]).exp())
    value = call(x)
    factor[0] = 3.0
    with pytest.raises(RuntimeError, match="does something else than it did at the call.*Way out"):
        torch.autograd.grad(value, x, create_graph=True)
    (g,) = torch.autograd.grad(call(x), x, create_graph=True)
    assert g.item() == pytest.approx(3 * 4.481689)


def test_a_number_that_varies_is_an_input_where_gradients_are_differentiated_inside(double):
    def step(w, x, number):
        value = (w * x * number).exp().sum()
        (g,) = torch.autograd.grad(value, x, create_graph=True)
        return torch.autograd.grad(value + g.square().sum(), w)[0]

    w, x = torch.tensor([0.2, 0.3], requires_grad=True), torch.tensor([0.5, 0.1], requires_grad=True)
    call = compiled(step)
    for number in (1.0, 2.0, 3.0, 4.0):
        torch.testing.assert_close(call(w, x, number), step(w, x, number), rtol=1e-9, atol=1e-9)
    assert call._compiled.recorded == 2


def test_generators_and_buffers_are_left_alone():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), torch.nn.Tanh())
    call, x = torch.compile(model), torch.randn(4, 3, requires_grad=True)
    value = call(x)
    before = torch.get_rng_state(), model[0].running_mean.clone(), model[0].num_batches_tracked.item()
    (g,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    g.sum().backward()
    after = torch.get_rng_state(), model[0].running_mean, model[0].num_batches_tracked.item()
    assert (before[0] == after[0]).all() and (before[1] == after[1]).all() and before[2] == after[2]


def test_the_hessian_of_a_compiled_function():
    function = lambda x: (x.exp() * x.roll(1)).sum()  # noqa: E731
    x = torch.tensor([0.1, 0.2, 0.3])
    for _ in range(2):
        found = torch.autograd.functional.hessian(torch.compile(function), x)
        close(found.numpy(), torch.autograd.functional.hessian(function, x).numpy(), exact=False)


def test_gradients_checked_by_differences(double):
    x = torch.tensor([[0.5, -1.0], [2.0, 0.3]], requires_grad=True)
    call = compiled(lambda x: (x @ x).tanh())
    assert torch.autograd.gradgradcheck(call, (x,))


def test_what_a_node_keeps_is_freed_with_it():
    w = torch.tensor([2.0], requires_grad=True)
    call = torch.compile(lambda x: (w * x).exp())
    gc.disable()
    try:
        for _ in range(3):
            x = torch.tensor([0.5], requires_grad=True)
            value = call(x)
            (g,) = torch.autograd.grad(value, x, create_graph=True)
            refs = [weakref.ref(each) for each in (x, value, g)]
            del x, value, g
            assert [ref() for ref in refs] == [None, None, None]
    finally:
        gc.enable()


def test_the_error_that_a_node_raises_keeps_no_frames():
    class Large:
        pass

    def differentiated():
        local = Large()
        (g,) = torch.autograd.grad(function(w), w, create_graph=True)
        with pytest.raises(RuntimeError, match="no further"):
            g.sum().backward()
        kept.append(g)
        return weakref.ref(local)

    function, w, kept = torch.compile(lambda w: RaisesTwice.apply(w).sin().sum()), torch.ones(2, requires_grad=True), []
    ref = differentiated()
    gc.collect()
    assert ref() is None


#: functions of two matrices, whose gradients are sums or shared
SHARED = {
    "used twice": lambda w, v: w * 2 + w * 3 + v,
    "three times": lambda w, v: w.sin() + w.cos() + w * v,
    "the same": lambda w, v: w + v,
    "passed on": lambda w, v: w + w + v,
    "that of an earlier one": lambda w, v: (w + v).exp(),
    "a module twice": lambda w, v: torch.nn.functional.linear(torch.nn.functional.linear(v, w, v[0]), w, v[0]),
}


@pytest.mark.parametrize("name", SHARED)
def test_gradients_have_the_versions_and_share_what_they_do_uncompiled(name):
    def seen(way):
        w, v = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
        function, facts = way(SHARED[name]), []
        for _ in range(3):
            g, h = torch.autograd.grad(function(w, v).square().sum(), [w, v])
            facts.append((g._version, h._version, g is h, g.data_ptr() == h.data_ptr()))
            function(w, v).sum().backward()
            facts.append((w.grad._version, v.grad._version, w.grad.tolist(), v.grad.tolist()))
        return facts

    for one, other in zip(seen(torch.compile), seen(lambda function: function), strict=True):
        assert one[:2] == other[:2]
        close(torch.tensor(one[2:]), torch.tensor(other[2:]), exact=False)
