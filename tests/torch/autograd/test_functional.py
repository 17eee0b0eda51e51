"""``torch.autograd.functional`` against PyTorch, with every combination of ``create_graph`` and ``strict``."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

RNG = np.random.RandomState(0)
X, Y = RNG.randn(3).astype("float32"), RNG.randn(3).astype("float32")
M = RNG.randn(2, 3).astype("float32")


def two(a: Any, b: Any) -> Any:
    return a * b, a.sin().sum()


def cubed(a: Any) -> Any:
    return (a**3).sum()


def linear(a: Any) -> Any:
    return (a * 2).sum()


def mixed(a: Any, b: Any) -> Any:
    return (a * b * b).sum()


def custom(t: Any) -> Any:
    """A sine as a custom function with no word about transformations."""

    class Sine(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            ctx.save_for_forward(a)
            return a.sin()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            # a second function, called where the gradients are a batch
            return grad * Sine.apply(ctx.saved_tensors[0] + 1.5)

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * ctx.saved_tensors[0].cos()

    return Sine.apply


def of(t: Any) -> Any:
    return t.autograd.functional


PRODUCTS = {
    "vjp": lambda t, k, a, b: of(t).vjp(two, (a, b.requires_grad_()), (t.ones(3), t.ones(())), **k),
    "vjp of a number": lambda t, k, a, b: of(t).vjp(cubed, a.requires_grad_(), **k),
    "vjp independent": lambda t, k, a, b: of(t).vjp(lambda a: t.ones(()), a.requires_grad_(), **k),
    "vjp linear": lambda t, k, a, b: of(t).vjp(linear, a.requires_grad_(), **k),
    "vjp without v": lambda t, k, a, b: of(t).vjp(lambda a: a, a, **k),
    "jvp": lambda t, k, a, b: of(t).jvp(two, (a, b.requires_grad_()), (t.ones(3), t.ones(3)), **k),
    "jvp linear": lambda t, k, a, b: of(t).jvp(linear, a.requires_grad_(), t.ones(3), **k),
    "jvp independent": lambda t, k, a, b: of(t).jvp(lambda a: t.ones(()), a.requires_grad_(), t.ones(3), **k),
    "jvp without v": lambda t, k, a, b: of(t).jvp(cubed, a, **k),
    "jvp v too long": lambda t, k, a, b: of(t).jvp(cubed, a, (t.ones(3), t.ones(3)), **k),
    "jvp v tuple too long": lambda t, k, a, b: of(t).jvp(cubed, (a,), (t.ones(3), t.ones(3)), **k),
    "jvp v too short": lambda t, k, a, b: of(t).jvp(cubed, (a,), t.ones(2), **k),
    "jvp of numbers": lambda t, k, a, b: of(t).jvp(cubed, (a, 3), t.ones(2), **k),
    "jvp of a number": lambda t, k, a, b: of(t).jvp(cubed, 3, t.ones(2), **k),
    "jvp to a number": lambda t, k, a, b: of(t).jvp(lambda a: 3, a, t.ones(3), **k),
    "vhp": lambda t, k, a, b: of(t).vhp(mixed, (a, b.requires_grad_()), (t.ones(3), t.ones(3)), **k),
    "hvp": lambda t, k, a, b: of(t).hvp(mixed, (a, b.requires_grad_()), (t.ones(3), t.ones(3)), **k),
    "vhp without v": lambda t, k, a, b: of(t).vhp(mixed, (a, b), **k),
}
for _name in ("hessian", "vhp", "hvp"):
    for _what, _f in {
        "cubed": lambda t: cubed,
        "linear": lambda t: linear,
        "independent": lambda t: lambda a: t.ones(()),
        "of no number": lambda t: lambda a: a,
        "of a tuple": lambda t: lambda a: (a.sum(),),
    }.items():
        PRODUCTS[f"{_name} {_what}"] = lambda t, k, a, b, name=_name, f=_f: getattr(of(t), name)(
            f(t), a.requires_grad_(), *([t.ones(3)] if name != "hessian" else []), **k
        )
JACOBIANS = {
    "jacobian": lambda t, k, a, b: of(t).jacobian(two, (a, b.requires_grad_()), **k),
    "jacobian linear": lambda t, k, a, b: of(t).jacobian(linear, a.requires_grad_(), **k),
    "jacobian unused": lambda t, k, a, b: of(t).jacobian(lambda a, b: a * 2, (a, b), **k),
    "jacobian vectorized": lambda t, k, a, b: of(t).jacobian(two, (a, b.requires_grad_()), vectorize=True, **k),
    "jacobian forward": lambda t, k, a, b: of(t).jacobian(two, (a, b), vectorize=True, strategy="forward-mode", **k),
    "jacobian forward one by one": lambda t, k, a, b: of(t).jacobian(two, (a, b), strategy="forward-mode", **k),
    "jacobian forward list": lambda t, k, a, b: of(t).jacobian(
        lambda a: [a], a, vectorize=True, strategy="forward-mode", **k
    ),
    "jacobian vectorized custom": lambda t, k, a, b: of(t).jacobian(custom(t), a, vectorize=True, **k),
    "jacobian forward custom": lambda t, k, a, b: of(t).jacobian(
        custom(t), a, vectorize=True, strategy="forward-mode", **k
    ),
    "hessian forward custom": lambda t, k, a, b: of(t).hessian(
        lambda a: custom(t)(a).sum(), a, vectorize=True, outer_jacobian_strategy="forward-mode", **k
    ),
    "jacobian strategy": lambda t, k, a, b: of(t).jacobian(cubed, a, strategy="q", **k),
    "hessian of two": lambda t, k, a, b: of(t).hessian(mixed, (a, b), **k),
    "hessian vectorized": lambda t, k, a, b: of(t).hessian(mixed, (a, b), vectorize=True, **k),
    "hessian forward": lambda t, k, a, b: of(t).hessian(
        mixed, (a, b), vectorize=True, outer_jacobian_strategy="forward-mode", **k
    ),
    "hessian strategy": lambda t, k, a, b: of(t).hessian(cubed, a, outer_jacobian_strategy="w", **k),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", [*PRODUCTS, *JACOBIANS])
def test_functional(name: str, create_graph: bool, strict: bool) -> None:
    options = {"create_graph": create_graph, "strict": strict}
    function = {**PRODUCTS, **JACOBIANS}[name]
    agree(Case(name, lambda t, a, b: function(t, options, a, b), (X, Y)), torch)


def test_in_no_grad() -> None:
    def run(t: Any, a: Any) -> Any:
        with t.no_grad():
            return of(t).jacobian(cubed, a), of(t).vjp(cubed, a, create_graph=True), of(t).hessian(cubed, a)

    agree(Case("", run, (X,)), torch)


def test_matrix() -> None:
    agree(Case("", lambda t, a: of(t).jacobian(lambda a: a.exp().sum(1), a), (M,)), torch)


def test_names_that_libraries_import():
    functional = ft.autograd.functional
    theirs = torch.autograd.functional
    for is_outer in (True, False):
        for inner in (True, False):
            value = ((1,), (2,)) if is_outer else ((1,),)
            to_unpack = is_outer, inner
            assert functional._tuple_postprocess(value, to_unpack) == theirs._tuple_postprocess(value, to_unpack)
        assert functional._tuple_postprocess((1,), is_outer) == theirs._tuple_postprocess((1,), is_outer)
    first, second = functional._construct_standard_basis_for((ft.ones(1), ft.ones(2)), (1, 2))
    assert first.tolist() == [[1.0], [0.0], [0.0]] and second.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    x = ft.ones(2, requires_grad=True)
    assert functional._as_tuple(x) == (False, (x,))
    assert not functional._grad_postprocess((x * 2,), create_graph=False)[0].requires_grad


def test_leaves_are_made_inside_of_a_batched_backward() -> None:
    """As an implicit layer does, which differentiates its equation there."""

    def run(t: Any, a: Any) -> Any:
        class Cube(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any) -> Any:
                ctx.save_for_backward(a)
                return a**3

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                with t.enable_grad():
                    z = ctx.saved_tensors[0].detach().requires_grad_()
                    y = z**3
                    y.retain_grad()
                    return t.autograd.grad(y, z, grad)

        jacobian = of(t).jacobian(Cube.apply, a, vectorize=True)
        return jacobian, t.autograd.grad(Cube.apply(a.requires_grad_()), a, t.eye(3), is_grads_batched=True)

    agree(Case("", run, (X,)), torch)
