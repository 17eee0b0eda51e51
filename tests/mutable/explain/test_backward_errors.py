"""Errors in backward show the line of the operation, the rule or hook of the user's, and the call of backward."""

import pytest

import fgrad.torch as torch


def failing(ctx, grad):
    raise ValueError("mine")


def too_few(ctx, grad):
    return grad


def wrong_shape(ctx, grad):
    return grad[:2], grad


def no_tensor(ctx, grad):
    return grad, 3.0


def ill_fitting(ctx, grad):
    return grad @ torch.ones(5, 5), grad


def badly_unpacked(ctx, grad):
    a, b, c = ctx.saved_tensors
    return a, b


def told(loss):
    with pytest.raises(Exception) as caught:
        loss.sum().backward()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def function_of(rule):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        backward = staticmethod(rule)

    return Product


def leaf():
    return torch.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    ("rule", "own"),
    [
        (failing, "mine"),
        (too_few, "function ProductBackward returned an incorrect number of gradients (expected 2, got 1)"),
        (wrong_shape, "Function ProductBackward returned an invalid gradient at index 0 - got [2] but expected shape"),
        (no_tensor, "expected Variable or None (got float)"),
        (ill_fitting, "mat1 and mat2 shapes cannot be multiplied"),
        (badly_unpacked, "not enough values to unpack"),
    ],
)
def test_a_custom_functions_backward(rule, own):
    x, y = leaf(), leaf()
    hidden = function_of(rule).apply(x, y)
    text = told(hidden)
    assert text.startswith(own)
    assert f"This was in the backward of ProductBackward, which ran forward at {__file__}:" in text
    assert "\n    hidden = function_of(rule).apply(x, y)\n" in text
    assert f"Its rule is '{rule.__name__}', at {__file__}:{rule.__code__.co_firstlineno}." in text
    assert "It returns a gradient, or None, for each argument of forward: x, y." in text
    assert f"The gradient was asked for at {__file__}:" in text and "\n    loss.sum().backward()" in text


def test_the_users_own_error_is_left_as_it_is():
    with pytest.raises(ValueError, match="mine") as caught:
        function_of(failing).apply(leaf(), leaf()).sum().backward()
    assert caught.value.args == ("mine",)


def test_setup_context_and_modules():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x, *factors):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("mine")

    class Layer(torch.nn.Module):
        def forward(self, x):
            return Double.apply(x, 3)

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), Layer())
    text = told(net(leaf()))
    assert "in test_setup_context_and_modules.<locals>.Layer.forward (module 1)." in text
    assert "for each argument of forward: x, *factors." in text


def shrink(grad):
    return grad[:1]


def test_hooks_of_a_result():
    hidden = leaf() * 2
    hidden.register_hook(shrink)
    text = told(hidden)
    assert text.startswith("hook 'shrink' has changed the size of value")
    assert "This was in the backward of mul, which ran forward at" in text and "\n    hidden = leaf() * 2\n" in text
    assert f"A hook that runs there is 'shrink', at {__file__}:{shrink.__code__.co_firstlineno}." in text


def test_hooks_of_a_leaf_and_of_a_node():
    weight = leaf()
    weight.register_hook(shrink)
    text = told(weight * 2)
    assert "This was at the leaf 'weight', of shape [3]." in text and "A hook that runs there is 'shrink', at" in text
    hidden = leaf() * leaf()
    hidden.grad_fn.register_hook(lambda inputs, outputs: inputs[:1])
    text = told(hidden)
    assert "returned an incorrect number of values (got 1, but expected 2)" in text
    assert "\n    hidden = leaf() * leaf()\n" in text and "A hook that runs there is 'test_hooks_of" in text


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        power = x.exp()
        ctx.power = power
        ctx.save_for_backward(x)
        return power * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.power * (x + 1)


def test_a_lost_second_derivative_is_named():
    x = leaf()
    z = Kept.apply(x).sum()
    with pytest.warns(UserWarning, match=r"^The backward of KeptBackward reads ctx\.power, which") as caught:
        (first,) = torch.autograd.grad(z, x, create_graph=True)
    text = str(caught[0].message)
    assert "\n    power = x.exp()\n" in text and "\n    z = Kept.apply(x).sum()\n" in text
    assert "Way out: compute it again in backward" in text
    # as in PyTorch, the part is missing: of e^x (x + 1) only e^x is differentiated in x + 1
    assert torch.allclose(torch.autograd.grad(first.sum(), x)[0], x.exp())


def test_an_intermediate_that_was_saved_is_no_better():
    class Saved(Kept):
        @staticmethod
        def forward(ctx, x):
            power = x.exp()
            ctx.save_for_backward(power)
            return power * 2

        @staticmethod
        def backward(ctx, grad):
            (power,) = ctx.saved_tensors
            return grad * power * 2

    x = leaf()
    with pytest.warns(UserWarning, match=r"reads ctx\.saved_tensors\[0\], which"):
        torch.autograd.grad(Saved.apply(x).sum(), x, create_graph=True)


def test_what_can_be_differentiated_twice_is_not_warned_of():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            power = x.exp()
            ctx.input, ctx.unused = x, power * 2
            ctx.save_for_backward(power)
            return power

        @staticmethod
        def backward(ctx, grad):
            (power,) = ctx.saved_tensors
            return grad * power

    x = leaf()
    (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert torch.allclose(torch.autograd.grad(first.sum(), x)[0], x.exp())
    Kept.apply(x).sum().backward()  # nor once


def test_a_function_that_is_defined_in_no_module():
    """What ``exec`` runs without a ``__name__``; its functions have None as ``__module__``."""
    scope = {"torch": torch}
    exec(
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(x):\n        return 2 * x\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output): ...\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n        raise ValueError('mine')\n",
        scope,
    )
    assert told(scope["Twice"].apply(leaf())).startswith("mine")
