# model ensembling, per-sample gradients, NTKs, jacobians and Hessians with torch.func, as in the tutorials and issues
import copy, functools, torch, torch.nn as nn, torch.nn.functional as F
from torch.func import (
    functional_call,
    vmap,
    grad,
    grad_and_value,
    jacrev,
    jacfwd,
    hessian,
    jvp,
    vjp,
    stack_module_state,
    linearize,
    functionalize,
)

torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(s, d=3, h=8, o=2, p=0.0):
        super().__init__()
        s.fc1, s.fc2, s.ln, s.dp = nn.Linear(d, h), nn.Linear(h, o), nn.LayerNorm(h), nn.Dropout(p)
        s.register_buffer("scale", torch.tensor(2.0))

    def forward(s, x):
        return s.fc2(s.dp(s.ln(torch.tanh(s.fc1(x))))) * s.scale


models = [MLP() for _ in range(5)]
params, buffers = stack_module_state(models)
print({k: (tuple(v.shape), v.requires_grad, v.is_leaf) for k, v in params.items()}, buffers)
base = copy.deepcopy(models[0]).to("meta")
fmodel = lambda p, b, x: functional_call(base, (p, b), (x,))
X, Y = torch.randn(20, 3), torch.randint(0, 2, (20,))
pred = vmap(fmodel, in_dims=(0, 0, None))(params, buffers, X)
print(pred.shape, torch.allclose(pred, torch.stack([m(X) for m in models]), atol=1e-6))


def loss(p, b, x, y):
    return F.cross_entropy(fmodel(p, b, x), y)


params = {k: v.detach() for k, v in params.items()}
step = vmap(grad_and_value(loss), in_dims=(0, 0, None, None))
log = []
for i in range(85):
    g, l = step(params, buffers, X, Y)
    params = {k: v - 0.1 * g[k] for k, v in params.items()}
    log.append(l.tolist())
one = {k: v[0] for k, v in params.items()}
ob = {k: v[0] for k, v in buffers.items()}
ps = vmap(grad(loss), in_dims=(None, None, 0, 0))(one, ob, X[:, None], Y[:, None])
norms = torch.stack([v.flatten(1).norm(dim=1) for v in ps.values()]).norm(dim=0)
clip = (1 / norms).clamp(max=1)
clipped = {k: torch.einsum("i,i...->...", clip, v) / len(X) for k, v in ps.items()}


def ntk(p, x1, x2):
    f = lambda p, x: functional_call(models[0], p, (x.unsqueeze(0),)).squeeze(0)
    j1, j2 = (list(vmap(jacrev(f), (None, 0))(p, x).values()) for x in (x1, x2))
    return sum(torch.einsum("Naf,Mbf->NMab", a.flatten(2), b.flatten(2)) for a, b in zip(j1, j2))


def ntk_vps(p, x1, x2):
    def f(x):
        return lambda p: functional_call(models[0], p, (x,))

    def pair(a, b):
        def contract(v):
            _, vjp_fn = vjp(f(a), p)
            return jvp(f(b), (p,), vjp_fn(v))[1]

        return vmap(contract)(torch.eye(2))

    return vmap(vmap(pair, (None, 0)), (0, None))(x1, x2)


a, b = ntk(one, X[:4], X[:3]), ntk_vps(one, X[:4], X[:3])
print(a.shape, torch.allclose(a, b, atol=1e-4))
H = hessian(lambda x: fmodel(one, ob, x).logsumexp(-1))(X[0])
J = jacrev(fmodel, argnums=2)(one, ob, X[0])
J2 = jacfwd(fmodel, argnums=2, randomness="different")(one, ob, X[0])
print(torch.allclose(J, J2, atol=1e-6), torch.allclose(H, H.T, atol=1e-5))
out, jf = linearize(lambda x: fmodel(one, ob, x), X[0])
print(torch.allclose(jf(X[1]), J @ X[1], atol=1e-5))
Jc = jacrev(lambda x: x.sin().cumsum(0), chunk_size=2)(X[:, 0])
lap = vmap(lambda x: torch.trace(hessian(lambda z: fmodel(one, ob, z)[0])(x)))(X[:5])
d = MLP(p=0.5).train()
pd = dict(d.named_parameters())
torch.manual_seed(3)
try:
    vmap(lambda x: functional_call(d, pd, (x,)))(X[:3])
except RuntimeError as e:
    print(str(e)[:120])
same = vmap(lambda x: functional_call(d, pd, (x,)), randomness="same")(X[:1].expand(3, 3))
diff = vmap(lambda x: functional_call(d, pd, (x,)), randomness="different")(X[:1].expand(3, 3))
print(torch.equal(same[0], same[1]), torch.equal(diff[0], diff[1]))
for bad in (
    lambda: vmap(lambda x: x.item())(X[0]),
    lambda: vmap(lambda x: 1 if x.sum() > 0 else 2)(X),
    lambda: grad(lambda x: x * 2)(X),
    lambda: vmap(lambda x, y: x + y)(X, X[:3]),
    lambda: vmap(lambda x: x, in_dims=1)(X[0]),
    lambda: grad(lambda x: x.sum().item())(X),
    lambda: vmap(lambda x: x.nonzero())(X),
    lambda: functional_call(d, {"nope": X}, (X,), strict=True),
    lambda: jvp(lambda x: x, (X,), (X[0],)),
    lambda: vmap(lambda x: {"a": object()})(X),
    lambda: grad(lambda x, y: x.sum(), argnums=2)(X, X),
    lambda: vmap(lambda x: x)(3),
    lambda: hessian(lambda x: x.long())(X[0]),
    lambda: vmap(lambda x, y: x.add_(y), (None, 0))(X[0].clone(), X),
):
    try:
        print(bad())
    except Exception as e:
        print(type(e).__name__, str(e).strip().split("\n")[0][:170])
nested = vmap(vmap(lambda a, b: (a * b).sum(), (None, 1)), (0, None), out_dims=1)(X[:4], X[:4].T)
tied = functional_call(d.eval(), {"fc1.weight": torch.ones(8, 3), **{k: v for k, v in pd.items() if "fc2" in k}}, X[:2])
leaf = torch.randn(3, requires_grad=True)
gx = grad(lambda x: (x * leaf).sin().sum())(X[0])
gx.sum().backward()
aux = jacrev(lambda x: (x.pow(2), {"s": x.sum()}), has_aux=True)(X[0])
outputs = {
    "log": log,
    "ntk": a,
    "lap": lap,
    "J": J,
    "H": H,
    "clipped": clipped["fc1.weight"],
    "nested": nested,
    "tied": tied,
    "leaf": leaf.grad,
    "aux": aux[0],
    "Jc": Jc,
}
