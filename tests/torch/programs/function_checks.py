"""What ``Function`` refuses: tensors marked wrongly, and tangents that do not fit."""

import warnings

import fgrad.torch as torch
from fgrad.torch.autograd import forward_ad


def show(name, call):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            found = call()
        except (RuntimeError, TypeError) as error:
            found = f"{type(error).__name__}: {error}".split("\n\n")[0]
    said = [str(w.message).split(" (Triggered")[0] for w in met if issubclass(w.category, UserWarning)]
    print(f"{name}: {found}", *said, sep="\n  ")


def function(forward, jvp=None):
    members = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *grads: grads)}
    if jvp is not None:
        members["jvp"] = staticmethod(jvp)
    return type("Fn", (torch.autograd.Function,), members).apply


def leaf():
    return torch.ones(2, requires_grad=True)


# -- what forward marks


def written(ctx, x):
    ctx.mark_dirty(x)
    return x.add_(1)


def another_written(ctx, x):
    made = (x * 3).add_(1)
    ctx.mark_dirty(made)
    return made


def view_written(ctx, x):
    made = x.clone().view_as(x)
    ctx.mark_dirty(made)
    return made


def written_and_more(ctx, x):
    ctx.mark_dirty(x.add_(1))
    return x, x * 2


def number_written(ctx, x):
    ctx.mark_dirty(3)
    return x


def number_without_derivative(ctx, x):
    ctx.mark_non_differentiable(3)
    return x * 3


show("a leaf", lambda: function(written)(leaf()))
show("a view of a leaf", lambda: function(written)(leaf()[:1]))
show("not an input", lambda: function(another_written)(leaf()))
show("not an input, unrecorded", lambda: function(another_written)(torch.ones(2)))
show("a view that is not an input", lambda: function(view_written)(leaf()))
show("a view among several", lambda: function(written_and_more)(leaf().clone().view(2)))
show("a number", lambda: function(number_written)(leaf()))
show("a number without derivative", lambda: function(number_without_derivative)(leaf()))


def views_of_functions():
    x, y = torch.ones(2), leaf()
    view = function(lambda ctx, x: x.view_as(x))(x)
    view += y


show("a view that a function made", views_of_functions)

# -- what jvp returns

FORWARDS = {
    "as it is": lambda ctx, x: x,
    "view": lambda ctx, x: x.view_as(x),
    "product": lambda ctx, x: x * 2,
    "written": lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1],
}
TANGENTS = {
    "same": lambda ctx, t: t,
    "view": lambda ctx, t: t.view_as(t),
    "product": lambda ctx, t: t * 2,
    "written": lambda ctx, t: t.mul_(2),
    "two": lambda ctx, t: (t, t),
    "number": lambda ctx, t: 3,
    "size": lambda ctx, t: torch.ones(3),
}


def tangent(forward, jvp):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.tensor([3.0, 4.0]))
        result = function(FORWARDS[forward], TANGENTS[jvp])(x)
        found = forward_ad.unpack_dual(result).tangent
        assert found is not None
        return found.tolist(), result is x


for forward in FORWARDS:
    for jvp in TANGENTS:
        show(f"{forward}, {jvp}", lambda forward=forward, jvp=jvp: tangent(forward, jvp))


def without_derivative(ctx, x):
    first, second = x * 2, x * 3
    ctx.mark_non_differentiable(second)
    return first, second


def tangent_of_no_derivative():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        function(without_derivative, lambda ctx, t: (t, t))(x)


show("no derivative", tangent_of_no_derivative)

# -- arguments left out


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=3):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


x = leaf()
Scaled.apply(x).sum().backward()
print(x.grad)


# -- gradients of what has no derivative


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        made = x.clone()
        ctx.mark_non_differentiable(made)
        ctx._materialize_non_diff_grads = False
        return x.clone(), made

    @staticmethod
    def backward(ctx, grad, nothing):
        print(nothing)
        return grad


Halves.apply(leaf())[0].sum().backward()


# -- once_differentiable


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * 2


x, seed = leaf(), leaf()
(grad,) = torch.autograd.grad(Once.apply(x), x, seed, create_graph=True)
print(grad.grad_fn, [type(node).__name__ for node, _ in grad.grad_fn.next_functions])
show("twice", lambda: grad.sum().backward())


# -- what comes back of an input, of a view, and of what is marked as not differentiable


class Own(torch.Tensor):
    pass


def returned(make, marked, requires_grad, cls):
    class Returning(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            found = make(x)
            if marked:
                ctx.mark_non_differentiable(found)
            return found

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(2).as_subclass(cls).requires_grad_(requires_grad)
    found = Returning.apply(x)
    return x, found


for kind, make in (("input", lambda x: x), ("view", lambda x: x[:])):
    for recorded in (True, False):
        for choice in (
            (False, True, torch.Tensor),
            (True, False, torch.Tensor),
            (True, True, torch.Tensor),
            (False, False, Own),
        ):
            with torch.set_grad_enabled(recorded):
                x, found = returned(make, *choice)
            print(
                kind,
                recorded,
                choice[:2],
                type(found).__name__,
                found.requires_grad,
                found._is_view(),
                found._base is x,
            )
            show("write", lambda: found.add_(1).tolist())
show("count", lambda: torch.autograd.graph.increment_version(3))


# -- an input that is returned as it is, and saved


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad


show("kept", lambda: Kept.apply(leaf()))
