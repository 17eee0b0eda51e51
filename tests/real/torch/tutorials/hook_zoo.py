# hooks of all kinds: forward with kwargs, always_call, full backward and pre, global, post-accumulate, node hooks, multi-grad, saved-tensor to disk
import os, tempfile, uuid, weakref, collections, torch, torch.nn as nn, torch.nn.functional as F
from torch.autograd.graph import (
    register_multi_grad_hook,
    saved_tensors_hooks,
    save_on_cpu,
    disable_saved_tensors_hooks,
    Node,
    get_gradient_edge,
)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
ev = []
hs = []
for n, m in net.named_modules():
    hs += [
        m.register_forward_pre_hook(lambda m, a, n=n: ev.append(("pre", n, len(a)))),
        m.register_forward_hook(
            lambda m, a, k, o, n=n: ev.append(("fwd", n, tuple(o.shape), sorted(k))), with_kwargs=True
        ),
        m.register_full_backward_pre_hook(
            lambda m, g, n=n: ev.append(("bpre", n, [None if x is None else round(x.sum().item(), 3) for x in g]))
        ),
        m.register_full_backward_hook(
            lambda m, gi, go, n=n: ev.append(
                ("bwd", n, [None if x is None else tuple(x.shape) for x in gi], [tuple(x.shape) for x in go])
            )
        ),
    ]
x = torch.randn(5, 3)
net(x).sum().backward()
print(*ev, sep="\n")
ev.clear()
net(x.clone().requires_grad_()).pow(2).sum().backward()
print(*ev[-4:], sep="\n")
[h.remove() for h in hs]
ev.clear()
net(x).sum().backward()
print(ev, len(net._forward_hooks), len(net[0]._backward_hooks))
h1 = net.register_forward_pre_hook(lambda m, a, k: ((a[0] * k.pop("s", 1),), k), with_kwargs=True)
h2 = net[2].register_forward_hook(lambda m, a, o: o * 2)
h3 = net[2].register_forward_hook(lambda m, a, o: o + 1, prepend=True)
h4 = net[0].register_full_backward_hook(lambda m, gi, go: (torch.ones_like(gi[0]),))
h5 = net[2].register_full_backward_pre_hook(lambda m, go: (go[0] * 10,))
xr = x.clone().requires_grad_()
net.zero_grad()
y = net(xr, s=3) if False else net(xr)
y.sum().backward()
print(xr.grad[0], net[2].bias.grad)
[h.remove() for h in (h1, h2, h3, h4, h5)]


class Boom(nn.Module):
    def forward(s, x):
        raise ValueError("boom")


bm = Boom()
bm.register_forward_hook(lambda m, a, o: print("always", o), always_call=True)
try:
    bm(x)
except ValueError as e:
    print(e)
G = nn.modules.module
gh = [
    G.register_module_forward_pre_hook(lambda m, a: ev.append(type(m).__name__)),
    G.register_module_forward_hook(lambda m, a, o: ev.append(type(m).__name__ + "!")),
    G.register_module_full_backward_hook(lambda m, gi, go: ev.append("b" + type(m).__name__)),
    G.register_module_parameter_registration_hook(lambda m, n, p: ev.append("p" + n)),
    G.register_module_buffer_registration_hook(lambda m, n, b: ev.append("bf" + n)),
    G.register_module_module_registration_hook(lambda m, n, s: ev.append("m" + n)),
]
ev.clear()
q = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))
q(x).sum().backward()
[h.remove() for h in gh]
print(ev)
w = torch.randn(3, requires_grad=True)
tr = []
k = [
    w.register_hook(lambda g: tr.append("a") or g * 2),
    w.register_hook(lambda g: tr.append("b") or None),
    w.register_post_accumulate_grad_hook(lambda p: tr.append(("post", p.grad.tolist()[0] != 0, p is w))),
]
z = w * 3
z.retain_grad()
z.register_hook(lambda g: g + 1)
z.register_hook(lambda g: tr.append("z"))
zz = z * 1
zz.grad_fn.register_hook(lambda gi, go: tr.append(("node", len(gi), len(go))))
zz.grad_fn.register_prehook(lambda go: (go[0] * 5,))
zz.sum().backward()
print(tr, w.grad, z.grad)
k[0].remove()
tr.clear()
z2 = w * 1
z2.sum().backward()
print(tr)
z.register_hook(lambda g: g)
z.mul_(2)
print(z.grad_fn.name(), z.retains_grad)
ps = [torch.randn(2, requires_grad=True) for _ in range(4)]
mh = []
h = register_multi_grad_hook(ps, lambda gs: mh.append([g is not None for g in gs]))
(ps[0] * ps[2]).sum().backward()
(ps[1] * 2).sum().backward()
h.remove()
h = register_multi_grad_hook(ps, lambda g: mh.append(g.shape), mode="any")
(ps[1] * ps[0]).sum().backward()
h.remove()
sum(p.sum() for p in ps).backward()
print(mh)
# optimiser in backward
m = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
od = {p: torch.optim.Adam([p], lr=0.01, foreach=False) for p in m.parameters()}


def hook(p):
    od[p].step()
    od[p].zero_grad()


for p in m.parameters():
    p.register_post_accumulate_grad_hook(hook)
log = []
t = x.sum(1, keepdim=True).sin()
for i in range(85):
    l = F.mse_loss(m(x), t)
    l.backward()
    log.append(l.item())
print([p.grad for p in m.parameters()])


# saved tensors on disk, as in the tutorial
class SelfDeletingTempFile:
    def __init__(self):
        self.name = os.path.join(tempfile.gettempdir(), str(uuid.uuid4()))

    def __del__(self):
        os.remove(self.name)


cnt = collections.Counter()


def pack(tensor):
    f = SelfDeletingTempFile()
    torch.save(tensor, f.name)
    cnt["pack"] += 1
    return f


def unpack(f):
    cnt["unpack"] += 1
    return torch.load(f.name)


m2 = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 1))
with saved_tensors_hooks(pack, unpack):
    l = m2(x).pow(2).sum()
l.backward()
print(cnt, m2[0].weight.grad.shape)
b = torch.randn(4, requires_grad=True)
with saved_tensors_hooks(lambda t: (t * 4, t._version), lambda p: p[0]):
    r = b * b
r.sum().backward()
print(torch.allclose(b.grad, 8 * b))
with saved_tensors_hooks(lambda x: x, lambda x: x * 3), saved_tensors_hooks(lambda x: x, lambda x: x * 5):
    s = b.exp()
print(torch.allclose(torch.autograd.grad(s.sum(), b)[0], 5 * b.exp()))
e = b.exp()
e.grad_fn._raw_saved_result.register_hooks(lambda x: x.detach() + 1, lambda x: x)
print(torch.allclose(e.grad_fn._saved_result, b.exp() + 1))
for bad in (
    lambda: e.grad_fn._raw_saved_result.register_hooks(abs, abs),
    lambda: torch.ones(2).register_hook(print),
    lambda: (w * 2).register_post_accumulate_grad_hook(print),
    lambda: torch.autograd.grad((ps[0] * ps[1].register_hook(lambda g: g[:1]) and ps[1]).sum(), ps[1]) and None,
    lambda: net.register_forward_hook(print)._x if False else None,
    lambda: register_multi_grad_hook([], lambda g: 0) and None,
    lambda: register_multi_grad_hook(ps, print, mode="x"),
):
    try:
        print(bad())
    except Exception as ex:
        print(type(ex).__name__, str(ex).split("\n")[0][:150])
try:
    with disable_saved_tensors_hooks("no hooks here"):
        with saved_tensors_hooks(pack, unpack):
            pass
except RuntimeError as ex:
    print(ex)
with save_on_cpu(pin_memory=False):
    c = (w * w).sin()
c.sum().backward()
ge = get_gradient_edge(c)
print(type(ge).__name__, ge.output_nr, isinstance(c.grad_fn, Node), c.grad_fn.metadata)
gl = torch.autograd.grad((y3 := (w.exp() * 2)).sum(), [get_gradient_edge(w)]) if False else 0
# gradient clipping, noise and surgery by tensor hooks while training; weakrefs
emb = nn.Embedding(6, 3)
emb.weight.register_hook(lambda g: g / (g.norm() + 1e-6))
fz = nn.Linear(3, 2)
mask = torch.tensor([[1.0, 0, 1], [0, 1, 1]])
fz.weight.register_hook(lambda g: g * mask)
o = torch.optim.SGD([*emb.parameters(), *fz.parameters()], 0.1, momentum=0.9, nesterov=True)
l2 = []
ii = torch.arange(12) % 6
for i in range(80):
    l = F.cross_entropy(fz(emb(ii)), ii % 2)
    o.zero_grad()
    l.backward()
    o.step()
    l2.append(l.item())
outputs = {"log": log, "l2": l2}
