"""``audit``: where PyTorch's gradient is not the mathematical one, and by how much."""

import numpy as np
import pytest

import fgrad.torch as torch


def keeping(how):
    """The exponential as a custom Function, with its result kept in some way."""

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            how(ctx, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            y = ctx.y if hasattr(ctx, "y") else ctx.saved_tensors[0]
            return grad * y

    return Exp


def by_data(ctx, y):
    ctx.y = y.data


def itself(ctx, y):
    ctx.y = y.detach()


def saved_data(ctx, y):
    ctx.save_for_backward(y.data)


@pytest.mark.parametrize("how", [by_data, itself, saved_data])
def test_what_a_custom_function_keeps_unchecked(how):
    exp = keeping(how)

    def program():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = exp.apply(x)
        y.data.mul_(3)
        y.sum().backward()
        return x.grad

    found = torch.audit(program)
    (finding,) = found
    assert (finding.kind, finding.operation) == ("silent", "ExpBackward")
    assert finding.value == ("tensors" if how is saved_data else "ctx.y")
    assert np.allclose(found.result.numpy(), np.exp([1.0, 2.0]))
    (difference,) = found.differences
    assert difference.largest == pytest.approx(2 * np.exp(2.0), rel=1e-5)
    assert difference.relative == pytest.approx(2.0, rel=1e-5)
    assert found and "differs by up to 14.8" in str(found)


def test_a_function_that_is_right_has_nothing_to_object_to():
    exp = keeping(by_data)

    def program():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        exp.apply(x).sum().backward()
        return x.grad

    found = torch.audit(program)
    assert not found and not found.differences and str(found) == "nothing to object to"


def test_a_training_step_that_clips_by_data():
    """The weight is clipped between forward and backward: the gradient of the input is that of another weight."""

    def step(net):
        x = torch.ones(4, 3)
        hidden = net[0](x).sigmoid()
        loss = (net[1](hidden) ** 2).mean()
        net[1].weight.data.clamp_(-0.01, 0.01)
        loss.backward()

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    torch.nn.init.constant_(net[1].weight, 0.01)
    assert not torch.audit(step, net)
    torch.nn.init.constant_(net[1].weight, 1.0)
    state = {k: v.clone() for k, v in net.state_dict().items()}

    def fresh(net):
        net.load_state_dict(state)
        step(net)

    found = torch.audit(fresh, net)
    assert {finding.kind for finding in found} == {"silent"}
    assert {difference.name for difference in found.differences} == {"0.weight.grad", "0.bias.grad"}


def test_what_raises_has_no_difference():
    def program():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        z = y.sum()
        y.mul_(2)
        z.backward()
        return x.grad

    found = torch.audit(program)
    assert [finding.kind for finding in found] == ["raises"]
    assert isinstance(found.error, RuntimeError) and not found.differences
