"""Copies that do not fit."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch


def E(f):
    try:
        f()
        print("ok")
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


t = torch.zeros(())
v = torch.zeros(3)
m = torch.zeros(3, 2)
E(lambda: t.copy_(torch.ones(1)))
E(lambda: v.copy_(m))
E(lambda: t.copy_(v))
E(lambda: m.copy_(v))
E(lambda: v.copy_(torch.ones(4)))
E(lambda: v.add_(m))
E(lambda: torch.zeros(4).copy_(torch.ones(2, 2)))
E(lambda: v.masked_fill_(m > 0, 1))
E(lambda: v.requires_grad_().detach().copy_(torch.ones(1, 3)))
