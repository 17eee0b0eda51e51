"""The element type of a leaf's gradient, as it is set by ``grad_dtype``."""

import pytest

from tests.torch.both import Case, agree


def _leaf(torch, dtype):
    x = torch.ones(2, requires_grad=True)
    x.grad_dtype = dtype
    return x


def _trained(torch, dtype, steps=70):
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    layer.weight.grad_dtype = dtype
    for _ in range(steps):
        layer(torch.ones(3, 2)).sum().backward()
    return layer.weight.grad, str(layer.weight.grad_dtype)


def _doubled(torch):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.double()

    return Doubled.apply


def _any(torch):
    x = _leaf(torch, None)
    _doubled(torch)(x).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    return first, x.grad, x.grad_dtype


def _set_after(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.grad_dtype = torch.float64
    y.backward()
    return x.grad


def _hooks(torch):
    x, seen = _leaf(torch, torch.float64), []
    x.register_hook(lambda grad: seen.append(str(grad.dtype)))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(str(leaf.grad.dtype)))
    (x * 2).sum().backward()
    return seen


def _assigned(torch, dtype, of):
    x = _leaf(torch, dtype)
    x.grad = torch.ones(2, dtype=of)
    return x.grad


def _with_a_gradient(torch):
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    x.grad_dtype = torch.float64


def _of_a_result(torch):
    x = torch.ones(2, requires_grad=True) * 2
    x.grad_dtype = torch.float64


def _compiled(torch):
    x = _leaf(torch, torch.float64)

    def run():
        (x**2).sum().backward()
        return x.grad.clone()

    compiled = torch.compile(run) if torch.__name__ == "fgrad.torch" else run
    seen = [compiled() for _ in range(4)]
    x.grad, x.grad_dtype = None, torch.float16
    return seen + [compiled() for _ in range(4)]


CASES = [
    Case("wider", lambda torch: _trained(torch, torch.float64)),
    Case("narrower", lambda torch: _trained(torch, torch.bfloat16, 5)),
    Case("complex", lambda torch: _trained(torch, torch.complex64, 2)),
    Case("any", _any),
    Case("set after the operation", _set_after),
    Case("hooks", _hooks),
    Case("assigned", lambda torch: _assigned(torch, torch.float64, torch.float64)),
    Case("assigned another", lambda torch: _assigned(torch, torch.float64, torch.float32)),
    Case("assigned any", lambda torch: _assigned(torch, None, torch.float64)),
    Case("not a dtype", lambda torch: _leaf(torch, "float64")),
    Case("there is a gradient", _with_a_gradient),
    Case("of a result", _of_a_result),
    Case("compiled", _compiled),
    Case("detached", lambda torch: str(_leaf(torch, torch.float64).detach().grad_dtype)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_have_the_type_that_was_set(case):
    agree(case, pytest.importorskip("torch"))
