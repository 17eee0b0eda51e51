"""grad_fn of views whose base was written."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch

b = torch.zeros(2)
v = b.view(-1)
v.requires_grad_()
b.mul_(2)
print(v.requires_grad, v.grad_fn, v.grad_fn and v.grad_fn.next_functions, v.is_leaf)
b = torch.zeros(2)
v = b.view(-1)
v.requires_grad_()
w = v.unsqueeze(0)
print(w.grad_fn, w.grad_fn.next_functions)
b.mul_(2)
print(w.grad_fn, w.grad_fn.next_functions)
b = torch.zeros(2)
v = b.view(-1)
b.requires_grad_()
b.detach().mul_(2)
print(v.requires_grad, v.grad_fn, v.grad_fn and v.grad_fn.next_functions, v.is_leaf)
x = torch.zeros(2, dtype=torch.int64)
for f in (
    lambda: x.requires_grad_(),
    lambda: setattr(x, "requires_grad", True),
    lambda: torch.tensor([1], requires_grad=True),
    lambda: torch.ones(2, dtype=torch.int64, requires_grad=True),
):
    try:
        f()
    except Exception as e:
        print(str(e).split("\n\n")[0])
