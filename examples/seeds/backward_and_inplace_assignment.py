"""The programs of the seed document "backward and in-place assignment": what assigning and writing ``.data`` does."""

import fgrad.torch as torch


def graph():
    x = torch.tensor([1.0], requires_grad=True)
    w = torch.tensor([2.0], requires_grad=True)
    y = x**2
    z = w * y + 1
    return x, w, z


# first: backward as it is
x, w, z = graph()
z.backward()
print(x.grad)
print(w.grad)

# second: another tensor assigned to .data. The document, written for PyTorch 1.x, shows 4; PyTorch 2.13 shows 8.
x, w, z = graph()
w.data = w.data * 2
z.backward()
print(x.grad)
print(w.grad)

# third: .data written in place
x, w, z = graph()
w.data *= 2
z.backward()
print(x.grad)
print(w.grad)
