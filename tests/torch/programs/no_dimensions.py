"""Tensors of no dimensions under view operations."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


t = torch.tensor(1.0)
E(lambda: t[0])
E(lambda: t[1:])
E(lambda: t[..., 0])
E(lambda: t[:])
E(lambda: t[0, 0])
E(lambda: t[[0]])
E(lambda: t[t > 0])
E(lambda: t.__setitem__(0, 1.0))
E(lambda: t.__setitem__(slice(None), 1.0))
E(lambda: t[None, 0])
E(lambda: t.__setitem__(slice(1, None), 2.0))
E(lambda: t.__setitem__([0], 2.0))
x = torch.ones(2)
x.data = torch.zeros(2)
print(x._version)
x.data.mul_(2)
print(x._version)
E(lambda: t.narrow(0, 0, 1))
E(lambda: t.split(1))
E(lambda: t.unbind(0))
E(lambda: t.diagonal())
E(lambda: t.select(-1, 0))
E(lambda: t.unfold(0, 1, 1))
E(lambda: t.unfold(0, 2, 1))
E(lambda: torch.ones(3).expand(2, 3).t().add_(1))
E(lambda: t.t())
E(lambda: t.transpose(0, -1))
E(lambda: t.chunk(2))
E(lambda: t.flatten())
E(lambda: t.movedim(0, -1))
