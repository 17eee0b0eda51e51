"""The error of a saved value that was written: which gradients read it, whose line, module and name it is."""

import pytest

import fgrad.torch as torch


def message(loss):
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.sum().backward()
    return str(caught.value)


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


@pytest.mark.parametrize(
    ("operation", "written", "needed"),
    [
        (lambda bias, x, w: torch.addmm(bias, x, w), 1, "'mat1' to make the gradient of 'mat2' ('w')"),
        (lambda bias, x, w: torch.addmm(bias, x, w), 2, "'mat2' to make the gradient of 'mat1' ('x')"),
        (lambda bias, x, w: x * w, 1, "'self' to make the gradient of 'other' ('w')"),
        (lambda bias, x, w: torch.addcmul(bias, x, w), 2, "'tensor2' to make the gradient of 'tensor1' ('x')"),
        (lambda bias, x, w: torch.atan2(x, w), 1, "'self' to make the gradient of 'self' ('x') and 'other' ('w')"),
        (lambda bias, x, w: x / w, 1, "'self' to make the gradient of 'other' ('w')"),
        (
            lambda bias, x, w: torch.lerp(bias, x, w),
            2,
            "'weight' to make the gradient of 'self' ('bias') and 'end' ('x')",
        ),
    ],
)
def test_just_the_gradients_that_read_the_value_are_named(operation, written, needed):
    bias = leaf(2, 2) * 1
    x = leaf(2, 2) * 1
    w = leaf(2, 2) * 1
    operands = [bias, x, w]
    y = operation(*operands)
    operands[written].mul_(2)
    found = message(y)
    assert f"reads its operand {needed}; saved at version 0." in found


def test_a_result_that_is_read_is_said_to_be_one():
    x = leaf(2)
    y = torch.exp(x)
    y += 1
    assert "exp, at" in (found := message(y)) and "reads its result to make the gradient of 'self' ('x');" in found


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.out = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = torch.relu(self.query(x))
        found = self.out(hidden)
        hidden += 1
        return found


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Attention() for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def test_a_forward_that_has_returned_is_named_by_its_module_and_variable():
    net = Net()
    found = message(net(torch.ones(2, 4)))
    assert "in Attention.forward (module blocks.2.out), reads its operand 'mat1'" in found
    assert "to make the gradient of 'mat2' ('blocks.2.out.weight' of 'net');" in found
    assert "\n    found = self.out(hidden)\n" in found
    assert "(run 3 of the 3 of this line in the graph)" in found
    assert "\n    hidden += 1\n" in found
    assert "The tensor is 'hidden'." in found
    assert "It was made by relu, at" in found and "in Attention.forward (module blocks.2)." in found


def test_anomaly_mode_adds_the_calls_that_led_to_the_line():
    def helper(x):
        return x.sigmoid()

    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Traceback of forward call"):
        y = helper(leaf(3))
        y += 1
        found = message(y)
    assert "called by:" in found and "y = helper(leaf(3))" in found


def test_a_value_that_a_custom_function_saved():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = leaf(2) * 1
    y = Square.apply(x)
    x.mul_(2)
    assert "SquareBackward, at" in (found := message(y)) and "reads what its context saved for backward;" in found
