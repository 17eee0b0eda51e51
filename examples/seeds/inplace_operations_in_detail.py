"""The programs of the seed document "In-place operations in detail": leaves, saved values, .data, embeddings."""

import fgrad.torch as torch
from fgrad.torch import nn

torch.manual_seed(0)


def attempt(action):
    """Run something that the document shows to fail, and print the first line of the error."""
    try:
        action()
    except RuntimeError as error:
        print("RuntimeError:", str(error).splitlines()[0])


# a leaf that requires grad may not be written, its .data may
w = torch.FloatTensor(10).zero_()
w.requires_grad = True
print(w.is_leaf)
attempt(w.normal_)
print(w.data.requires_grad)
print(w.data)
print(w.data.normal_())
print(w.data)

# what backward needs may not be written
x = torch.FloatTensor([1.0, 2.0])
w1 = torch.FloatTensor([[2.0], [1.0]])
w2 = torch.FloatTensor([3.0])
w1.requires_grad = True
w2.requires_grad = True
print(w2.is_leaf)

d = torch.matmul(x, w1)
f = torch.matmul(d, w2)
d[:] = 0
attempt(f.backward)

d = torch.matmul(x, w1)
d[:] = 0
f = torch.matmul(d, w2)
f.backward()
print(w1.grad, w2.grad)

# a write through .data goes unnoticed ...
a = torch.tensor([1, 2, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.data
print(f"a.requires_grad: {a.requires_grad}, out.requires_grad: {out.requires_grad}, c.requires_grad: {c.requires_grad}")
print(out)
print(c)
c.zero_()
print(out)
print(c)
out.sum().backward()
print(a.grad, a.sigmoid() * (1 - a.sigmoid()))

# ... and one through detach() is noticed
a = torch.tensor([1, 2, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.detach()
print(f"a.requires_grad: {a.requires_grad}, out.requires_grad: {out.requires_grad}, c.requires_grad: {c.requires_grad}")
print(out)
print(c)
c.zero_()
print(out)
print(c)
attempt(out.sum().backward)

# an embedding with max_norm writes its weight when it is called
n, d, m = 3, 5, 7
embedding = nn.Embedding(n, d, max_norm=1)
W = torch.randn((m, d), requires_grad=True)
idx = torch.tensor([1, 2])
a = embedding.weight @ W.t()
b = embedding(idx) @ W.t()
out = a.unsqueeze(0) + b.unsqueeze(1)
loss = out.sigmoid().prod()
attempt(loss.backward)

embedding = nn.Embedding(n, d, max_norm=1)
W = torch.randn((m, d), requires_grad=True)
a = embedding.weight.clone() @ W.t()
b = embedding(idx) @ W.t()
out = a.unsqueeze(0) + b.unsqueeze(1)
loss = out.sigmoid().prod()
loss.backward()
print(W.grad.shape, embedding.weight.grad.shape)
