"""Errors of leaves, views, modes, backward and attributes."""

# ruff: noqa
# pyright: basic
import warnings
import fgrad.torch as torch


def E(f):
    try:
        f()
        print("ok")
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


x = torch.ones(3, 4, requires_grad=True)
E(lambda: x.add_(1))
E(lambda: x[0].add_(1))
with torch.no_grad():
    v = x[0]
E(lambda: v.add_(1))
E(lambda: v.add_(x[0]))
y = x * 2
with torch.no_grad():
    v = y[0]
E(lambda: v.add_(1))
print(v.requires_grad)
y = x * 2
a, b, c = y.unbind(0)
E(lambda: a.add_(1))
y.add_(1)
E(lambda: a.grad_fn)
y = x * 2
with torch.no_grad():
    v = y[0]
y.add_(1)
E(lambda: v.grad_fn)
print(v.requires_grad)
y = x * 2
with torch.inference_mode():
    i = torch.ones(3, 4)
    iv = i[0]
E(lambda: i.add_(1))
E(lambda: x * i)
E(lambda: i + 1)
E(lambda: i._version)
with torch.inference_mode():
    v = y[0]
    print(v.requires_grad, v.is_inference())
E(lambda: v.add_(1))
E(lambda: torch.ones(3).expand(2, 3).add_(1))
E(lambda: (x * 2).expand(2, 3, 4).mul_(2))
E(lambda: torch.ones(3, requires_grad=True).backward())
E(lambda: torch.ones(3).backward())
z = (x * 2).sum()
z.backward()
E(lambda: z.backward())
z = (x * x).sum()
z.backward()
E(lambda: z.backward())
E(lambda: torch.autograd.grad(z, torch.ones(2, requires_grad=True)))
z = (x * x).sum()
E(lambda: torch.autograd.grad(z, torch.ones(2, requires_grad=True)))
E(lambda: torch.autograd.grad(z, torch.ones(2)))
E(lambda: z.backward(torch.ones(2)))
E(lambda: z.backward(inputs=[x * 2]))
E(lambda: z.backward(inputs=[]))
y = x * 2
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    y.grad
    print(w[0].category, str(w[0].message).split(" (Triggered")[0].split("\n\n")[0])
    (x * 2).sum().backward(create_graph=True)
    print(w[1].category, str(w[1].message).split(" (Triggered")[0].split("\n\n")[0])


def s(v):
    x.grad = v


E(lambda: s(1))
E(lambda: s(torch.ones(2)))
E(lambda: s(torch.ones(3, 4).double()))
E(lambda: s(x))
E(lambda: setattr(y, "requires_grad", False))
E(lambda: torch.ones(2, dtype=torch.int64).requires_grad_())
E(lambda: y.detach_())
u = torch.ones(3)[0:1]
E(lambda: u.detach_())
E(lambda: x.item())
E(lambda: bool(x))
E(lambda: x.numpy())
E(lambda: int(x))
E(lambda: torch.tensor([x, x]))
yy = y.view(12)
E(lambda: y.t().view(12))
E(lambda: y.set_(x.detach()))
E(lambda: y.resize_(2))
E(lambda: x.view(5))
E(lambda: x + torch.ones(5))
E(lambda: x @ x)
E(lambda: x.sum(5))
E(lambda: x[5])
E(lambda: x[0, 0, 0])
E(lambda: x.unsqueeze(5))
E(lambda: y.register_hook(1))
E(lambda: torch.ones(2).register_hook(print))
E(lambda: torch.ones(2).retain_grad())
t = torch.ones(2, requires_grad=True)
o = t.exp()
print(o.grad_fn._saved_result is o)
for switch in (torch.set_grad_enabled, torch.autograd.set_detect_anomaly, torch.autograd.set_multithreading_enabled):
    E(lambda: switch(None))
print(torch.is_grad_enabled())
weights = torch.ones(2, dtype=torch.float64)
bag = torch.nn.functional.embedding_bag
E(lambda: bag(torch.tensor([0, 1]), torch.ones(3, 2), torch.tensor([0]), per_sample_weights=weights, mode="sum"))
