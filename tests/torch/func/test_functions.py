"""``autograd.Function`` inside the transformations, against PyTorch."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

X = np.random.RandomState(0).randn(3).astype("float32")
BATCH = np.random.RandomState(1).randn(4, 3).astype("float32")


def square(t: Any, generated: bool = False, rule: Any = None) -> Any:
    """A square whose derivatives are marked: by backward it is 3 x, by jvp 2.5 x."""

    class Square(t.autograd.Function):
        generate_vmap_rule = generated

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3 * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 2.5 * ctx.saved_tensors[0]

    if rule is not None:
        Square.vmap = staticmethod(lambda info, dims, x: rule(Square, info, dims, x))
    return Square.apply


def old(t: Any) -> Any:
    class Old(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

    return Old.apply


def marked(cls: Any, info: Any, dims: Any, x: Any) -> Any:
    return cls.apply(x) + x * 100 * info.batch_size, dims[0]


def cube(t: Any) -> Any:
    """A cube that saves a second output for its derivatives."""

    class Cube(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], output[1])
            ctx.save_for_forward(inputs[0], output[1])

        @staticmethod
        def backward(ctx: Any, grad: Any, other: Any) -> Any:
            x, slope = ctx.saved_tensors
            return grad * slope + 6 * other * x

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            x, slope = ctx.saved_tensors
            return tangent * slope, 6 * tangent * x

    return lambda x: Cube.apply(x)[0]


def row(t: Any) -> Any:
    """A row of a matrix, which is a view; of the row's number it is given no tangent."""

    class Row(t.autograd.Function):
        @staticmethod
        def forward(x: Any, at: Any) -> Any:
            return x[at.item()]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.shape, ctx.at = inputs[0].shape, inputs[1]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            found = grad.new_zeros(ctx.shape)
            found[ctx.at.item()] = grad
            return found, None

        @staticmethod
        def jvp(ctx: Any, tangent: Any, none: Any) -> Any:
            assert none is None
            return Row.apply(tangent, ctx.at)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, at: Any) -> Any:
            return Row.apply(x.movedim(in_dims[0], 1), at), 0

    return lambda x: Row.apply(x, t.tensor(1)) ** 2


def arguments_of_rule(t: Any, x: Any, before: Any = lambda a: a) -> Any:
    """What a rule for ``vmap`` is given: an argument of ``vmap`` with its axis where it is mapped."""
    given = []

    def rule(cls: Any, info: Any, in_dims: Any, a: Any) -> Any:
        given.append((in_dims, a.shape, a.is_leaf))
        return a * 2, in_dims[0]

    return t.func.vmap(lambda a: square(t, False, rule)(before(a)), in_dims=1)(x), given


@pytest.mark.parametrize(
    "run",
    [
        lambda t, x: arguments_of_rule(t, x),
        lambda t, x: arguments_of_rule(t, x.clone(), lambda a: a.mul_(3)),
        lambda t, x: arguments_of_rule(t, x.requires_grad_()),
        lambda t, x: t.func.jacfwd(t.func.jacrev(cube(t)))(x[0]),
        lambda t, x: t.func.jacrev(t.func.jacfwd(cube(t)))(x[0]),
        lambda t, x: t.func.jvp(t.func.grad(lambda a: cube(t)(a).sum()), (x,), (x,)),
        lambda t, x: t.func.jvp(row(t), (x,), (x,)),
        lambda t, x: t.func.jacfwd(row(t))(x),
        lambda t, x: t.func.hessian(lambda a: row(t)(a).sum())(x),
        lambda t, x: t.func.grad(lambda a: square(t)(a).sum())(x),
        lambda t, x: t.func.jvp(square(t), (x,), (x,)),
        lambda t, x: t.func.vmap(square(t, True))(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda a: square(t, True)(a).sum()))(x),
        lambda t, x: t.func.jacfwd(square(t, True))(x),
        lambda t, x: t.func.jacrev(square(t, True))(x),
        lambda t, x: t.func.vmap(square(t, False, marked))(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda a: square(t, False, marked)(a).sum()))(x),
        lambda t, x: t.func.grad(lambda a: t.func.vmap(square(t, False, marked))(a).sum())(x),
        lambda t, x: t.func.vmap(square(t))(x),
        lambda t, x: t.func.vmap(square(t, True, marked))(x),
        lambda t, x: t.func.vmap(old(t))(x),
        lambda t, x: t.func.grad(lambda a: old(t)(a).sum())(x),
        lambda t, x: t.func.vmap(square(t, False, lambda cls, info, dims, x: 3))(x),
        lambda t, x: t.func.vmap(square(t, False, lambda cls, info, dims, x: (x,)))(x),
        lambda t, x: t.func.vmap(square(t, False, lambda cls, info, dims, x: (x, (0, 0))))(x),
    ],
)
def test_functions(run: Any) -> None:
    agree(Case("", run, (BATCH,)), torch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_second_forward_derivative_of_a_function_is_the_mathematical_one():
    def second(t: Any) -> float:
        function = square(t)
        x, one = t.tensor(3.0), t.tensor(1.0)
        return t.func.jvp(lambda x: t.func.jvp(function, (x,), (one,))[1], (x,), (one,))[1].item()

    assert (second(ours), second(torch)) == (2.5, 0.0)


def exponential_in_place(t: Any) -> Any:
    """An exponential that is written to its operand, by its rule on batches too."""

    class Exponential(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp_()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_dirty(inputs[0])
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent.mul_(ctx.saved_tensors[0])

        @staticmethod
        def vmap(info: Any, dims: Any, x: Any) -> Any:
            Exponential.apply(x)
            return x, dims[0]

    return Exponential.apply


def written_argument(t: Any, x: Any, dim: int) -> Any:
    leaf = x.requires_grad_()
    batch = leaf * 1
    out = t.func.vmap(exponential_in_place(t), dim, dim)(batch)
    name = batch.grad_fn.name()
    out.sin().sum().backward()
    return out, out is batch, batch._version, name, leaf.grad


@pytest.mark.parametrize(
    "run",
    [
        lambda t, x: written_argument(t, x, 0),
        lambda t, x: written_argument(t, x, 1),
        lambda t, x: t.func.vmap(lambda x: exponential_in_place(t)(x * 1))(x),
        lambda t, x: t.func.vmap(t.func.vmap(lambda x: exponential_in_place(t)(x * 1), 0, 0), 1)(x),
        lambda t, x: t.func.vmap(lambda x: (exponential_in_place(t)(x[:1]), x * 2)[1])(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda x: exponential_in_place(t)(x * 1).sin().sum()))(x),
        lambda t, x: t.func.grad(lambda x: t.func.vmap(exponential_in_place(t))(x * 1).sin().sum())(x),
        lambda t, x: t.func.jvp(t.func.vmap(lambda x: exponential_in_place(t)(x * 1)), (x,), (x,)),
        lambda t, x: t.func.hessian(lambda x: t.func.vmap(exponential_in_place(t))(x * 1).sin().sum())(x),
    ],
)
def test_a_rule_on_batches_that_writes(run: Any) -> None:
    agree(Case("", run, (BATCH,)), torch)


def product(t: Any) -> Any:
    """A product whose backward calls it again and writes to a new tensor; its rule for ``vmap`` is generated."""

    class Product(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            written = grad.new_zeros(y.shape)
            written[..., :2] = grad[..., :2]
            return Product.apply(grad, y), x * written

    return Product.apply


def mapped_product(t: Any, dims: Any) -> Any:
    """The sum of the squares of a mapped product, which is called with its mapped arguments first."""
    return lambda x, y: t.func.vmap(product(t), dims)(*((x, y) if dims[0] == 0 else (y, x))).square().sum()


def gradients(t: Any, function: Any, x: Any, y: Any) -> Any:
    x, y = x.requires_grad_(), y.requires_grad_()
    first = t.autograd.grad(function(x, y), (x, y), create_graph=True)
    return first, t.autograd.grad(sum(g.sin().sum() for g in first), (x, y))


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)], ids=str)
@pytest.mark.parametrize(
    "run",
    [
        lambda t, function, x, y: gradients(t, function, x, y),
        lambda t, function, x, y: t.func.grad(function, (0, 1))(x, y),
        lambda t, function, x, y: t.func.jacrev(t.func.jacrev(function, (0, 1)), (0, 1))(x, y),
        lambda t, function, x, y: t.func.vmap(lambda k: t.func.grad(function, (0, 1))(x * k, y))(x[:2, 0]),
    ],
)
def test_a_backward_runs_where_its_forward_was_mapped(run: Any, dims: Any) -> None:
    agree(
        Case("", lambda t, x, y: run(t, mapped_product(t, dims), x, y), (BATCH, BATCH if dims == (0, 0) else X)), torch
    )
