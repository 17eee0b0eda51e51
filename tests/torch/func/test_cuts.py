"""What cuts history in PyTorch cuts the derivatives of a functionalized function: ``torch.func.grad`` is the oracle."""

from typing import Any

import jax
import numpy as np
import pytest

import fgrad
import fgrad.torch

torch = pytest.importorskip("torch")

X = np.array([1.0, 2.0, 3.0], "float32")


def detached(t: Any, x: Any) -> Any:
    return (x * x.detach()).sum()


def data(t: Any, x: Any) -> Any:
    return (x * x.data).sum()


def detached_in_place(t: Any, x: Any) -> Any:
    y = x * 2
    y.detach_()
    return (y * x).sum()


def copied(t: Any, x: Any) -> Any:
    y = t.zeros(3)
    y.copy_(x.detach())
    return (y * x).sum()


def parameter(t: Any, x: Any) -> Any:
    return (t.nn.Parameter(x * 2) * x).sum()


def unrecorded(t: Any, x: Any) -> Any:
    with t.no_grad():
        y = x * x
        with t.enable_grad():
            z = x * 3
    return (x * y * z).sum()


def inference(t: Any, x: Any) -> Any:
    with t.inference_mode():
        y = x.clone() * 2
    return (x * y.clone()).sum()


def view(t: Any, x: Any) -> Any:
    with t.no_grad():
        y = x[1:]
    return (x[1:] * y).sum()


def written(t: Any, x: Any) -> Any:
    y = x * 1
    with t.no_grad():
        y.mul_(x)
        y[1:].add_(x[1:])
        y[:1].zero_()
    return (y * x).sum()


def written_through_a_cut(t: Any, x: Any) -> Any:
    y = x * 1
    y.detach().mul_(3)
    return (y * y).sum()


def read_through_a_cut(t: Any, x: Any) -> Any:
    y = x * 1
    z = y.detach()
    y.mul_(x)
    return (y * z).sum()


def recorded_through_a_cut(t: Any, x: Any) -> Any:
    y = x * 1
    z = y.detach()
    z.add_(x * x)
    return (z * y).sum()


def steps(t: Any, x: Any) -> Any:
    w = x.clone()
    for _ in range(2):
        with t.no_grad():
            w -= 0.1 * x
    return (w * w).sum()


def gradient(t: Any, x: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    (g,) = t.autograd.grad((w * w * x).sum(), w)
    return (g * x).sum()


def recorded_gradient(t: Any, x: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    (g,) = t.autograd.grad((w * w * x).sum(), w, create_graph=True)
    return (g * x).sum()


def batch_norm(t: Any, x: Any) -> Any:
    mean, var = t.zeros(1), t.ones(1)
    y = t.nn.functional.batch_norm(x.reshape(3, 1), mean, var, training=True)
    return (y * x.reshape(3, 1)).sum() + (mean * x).sum()


def exp(t: Any) -> Any:
    class Exp(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0] * 2

    return Exp


def function(t: Any, x: Any) -> Any:
    return (exp(t).apply(x * 2) * x).sum()


def function_unrecorded(t: Any, x: Any) -> Any:
    with t.no_grad():
        y = exp(t).apply(x)
    return (y * x).sum()


def function_inside(t: Any, x: Any) -> Any:
    return t.func.grad(lambda x: (exp(t).apply(x) * x).sum())(x).sum()


def function_mapped(t: Any, x: Any) -> Any:
    return t.func.vmap(lambda r: exp(t).apply(r) * r)(x).sum()


def function_of_many(t: Any, x: Any) -> Any:
    class Many(t.autograd.Function):
        @staticmethod
        def forward(x: Any, n: int, y: Any) -> Any:
            return x * y, (x > 1).float(), x + y * n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.n, y = inputs
            ctx.save_for_backward(x, y)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            x, y = ctx.saved_tensors
            return (a * y + c) * 3, None, (a * x + ctx.n * c).sum() if ctx.needs_input_grad[2] else None

    a, b, c = Many.apply(x, 4, x[:1].sum())
    return (a * b * c).sum()


def function_that_writes(t: Any, x: Any) -> Any:
    class Triple(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.mul_(3)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 7

    y = x * 1
    Triple.apply(y[1:])
    return (y * x).sum()


def function_of_a_view(t: Any, x: Any) -> Any:
    class Turned(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return -g

    return (Turned.apply(x) * x).sum()


PROGRAMS = [
    *[detached, data, detached_in_place, copied, parameter, unrecorded, inference, view, written, steps, gradient],
    *[written_through_a_cut, read_through_a_cut, recorded_through_a_cut, recorded_gradient, batch_norm],
    *[function, function_unrecorded, function_inside, function_mapped, function_of_many, function_that_writes],
    function_of_a_view,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_pytorch(program: Any) -> None:
    pure = fgrad.torch.functionalize(lambda x: program(fgrad.torch, x))
    wanted = torch.func.grad(lambda x: program(torch, x))(torch.tensor(X)).numpy()
    for found in (fgrad.grad(pure)(X), jax.grad(pure)(X), fgrad.jit(fgrad.grad(pure))(X)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("program", [function, function_of_many, function_that_writes], ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [fgrad.grad, jax.grad])
def test_second_derivatives_go_through_backward(program: Any, grad: Any) -> None:
    pure = fgrad.torch.functionalize(lambda x: program(fgrad.torch, x))
    once = torch.func.grad(lambda x: program(torch, x))
    wanted = torch.func.grad(lambda x: once(x).sum())(torch.tensor(X)).numpy()
    np.testing.assert_allclose(grad(lambda x: grad(pure)(x).sum())(X), wanted, rtol=1e-5)


def test_a_cut_is_said_in_the_graph() -> None:
    graph = fgrad.make_graph(fgrad.torch.functionalize(lambda x: detached(fgrad.torch, x)))(X)
    assert [node.op.primitive.name for node in graph.nodes].count("stop_gradient") == 1


def test_data_that_is_assigned_keeps_the_derivative() -> None:
    def program(x: Any) -> Any:
        y = x * 5
        y.data = x * 7
        return (y * x).sum()

    np.testing.assert_allclose(fgrad.grad(fgrad.torch.functionalize(program))(X), 12 * X)


def test_outside_nothing_is_cut() -> None:
    x = fgrad.torch.tensor(X)
    with fgrad.torch.no_grad():
        assert x[1:]._storage is x._storage
    assert x.detach()._storage is x._storage


def test_constants_from_outside_stay_as_they_are() -> None:
    t = fgrad.torch
    outside = t.ones(3)

    class Chosen(t.autograd.Function):
        @staticmethod
        def forward(x: Any, c: Any) -> Any:
            return c

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, None

    class Enclosed(Chosen):
        @staticmethod
        def forward(x: Any) -> Any:
            return outside

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    def assigned(x: Any) -> Any:
        y = x * 5
        y.data = outside
        return (y * x).sum()

    np.testing.assert_allclose(fgrad.grad(t.functionalize(lambda x: Chosen.apply(x, outside).sum()))(X), [2, 2, 2])
    np.testing.assert_allclose(fgrad.grad(t.functionalize(lambda x: Enclosed.apply(x).sum()))(X), [3, 3, 3])
    np.testing.assert_allclose(fgrad.grad(t.functionalize(assigned))(X), 5 * X + 1)
    assert isinstance(outside._storage.array, np.ndarray | jax.Array)
    assert not isinstance(outside._storage.array, jax.core.Tracer)
    assert outside.tolist() == [1, 1, 1]


def test_a_constant_that_is_written_is_seen_without_its_derivative() -> None:
    def program(x: Any) -> Any:
        y = fgrad.torch.ones(3)
        z = y.detach()
        y.mul_(x)
        return (z * x).sum()

    np.testing.assert_allclose(fgrad.grad(fgrad.torch.functionalize(program))(X), X)


def test_data_is_assigned_where_the_storage_was_freed() -> None:
    x = fgrad.torch.ones(4)
    x.untyped_storage().resize_(0)
    x.data = fgrad.torch.zeros(4)
    assert x.tolist() == [0, 0, 0, 0]
