"""torch.compile, torch.jit.script left out, meta devices, lazy modules, ParametrizedLists, DataLoader workers and collate, samplers, state dict hooks, no_grad decorators, profiler, autograd.graph introspection, forward pre-hooks with kwargs, module surgery."""

import itertools, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    ConcatDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

torch.manual_seed(0)
out = {}


class It(IterableDataset):
    def __iter__(self):
        return iter({"x": torch.full((2,), float(i)), "i": i, "s": str(i)} for i in range(5))


b = [q for q in DataLoader(It(), batch_size=2)]
out["it"] = torch.cat([q["x"] for q in b])
out["i"] = torch.cat([q["i"] for q in b])


def pad(batch):
    xs = [x for (x,) in batch]
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs])


out["pad"] = next(iter(DataLoader([(torch.ones(n),) for n in (1, 3, 2)], batch_size=3, collate_fn=pad)))[0]
out["ws"] = torch.tensor(list(WeightedRandomSampler([0.1, 0.9, 0.3], 10, generator=torch.Generator().manual_seed(1))))
lazy = nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
out["lazy"] = lazy(torch.ones(1, 2, 5, 5))
meta = nn.Linear(1000, 1000, device="meta")
out["meta"] = [meta.weight.is_meta * 1.0, float(meta.weight.numel())]
with torch.device("meta"):
    mm = nn.Linear(3, 3)
mm = mm.to_empty(device="cpu")
nn.init.ones_(mm.weight)
nn.init.zeros_(mm.bias)
out["empty"] = mm(torch.ones(1, 3))
m = nn.Linear(2, 2)
m.register_forward_pre_hook(lambda m, a, k: ((a[0] * 2,), k), with_kwargs=True)
m.register_forward_hook(lambda m, a, k, o: o + 1, with_kwargs=True)
m._register_load_state_dict_pre_hook(
    lambda sd, p, *a: sd.update({k.replace("old_", ""): sd.pop(k) for k in list(sd) if k.startswith("old_")})
)
m.load_state_dict({"old_weight": torch.eye(2), "old_bias": torch.zeros(2)})
out["hooks"] = m(torch.ones(1, 2))
x = torch.ones(2, requires_grad=True)
y = (x * 2).exp()
names = []
stack = [y.grad_fn]
while stack:
    n = stack.pop()
    names.append(len(n.name()))
    stack += [f for f, _ in n.next_functions if f is not None]
out["names"] = names
out["saved"] = y.grad_fn._saved_result


@torch.no_grad()
def ev(m, x):
    return m(x).requires_grad


out["ng"] = [float(ev(m, torch.ones(1, 2)))]
with torch.inference_mode():
    q = torch.ones(2) * 3
out["inf"] = [float(q.is_inference())]

with torch.autograd.set_detect_anomaly(True):
    try:
        z = torch.tensor([-1.0], requires_grad=True)
        (z.sqrt() * 0).sum().backward()
        out["anom"] = [0.0]
    except RuntimeError as e:
        out["anom"] = [float("nan" in str(e))]
err = []
for f in (
    lambda: torch.ones(2, requires_grad=True).add_(1),
    lambda: (lambda x: x.exp().add_(1).sum().backward())(torch.ones(2, requires_grad=True)),
    lambda: torch.ones(2).backward(),
    lambda: (lambda l: (l.backward(), l.backward()))((torch.ones(2, requires_grad=True) ** 2).sum()),
    lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    lambda: nn.Linear(2, 2)(torch.ones(1, 3)),
    lambda: torch.ones(2).view(3),
    lambda: F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])),
    lambda: torch.tensor([1, 2], requires_grad=True),
    lambda: nn.Linear(2, 2).load_state_dict({}),
    lambda: torch.ones(3)[5],
    lambda: torch.ones(2).numpy() if 0 else torch.ones(2, requires_grad=True).numpy(),
):
    try:
        f()
        err.append("none")
    except Exception as e:
        err.append(type(e).__name__)
out["err"] = [float(sum(map(ord, e))) for e in err]
gs = [
    torch.optim.SGD(
        [{"params": [nn.Parameter(torch.ones(2))], "lr": 0.1}, {"params": [nn.Parameter(torch.ones(1))]}], lr=0.5
    )
]
o = gs[0]
o.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 1.0})
out["lrs"] = [g["lr"] for g in o.param_groups]
sch = torch.optim.lr_scheduler.LambdaLR(o, [lambda e: 0.5**e] * 3)
[(o.step(), sch.step()) for _ in range(2)]
out["lrs2"] = sch.get_last_lr()
pl = torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.1)
[pl.step(1.0) for _ in range(4)]
out["pl"] = [g["lr"] for g in o.param_groups]
for name in (
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "Adafactor",
):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    o = getattr(torch.optim, name)(net.parameters(), lr=0.01)
    for i in range(15):
        o.zero_grad()
        l = (net(torch.linspace(-1, 1, 12).view(4, 3)) - 1).pow(2).mean()
        l.backward()
        o.step()
    out[name] = torch.cat([p.flatten() for p in net.parameters()])
outputs = out
