"""Forward mode: dual numbers, views and writes."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch
import fgrad.torch.autograd.forward_ad as fwAD


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


x = torch.ones(3)
t = torch.tensor([1.0, 2, 3])
E(lambda: fwAD.make_dual(x, t))
with fwAD.dual_level():
    d = fwAD.make_dual(x, t)
    print(d, d._is_view(), d._base is x)
    y = d * d
    print(y, fwAD.unpack_dual(y))
    print(type(fwAD.unpack_dual(y)).__name__)
    print(fwAD.unpack_dual(x), d.tangent if hasattr(d, "tangent") else "")
    E(lambda: fwAD.make_dual(x, torch.ones(2)))
    E(lambda: fwAD.make_dual(torch.ones(2, dtype=torch.int64), torch.ones(2)))
    E(lambda: fwAD.make_dual(d, t))
    E(lambda: fwAD.make_dual(x, 1))
    z = torch.zeros(3)
    z.copy_(d)
    print(z)
    v = d[1:]
    print(v)
    z[0:1].mul_(2)
    print(z)
    E(lambda: torch.argmax(d))
    print(d.detach(), d.data, d.clone())
    with torch.no_grad():
        print(d * 2)
    a = x.clone().requires_grad_()
    dd = fwAD.make_dual(a, t)
    p = dd * dd
    print(p, fwAD.unpack_dual(p).tangent)
    E(lambda: fwAD.enter_dual_level())
print(y, d)
E(lambda: fwAD.unpack_dual(y))
E(lambda: fwAD.exit_dual_level())
# a view of a part of memory may reach beyond that part, where tangents are zero
with fwAD.dual_level():
    d = fwAD.make_dual(torch.arange(10.0)[5:8].detach(), t)
    for start in (0, 4, 7):
        print(d.as_strided((4,) if start == 4 else (2,), (1,), start))
# what is unpacked is a view; a tangent has a history where what it is computed from has one
w = torch.ones(3, requires_grad=True)
with fwAD.dual_level():
    for function in (torch.sin, torch.exp, torch.tanh, torch.neg, lambda a: a * w, lambda a: a + w, lambda a: a[1:]):
        dual = function(fwAD.make_dual(w * 1, t))
        primal, tangent = fwAD.unpack_dual(dual)
        print(
            primal._is_view(), primal.grad_fn.name(), tangent.requires_grad, tangent.grad_fn and tangent.grad_fn.name()
        )
    primal, tangent = fwAD.unpack_dual(w)
    print(primal is w, primal.grad_fn.name(), tangent)
    primal, tangent = fwAD.unpack_dual(fwAD.make_dual(x, t))
    print(tangent is t, primal.grad_fn, fwAD.unpack_dual(primal).tangent)


# a custom function's view of a dual tensor: a write to either reaches the tangents of both
class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.view(-1)


for written in (0, 1):
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2, 2), torch.arange(4.0).view(2, 2))
        flat = Flat.apply(dual)
        (dual, flat)[written].mul_(2)
        print(fwAD.unpack_dual(dual).tangent, fwAD.unpack_dual(flat).tangent)


# what is no view of the input has the tangent that jvp gives, itself
class Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()[0]

    @staticmethod
    def backward(ctx, grad):
        return grad

    @staticmethod
    def jvp(ctx, tangent):
        return tangent[0]


for written in (0, 1):
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2, 2), torch.arange(4.0).view(2, 2))
        row = Cut.apply(dual)
        (dual, row)[written].mul_(2)
        print(fwAD.unpack_dual(dual).tangent, fwAD.unpack_dual(row).tangent, fwAD.unpack_dual(row._base).tangent)


# a tangent that a write changes has a history, and so has that of a dual tensor that is a part of memory
def differentiated(write):
    u, w = torch.arange(6.0, requires_grad=True), torch.arange(1.0, 4.0, requires_grad=True)
    with fwAD.dual_level():
        dual = fwAD.make_dual(u.detach()[:3], u[3:] * 1)
        written = dual.clone()
        write(written, w)
        (fwAD.unpack_dual(written * dual).tangent ** 2).sum().backward()
    print(u.grad, w.grad)


differentiated(lambda x, w: x.mul_(w))
differentiated(lambda x, w: x.mul_(w).sin_())
differentiated(lambda x, w: x[1:].mul_(w[1:]))
differentiated(lambda x, w: x.div_(w).pow_(2))
x = torch.arange(1.0, 7.0, requires_grad=True)
(torch.func.jvp(lambda a: a * a, (x[:3],), (x[3:] * 1,))[1] ** 2).sum().backward()
print(x.grad)


# in forward and setup_context forward mode is off: tensors have no tangents, though the level is open
class Inside(torch.autograd.Function):
    @staticmethod
    def forward(x):
        print(fwAD._is_fwd_grad_enabled(), fwAD.unpack_dual(x).tangent, fwAD.unpack_dual(x * 2).tangent)
        E(lambda: fwAD.unpack_dual(fwAD.make_dual(x.detach(), torch.ones(2))).tangent)
        E(lambda: fwAD.dual_level().__enter__())
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        print(fwAD._is_fwd_grad_enabled(), fwAD.unpack_dual(output).tangent)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


with fwAD.dual_level():
    print(fwAD.unpack_dual(Inside.apply(fwAD.make_dual(torch.ones(2), torch.ones(2)))).tangent)
print(fwAD._is_fwd_grad_enabled())
