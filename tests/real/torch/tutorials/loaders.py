# data: samplers, collate functions, iterable streams, generators and seeds, as tutorials and fastai-like code use them
import collections, math, random, dataclasses, typing, itertools, numpy as np, torch, torch.nn as nn
from torch.utils.data import *
from torch.utils.data import default_convert, default_collate, get_worker_info
from torch.utils.data.dataloader import DataLoader as DL


class Toy(Dataset):
    def __init__(self, n):
        self.x = torch.arange(n).float()
        self.y = [i % 3 for i in range(n)]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {
            "x": self.x[i],
            "y": self.y[i],
            "name": f"s{i}",
            "np": np.float32(i) / 2,
            "t": (i, [i * 1.0, np.arange(2) + i]),
        }


P = collections.namedtuple("P", "a b")
g = torch.Generator().manual_seed(3)
for b in DataLoader(Toy(7), batch_size=3, shuffle=True, generator=g):
    print(b)
for b in DataLoader(
    Toy(7),
    batch_size=3,
    drop_last=True,
    sampler=SubsetRandomSampler([1, 3, 5, 6], generator=torch.Generator().manual_seed(1)),
):
    print(b["x"], b["name"])
print(
    [
        b["y"].tolist()
        for b in DataLoader(
            Toy(9),
            batch_sampler=BatchSampler(WeightedRandomSampler([0.1, 0.9, 0.4, 3.0, 0.2], 6, generator=g), 4, False),
        )
    ]
)


class Stratified(Sampler):
    def __init__(self, labels, per):
        self.labels, self.per = torch.as_tensor(labels), per

    def __iter__(self):
        cls = [torch.nonzero(self.labels == c).flatten() for c in self.labels.unique()]
        cls = [c[torch.randperm(len(c))] for c in cls]
        for i in range(min(map(len, cls)) // self.per):
            yield torch.cat([c[i * self.per : (i + 1) * self.per] for c in cls]).tolist()

    def __len__(self):
        return 2


torch.manual_seed(5)
dl = DataLoader(Toy(12), batch_sampler=Stratified(Toy(12).y, 2))
print(len(dl), [b["name"] for b in dl])


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        assert get_worker_info() is None
        yield from (P(torch.full((2,), i), i) for i in range(self.n))


print(list(DataLoader(Stream(5), batch_size=2)), list(DataLoader(Stream(3), batch_size=None))[:1])
print(list(DataLoader(ChainDataset([Stream(2), Stream(3)]), batch_size=4, drop_last=True)))
a, b = random_split(Toy(10), [0.65, 0.35], generator=torch.Generator().manual_seed(42))
print(a.indices, b.indices, len(a), b[0]["name"])
print(random_split(range(6), [2, 4], torch.Generator().manual_seed(0))[0].indices)
cd = ConcatDataset(
    [TensorDataset(torch.ones(2, 3), torch.zeros(2)), TensorDataset(torch.ones(3, 3) * 2, torch.ones(3))]
)
print(len(cd), cd[-1], cd.cumulative_sizes)
sd = StackDataset(img=torch.arange(3), lab=torch.arange(3) * 2)
print(sd[1], len(sd))


def pad(batch):
    xs, ys = zip(*batch)
    ln = torch.tensor([len(x) for x in xs])
    return nn.utils.rnn.pad_sequence(xs, batch_first=True, padding_value=-1), ln, torch.tensor(ys)


seqs = [(torch.arange(k + 1.0), k) for k in range(5)]
for b in DataLoader(seqs, 2, collate_fn=pad):
    print(b)
print(
    default_convert({"a": np.ones(2), "b": [1, np.float64(2)], "c": "s"}),
    default_collate([P(1, "a"), P(2, "b")]),
    default_collate([1.5, 2]),
    default_collate([True, False]),
    default_collate([{"q": torch.ones(1)}, {"q": torch.zeros(1)}]),
    default_collate([np.array(["a"]).item(), "b"]),
    default_collate(["x", "y"]),
)
for bad in (
    lambda: default_collate([object(), object()]),
    lambda: default_collate([torch.ones(1), torch.ones(2)]),
    lambda: default_collate([[1, 2], [1]]),
    lambda: DataLoader(Toy(3), shuffle=True, sampler=range(3)),
    lambda: DataLoader(Stream(3), shuffle=True),
    lambda: len(DataLoader(Stream(3))),
    lambda: RandomSampler([], replacement=False, num_samples=0),
    lambda: random_split(Toy(5), [2, 2]),
    lambda: TensorDataset(torch.ones(2), torch.ones(3)),
    lambda: WeightedRandomSampler([1.0], 0),
    lambda: BatchSampler(range(3), 0, False),
    lambda: DataLoader(Toy(3), batch_sampler=[[0]], batch_size=2),
    lambda: DataLoader(Toy(3), prefetch_factor=2),
    lambda: DataLoader(Toy(2), num_workers=-1),
):
    try:
        print(bad())
    except Exception as e:
        print(type(e).__name__, str(e)[:160].replace("\n", " "))
print(
    list(RandomSampler(range(5), replacement=True, num_samples=8, generator=torch.Generator().manual_seed(2))),
    list(SequentialSampler("abc")),
    list(RandomSampler(range(4), num_samples=6, generator=torch.Generator().manual_seed(2))),
)
it = iter(DataLoader(Toy(2), batch_size=1))
next(it)
next(it)
try:
    next(it)
except StopIteration:
    print("stop")
torch.manual_seed(7)
X = torch.randn(50, 3)
ds = TensorDataset(X, (X @ torch.tensor([1.0, -2.0, 0.5]) > 0).float())
tr, va = random_split(ds, [40, 10])
m = nn.Linear(3, 1)
o = torch.optim.Rprop(m.parameters())
log = []
for ep in range(14):
    for x, y in DataLoader(tr, batch_size=7, shuffle=True, pin_memory=False, num_workers=0, worker_init_fn=None):
        o.zero_grad()
        l = nn.functional.binary_cross_entropy_with_logits(m(x).squeeze(-1), y)
        l.backward()
        o.step()
        log.append(l.item())
    with torch.inference_mode():
        acc = sum(((m(x)[:, 0] > 0) == y.bool()).sum().item() for x, y in DataLoader(va, 4)) / len(va)
print(acc, torch.initial_seed(), random.random() > 2)
outputs = {"log": log}
