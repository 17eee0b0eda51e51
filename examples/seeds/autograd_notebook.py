"""The programs of the seed document "Autograd": leaves, retained gradients, hooks, in-place writes and versions."""

import warnings

import fgrad.torch as torch

warnings.simplefilter("ignore", UserWarning)  # the document reads .grad of tensors that are no leaves


def attempt(action):
    """Run something that the document shows to fail, and print the first line of the error."""
    try:
        action()
    except RuntimeError as error:
        print("RuntimeError:", str(error).splitlines()[0])


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(2, requires_grad=True, device=device)
print(x)
print(x.tolist())

a = torch.tensor(2.0, requires_grad=True)
b = a.exp()
print(b)

# a forward computation
inp = torch.ones([2, 2], requires_grad=True)
w1 = torch.tensor(2.0, requires_grad=True)
w2 = torch.tensor(3.0, requires_grad=True)
w3 = torch.tensor(4.0, requires_grad=True)

l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()

print(w1.data, w1.grad, w1.grad_fn)
print(l1.data, l1.grad, l1.grad_fn)
print(loss.data, loss.grad, loss.grad_fn)
print(inp.grad)

loss.backward()
print(w1.grad, w2.grad, w3.grad)
print(l1.grad, l2.grad, l3.grad, l4.grad, loss.grad)
print(inp.grad)

a = torch.ones([2, 2], requires_grad=False)
print(a.is_leaf)


# gradients in the middle: retained ...
def forward():
    input = torch.ones([2, 2], requires_grad=False)
    w1 = torch.tensor(2.0, requires_grad=True)
    w2 = torch.tensor(3.0, requires_grad=True)
    w3 = torch.tensor(4.0, requires_grad=True)
    l1 = input * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    return l1, l4, l4.mean()


l1, l4, loss = forward()
l1.retain_grad()
l4.retain_grad()
loss.retain_grad()
loss.backward()
print(loss.grad)
print(l4.grad)
print(l1.grad)

# ... or shown by hooks
l1, l4, loss = forward()
l1.register_hook(lambda grad: print("l1 grad: ", grad))
l4.register_hook(lambda grad: print("l4 grad: ", grad))
loss.register_hook(lambda grad: print("loss grad: ", grad))
loss.backward()
print(loss.grad)

# what is in place and what is not
a = torch.tensor([3.0, 1.0])
before = a
a = a.exp()
print(a is before)

a = torch.tensor([3.0, 1.0])
before = a
a[0] = 10
print(a is before, a)

a = torch.tensor([1.0, 3.0], requires_grad=True)
b = a + 2
print(b._version)
loss = (b * b).mean()
b[0] = 1000.0
print(b._version)
attempt(loss.backward)

a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True)
attempt(lambda: a.add_(10.0))
