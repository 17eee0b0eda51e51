"""Indexing: what is a view, what is not, and what each index is refused with."""

# ruff: noqa
# pyright: basic
import fgrad.torch as torch

x = torch.ones(3, 4, requires_grad=True)


def y():
    return x * 2


def sh(t):
    print(t.grad_fn, t.grad_fn.next_functions, t._version)


a = y()
a[0] = 0
sh(a)
a = y()
a[0] = torch.ones(4, requires_grad=True)
sh(a)
a = y()
a[0] = torch.tensor(3.0)
sh(a)
a = y()
a[a > 1] = 0
sh(a)
a = y()
a[[0, 1]] = torch.ones(4, requires_grad=True)
sh(a)
a = y()
a[:, [0, 1]] = 5.0
sh(a)
a = y()
a[0, [0, 1]] = 5.0
sh(a)
print(a[0, [0, 1]].grad_fn, a[0, [0, 1]].grad_fn.next_functions)
a = y()
a[:] = 0
sh(a)
a = y()
a[...] = 0
sh(a)
a = y()
a[True] = 0
sh(a)
a = y()
print(
    a[:].grad_fn,
    a[...].grad_fn,
    a[()].grad_fn,
    a[True].grad_fn,
    a[None, 0].grad_fn,
    a[:, :].grad_fn,
    a[0:2].grad_fn,
    a[torch.tensor(1)].grad_fn,
    a[torch.tensor([1])].grad_fn,
    a[[1]].grad_fn,
    a[:][0].grad_fn.next_functions,
)
b = a[[0, 1]]
print(b.grad_fn._saved_indices)
b = a[:, None, [0, 1]]
print(b.shape, b.grad_fn._saved_indices)
for f in (
    lambda: a["x"],
    lambda: a[1.0],
    lambda: a[0, 0, 0],
    lambda: a[[5]],
    lambda: a[torch.ones(2, dtype=torch.bool)],
    lambda: a[torch.ones(2)],
    lambda: a.__setitem__(0, torch.ones(3)),
    lambda: a.__setitem__([0, 1], torch.ones(3)),
    lambda: torch.tensor(1.0)[0],
    lambda: a[::-1],
    lambda: a[:, torch.tensor([-5])],
    lambda: a[..., ...],
):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, str(e).split("\n\n")[0])
m = torch.zeros(4, 4)
m[torch.tensor([0, 0]), torch.tensor([1, 1])] = torch.tensor([2.0, 3.0])
print(m[0])
print(
    a[torch.tensor([[0, 1], [1, 0]]), 1].shape,
    a[1, torch.tensor([[0, 1], [1, 0]])].shape,
    a[:, torch.tensor(1)].grad_fn,
)
print(a[0:2].data_ptr() - a.data_ptr(), x.grad_fn, a[range(2)].shape, a[(0, 1),].shape)


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


# what may not be written or read says so before the index is looked at
u = torch.ones(3, requires_grad=True) * 1
parts = u.unbind()
u.add_(1)
E(lambda: parts[0][:])
E(lambda: parts[0][0])
E(lambda: parts[0].__setitem__(slice(None), 1))
empty = torch.zeros(0, 3, requires_grad=True)[:]
places = torch.tensor([0])
for write in (
    lambda: empty.index_put_((places,), torch.ones(1, 3)),
    lambda: empty.__setitem__(places, 1.0),
    lambda: empty.__setitem__(0, 1.0),
    lambda: empty.index_fill_(0, places, 1.0),
    lambda: empty.index_add_(0, places, torch.ones(1, 3)),
    lambda: empty.index_copy_(0, places, torch.ones(1, 3)),
    lambda: empty.scatter_(0, places[None], 1.0),
    lambda: empty.put_(places, torch.ones(1)),
):
    E(write)
