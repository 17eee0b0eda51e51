"""Autograd.Function corners as seen in forum threads: multiple outputs, None grads, non-tensor args, needs_input_grad, mark_dirty, set_materialize_grads, setup_context, vmap/jvp staticmethods, reversible blocks, checkpoint by hand, gradient reversal, clamping, scaling, double backward by a second Function."""

import torch, torch.nn as nn
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, get_device_states, set_device_states


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.alpha, None


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class MyCube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        result = x**3
        dx = 3 * x**2
        return result, dx

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        result, dx = output
        ctx.save_for_backward(x, dx)
        ctx.save_for_forward(x, dx)

    @staticmethod
    def backward(ctx, grad_output, grad_dx):
        x, dx = ctx.saved_tensors
        return grad_output * dx + grad_dx * 6 * x

    @staticmethod
    def jvp(ctx, t):
        x, dx = ctx.saved_tensors
        return t * dx, t * 6 * x


class InplaceLeaky(Function):
    @staticmethod
    def forward(ctx, x, slope, counter):
        ctx.mark_dirty(x)
        ctx.slope = slope
        ctx.set_materialize_grads(False)
        counter.append(1)
        x[x < 0] *= slope
        ctx.save_for_backward(x)
        idx = x.argmax(-1)
        ctx.mark_non_differentiable(idx)
        return x, idx, (x * 2)

    @staticmethod
    def backward(ctx, g, gi, g2):
        (y,) = ctx.saved_tensors
        assert gi is None
        if g is None and g2 is None:
            return None, None, None
        g = 0 if g is None else g
        tot = g + 2 * g2 if g2 is not None else g
        return torch.where(y < 0, tot * ctx.slope, tot), None, None


class Split(Function):
    @staticmethod
    def forward(ctx, n, *xs):
        ctx.n, ctx.shapes = n, [x.shape for x in xs]
        return tuple(c for x in xs for c in x.chunk(n, -1))

    @staticmethod
    def backward(ctx, *gs):
        it = iter(gs)
        return (None,) + tuple(torch.cat([next(it) for _ in range(ctx.n)], -1) for _ in ctx.shapes)


class RevBlock(Function):
    @staticmethod
    def forward(ctx, x, f, g, *params):
        ctx.f, ctx.g = f, g
        with torch.no_grad():
            x1, x2 = x.chunk(2, dim=1)
            y1 = x1 + f(x2)
            y2 = x2 + g(y1)
        y = torch.cat([y1, y2], 1)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, dy):
        y1, y2 = ctx.y.chunk(2, 1)
        dy1, dy2 = dy.chunk(2, 1)
        fp, gp = list(ctx.f.parameters()), list(ctx.g.parameters())
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            gy1 = ctx.g(y1)
            dg = torch.autograd.grad(gy1, [y1, *gp], dy2)
        with torch.no_grad():
            x2 = y2 - gy1
            dx1 = dy1 + dg[0]
        with torch.enable_grad():
            x2 = x2.detach().requires_grad_()
            fx2 = ctx.f(x2)
            df = torch.autograd.grad(fx2, [x2, *fp], dx1)
        return (torch.cat([dx1, dy2 + df[0]], 1), None, None, *df[1:], *dg[1:])


class ExpBackward_(Function):
    @staticmethod
    def forward(ctx, g, y):
        ctx.save_for_backward(g, y)
        return g * y

    @staticmethod
    def backward(ctx, gg):
        g, y = ctx.saved_tensors
        return gg * y, gg * g


class Exp_(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return ExpBackward_.apply(g, y)


torch.manual_seed(0)
lin = LinearFunction.apply
dbl = lambda *s: torch.randn(*s, dtype=torch.double, requires_grad=True)
print(
    gradcheck(lin, (dbl(4, 3), dbl(2, 3), dbl(2)), eps=1e-6, atol=1e-4),
    gradgradcheck(lin, (dbl(4, 3), dbl(2, 3), dbl(2))),
)
print(
    gradcheck(MyCube.apply, (dbl(3),), check_forward_ad=True),
    gradgradcheck(MyCube.apply, (dbl(3),)),
    gradcheck(Exp_.apply, (dbl(3),)),
    gradgradcheck(Exp_.apply, (dbl(3),)),
)
x = torch.randn(3, 4)
vm = torch.vmap(lambda r: MyCube.apply(r)[0] * 2, in_dims=1, out_dims=1)(x)
jv = torch.func.jvp(lambda r: MyCube.apply(r), (x,), (torch.ones_like(x),))
jr = torch.func.vmap(torch.func.grad(lambda r: MyCube.apply(r)[0].sum()))(x)
cnt = []
leaf = torch.randn(3, 4, requires_grad=True)
h = leaf * 1.0
y, idx, y2 = InplaceLeaky.apply(h, 0.1, cnt)
print(y is h, h._version, y.grad_fn.name(), idx.requires_grad, idx.grad_fn, len(cnt))
(y.sum() + h.pow(2).sum()).backward()
g1 = leaf.grad.clone()
try:
    InplaceLeaky.apply(leaf, 0.1, cnt)
except RuntimeError as e:
    print(e)
parts = Split.apply(2, leaf, leaf * 2)
parts[1].sum().backward()
f, g = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
z = torch.randn(5, 6, requires_grad=True)
RevBlock.apply(z, f, g, *f.parameters(), *g.parameters()).pow(2).sum().backward()
gz, gw = z.grad.clone(), f[0].weight.grad.clone()
z.grad = None
f.zero_grad(), g.zero_grad()
z1, z2 = z.chunk(2, 1)
a = z1 + f(z2)
torch.cat([a, z2 + g(a)], 1).pow(2).sum().backward()
print(torch.allclose(gz, z.grad, atol=1e-5), torch.allclose(gw, f[0].weight.grad, atol=1e-5))
# domain adversarial training
feat, cls, dom = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2), nn.Linear(8, 2)
opt, log = torch.optim.SGD([*feat.parameters(), *cls.parameters(), *dom.parameters()], lr=0.1), []
X = torch.randn(20, 4)
for i in range(8):
    hh = (
        checkpoint(feat, X, use_reentrant=False)
        if i % 2
        else checkpoint_sequential(list(feat), 2, X.clone().requires_grad_(), use_reentrant=True)
    )
    l = nn.functional.cross_entropy(cls(hh), (X[:, 0] > 0).long()) + nn.functional.cross_entropy(
        dom(GradReverse.apply(hh, 2 / (1 + 2.718 ** (-i / 4)) - 1)), torch.arange(20) % 2
    )
    opt.zero_grad()
    l.backward()
    opt.step()
    log.append(l.item())
for bad in (
    lambda: lin.__self__().forward(1),
    lambda: LinearFunction.apply(x),
    lambda: Split.apply(2, x.requires_grad_())[0].sum().backward(torch.ones(2)),
):
    try:
        bad()
        print("fine")
    except Exception as e:
        print(type(e).__name__)
outputs = {"vm": vm, "jv": jv[1][0], "jr": jr, "g1": g1, "leaf": leaf.grad, "gz": gz, "log": log}
