"""Custom functions: contexts, dirty inputs, views, errors."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch
from fgrad.torch.autograd import Function


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


class F(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.k, None


x = torch.ones(3, requires_grad=True)
y = F.apply(x, 2.0)
print(y, y.grad_fn.name(), y.grad_fn.next_functions, y.grad_fn.needs_input_grad, y.grad_fn.saved_tensors)
y.sum().backward()
E(lambda: y.grad_fn.saved_tensors)
E(lambda: y.sum().backward())


class G(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


z = G.apply(x)
print(z is x, z._is_view(), z._base is x, z, z.grad_fn)
E(lambda: z.mul_(2))
w = x * 2
z = G.apply(w)
E(lambda: z.mul_(2))


class V(Function):
    @staticmethod
    def forward(ctx, x):
        return x[0]

    @staticmethod
    def backward(ctx, g):
        return g


z = V.apply(w)
print(z._is_view(), z)
E(lambda: z.mul_(2))


class D(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


w = x * 2
v = w[0]
r = D.apply(w)
print(r is w, w.grad_fn, v.grad_fn, w._version)
E(lambda: D.apply(x))
w = x * 2
v = w[:2]
r = D.apply(v)
print(r is v, v.grad_fn, w.grad_fn)
print(torch.autograd.grad(r.sum(), x), v.grad_fn.next_functions)


class B(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


E(lambda: B.apply(x, x).sum().backward())


class C(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g, g


E(lambda: C.apply(x, 2.0).sum().backward())


class N(Function):
    @staticmethod
    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        ctx.set_materialize_grads(False)
        return a, b

    @staticmethod
    def backward(ctx, g, h):
        print(g, h)
        return g


a, b = N.apply(x)
print(a.requires_grad, b.requires_grad, b)
a.sum().backward()


class S(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, g):
        return g * 2


print(S.apply(x))


class H(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3)
        return x


E(lambda: H.apply(x))
E(lambda: Function.apply(x))
E(lambda: F()(x))
E(lambda: B.apply(x, x).sum().backward())


class R(Function):
    @staticmethod
    def forward(ctx, x):
        return "s", x * 2, None

    @staticmethod
    def backward(ctx, *g):
        print(g)
        return g[1]


o = R.apply(x)
print(o)
o[1].sum().backward()


class U(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


E(lambda: U.apply(x).sum().backward())
from fgrad.torch.autograd.function import once_differentiable


class O(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 2


(g,) = torch.autograd.grad(O.apply(x).sum(), x, create_graph=True)
print(g)
E(lambda: g.sum().backward())


class I(Function):
    @staticmethod
    def forward(ctx, x):
        return 3


E(lambda: I.apply(x))


class J(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return torch.ones(7)


E(lambda: J.apply(x).sum().backward())


class K(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return 3


E(lambda: K.apply(x).sum().backward())


class M(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g


E(lambda: M.apply(x * 1))
with torch.no_grad():
    print(F.apply(x, 2.0))
print(F.apply(torch.ones(2), 2.0))
