"""``torch.func`` against PyTorch, alone, nested in itself, and inside the tape."""

import contextlib
import io
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

RNG = np.random.RandomState(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.randn(*shape).astype("float32")


X, Y, M, BATCH = drawn(3), drawn(3), drawn(2, 3), drawn(4, 3)
ONE = np.array(1.5, "float32")
STEPS = np.arange(6, dtype="float32").reshape(2, 3)


def push(t: Any, f: Any, x: Any) -> Any:
    return t.func.jvp(f, (x,), (t.ones_like(x),))


def pull(t: Any, f: Any, x: Any, *cotangents: Any) -> Any:
    output, function, *_ = t.func.vjp(f, x)
    return output, function(*(cotangents or (t.ones_like(output),)))


def no_grad_outside(t: Any, x: Any) -> Any:
    with t.no_grad():
        return t.func.grad(lambda x: (x * x).sum())(x.requires_grad_())


def no_grad_inside(t: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        with t.no_grad():
            g = t.func.grad(lambda x: (x**3).sum())(x)
        return (g * x).sum()

    return t.func.grad(f)(x)


def in_inference_mode(function: Any) -> Any:
    """A function in inference mode, with a tensor from outside of the mode and with one from inside."""

    def run(t: Any, x: Any) -> Any:
        with t.inference_mode():
            return function(t, x), function(t, x.clone())

    return run


def inference_inside(t: Any, x: Any) -> Any:
    def f(a: Any) -> Any:
        with t.inference_mode():
            return a * a

    return push(t, f, x), t.func.jacfwd(f)(x)


def no_grad_around_vjp(t: Any, x: Any) -> Any:
    x.requires_grad_()
    with t.no_grad():
        output, pull_back = t.func.vjp(lambda x: x**2, x)
    (found,) = pull_back(t.ones(()))
    return output, found, t.autograd.grad(found, x)


def forward_grad_off(t: Any, x: Any) -> Any:
    with t.autograd.forward_ad._set_fwd_grad_enabled(False):
        return push(t, t.sin, x)


def written(y: Any, x: Any) -> Any:
    y[1:].mul_(x[0])
    return y


PURE = [
    Case("vmap", lambda t, x: t.func.vmap(t.sin)(x), (X,)),
    Case("vmap sum", lambda t, x: t.func.vmap(lambda a: (a * a).sum())(x), (BATCH,)),
    Case("vmap shared", lambda t, x, y: t.func.vmap(lambda a, b: a * b, in_dims=(0, None))(x, y), (BATCH, Y)),
    Case("vmap axes", lambda t, x: t.func.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x), (BATCH,)),
    Case("vmap negative axis", lambda t, x: t.func.vmap(lambda a: a * 2, in_dims=-1)(x), (BATCH,)),
    Case("vmap trees", lambda t, x: t.func.vmap(lambda d: {"z": d["a"][0], "b": [d["a"][1]]})({"a": (x, x * 2)}), (X,)),
    Case("vmap named result", lambda t, x: t.func.vmap(lambda a: t.max(a, 0))(x).indices, (BATCH,)),
    Case("vmap other dict", lambda t, x: t.func.vmap(lambda a: OrderedDict(z=a), out_dims={"z": 1})(x), (BATCH,)),
    Case("vmap no batch", lambda t, x: t.func.vmap(lambda a: t.ones(2))(x), (X,)),
    Case("vmap out None", lambda t, x: t.func.vmap(lambda a: (a, t.ones(2)), out_dims=(0, None))(x), (X,)),
    Case(
        "vmap vmap",
        lambda t, x, y: t.func.vmap(t.func.vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x, y),
        (X, Y),
    ),
    Case("vmap chunks", lambda t, x: t.func.vmap(lambda a: (a, a.sum()), chunk_size=3, out_dims=(1, 0))(x), (BATCH,)),
    Case("vmap views", lambda t, x: t.func.vmap(lambda a: a[1:] * a[0] + a.view(3, 1)[2])(x), (BATCH,)),
    Case("vmap in place", lambda t, x: t.func.vmap(lambda a: a.clone().mul_(2).add_(a))(x), (BATCH,)),
    Case("vmap writes input", lambda t, x: (t.func.vmap(lambda a: a.add_(1))(x), x), (BATCH,)),
    Case("vmap writes column", lambda t, x: (t.func.vmap(lambda a: a.add_(1), in_dims=1)(x), x), (BATCH,)),
    Case("grad", lambda t, x: t.func.grad(lambda a: a.sin().sum())(x), (X,)),
    Case("jvp writes input", lambda t, x: (push(t, lambda a: a.detach().add_(1) * a.mul_(2), x), x), (X,)),
    Case(
        "grad writes its own",
        lambda t, x: t.func.grad(lambda a: (t.zeros(3).add_(a) * a.detach().exp_()).sum())(x),
        (X,),
    ),
    Case("grad out=", lambda t, x: (t.func.grad(lambda a: (t.add(t.ones(3), 1, out=x) * a).sum())(x + 1), x), (X,)),
    Case("grad no dependence", lambda t, x: t.func.grad(lambda a: t.ones(()))(x), (X,)),
    Case("grad grad", lambda t, x: t.func.grad(lambda a: t.func.grad(lambda a: (a**3).sum())(a).sum())(x), (X,)),
    Case("grad trees", lambda t, x: t.func.grad(lambda d: d["b"].sum() * d["a"].sum())({"b": x, "a": x}), (X,)),
    Case("grad argnums", lambda t, x, y: t.func.grad(lambda a, b: (a * b).sum(), argnums=(1, 0))(x, y), (X, Y)),
    Case("grad aux", lambda t, x: t.func.grad(lambda a: (a.sum(), {"q": a * 2}), has_aux=True)(x), (X,)),
    Case("grad_and_value", lambda t, x: t.func.grad_and_value(lambda a: (a**2).sum())(x), (X,)),
    Case("grad in place", lambda t, x: t.func.grad(lambda a: written(a.clone(), a).sum())(x), (X,)),
    *[
        Case(f"{name} in inference mode", in_inference_mode(function), (X,))
        for name, function in {
            "grad": lambda t, x: t.func.grad(lambda a: (a**3).sum())(x),
            "grad's mode": lambda t, x: t.func.grad(lambda a: (a**3).sum())(x).is_inference(),
            "grad of captured": lambda t, x: t.func.grad(lambda a: (a**3 * x).sum())(x),
            "vjp": lambda t, x: pull(t, lambda a: a**3, x)[1][0],
            "jvp of views": lambda t, x: push(t, lambda a: (a * 2)[:1] * a, x)[1],
            "hessian": lambda t, x: t.func.hessian(lambda a: (a**3).sum())(x),
            "vmap grad": lambda t, x: t.func.vmap(t.func.grad(lambda a: a**3))(x),
        }.items()
    ],
    Case("vjp, no_grad around it", no_grad_around_vjp, (ONE,)),
    Case("jvp, forward mode off outside", forward_grad_off, (X,)),
    Case("grad no_grad outside", no_grad_outside, (X,)),
    Case("grad no_grad inside", no_grad_inside, (X,)),
    Case("jvp, inference mode inside", inference_inside, (X,)),
    Case("vmap grad", lambda t, x: t.func.vmap(t.func.grad(lambda a: a.sin().sum()))(x), (BATCH,)),
    Case("vmap grad grad", lambda t, x: t.func.vmap(t.func.grad(t.func.grad(t.sin)))(x), (X,)),
    Case("grad vmap", lambda t, x: t.func.grad(lambda a: t.func.vmap(t.sin)(a).sum())(x), (X,)),
    Case(
        "vmap grad of captured",
        lambda t, x, y: t.func.vmap(lambda a: t.func.grad(lambda w: (w * a).sin().sum())(y))(x),
        (BATCH, Y),
    ),
    Case("vjp", lambda t, x: pull(t, t.sin, x), (X,)),
    Case("vjp of two", lambda t, x: pull(t, lambda a: (a * 2, a.sum()), x, (x, x.sum())), (X,)),
    Case("vmap of vjp", lambda t, x: t.func.vmap(t.func.vjp(t.sin, x)[1])(t.eye(3)), (X,)),
    Case("jvp", lambda t, x: push(t, t.sin, x), (X,)),
    Case("jvp in place", lambda t, x: push(t, lambda a: written(a.clone(), a), x), (X,)),
    Case("jvp jvp in place", lambda t, x: push(t, lambda a: push(t, lambda b: written(b.clone(), b), a)[1], x), (X,)),
    Case("jvp detach_", lambda t, x: push(t, lambda a: (a * 2).detach_() * a, x), (X,)),
    Case("jvp jvp", lambda t, x: push(t, lambda a: push(t, lambda b: b**3 * a, a)[1], x), (ONE,)),
    Case("jvp grad", lambda t, x: push(t, t.func.grad(lambda a: (a**3).sum()), x), (X,)),
    Case("grad jvp", lambda t, x: t.func.grad(lambda a: push(t, lambda b: b**3, a)[1].sum())(x), (X,)),
    Case("vmap jvp", lambda t, x: t.func.vmap(lambda a: push(t, lambda b: b**3, a))(x), (BATCH,)),
    Case("jvp vmap", lambda t, x: push(t, t.func.vmap(lambda a: a**3), x), (BATCH,)),
    Case("jvp vmap of captured", lambda t, x, y: push(t, lambda w: t.func.vmap(lambda a: a * w)(x), y), (BATCH, Y)),
    Case("jvp of slices", lambda t, x: push(t, lambda a: a[1:] * a[0].sum(), x[:, ::2]), (BATCH,)),
    Case("jvp of a transpose", lambda t, x: push(t, lambda a: a[1:] * a[0].sum(), x.t()), (BATCH,)),
    Case("jvp independent", lambda t, x: push(t, lambda a: t.ones(2), x), (X,)),
    Case("linearize", lambda t, x: (t.func.linearize(t.sin, x)[0], t.func.linearize(t.sin, x)[1](x)), (X,)),
    Case("jacrev", lambda t, x: t.func.jacrev(lambda a: (a.sin(), a.sum()))(x), (X,)),
    Case("jacrev of a number", lambda t, x: t.func.jacrev(t.sin)(x), (ONE,)),
    Case("jacfwd of a number", lambda t, x: t.func.jacfwd(t.sin)(x), (ONE,)),
    *[
        Case(f"jacrev chunk {n}", lambda t, x, n=n: t.func.jacrev(lambda a: (a.sin(), a.sum()), chunk_size=n)(x), (X,))
        for n in (1, 2, 10)
    ],
    Case("jacrev argnums", lambda t, x, y: t.func.jacrev(lambda a, b: {"z": a * b}, argnums=(0, 1))(x, y), (X, Y)),
    Case("jacrev aux", lambda t, x: t.func.jacrev(lambda a: (a.sin(), a), has_aux=True)(x), (X,)),
    Case("jacfwd", lambda t, x: t.func.jacfwd(lambda a: a.sin() * a.sum())(x), (M,)),
    Case("jacfwd argnums", lambda t, x, y: t.func.jacfwd(lambda a, b: {"z": a * b}, argnums=(0, 1))(x, y), (X, Y)),
    Case("jacfwd aux", lambda t, x: t.func.jacfwd(lambda a: (a.sin(), a), has_aux=True)(x), (X,)),
    Case("hessian", lambda t, x: t.func.hessian(lambda a: (a @ a.t()).sin().sum())(x), (M,)),
    Case("vmap hessian", lambda t, x: t.func.vmap(t.func.hessian(lambda a: a.sin().prod()))(x), (BATCH,)),
    *[
        Case(
            f"{outer} {inner}",
            lambda t, x, outer=outer, inner=inner: getattr(t.func, outer)(
                getattr(t.func, inner)(lambda a: (a.sin() * a.sum()).sum())
            )(x),
            (X,),
        )
        for outer in ("jacrev", "jacfwd")
        for inner in ("jacrev", "jacfwd")
    ],
    Case("jacrev vmap", lambda t, x: t.func.jacrev(t.func.vmap(lambda a: (a * a).sum()))(x), (BATCH,)),
    Case("jacfwd vmap", lambda t, x: t.func.jacfwd(t.func.vmap(lambda a: (a * a).sum()))(x), (BATCH,)),
    Case("third derivative", lambda t, x: t.func.jacfwd(t.func.hessian(lambda a: (a**3).prod()))(x), (X,)),
    Case(
        "vmap hessian vmap",
        lambda t, x: t.func.vmap(t.func.hessian(lambda a: t.func.vmap(t.sin)(a).prod()))(x),
        (BATCH,),
    ),
]

CONFUSION = [
    Case("grad", lambda t, x: t.func.grad(lambda x: x * t.func.grad(lambda y: x + y)(x))(x), (ONE,)),
    Case("grad of captured", lambda t, x: t.func.grad(lambda a: t.func.grad(lambda y: a * y)(a))(x), (ONE,)),
    Case("jvp", lambda t, x: push(t, lambda a: a * push(t, lambda y: a + y, a)[1], x), (ONE,)),
    Case("jvp in grad", lambda t, x: t.func.grad(lambda a: a * push(t, lambda y: a + y, a)[1])(x), (ONE,)),
    Case("grad in jvp", lambda t, x: push(t, lambda a: a * t.func.grad(lambda y: a + y)(a), x), (ONE,)),
]


def taped(function: Any) -> Any:
    """The gradients of two tensors of the square of what a function makes of them."""

    def run(t: Any, x: Any, w: Any) -> Any:
        x.requires_grad_()
        w.requires_grad_()
        found = function(t, x, w)
        found.pow(2).sum().backward()
        return found.requires_grad, x.grad, w.grad

    return run


def second(t: Any, x: Any, w: Any) -> Any:
    found = t.func.vmap(lambda a: t.func.vmap(lambda b: (a * w).sum() * b)(a))(x)
    return t.autograd.grad(found.sin().sum(), w, create_graph=True)[0] + x.sum()


def vmap_writing(t: Any, x: Any, w: Any) -> Any:
    captured = w * 1
    found = t.func.vmap(lambda a: (captured.view(-1)[1:].mul_(2), a * captured)[1])(x)
    return found.sum(0) * captured


TAPED = [
    Case("vmap", taped(lambda t, x, w: t.func.vmap(lambda a: (a * w).sin().sum() * w[0])(x)), (BATCH, Y)),
    Case("vmap vmap, twice", taped(second), (BATCH, Y)),
    Case("grad", taped(lambda t, x, w: t.func.grad(lambda a: (a.sin() * w * w).sum())(x)), (BATCH, Y)),
    Case("vmap grad", taped(lambda t, x, w: t.func.vmap(t.func.grad(lambda a: (a * w).sin().sum()))(x)), (BATCH, Y)),
    Case("jvp", taped(lambda t, x, w: push(t, lambda a: (a * w).sin(), x)[1]), (BATCH, Y)),
    Case("vjp", taped(lambda t, x, w: pull(t, lambda a: (a * w).sin(), x)[1][0]), (BATCH, Y)),
    Case("jacrev", taped(lambda t, x, w: t.func.jacrev(lambda a: (a * w).sin().sum(0))(x)), (BATCH, Y)),
    Case("jacfwd", taped(lambda t, x, w: t.func.jacfwd(lambda a: (a * w).sin().sum(0))(x)), (BATCH, Y)),
    Case(
        "vmap hessian",
        taped(lambda t, x, w: t.func.vmap(t.func.hessian(lambda a: (a * w).sin().prod()))(x)),
        (BATCH, Y),
    ),
    Case("vmap of captured", taped(lambda t, x, w: t.func.vmap(lambda a: t.func.vmap(lambda b: w)(a))(x)), (BATCH, Y)),
    Case(
        "vmap of a view of captured", taped(lambda t, x, w: t.func.vmap(lambda a: a * w.view(-1)[1:2])(x)), (BATCH, Y)
    ),
    Case("vmap writes captured", taped(vmap_writing), (BATCH, Y)),
    Case("vmap writes unrecorded", lambda t, x: vmap_writing_unrecorded(t, x.requires_grad_()), (BATCH,)),
    Case("a parameter made inside", lambda t, x: t.func.grad(lambda a: (parameter(t) * a**2).sum())(x), (X,)),
    Case("vmap of a parameter made inside", lambda t, x: t.vmap(lambda a: parameter(t) * a)(x), (BATCH,)),
    Case("requires_grad_(False)", lambda t, x: t.func.grad(lambda a: a.requires_grad_(False).sum())(x), (X,)),
    Case(
        "vmap of autograd.grad",
        lambda t, x: (lambda y: t.func.vmap(lambda v: t.autograd.grad(y, x, v, retain_graph=True)[0])(t.eye(3)))(
            (x.requires_grad_() * x).sin()
        ),
        (X,),
    ),
    Case(
        "is_grads_batched",
        lambda t, x: t.autograd.grad((x.requires_grad_() * x).sin(), x, t.eye(3), is_grads_batched=True),
        (X,),
    ),
]


def vmap_writing_unrecorded(t: Any, x: Any) -> Any:
    def write(a: Any) -> Any:
        with t.no_grad():
            a.atan_()
        a.detach().sin_()
        return a**2

    out = t.vmap(write)(x)
    return out, x, x._version, t.autograd.grad(out.sum(), x)


def parameter(t: Any) -> Any:
    return t.nn.Parameter(t.full((3,), 2.0))


def with_hooks(t: Any, function: Any) -> Any:
    with t.autograd.graph.save_on_cpu():
        return function()


#: how a function writes to what it captures
WRITES = {
    "number": lambda t, x, y: y.add_(1),
    "tensor": lambda t, x, y: y.pow_(x),
    "power": lambda t, x, y: y.pow_(2),
    "view": lambda t, x, y: y[1:].fill_(2.0),
    "item": lambda t, x, y: y.__setitem__(0, x[0]),
    "detached": lambda t, x, y: y.detach().relu_(),
    "data": lambda t, x, y: y.data.zero_(),
    "random": lambda t, x, y: y.normal_(),
    "shape": lambda t, x, y: y.unsqueeze_(0),
    "squeeze": lambda t, x, y: y.squeeze_(),
    "size": lambda t, x, y: y.resize_(1),
    "detach": lambda t, x, y: y.detach_(),
}
TRANSFORMS = {
    "grad": lambda t, f, x: t.func.grad(lambda a: f(a).sum())(x),
    "vjp": lambda t, f, x: t.func.vjp(f, x),
    "jvp": lambda t, f, x: t.func.jvp(f, (x,), (x,)),
    "jacrev": lambda t, f, x: t.func.jacrev(f)(x),
    "grad vmap": lambda t, f, x: t.func.grad(lambda a: t.func.vmap(lambda b: f(x))(a).sum())(x),
    "vmap grad": lambda t, f, x: t.func.vmap(t.func.grad(lambda a: f(a).sum()))(x[None]),
}


def writing(transform: str, write: str, t: Any, x: Any, y: Any) -> Any:
    return TRANSFORMS[transform](t, lambda a: (WRITES[write](t, a, y), a * 2)[1], x)


ERRORS = {
    **{
        f"{transform} writes {write}": lambda t, x, transform=transform, write=write: writing(
            transform, write, t, x, x.clone()
        )
        for transform, write in [*(("grad", each) for each in WRITES), *((each, "number") for each in TRANSFORMS)]
    },
    "inner grad writes outer": lambda t, x: t.func.grad(lambda a: writing("grad", "number", t, x, a * 1).sum())(x),
    "grad updates statistics": lambda t, x: (lambda norm: t.func.grad(lambda a: norm(a).sum())(x.expand(2, 3)))(
        t.nn.BatchNorm1d(3)
    ),
    "no number": lambda t, x: t.func.grad(lambda a: a * 2)(x),
    "no tensor": lambda t, x: t.func.grad(lambda a: 2.0)(x),
    "no tensor given": lambda t, x: t.func.grad(lambda a: a.sum())(2.0),
    "complex output": lambda t, x: t.func.grad(lambda a: a.sum().cfloat())(x),
    "integer input": lambda t, x: t.func.grad(lambda a: a.sum())(x.long()),
    "argnum too great": lambda t, x: t.func.grad(lambda a: a.sum(), argnums=1)(x),
    "no argnums": lambda t, x: t.func.grad(lambda a: a.sum(), argnums=())(x),
    "argnums twice": lambda t, x: t.func.grad(lambda a: a.sum(), argnums=(0, 0))(x),
    "argnums text": lambda t, x: t.func.grad(lambda a: a.sum(), argnums="a")(x),
    "no aux": lambda t, x: t.func.grad(lambda a: a.sum(), has_aux=True)(x),
    "write to a leaf": lambda t, x: t.func.grad(lambda a: a.sin_().sum())(x),
    "requires_grad_": lambda t, x: t.func.vmap(lambda a: a.requires_grad_())(x),
    "backward": lambda t, x: t.func.grad(lambda a: (a.sum().backward(), a.sum())[1])(x),
    "item": lambda t, x: t.func.vmap(lambda a: a.item())(x),
    "branch": lambda t, x: t.func.vmap(lambda a: a if a > 0 else -a)(x),
    "vmap number": lambda t, x: t.func.vmap(lambda a: 3)(x),
    "vmap None": lambda t, x: t.func.vmap(lambda a: None)(x),
    "in_dims structure": lambda t, x: t.func.vmap(lambda a: a, in_dims=(0, 0))(x),
    "in_dims too great": lambda t, x: t.func.vmap(lambda a: a, in_dims=3)(x),
    "in_dims text": lambda t, x: t.func.vmap(lambda a: a, in_dims="a")(x),
    "in_dims float": lambda t, x: t.func.vmap(lambda a: a, in_dims=(0.5,))(x),
    "in_dims None": lambda t, x: t.func.vmap(lambda a: a, in_dims=None)(x),
    "nothing mapped": lambda t, x: t.func.vmap(lambda a: a, in_dims=(None,))(x),
    "no arguments": lambda t, x: t.func.vmap(lambda a: a)(),
    "mapped number": lambda t, x: t.func.vmap(lambda a: a)(3),
    "other sizes": lambda t, x: t.func.vmap(lambda a, b: a)(x, x[:2]),
    "out_dims text": lambda t, x: t.func.vmap(lambda a: a, out_dims="a")(x),
    "out_dims too great": lambda t, x: t.func.vmap(lambda a: a, out_dims=1)(x),
    "out_dims structure": lambda t, x: t.func.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x),
    "out_dims None": lambda t, x: t.func.vmap(lambda a: a, out_dims=None)(x),
    "randomness": lambda t, x: t.func.vmap(lambda a: a, randomness="q")(x),
    "random": lambda t, x: t.func.vmap(lambda a: t.rand(3))(x),
    "chunk_size": lambda t, x: t.func.vmap(lambda a: a, chunk_size=0)(x),
    "jacrev chunk_size": lambda t, x: t.func.jacrev(lambda a: a, chunk_size=0),
    "vjp number": lambda t, x: t.func.vjp(lambda a: 3, x),
    "vjp integer": lambda t, x: t.func.vjp(lambda a: a.long(), x),
    "vjp None": lambda t, x: t.func.vjp(lambda a: a, x)[1](None),
    "vjp number given": lambda t, x: t.func.vjp(lambda a: a, x)[1](1.0),
    "grad aux number": lambda t, x: t.func.grad(lambda a: (a.sum(), 1), has_aux=True)(x),
    "vjp aux text": lambda t, x: t.func.vjp(lambda a: (a, [a, "q"]), x, has_aux=True),
    "jvp aux number": lambda t, x: t.func.jvp(lambda a: (a, 1.5), (x,), (x,), has_aux=True),
    "jacfwd aux number": lambda t, x: t.func.jacfwd(lambda a: (a, 1), has_aux=True)(x),
    "saved hooks": lambda t, x: t.func.grad(lambda a: with_hooks(t, lambda: a.sin().sum()))(x),
    "saved hooks outside": lambda t, x: with_hooks(t, lambda: t.func.vjp(t.sin, x)),
    "retain_grad": lambda t, x: t.func.grad(lambda a: ((b := a * 2).retain_grad(), b.sum())[1])(x),
    "vmap data": lambda t, x: t.func.vmap(lambda a: a.data)(x),
    "data set": lambda t, x: t.func.grad(lambda a: (setattr(b := a.clone(), "data", x), b.sum())[1])(x),
    "vmap data set": lambda t, x: t.func.vmap(lambda a: (setattr(b := a.clone(), "data", x), b)[1])(x),
    "running statistics": lambda t, x: t.func.vmap(t.nn.BatchNorm1d(3))(x.expand(2, 4, 3)),
    "vjp structure": lambda t, x: t.func.vjp(lambda a: (a, a), x)[1](x),
    "vjp shape": lambda t, x: t.func.vjp(lambda a: a, x)[1](x[:2]),
    "jvp no tuple": lambda t, x: t.func.jvp(lambda a: a, x, x),
    "jvp structure": lambda t, x: t.func.jvp(lambda a: a, (x,), x),
    "jvp nothing": lambda t, x: t.func.jvp(lambda a: a, (), ()),
    "jvp number": lambda t, x: t.func.jvp(lambda a: a, (x,), (3,)),
    "jvp shape": lambda t, x: t.func.jvp(lambda a: a, (x,), (x[:2],)),
    "jvp integer": lambda t, x: t.func.jvp(lambda a: a, (x.long(),), (x,)),
    "jvp output": lambda t, x: t.func.jvp(lambda a: 3, (x,), (x,)),
    "vmap of nonzero": lambda t, x: t.func.vmap(lambda a: a.nonzero())(x[None]),
    "vmap of a mask": lambda t, x: t.func.vmap(lambda a: a[a > 0])(x[None]),
    "vmap of masked_select": lambda t, x: t.func.vmap(lambda a: a.masked_select(a > 0))(x[None]),
    "vmap of unique": lambda t, x: t.func.vmap(lambda a: a.unique())(x[None]),
    "vmap of unique_consecutive": lambda t, x: t.func.vmap(lambda a: a.unique_consecutive())(x[None]),
    "jvp strict": lambda t, x: t.func.jvp(lambda a: t.ones(2), (x,), (x,), strict=True),
    "jacrev complex": lambda t, x: t.func.jacrev(lambda a: a)(x.cfloat()),
    "jacfwd complex": lambda t, x: t.func.jacfwd(lambda a: a)(x.cfloat()),
    "functionalize": lambda t, x: t.func.functionalize(lambda a: a, remove="q"),
}
LONGER = {"write to a leaf"}


@pytest.mark.parametrize("case", [*PURE, *CONFUSION, *TAPED], ids=str)
def test_results(case: Case) -> None:
    agree(case, torch)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    case = Case(name, ERRORS[name], (X,), name in LONGER)
    agree(case, torch)


def test_pull_back_takes_one_argument_and_flags() -> None:
    for t in (ours, torch):
        _, pull_back = t.func.vjp(t.sin, t.tensor(ONE))
        with pytest.raises(TypeError):
            pull_back(t.ones(()), t.ones(()))


def seeded(mode: str, function: Any, **options: Any) -> Any:
    def run(t: Any, x: Any) -> Any:
        t.manual_seed(0)
        return t.func.vmap(lambda a: function(t, a), randomness=mode, **options)(x)

    return run


@pytest.mark.parametrize("mode", ["same", "different", "error"])
@pytest.mark.parametrize(
    "function",
    [
        lambda t, a: t.rand(3) + a,
        lambda t, a: t.nn.functional.dropout(a),
        lambda t, a: t.randn_like(a),
        lambda t, a: a.new_empty(2).uniform_(),
        lambda t, a: t.randperm(5),
        lambda t, a: t.bernoulli(a.sigmoid()),
        lambda t, a: t.bernoulli(t.full((3,), 0.5)),
        lambda t, a: t.bernoulli(a, 0.5),
        lambda t, a: t.normal(a, t.ones(3)),
        lambda t, a: t.normal(0.0, t.ones(3)),
        lambda t, a: t.poisson(a.exp()),
        lambda t, a: t.binomial(t.full((3,), 9.0), a.sigmoid()),
        lambda t, a: t.multinomial(a.exp(), 2),
        lambda t, a: t.multinomial(t.ones(2, 4), 5, True),
        lambda t, a: t._standard_gamma(a.exp()),
        lambda t, a: t.nn.functional.gumbel_softmax(a),
        lambda t, a: t.nn.functional.alpha_dropout(a, training=True),
    ],
)
def test_randomness(mode: str, function: Any) -> None:
    if mode == "different" and function(torch, torch.zeros(3)).shape == (2,):
        pytest.skip("PyTorch cannot write other numbers for each example to a tensor made inside")
    agree(Case("", seeded(mode, function), (BATCH,)), torch)


def test_same_randomness_in_every_chunk() -> None:
    agree(Case("", seeded("same", lambda t, a: t.rand(3) + a, chunk_size=3), (BATCH,)), torch)


def printed(function: Any) -> Any:
    def run(t: Any, x: Any) -> str:
        buffer = io.StringIO()
        with contextlib.redirect_stdout(buffer):
            function(t, x)
        return buffer.getvalue()

    return run


def show(x: Any) -> Any:
    print(x)
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda t, x: t.func.vmap(show)(x),
        lambda t, x: t.func.vmap(t.func.vmap(show))(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda a: show(a).sum()))(x),
        lambda t, x: t.func.grad(lambda a: t.func.vmap(show)(a).sum())(x),
        lambda t, x: t.func.grad(lambda a: t.func.grad(lambda b: show(a * b).sum())(a).sum())(x),
        lambda t, x: t.func.jvp(show, (x,), (x,)),
        lambda t, x: show(t.func.debug_unwrap(x)),
        lambda t, x: t.func.vmap(lambda a: (show(t.func.debug_unwrap(a)), a)[1])(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda a: (show(t.func.debug_unwrap(a)), a.sum())[1]))(x),
        lambda t, x: t.func.vmap(t.func.grad(lambda a: (show(t.func.debug_unwrap(a, recurse=False)), a.sum())[1]))(x),
    ],
)
def test_printing(function: Any) -> None:
    agree(Case("", printed(function), (STEPS,)), torch)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # PyTorch's own, of linearize
@pytest.mark.parametrize("outer", [False, True])
def test_what_leaves_a_function_through_a_list_is_a_constant(outer):
    """Unless something outside can differentiate it."""

    def found(t):
        kept = []
        x, w = t.arange(3.0), t.ones(3, requires_grad=outer)

        def function(x):
            y = x.sin() * w
            kept.extend([x, y, y[:2], (y * y).sum()])
            return kept[-1]

        t.func.grad(function)(x)
        pull_back = t.func.vjp(function, x)[1]
        gradients = [pull_back(t.tensor(2.0))[0], t.func.hessian(function)(x), t.func.linearize(function, x)[1](x)]
        results = [a + 1 for a in kept if a.shape != (3, 3)][:8]
        return [(a.requires_grad, a.tolist()) for a in [*results, *gradients]]

    for (tracked, values), (wanted, expected) in zip(found(ours), found(torch), strict=True):
        assert tracked == wanted
        np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_what_left_a_function_says_so():
    kept = []
    ours.func.grad(lambda x: kept.append(x.sin()) or x.sum())(ours.ones(2))
    with pytest.raises(RuntimeError, match="left it through a list or a global"):
        (kept[0] * 2).sum().backward()


def squared_after_write(x: Any, y: Any) -> Any:
    y.mul_(x)
    return (y * y).sum()


def of_written(t: Any, x: Any) -> Any:
    y = t.tensor([3.0, 5.0, 2.0])
    return (t.func.grad(squared_after_write)(x, y) * y).sum()


def statistics(t: Any, x: Any) -> Any:
    buffers = {"count": t.zeros(()), "means": [t.zeros(3)]}

    def loss(x: Any, state: Any) -> Any:
        state["count"] += 1
        state["means"][0].lerp_(x.detach(), 0.5)
        return (x * x).sum()

    found = t.func.grad(loss)(x, buffers), t.func.grad_and_value(loss)(x, state=buffers)
    return found, buffers, buffers["count"]._version


def written_view(t: Any, x: Any) -> Any:
    base = t.ones(4)
    t.func.grad(squared_after_write)(x.requires_grad_(), base[:3])
    return base, t.autograd.grad(base.sum(), x)


WRITING = {
    "gradient": lambda t, x, b: (t.func.grad(squared_after_write)(x, y := t.ones(3) * 2), y, y._version),
    "gradient of it": lambda t, x, b: t.func.grad(lambda x: of_written(t, x))(x),
    "tangent of it": lambda t, x, b: push(t, lambda x: of_written(t, x), x),
    "gradient outside": lambda t, x, b: t.autograd.grad(of_written(t, x.requires_grad_()), x),
    "jacrev": lambda t, x, b: (t.func.jacrev(lambda x, y: y.add_(x).sin())(x, y := t.ones(3)), y),
    "jacfwd": lambda t, x, b: (t.func.jacfwd(lambda x, y: y.add_(x).sin())(x, y := t.ones(3)), y),
    "hessian": lambda t, x, b: t.func.hessian(squared_after_write)(x, t.ones(3) * 2),
    "statistics": lambda t, x, b: statistics(t, x),
    "view": lambda t, x, b: written_view(t, x),
    "mapped": lambda t, x, b: (t.func.vmap(t.func.grad(squared_after_write))(b, y := t.ones(4, 3) * 2), y),
    "not mapped": lambda t, x, b: t.func.vmap(t.func.grad(squared_after_write), (0, None))(b, t.ones(3)),
}


@pytest.mark.parametrize("name", WRITING)
def test_arguments_that_are_written(name: str) -> None:
    agree(Case(name, WRITING[name], (X, BATCH)), torch)


@pytest.mark.parametrize(
    "run",
    [
        lambda t, x: t.func.vmap(t.func.grad(lambda x: (x * x).sum()))(x),
        lambda t, x: t.func.jacfwd(lambda x: x * x)(x),
        lambda t, x: t.func.vmap(lambda x: t.func.vmap(t.func.grad(lambda x: x**2))(x))(x),
        lambda t, x: t.func.vmap(lambda x: x * 2)(x),
        lambda t, x: t.func.vmap(lambda x: x[1:])(x),
        lambda t, x: t.func.vmap(lambda x: t.ones(2))(x),
    ],
)
def test_results_are_inference_tensors_if_they_were_inside(run: Any) -> None:
    def flags(t: Any) -> Any:
        normal = t.ones(2, 3)
        with t.inference_mode():
            results = [run(t, normal), run(t, normal.clone())]
        return [*(x.is_inference() for x in results), run(t, normal).is_inference()]

    assert flags(ours) == flags(torch)
